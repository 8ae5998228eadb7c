//! Events for the tests of single algorithms.

use crate::{
    Ack, CaState, Congestion, CongestionControl, Control, Entry, Init, RateSample, Signal, StateChange, StateEvent,
    View,
};
use knee_core::{Params, Rng, Time, Value};

/// A connection that starts at time zero with an RTT of 40 ms, segments of 1448 bytes and a tick of 10 ms.
pub fn init() -> Init {
    Init {
        now: Time::ZERO,
        rtt: Time::from_millis(40),
        cwnd: 10,
        mss: 1448,
        tick: Time::from_millis(10),
        rng: Rng::stream(1, "test"),
    }
}

/// The algorithm with its defaults.
pub fn make(entry: &Entry) -> Box<dyn CongestionControl> {
    make_with(entry, &[])
}

/// The algorithm with some parameters given.
pub fn make_with(entry: &Entry, given: &[(&str, Value)]) -> Box<dyn CongestionControl> {
    (entry.make)(&Params::resolve(entry.params, given.iter().copied()).unwrap(), &init())
}

/// A window of `cwnd` in congestion avoidance.
pub fn avoiding(cwnd: u32) -> Control {
    Control { ssthresh: 2, phase: 1, ..Control::initial(cwnd) }
}

/// The sender at that time.
pub fn view(now: Time) -> View {
    View {
        now,
        srtt: Time::from_millis(40),
        min_rtt: Time::from_millis(40),
        snd_una: 1000,
        snd_nxt: 2000,
        in_flight: 1000,
        delivered: 1000,
        delivered_ce: 0,
        lost: 0,
        ca: CaState::Open,
    }
}

/// An ACK of `packets` new packets at one second, with an RTT of 40 ms and the window full.
pub fn ack(packets: u32) -> Ack {
    ack_at(Time::from_secs(1), packets, Some(Time::from_millis(40)))
}

/// An ACK of `packets` new packets with the window full.
pub fn ack_at(now: Time, packets: u32, rtt: Option<Time>) -> Ack {
    let view = view(now);
    Ack {
        view,
        rtt,
        acked: packets,
        delivered: packets,
        lost: 0,
        prior_in_flight: view.in_flight + packets,
        prior_una: view.snd_una - u64::from(packets),
        cwnd_limited: true,
        ece: false,
        rate: RateSample {
            delivered: packets,
            delivered_ce: 0,
            interval: None,
            prior_delivered: 0,
            prior_lost: 0,
            tx_in_flight: 0,
            app_limited: false,
            is_retrans: false,
            ack_delayed: false,
        },
    }
}

/// A loss at that time.
pub fn loss_at(now: Time) -> Congestion {
    Congestion { view: view(now), signal: Signal::Loss }
}

/// A change of state at that time.
pub fn change_at(now: Time, event: StateEvent) -> StateChange {
    StateChange { view: view(now), event }
}
