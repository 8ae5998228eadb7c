//! Thresholds and epochs, ACK by ACK.

use super::{Daimd, ENTRY, Params};
use crate::testing::{self, after, change};
use crate::{Ack, CongestionControl, Control, StateEvent, View};
use knee_core::{Time, Value};

/// A flow in congestion avoidance; each `round` acknowledges its whole window.
struct Flow {
    cc: Daimd,
    control: Control,
    view: View,
}

impl Flow {
    fn new(given: &[(&str, Value)], cwnd: u32) -> Self {
        let params = Params::from(&knee_core::Params::resolve(ENTRY.params, given.iter().copied()).unwrap());
        Self { cc: Daimd::new(params, &testing::init()), control: testing::avoiding(cwnd), view: testing::view() }
    }

    /// One ACK of the whole window, `rtt_ms` after it was sent; whether it reduced the window.
    fn round(&mut self, rtt_ms: u64) -> bool {
        let (before, rtt) = (self.control.cwnd, Time::from_millis(rtt_ms));
        self.view.now += rtt;
        self.view.snd_una = self.view.snd_nxt;
        let ack =
            Ack { view: &self.view, rtt: Some(rtt), acked: before, delivered: before, ..testing::ack_of_nothing() };
        self.control = after(self.control, |c| self.cc.on_measure(&ack, c));
        self.control = after(self.control, |c| self.cc.on_ack(&ack, c));
        self.view.snd_nxt += u64::from(self.control.cwnd);
        self.control.cwnd < before
    }

    /// Sending begins with nothing in flight.
    fn restart(&mut self) {
        let (state, cc) = (change(self.view, StateEvent::Restart), &mut self.cc);
        self.control = after(self.control, |c| cc.on_state(&state, c));
    }
}

/// Delta0 of 2 s, so that it does not follow RTTmax.
const TWO_SECONDS: [(&str, Value); 2] =
    [("delta0_mode", Value::Choice("fixed")), ("delta0", Value::Time(Time::from_secs(2)))];

/// A flow that backed off once at an RTT of 200 ms on a path of 100 ms; Delta0 has passed if `waited`.
fn after_a_long_queue(threshold: &'static str, waited: bool) -> Flow {
    let given = [&TWO_SECONDS[..], &[("backoff_threshold", Value::Choice(threshold)), ("decay", Value::Ratio(0.0))]];
    let mut flow = Flow::new(&given.concat(), 100);
    assert!(!flow.round(100));
    while !flow.round(200) {}
    flow.round(130);
    while waited && flow.view.now - flow.cc.state.last_backoff < Time::from_millis(1_900) {
        assert!(!flow.round(110));
    }
    flow
}

#[test]
fn algorithm_1_grows_up_to_the_raised_threshold_and_backs_off_at_the_base_one() {
    // Base 20 ms, raised 0.25 · 20 + 0.75 · 100 = 80 ms: a queue of 30 ms lies between them.
    let mut early = after_a_long_queue("base", false);
    let cwnd = early.control.cwnd;
    for _ in 0..10 {
        assert!(!early.round(130));
    }
    assert!(early.control.cwnd > cwnd, "line 18: grows below the raised threshold until Delta0 has passed");

    let backs_off = |threshold| {
        let mut late = after_a_long_queue(threshold, true);
        (0..10).any(|_| late.round(130))
    };
    assert!(backs_off("base"), "line 22: backs off at the base threshold");
    assert!(!backs_off("raised"), "Eq. 6: backs off at the raised one alone");
}

#[test]
fn above_the_raised_threshold_the_window_stays_until_delta0_has_passed() {
    let given = [TWO_SECONDS[0], ("delta0", Value::Time(Time::from_secs(60))), ("decay", Value::Ratio(0.0))];
    let mut flow = Flow::new(&given, 100);
    flow.round(100);
    while !flow.round(200) {}
    // Some rounds until the smoothed RTT is above it too: 0.25 · 20 + 0.75 · 200 = 155 ms.
    flow.round(300);
    while flow.cc.state.srtt.unwrap() - flow.cc.state.rtt_min <= flow.cc.raised() {
        assert!(!flow.round(300));
    }
    let cwnd = flow.control.cwnd;
    assert!(!flow.round(300));
    assert_eq!(flow.control.cwnd, cwnd);
}

#[test]
fn the_first_backoff_has_no_delta0_to_wait_for_and_the_second_has() {
    let mut flow = Flow::new(&TWO_SECONDS, 100);
    flow.round(100);
    assert!((0..4).any(|_| flow.round(200)) && flow.view.now < Time::from_secs(1));
    let first = flow.cc.state.last_backoff;
    while !flow.round(200) {}
    assert!(flow.view.now - first > Time::from_secs(2));
}

#[test]
fn an_ack_of_the_whole_window_begins_no_new_epoch() {
    let (mut with, mut without) = (Flow::new(&TWO_SECONDS, 100), Flow::new(&TWO_SECONDS, 100));
    for ms in [100; 30].into_iter().chain([200; 60]) {
        let reduced = without.round(ms);
        assert_eq!(with.round(ms), reduced);
        // Nothing is in flight, and the next window leaves at once.
        with.restart();
        assert_eq!(with.control, without.control);
    }
    assert!(with.cc.state.backoffs > 1, "{}", with.cc.state.backoffs);
}

#[test]
fn idle_time_is_not_part_of_an_epoch() {
    let mut flow = Flow::new(&TWO_SECONDS, 100);
    for _ in 0..5 {
        flow.round(100);
    }
    let since = flow.view.now - flow.cc.state.last_backoff;
    flow.view.now += Time::from_secs(60);
    flow.restart();
    assert_eq!(flow.view.now - flow.cc.state.last_backoff, since);
    assert_eq!(flow.cc.state.srtt, None, "the queue of a minute ago says nothing");
}

/// Eq. 7 of the initial slow start follows the RTT down, however long the application waited with its first data.
#[test]
fn a_wait_before_the_first_data_is_no_idle_time() {
    let limits = [0, 1, 8_000].map(|wait_ms| {
        let mut flow = Flow::new(&[("decay", Value::Ratio(0.0))], 10);
        flow.control.ssthresh = crate::INFINITE_SSTHRESH;
        flow.view.now += Time::from_millis(wait_ms);
        flow.restart();
        assert_eq!(flow.cc.state.last_backoff, flow.view.now);
        flow.round(50);
        [51, 60, 65].map(|ms| {
            flow.round(ms);
            flow.cc.state.max_ssthresh
        })
    });
    // 20 packets and 1 ms at a threshold of 5.75 ms; 40 and 10 ms at 12.5 ms; 80 (12 limited) and 15 ms at 16.25 ms.
    assert_eq!(limits[0][..2], [28, 12]);
    assert!(limits.iter().all(|each| *each == limits[0]), "{limits:?}");
}

/// 100 Mbit/s and 50 ms, RTTmax as after a long decay. A window of 20 that queues for 1 ms, a burst of 10, makes 28
/// packets by Eq. 7 with a threshold of 5.75 ms; 640 that queue for 25 ms make 152 with one of 23.75 ms.
#[test]
fn slow_start_after_idle_time_keeps_the_limit_of_the_initial_one() {
    let mut flow = Flow::new(&[("decay", Value::Ratio(0.0))], 10);
    flow.control.ssthresh = crate::INFINITE_SSTHRESH;
    flow.round(50);
    assert_eq!((flow.control.cwnd, flow.cc.state.max_ssthresh), (20, u32::MAX));
    flow.round(51);
    assert_eq!(flow.cc.state.max_ssthresh, 20 * 575 / (4 * 100));
    flow.control.cwnd = 640;
    while !flow.round(75) {}
    let limit = 640 * 2375 / (4 * 2500);
    assert_eq!(flow.cc.state.max_ssthresh, limit);

    flow.view.now += Time::from_secs(8);
    flow.restart();
    flow.cc.state.rtt_max = Time::from_millis(50);
    (flow.control.cwnd, flow.control.ssthresh) = (20, 400);
    flow.round(51);
    assert_eq!((flow.control.cwnd, flow.cc.state.max_ssthresh), (40, limit));
    // A longer path or a faster link: 400 packets in 3 ms, at a threshold of 7.25 ms.
    flow.control.cwnd = 399;
    flow.round(53);
    assert_eq!(flow.cc.state.max_ssthresh, 399 * 725 / (4 * 300));
}
