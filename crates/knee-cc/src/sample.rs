//! Events for tests: a sender in the middle of a connection, to be varied by the test.

use crate::{Ack, CaState, Congestion, RateSample, Signal, StateChange, StateEvent, View};
use knee_core::Time;

/// A sender that has nothing in flight at time zero.
pub fn view() -> View {
    View {
        now: Time::ZERO,
        srtt: Time::ZERO,
        min_rtt: Time::MAX,
        snd_una: 0,
        snd_nxt: 0,
        in_flight: 0,
        delivered: 0,
        delivered_ce: 0,
        lost: 0,
        ca: CaState::Open,
    }
}

/// An ACK of one packet with an RTT of `rtt_us` that moves `snd_una` to `una`, while `nxt` is sent next.
pub fn ack(una: u64, nxt: u64, rtt_us: u64) -> Ack {
    let in_flight = nxt.saturating_sub(una) as u32;
    let view = View { snd_una: una, snd_nxt: nxt, in_flight, delivered: una, ..view() };
    Ack {
        view,
        rtt: Some(Time::from_micros(rtt_us)),
        acked: 1,
        delivered: 1,
        lost: 0,
        prior_in_flight: in_flight + 1,
        prior_una: una.saturating_sub(1),
        cwnd_limited: true,
        ece: false,
        rate: RateSample {
            delivered: 1,
            delivered_ce: 0,
            interval: Some(Time::from_micros(rtt_us)),
            prior_delivered: una.saturating_sub(u64::from(in_flight)),
            prior_lost: 0,
            tx_in_flight: in_flight,
            app_limited: false,
            is_retrans: false,
            ack_delayed: false,
        },
    }
}

/// A change of state of the sender `view`.
pub fn state(view: View, event: StateEvent) -> StateChange {
    StateChange { view, event }
}

/// A congestion signal to the sender `view`.
pub fn congestion(view: View, signal: Signal) -> Congestion {
    Congestion { view, signal }
}
