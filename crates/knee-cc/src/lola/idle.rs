//! LoLa's reaction when its sender comes back from idle time with a smaller window (RFC 5681, 4.1), ACK by ACK.

use super::{Lola, Params, Phase};
use crate::testing::{self, after, change};
use crate::{Ack, CongestionControl, Control, StateEvent, View};
use knee_core::{Params as Given, Time};

const RTT: Time = Time::from_millis(50);

/// A flow without other traffic. Each round acknowledges its whole window by one ACK.
struct Flow {
    cc: Lola,
    control: Control,
    view: View,
}

impl Flow {
    /// In cubic increase, which began at a window of `cwnd`, with an RTT of 50 ms known.
    fn new(cwnd: u32) -> Self {
        let given = Given::resolve(super::ENTRY.params, []).unwrap();
        let cc = Lola::new(Params::from(&given), &testing::init());
        let view = View { now: Time::from_secs(10), ..testing::view() };
        let mut flow = Self { cc, control: testing::avoiding(cwnd), view };
        flow.round(RTT, true);
        flow.round(RTT, true);
        flow.control.ssthresh = cwnd;
        assert_eq!((flow.cc.phase, flow.control.cwnd), (Phase::CubicIncrease, cwnd));
        flow
    }

    fn round(&mut self, rtt: Time, limited: bool) {
        self.view.now += rtt;
        let view = self.view;
        let delivered = self.control.cwnd;
        let ack = Ack { view: &view, rtt: Some(rtt), delivered, cwnd_limited: limited, ..testing::ack_of_nothing() };
        self.control = after(self.control, |c| self.cc.on_measure(&ack, c));
        self.control = after(self.control, |c| self.cc.on_ack(&ack, c));
    }

    /// Rounds at this RTT until the flow is in `phase`.
    fn until(&mut self, phase: Phase, rtt: Time) {
        for _ in 0..100 {
            if self.cc.phase == phase {
                return;
            }
            self.round(rtt, true);
        }
        panic!("{:?}, not {phase:?}", self.cc.phase);
    }

    /// Eight seconds without data, and what the sender makes of its window: 10 packets, and three quarters of it as the
    /// threshold (`tcp_cwnd_restart`).
    fn idle(&mut self) {
        self.view.now += Time::from_secs(8);
        self.control.ssthresh = self.control.ssthresh.max(self.control.cwnd / 4 * 3);
        self.control.cwnd = 10;
        self.control = after(self.control, |c| self.cc.on_state(&change(self.view, StateEvent::Restart), c));
    }

    /// The windows of the next rounds on the idle link.
    fn windows<const N: usize>(&mut self) -> [u32; N] {
        std::array::from_fn(|_| {
            self.round(RTT, true);
            self.control.cwnd
        })
    }
}

/// 10 packets double until the threshold: three quarters of 400, or what the last decrease left.
#[test]
fn after_idle_time_a_hold_and_a_round_and_a_decrease_are_left_for_slow_start() {
    for (phase, ms) in [(Phase::FairFlowBalancing, 53), (Phase::CwndHold, 57)] {
        let mut flow = Flow::new(400);
        flow.control.ssthresh = 2;
        flow.until(phase, Time::from_millis(ms));
        let cwnd = flow.control.cwnd;
        flow.idle();
        assert_eq!(flow.windows(), [20, 40, 80, 160, cwnd / 4 * 3], "{phase:?}");
        assert_eq!(flow.cc.phase, Phase::CubicIncrease);
    }
    let mut flow = Flow::new(400);
    flow.until(Phase::CwndHold, Time::from_millis(57));
    flow.until(Phase::TailoredDecrease, Time::from_millis(57));
    let left = flow.control.cwnd;
    flow.idle();
    assert_eq!(flow.windows(), [20, 40, 80, 160, 320, left]);
}

/// The cubic function continues at the window where balancing began: a round and idle time are no part of t.
#[test]
fn after_idle_time_the_cubic_function_continues_where_the_round_began() {
    let mut flow = Flow::new(400);
    flow.until(Phase::FairFlowBalancing, Time::from_millis(53));
    let (start, began) = (flow.cc.epoch.start.expect("an epoch"), flow.view.now);
    flow.until(Phase::CwndHold, Time::from_millis(57));
    flow.idle();
    flow.round(RTT, true);
    assert_eq!(flow.view.now - flow.cc.epoch.start.expect("the same"), began - start);
}

/// RTTs of 53 ms beside 50 ms end slow start at a window of 80. Half a packet per packet is the most of cubic increase.
#[test]
fn a_queue_ends_slow_start_after_idle_time_and_leaves_the_cubic_function() {
    let mut flow = Flow::new(400);
    flow.idle();
    assert_eq!(flow.windows(), [20, 40, 80]);
    flow.round(Time::from_millis(53), true);
    assert_eq!((flow.cc.phase, flow.control.cwnd, flow.control.ssthresh), (Phase::CubicIncrease, 80, 80));
    assert_eq!(flow.windows(), [120, 180, 270]);
}

/// Queues of others may come and go while the application sends little.
#[test]
fn slow_start_looks_at_rtts_while_the_window_is_in_use() {
    let mut flow = Flow::new(400);
    flow.idle();
    for ms in [50, 90, 50, 90] {
        flow.round(Time::from_millis(ms), false);
    }
    assert_eq!((flow.cc.phase, flow.control.cwnd), (Phase::SlowStart, 10));
    assert_eq!(flow.windows(), [20, 40, 80]);
}
