//! Mutants of knee's BBRv3 and CUBIC, each with one rule broken: its vector has to name it.
//!
//! Production code knows nothing of them: a mutant has another parameter, or hears or answers something else.

use knee_cc::{
    Ack, CaState, Congestion, CongestionControl, Control, DynCongestionControl, Init, RateSample, Sent, Signal,
    StateChange, StateEvent, Undo, View, find,
};
use knee_conform::{Own, Suite, Verdict, play};
use knee_core::{Params, Rate, Time, Value};

/// Something that a mutant hears or answers otherwise.
#[derive(Clone, Copy)]
enum Change {
    /// Nothing: the original.
    Nothing,
    /// Paces at this share in the state of this number.
    Pacing(u8, f64),
    /// Takes this share of the window in the state of this number.
    Window(u8, f64),
    /// Never has more than this window.
    AtMost(u32),
    /// Never has less.
    AtLeast(u32),
    /// Hears of no spurious loss.
    NoUndo,
    /// Takes samples that the application limited for others.
    NeverAppLimited,
    /// Takes all samples for limited by the application.
    AlwaysAppLimited,
    /// Hears of no loss.
    NoLoss,
    /// Hears of no mark.
    NoMark,
    /// Hears of no pause.
    NoRestart,
    /// Believes that the window limits it always.
    AlwaysCwndLimited,
    /// Believes that fewer packets are in flight, by this number.
    FewerInFlight(u32),
    /// Has RTTs of the first second for good.
    FirstRtt,
    /// Takes bandwidth for this share of what it is.
    Bandwidth(f64),
    /// Reduces by each loss, also of packets that were sent before the last reduction: the same signal twice.
    Twice,
    /// Sets no threshold.
    NoThreshold,
    /// Grows by twice as many packets.
    DoubleDelivered,
    /// Counts a round with growth as one without: two more of them are a plateau, not three.
    TwoRounds,
}

#[derive(Clone)]
struct Mutant {
    inner: Box<dyn DynCongestionControl>,
    change: Change,
    first_rtt: Option<Time>,
    /// The inner one's answer, before it was changed.
    kept: Option<Control>,
    rate: RateSample,
    /// Packets delivered at which the round ends, and the bandwidth to grow from in packets per second.
    round: (u64, f64),
}

impl Mutant {
    /// Lets the inner one work on its own control, and changes what it shows.
    fn with(&mut self, control: &mut Control, work: impl FnOnce(&mut dyn DynCongestionControl, &mut Control)) {
        if let Some(kept) = self.kept.take() {
            // The sender may have changed the window in between, as a reduction does.
            control.pacing_rate = kept.pacing_rate;
            if control.cwnd == self.shown(kept).cwnd {
                control.cwnd = kept.cwnd;
            }
        }
        work(&mut *self.inner, control);
        self.kept = Some(*control);
        *control = self.shown(*control);
    }

    fn shown(&self, mut control: Control) -> Control {
        let window = f64::from(control.cwnd);
        match self.change {
            Change::Pacing(phase, share) if control.phase == phase => {
                let rate = control.pacing_rate.map(|rate| (rate.as_bps() as f64 * share) as u64);
                control.pacing_rate = rate.map(Rate::from_bps);
            }
            Change::Window(phase, share) if control.phase == phase => control.cwnd = (window * share) as u32,
            Change::AtMost(most) => control.cwnd = control.cwnd.min(most),
            Change::AtLeast(least) => control.cwnd = control.cwnd.max(least),
            _ => {}
        }
        control.cwnd = control.cwnd.max(1);
        control
    }

    /// Returns true if a round begins whose bandwidth is a quarter above that of the last round for which it did.
    fn has_grown(&mut self, ack: &Ack) -> bool {
        if ack.rate.prior_delivered < self.round.0 {
            return false;
        }
        let bandwidth = ack.rate.interval.map_or(0.0, |time| f64::from(ack.rate.delivered) / time.as_secs_f64());
        let grown = bandwidth >= 1.25 * self.round.1;
        self.round = (ack.view.delivered, if grown { bandwidth } else { self.round.1 });
        grown
    }

    fn view(&self, view: &View) -> View {
        let mut view = *view;
        match self.change {
            Change::NoLoss => view.lost = 0,
            Change::NoMark => view.delivered_ce = 0,
            Change::FewerInFlight(packets) => view.in_flight = view.in_flight.saturating_sub(packets),
            Change::NeverAppLimited => view.app_limited = false,
            _ => {}
        }
        view
    }

    fn heard(&mut self, ack: &Ack, tell: impl FnOnce(&mut Self, &Ack)) {
        let view = self.view(ack.view);
        self.rate = *ack.rate;
        let (mut rtt, mut lost, mut limited, mut delivered) = (ack.rtt, ack.lost, ack.cwnd_limited, ack.delivered);
        match self.change {
            Change::NeverAppLimited => self.rate.app_limited = false,
            Change::AlwaysAppLimited => self.rate.app_limited = true,
            Change::NoLoss => (lost, self.rate.prior_lost) = (0, 0),
            Change::AlwaysCwndLimited => limited = true,
            Change::FirstRtt => rtt = Some(*self.first_rtt.get_or_insert(ack.rtt.unwrap_or(Time::from_millis(100)))),
            Change::Bandwidth(share) => {
                self.rate.interval =
                    self.rate.interval.map(|time| Time::from_nanos((time.as_nanos() as f64 / share) as u64));
            }
            Change::DoubleDelivered => delivered *= 2,
            _ => {}
        }
        let rate = self.rate;
        tell(self, &Ack { view: &view, rtt, lost, cwnd_limited: limited, delivered, rate: &rate, ..*ack });
    }
}

impl CongestionControl for Mutant {
    fn on_measure(&mut self, ack: &Ack, control: &mut Control) {
        self.heard(ack, |mutant, ack| mutant.with(control, |inner, control| inner.on_measure(ack, control)));
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        self.heard(ack, |mutant, ack| mutant.with(control, |inner, control| inner.on_ack(ack, control)));
        if matches!(self.change, Change::TwoRounds) && self.has_grown(ack) {
            // The rate is heard once more, as the rate of a round that begins now.
            let rate = RateSample { prior_delivered: ack.view.delivered, ..*ack.rate };
            let again = Ack { rate: &rate, acked: 1, delivered: 1, lost: 0, ..*ack };
            self.with(control, |inner, control| inner.on_ack(&again, control));
        }
    }

    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control) {
        if matches!(self.change, Change::NoMark) && congestion.signal == Signal::Ecn {
            return;
        }
        let view = self.view(congestion.view);
        let congestion = Congestion { view: &view, ..*congestion };
        let change = self.change;
        self.with(control, |inner, control| {
            let before = control.ssthresh;
            inner.on_congestion(&congestion, control);
            match change {
                Change::Twice => {
                    control.cwnd = control.ssthresh;
                    inner.on_congestion(&congestion, control);
                }
                Change::NoThreshold => control.ssthresh = before,
                _ => {}
            }
        });
    }

    fn on_state(&mut self, change: &StateChange, control: &mut Control) {
        let deaf = match self.change {
            Change::NoRestart => matches!(change.event, StateEvent::Restart),
            Change::NoLoss => matches!(change.event, StateEvent::Entered(_)),
            Change::NoMark => matches!(change.event, StateEvent::Entered(CaState::Cwr)),
            _ => false,
        };
        if !deaf {
            let view = self.view(change.view);
            let change = StateChange { view: &view, event: change.event };
            self.with(control, |inner, control| inner.on_state(&change, control));
        }
    }

    fn on_undo(&mut self, undo: &Undo, control: &mut Control) {
        if !matches!(self.change, Change::NoUndo) {
            self.with(control, |inner, control| inner.on_undo(undo, control));
        }
    }

    fn on_sent(&mut self, sent: &Sent, control: &mut Control) {
        let view = self.view(sent.view);
        let sent = Sent { view: &view, ..*sent };
        self.with(control, |inner, control| inner.on_sent(&sent, control));
    }
}

/// A mutant, by what it hears or answers and by a parameter.
fn mutant(suite: &Suite, change: Change, param: Option<(&'static str, Value)>) -> Own {
    let entry = find(suite.own).unwrap();
    let given = suite.param.map(|(name, value)| (name, Value::Choice(value)));
    let params = Params::resolve(entry.params, given.into_iter().chain(param)).unwrap();
    let make = move |init: &Init| -> Box<dyn DynCongestionControl> {
        let inner = (entry.make)(&params, init);
        let rate = RateSample::NONE;
        Box::new(Mutant { inner, change, first_rtt: None, kept: None, rate, round: (0, 0.0) })
    };
    Own::made_by("mutant", entry, Box::new(make))
}

/// The verdict on the vector of this name for the implementation with `change`.
fn names(vector: &str, change: Change, param: Option<(&'static str, Value)>) -> Verdict {
    let suite = Suite::find(vector.split('/').next().unwrap()).unwrap();
    let vectors = suite.vectors().unwrap();
    play(vectors.iter().find(|one| one.id == vector).unwrap(), &mutant(suite, change, param))
}

const DRAIN: u8 = 1;
const DOWN: u8 = 2;
const CRUISE: u8 = 3;
const UP: u8 = 5;
const PROBE_RTT: u8 = 6;

#[test]
fn each_mutant_is_named_by_the_vector_of_its_rule() {
    let ms = |ms| Value::Time(Time::from_millis(ms));
    let by_param = [
        ("bbr/startup-gain", "startup_pacing_gain", Value::Ratio(2.5)),
        ("bbr/initial-pacing", "startup_pacing_gain", Value::Ratio(3.5)),
        ("bbr/startup-window", "cwnd_gain", Value::Ratio(1.5)),
        ("bbr/drain-gain", "drain_pacing_gain", Value::Ratio(0.54)),
        ("bbr/cruise-gain", "pacing_margin_percent", Value::Count(0)),
        ("bbr/probe-rtt", "probe_rtt_cwnd_gain", Value::Ratio(0.25)),
        ("bbr/probe-rtt-interval", "probe_rtt_interval", ms(4000)),
        ("bbr/probe-rtt-duration", "probe_rtt_duration", ms(100)),
        ("bbr/min-rtt-window", "min_rtt_filter_len", ms(4000)),
        ("bbr/small-probe-loss", "loss_thresh", Value::Ratio(0.001)),
        ("bbr/probe-loss", "loss_thresh", Value::Ratio(0.3)),
        ("bbr/cruise-loss", "beta", Value::Ratio(0.9)),
        ("bbr/bw-shortterm", "beta", Value::Ratio(0.85)),
        ("bbr/headroom", "headroom", Value::Ratio(0.0)),
        ("bbr/startup-loss", "startup_full_loss_cnt", Value::Count(1000)),
        ("bbr/startup-one-burst", "startup_full_loss_cnt", Value::Count(1)),
        ("cubic/beta", "beta", Value::Count(512)),
        ("cubic/concave", "bic_scale", Value::Count(20)),
        ("cubic/fast-convergence", "fast_convergence", Value::Bool(false)),
        ("cubic/reno-friendly", "tcp_friendliness", Value::Bool(false)),
    ];
    let by_change = [
        ("bbr/up-gain", Change::Pacing(UP, 0.96)),
        ("bbr/down-gain", Change::Pacing(DOWN, 0.95)),
        ("bbr/drain-gain", Change::Window(DRAIN, 0.5)),
        ("bbr/cruise-gain", Change::Window(CRUISE, 0.6)),
        ("bbr/probe-rtt", Change::Window(PROBE_RTT, 1.3)),
        ("bbr/least-window", Change::Window(PROBE_RTT, 0.5)),
        ("bbr/spurious-cruise", Change::NoUndo),
        ("bbr/app-limited-startup", Change::NeverAppLimited),
        ("bbr/plateau-rounds", Change::AlwaysAppLimited),
        ("bbr/plateau-rounds", Change::TwoRounds),
        ("bbr/cruise-loss", Change::NoLoss),
        ("bbr/drain-ends", Change::FewerInFlight(20)),
        ("bbr/drain-gain", Change::Bandwidth(0.8)),
        ("cubic/app-limited", Change::AlwaysCwndLimited),
        ("cubic/spurious", Change::NoUndo),
        ("cubic/idle-time", Change::NoRestart),
        ("cubic/beta", Change::Twice),
        ("cubic/beta", Change::NoThreshold),
        ("cubic/slow-start", Change::DoubleDelivered),
        ("cubic/slow-start", Change::AtMost(100)),
        ("cubic/persistent", Change::AtLeast(10)),
        ("bbr/persistent", Change::AtLeast(10)),
        ("bbr/ecn", Change::NoMark),
        ("bbr/min-rtt-window", Change::FirstRtt),
    ];
    let mut missed = Vec::new();
    let mut named = 0;
    let mut judge = |vector: &str, what: String, verdict: Verdict| match verdict {
        Verdict::Fail(_) => named += 1,
        other => missed.push(format!("{vector} {what}: {}", other.name())),
    };
    for (vector, name, value) in by_param {
        judge(vector, format!("{name} = {value:?}"), names(vector, Change::Nothing, Some((name, value))));
    }
    for (i, (vector, change)) in by_change.into_iter().enumerate() {
        judge(vector, format!("change {i}"), names(vector, change, None));
    }
    assert!(missed.is_empty(), "{named} named, not these:\n{}", missed.join("\n"));
}

#[test]
fn what_wraps_a_mutant_breaks_nothing_by_itself() {
    for vector in ["bbr/cruise-loss", "bbr/spurious-cruise", "bbr/idle-restart", "cubic/beta", "cubic/spurious"] {
        assert_eq!(names(vector, Change::Nothing, None), Verdict::Pass, "{vector}");
    }
}
