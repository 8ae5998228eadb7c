//! Slow start as a part: how a connection's first slow start grows the window, and what ends it, apart from the
//! algorithm that takes over afterwards.
//!
//! A part implements [`SlowStart`]. [`with`] puts the one that the parameter `slow_start` names around an algorithm
//! that has RFC 5681's slow start. The algorithm still sees every event, so its own estimates are what they would be;
//! the part only says how many packets an ACK counts for, ends slow start by setting `ssthresh`, and may change the
//! reduction that a congestion signal begins.
//!
//! ```text
//!   first slow start ── the part sets ssthresh ─────────────────────────▶ the algorithm alone
//!          │  ▲                                                                 ▲
//!   signal │  │ undone                                                         │
//!          ▼  │                                                                 │
//!   the reduction, `ssthresh` by the algorithm and the part ── it is complete ──┘
//! ```
//!
//! Only the first slow start is the part's (RFC 9406, Sec. 4.3, asks for that; the other texts speak of a connection's
//! start): after a timeout the window grows by the algorithm's own slow start.

mod careful_resume;
mod hystart;
mod hystart_pp;
mod rapid_start;
mod search;

pub use hystart::{HyStart, Params as HyStartParams, Sample};

use crate::{
    Ack, Congestion, CongestionControl, Control, DynCongestionControl, Init, Signal, StateChange, StateEvent, Undo,
    increase,
};
use knee_core::declare::Choice;
use knee_core::{Param, Time, choice, params};

/// The first slow start of a connection.
pub trait SlowStart: Send {
    /// Takes what an ACK shows, before loss detection. May set the window and its pacing rate, and ends slow start by
    /// setting `ssthresh` to the window.
    fn on_measure(&mut self, _ack: &Ack, _control: &mut Control) {}

    /// How many packets the window grows by on this ACK, if it is the window that limits sending.
    fn growth(&mut self, ack: &Ack) -> u32 {
        ack.delivered
    }

    /// A congestion signal other than a timeout ends slow start. May change the `ssthresh` that the algorithm has set,
    /// and nothing else.
    fn on_congestion(&mut self, _congestion: &Congestion, _control: &mut Control) {}

    /// Takes what an ACK shows during the reduction that follows, before loss detection. May change `ssthresh`, to
    /// which the sender reduces the window.
    fn on_reducing(&mut self, _ack: &Ack, _control: &mut Control) {}

    /// The reduction that ended slow start is complete. May change `ssthresh`.
    fn on_reduced(&mut self, _control: &mut Control) {}
}

choice! {
    /// The kinds of first slow start.
    pub enum Kind {
        /// RFC 5681's, as the algorithm has it.
        Standard = "standard",
        /// HyStart as in Linux.
        HyStart = "hystart",
        /// HyStart++ (RFC 9406).
        HyStartPlusPlus = "hystart++",
        /// SEARCH.
        Search = "search",
        /// Careful Resume.
        CarefulResume = "careful_resume",
        /// Rapid Start.
        RapidStart = "rapid_start",
    }
}

params! {
    /// The parameters of slow start; a congestion control whose own is RFC 5681's has them after those of its own.
    pub struct Params {
        /// the connection's first slow start
        slow_start: Kind = Kind::Standard, from SOURCE;
        #[flatten]
        saved: Saved;
    }
}

params! {
    /// The path parameters that `careful_resume` remembers.
    pub struct Saved {
        /// window remembered for careful_resume, in packets; 0: none
        saved_cwnd: u32 = 0, in 0..=1 << 30, from RESUME;
        /// least RTT remembered for careful_resume
        saved_rtt: Time = Time::from_millis(100), in Time::from_micros(1)..=Time::from_secs(100), from RESUME;
    }
}

/// Where the parameter `slow_start` comes from.
pub const SOURCE: &str = "docs/slow-start.md";
const RESUME: &str = "draft-ietf-tsvwg-careful-resume-24";

impl Kind {
    /// The kind that `params` ask for, where one of those `declared` is a kind.
    pub(crate) fn asked(declared: &[Param], params: &knee_core::Params) -> Option<Self> {
        let param = declared.iter().find(|param| param.is::<Self>())?;
        params.find(param.name).and_then(Self::of)
    }

    /// True if it needs a sender that paces.
    pub(crate) fn paces(self) -> bool {
        matches!(self, Self::CarefulResume | Self::RapidStart)
    }
}

/// The algorithm `cc` with the first slow start that `params` ask for.
pub fn with<C: CongestionControl + Clone + 'static>(
    cc: C,
    params: &Params,
    init: &Init,
) -> Box<dyn DynCongestionControl> {
    match params.slow_start {
        Kind::Standard => Box::new(cc),
        Kind::HyStart => Starting::boxed(cc, hystart::Linux::new(init)),
        Kind::HyStartPlusPlus => Starting::boxed(cc, hystart_pp::HyStartPlusPlus::new(init)),
        Kind::Search => Starting::boxed(cc, search::Search::new(init)),
        Kind::CarefulResume => Starting::boxed(cc, careful_resume::CarefulResume::new(&params.saved, init)),
        Kind::RapidStart => Starting::boxed(cc, rapid_start::RapidStart::new(init)),
    }
}

/// Where a connection is with its first slow start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The first slow start goes on.
    First,
    /// The reduction that ended it goes on.
    Reduction,
    /// It is over for good.
    Over,
}

/// An algorithm with a first slow start of another kind.
#[derive(Clone)]
struct Starting<C, S> {
    cc: C,
    start: S,
    stage: Stage,
}

impl<C: CongestionControl + Clone + 'static, S: SlowStart + Clone + 'static> Starting<C, S> {
    fn boxed(cc: C, start: S) -> Box<dyn DynCongestionControl> {
        Box::new(Self { cc, start, stage: Stage::First })
    }
}

impl<C: CongestionControl, S: SlowStart> Starting<C, S> {
    /// Returns true while the first slow start goes on; where `ssthresh` was reached it is over for good, and the
    /// part's rate with it.
    fn starting(&mut self, control: &mut Control) -> bool {
        if self.stage == Stage::First && !control.in_slow_start() {
            self.stage = Stage::Over;
            control.pacing_rate = None;
        }
        self.stage == Stage::First
    }
}

impl<C: CongestionControl, S: SlowStart> CongestionControl for Starting<C, S> {
    fn on_measure(&mut self, ack: &Ack, control: &mut Control) {
        self.cc.on_measure(ack, control);
        if self.starting(control) {
            self.start.on_measure(ack, control);
        } else if self.stage == Stage::Reduction {
            self.start.on_reducing(ack, control);
        } else {
            return;
        }
        control.phase = increase::classic_phase(control);
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        if self.starting(control) {
            let delivered = if ack.cwnd_limited { self.start.growth(ack) } else { 0 };
            self.cc.on_ack(&Ack { delivered, ..*ack }, control);
        } else {
            self.cc.on_ack(ack, control);
        }
    }

    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control) {
        let first = self.stage == Stage::First && control.in_slow_start();
        self.cc.on_congestion(congestion, control);
        if first && congestion.signal != Signal::Timeout {
            self.start.on_congestion(congestion, control);
            self.stage = Stage::Reduction;
        } else {
            // A timeout, or another signal before the reduction is complete, which is the algorithm's then.
            self.stage = Stage::Over;
        }
    }

    fn on_state(&mut self, change: &StateChange, control: &mut Control) {
        let before = control.ssthresh;
        self.cc.on_state(change, control);
        if self.stage == Stage::First {
            return;
        }
        // The part's rate was for its slow start; the algorithms here have none.
        control.pacing_rate = None;
        if self.stage == Stage::Reduction {
            if change.event == StateEvent::ReductionDone {
                self.start.on_reduced(control);
                self.stage = Stage::Over;
            } else {
                // The algorithm's second setting, as a reduction begins, does not raise the part's.
                control.ssthresh = control.ssthresh.min(before);
            }
            control.phase = increase::classic_phase(control);
        }
    }

    fn on_undo(&mut self, undo: &Undo, control: &mut Control) {
        self.cc.on_undo(undo, control);
        // The sender restores ssthresh too, so slow start goes on.
        if self.stage == Stage::Reduction {
            self.stage = Stage::First;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Entry, INFINITE_SSTHRESH, Needs, bic, cubic, increase, registry, reno, testing};
    use knee_core::Value;

    fn reno_with(kind: &'static str) -> Box<dyn DynCongestionControl> {
        testing::make_with(&reno::ENTRY, &[("slow_start", Value::Choice(kind))])
    }

    /// Ten ACKs of two packets, 5 ms apart from `from_ms` on: the first with an RTT of 40 ms, those of the next round
    /// with 60.
    fn delayed(cc: &mut dyn DynCongestionControl, control: &mut Control, from_ms: u64) {
        for i in 0..10 {
            let rtt = Time::from_millis(if i == 0 { 40 } else { 60 });
            let ack = testing::ack_at(Time::from_millis(from_ms + 5 * i), 2, Some(rtt));
            let first = testing::changed(ack.view, |view| (view.snd_una, view.snd_nxt) = (500, 600));
            let ack = if i == 0 { Ack { view: first, ..ack } } else { ack };
            cc.on_measure(&ack, control);
            cc.on_ack(&ack, control);
        }
    }

    #[test]
    fn it_is_a_parameter_of_algorithms_with_the_standards_phases_and_no_rate_of_their_own() {
        let mut with = Vec::new();
        for entry in registry() {
            if entry.params.iter().any(Param::is::<Kind>) {
                with.push(entry.name);
                assert_eq!((entry.phases, entry.edges), (increase::CLASSIC_PHASES, increase::CLASSIC_EDGES));
                let Needs { pacing, full_control, .. } = entry.needs;
                assert!(!pacing && !full_control, "{}", entry.name);
            }
        }
        assert_eq!(
            with,
            [
                "reno",
                "cubic",
                "bic",
                "htcp",
                "highspeed",
                "scalable",
                "westwood",
                "veno",
                "illinois",
                "yeah",
                "compound",
                "dctcp"
            ]
        );
    }

    #[test]
    fn linuxs_hystart_ends_renos_slow_start_where_it_ends_cubics() {
        let (mut reno, mut cubic) = (reno_with("hystart"), testing::make(&cubic::ENTRY));
        let [mut r, mut c] = [Control::initial(20); 2];
        delayed(&mut *reno, &mut r, 1_000);
        delayed(&mut *cubic, &mut c, 1_000);
        assert_eq!((r.ssthresh, c.ssthresh), (38, 38));
        let mut plain = Control::initial(20);
        delayed(&mut *reno_with("standard"), &mut plain, 1_000);
        assert_eq!(plain.ssthresh, INFINITE_SSTHRESH);
    }

    #[test]
    fn after_a_timeout_slow_start_is_the_algorithms() {
        let mut cc = reno_with("hystart");
        let mut c = Control::initial(40);
        let timeout = testing::congestion(testing::view_at(Time::from_secs(1)), Signal::Timeout);
        cc.on_congestion(&timeout, &mut c);
        c = Control { cwnd: 18, ssthresh: 100, ..c };
        delayed(&mut *cc, &mut c, 2_000);
        assert_eq!((c.cwnd, c.ssthresh), (38, 100));
    }

    #[test]
    fn a_reduction_that_is_undone_lets_it_go_on_and_one_that_is_complete_does_not() {
        let grown = |undone| {
            let mut cc = reno_with("rapid_start");
            let mut c = Control::initial(40);
            cc.on_congestion(&testing::loss_at(Time::from_secs(1)), &mut c);
            if undone {
                cc.on_undo(&Undo { view: &testing::view(), prior_cwnd: 40 }, &mut c);
                c.ssthresh = INFINITE_SSTHRESH;
            } else {
                cc.on_state(&testing::change_at(Time::from_secs(2), StateEvent::ReductionDone), &mut c);
                c = Control { cwnd: 10, ssthresh: 100, ..c };
            }
            let before = c.cwnd;
            for ms in [0, 1] {
                let ack = testing::ack_at(Time::from_millis(3_000 + ms), 2, Some(Time::from_millis(40)));
                cc.on_measure(&ack, &mut c);
                cc.on_ack(&ack, &mut c);
            }
            c.cwnd - before
        };
        assert_eq!((grown(true), grown(false)), (8, 4));
    }

    #[test]
    fn the_rate_of_a_slow_start_ends_with_it() {
        let given = [("slow_start", Value::Choice("rapid_start")), ("initial_ssthresh", Value::Count(12))];
        let mut cc = testing::make_with(&bic::ENTRY, &given);
        let mut c = Control::initial(10);
        let rates = [0, 1].map(|ms| {
            let ack = testing::ack_at(Time::from_millis(1_000 + ms), 2, Some(Time::from_millis(40)));
            cc.on_measure(&ack, &mut c);
            cc.on_ack(&ack, &mut c);
            c.pacing_rate.is_some()
        });
        assert_eq!((rates, c.ssthresh), ([true, false], 12));
    }

    #[test]
    fn a_sender_paces_by_the_kind_of_slow_start_whatever_the_parameter_is_called() {
        choice! {
            /// Words of another algorithm.
            enum Other {
                Slow = "slow",
                Rapid = "rapid_start",
            }
        }
        params! {
            /// One whose slow start is no [`Kind`].
            struct Others {
                /// its own
                slow_start: Other = Other::Rapid, from "ours: a test";
            }
        }
        params! {
            /// One by another name.
            struct Renamed {
                /// the first slow start
                start: Kind = Kind::RapidStart, from "ours: a test";
            }
        }
        let needs = |declared| {
            let entry = Entry { params: declared, ..reno::ENTRY };
            entry.needs_with(&knee_core::Params::defaults(entry.params)).pacing
        };
        assert_eq!([Others::DECLARED, Renamed::DECLARED].map(needs), [false, true]);
    }

    #[test]
    fn only_what_starts_faster_than_slow_start_makes_a_sender_pace() {
        let paces = |kind| {
            let params = knee_core::Params::resolve(reno::ENTRY.params, [("slow_start", Value::Choice(kind))]).unwrap();
            reno::ENTRY.needs_with(&params).pacing
        };
        let kinds = ["standard", "hystart", "hystart++", "search", "careful_resume", "rapid_start"];
        assert_eq!(kinds.map(paces), [false, false, false, false, true, true]);
        for entry in registry() {
            assert_eq!(
                entry.needs_with(&knee_core::Params::defaults(entry.params)).pacing,
                entry.needs.pacing,
                "{}",
                entry.name
            );
        }
    }
}
