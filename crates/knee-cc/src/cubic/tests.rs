//! CUBIC, ACK by ACK.

use super::*;
use crate::Signal;
use crate::testing;
use knee_core::Value;

const TICK: Time = Time::from_millis(4);

/// A connection that is acknowledged one window per RTT, in ACKs of two packets.
struct Loop {
    cc: Cubic,
    control: Control,
    now: Time,
    rtt: Time,
}

impl Loop {
    fn new(given: &[(&'static str, Value)], cwnd: u32, rtt: Time) -> Self {
        let params = Params::from(&knee_core::Params::resolve(ENTRY.params, given.iter().copied()).unwrap());
        let init = Init { rtt, cwnd, tick: TICK, ..testing::init() };
        let cc = Cubic::new(&params, &init);
        Self { cc, control: Control::initial(cwnd), now: Time::from_secs(1), rtt }
    }

    fn view(&self) -> View {
        View { now: self.now, srtt: self.rtt, min_rtt: self.rtt, ..testing::view() }
    }

    fn ack(&mut self) {
        let ack = Ack { view: &self.view(), rtt: Some(self.rtt), acked: 2, delivered: 2, ..testing::ack_of_nothing() };
        self.cc.on_measure(&ack, &mut self.control);
        self.cc.on_ack(&ack, &mut self.control);
    }

    fn run_until(&mut self, end: Time) {
        while self.now < end {
            self.now += self.rtt.mul_div(2, u64::from(self.control.cwnd));
            self.ack();
        }
    }

    fn lose(&mut self) {
        let congestion = Congestion { view: &self.view(), signal: Signal::Loss };
        self.control.ssthresh = testing::after(self.control, |c| self.cc.on_congestion(&congestion, c)).ssthresh;
        self.control.cwnd = self.control.ssthresh;
        self.control.cwnd_cnt = 0;
    }
}

#[test]
fn a_loss_leaves_seven_tenths_and_fast_convergence_lowers_the_maximum_further() {
    let decrease = Decrease { beta: 717, fast_convergence: true };
    // 1000 · 717 / 1024 = 700.2; 1000 · 1741 / 2048 = 850.1.
    assert_eq!([1000, 3, 2, 1].map(|w| decrease.ssthresh(w)), [700, 2, 2, 2]);
    assert_eq!([900, 1000, 1001].map(|w_max| decrease.w_max(1000, w_max)), [1000, 1000, 850]);
    assert_eq!(Decrease { fast_convergence: false, ..decrease }.w_max(1000, 1001), 1000);
}

#[test]
fn the_window_is_back_at_its_maximum_after_k_and_flat_there() {
    let mut l = Loop::new(&[], 1000, Time::from_millis(100));
    l.lose();
    assert_eq!(l.control.cwnd, 700);
    // K = cbrt(300 / 0.4004) = 9.08 s; the first half of that wins 7/8 of the way.
    l.run_until(Time::from_millis(1_000 + 4_540));
    assert!((950..=963).contains(&l.control.cwnd), "{}", l.control.cwnd);
    l.run_until(Time::from_millis(1_000 + 9_080));
    assert!((990..=1000).contains(&l.control.cwnd), "{}", l.control.cwnd);
    // 8 s beyond the plateau: 0.4 · 8³ = 205 packets above it, less an RTT's lag of 8 packets.
    l.run_until(Time::from_millis(1_000 + 17_080));
    assert!((1190..=1206).contains(&l.control.cwnd), "{}", l.control.cwnd);
}

#[test]
fn growth_does_not_depend_on_the_rtt() {
    let after = |rtt| {
        let mut l = Loop::new(&[("tcp_friendliness", Value::Bool(false))], 1000, Time::from_millis(rtt));
        l.lose();
        l.run_until(Time::from_secs(6));
        l.control.cwnd
    };
    assert!(after(10).abs_diff(after(80)) <= 10, "{} {}", after(10), after(80));
}

#[test]
fn where_reno_is_faster_cubic_grows_like_reno_with_its_beta() {
    let mut l = Loop::new(&[], 100, Time::from_millis(10));
    l.lose();
    l.run_until(Time::from_secs(2));
    // 3 (1 - 0.7) / (1 + 0.7) = 0.529 packets per RTT, Linux's rounding makes it 8 / 15; 100 RTTs from 70 packets.
    assert!((118..=124).contains(&l.control.cwnd), "{}", l.control.cwnd);
}

#[test]
fn before_the_first_loss_the_window_grows_five_percent_per_rtt() {
    let mut l = Loop::new(&[], 1000, Time::from_millis(100));
    l.control.ssthresh = 1000;
    l.run_until(Time::from_millis(1_100));
    assert!((1048..=1054).contains(&l.control.cwnd), "{}", l.control.cwnd);
}

#[test]
fn idle_time_does_not_count_as_growth() {
    let mut l = Loop::new(&[], 1000, Time::from_millis(100));
    l.lose();
    l.run_until(Time::from_secs(4));
    let start = l.cc.epoch.start;
    // The newest acknowledged packet left 100 ms ago; then nothing for 10 s.
    l.now += Time::from_secs(10);
    let restart = StateChange { view: &l.view(), event: StateEvent::Restart };
    l.cc.on_state(&restart, &mut l.control);
    let shift = l.cc.epoch.start - start;
    assert!(shift >= Time::from_millis(10_096) && shift <= Time::from_millis(10_104), "{shift}");
}

#[test]
fn a_timeout_forgets_the_maximum_and_lets_hystart_look_again() {
    let mut l = Loop::new(&[], 1000, Time::from_millis(100));
    l.lose();
    l.run_until(Time::from_secs(3));
    l.cc.found = true;
    let change = StateChange { view: &l.view(), event: StateEvent::Entered(CaState::Loss) };
    l.cc.on_state(&change, &mut l.control);
    assert_eq!((l.cc.epoch.last_max_cwnd, l.cc.epoch.delay_min_us, l.cc.found), (0, 0, false));
}

#[test]
fn initial_ssthresh_holds_only_with_standard_slow_start() {
    let (on, off) = (Value::Bool(true), Value::Bool(false));
    let cases = [("hystart", on, INFINITE_SSTHRESH), ("hystart", off, 12), ("standard", on, 12)];
    for (kind, hystart, ssthresh) in cases {
        let kind = ("slow_start", Value::Choice(kind));
        let given = [kind, ("hystart", hystart), ("initial_ssthresh", Value::Count(12))];
        let mut l = Loop::new(&given, 10, Time::from_millis(100));
        l.ack();
        assert_eq!((l.control.cwnd, l.control.ssthresh), (12, ssthresh));
    }
}
