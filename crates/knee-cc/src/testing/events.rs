//! Events made by hand: a connection, a sender in the middle of it, its ACKs and what else happens to it.

use crate::{
    Ack, Congestion, Control, DynCongestionControl, Entry, Init, RateSample, Signal, StateChange, StateEvent, View,
};
use knee_core::packet::MSS;
use knee_core::{Params, Rng, Time, Value};

/// A connection that starts at time zero with an RTT of 40 ms, ten packets and a tick of 10 ms, not paced.
pub fn init() -> Init {
    Init {
        now: Time::ZERO,
        rtt: Time::from_millis(40),
        cwnd: 10,
        mss: u32::from(MSS),
        tick: Time::from_millis(10),
        paced: false,
        accurate_ecn: false,
        tso: true,
        rng: Rng::stream(1, "test"),
    }
}

/// The algorithm with its defaults.
pub fn make(entry: &Entry) -> Box<dyn DynCongestionControl> {
    make_with(entry, &[])
}

/// The algorithm with some parameters given.
pub fn make_with(entry: &Entry, given: &[(&str, Value)]) -> Box<dyn DynCongestionControl> {
    (entry.make)(&Params::resolve(entry.params, given.iter().copied()).unwrap(), &init())
}

/// `control` after an event.
pub fn after(mut control: Control, event: impl FnOnce(&mut Control)) -> Control {
    event(&mut control);
    control
}

/// A window of `cwnd` in congestion avoidance.
pub fn avoiding(cwnd: u32) -> Control {
    Control { ssthresh: 2, phase: 1, ..Control::initial(cwnd) }
}

/// A sender on whose connection nothing has happened.
pub const fn view() -> View {
    View::INITIAL
}

/// A sender at that time that has had 1000 packets acknowledged, has 1000 in flight, and knows an RTT of 40 ms.
pub fn view_at(now: Time) -> View {
    let rtt = Time::from_millis(40);
    View { now, srtt: rtt, min_rtt: rtt, snd_una: 1000, snd_nxt: 2000, in_flight: 1000, delivered: 1000, ..view() }
}

/// A sender that outlives its test: events borrow it. Views that a test lends are freed with its process.
pub fn lent(view: View) -> &'static View {
    Box::leak(Box::new(view))
}

/// The sender `view` after a change.
pub fn changed(view: &View, change: impl FnOnce(&mut View)) -> &'static View {
    let mut view = *view;
    change(&mut view);
    lent(view)
}

/// A rate sample that outlives its test.
pub fn lent_rate(rate: RateSample) -> &'static RateSample {
    Box::leak(Box::new(rate))
}

/// An ACK of nothing on a connection on which nothing has happened, the window full.
pub fn ack_of_nothing() -> Ack<'static> {
    const VIEW: View = view();
    Ack {
        view: &VIEW,
        rtt: None,
        acked: 0,
        delivered: 0,
        lost: 0,
        prior_in_flight: 0,
        prior_una: 0,
        part: false,
        cwnd_limited: true,
        ece: false,
        rate: &RateSample::NONE,
    }
}

/// An ACK of `packets` new packets to [`view_at`] one second, with an RTT of 40 ms.
pub fn ack(packets: u32) -> Ack<'static> {
    ack_at(Time::from_secs(1), packets, Some(Time::from_millis(40)))
}

/// An ACK of `packets` new packets to [`view_at`] that time.
pub fn ack_at(now: Time, packets: u32, rtt: Option<Time>) -> Ack<'static> {
    let view = lent(view_at(now));
    Ack {
        view,
        rtt,
        acked: packets,
        delivered: packets,
        prior_in_flight: view.in_flight + packets,
        prior_una: view.snd_una - u64::from(packets),
        rate: lent_rate(RateSample { delivered: packets, ..RateSample::NONE }),
        ..ack_of_nothing()
    }
}

/// An ACK of one packet with an RTT of `rtt_us` that moves `snd_una` to `una`, while `nxt` is sent next, at time zero.
pub fn ack_up_to(una: u64, nxt: u64, rtt_us: u64) -> Ack<'static> {
    let in_flight = nxt.saturating_sub(una) as u32;
    let rate = RateSample {
        delivered: 1,
        interval: Some(Time::from_micros(rtt_us)),
        prior_delivered: una.saturating_sub(u64::from(in_flight)),
        tx_in_flight: in_flight,
        ..RateSample::NONE
    };
    Ack {
        view: lent(View { snd_una: una, snd_nxt: nxt, in_flight, delivered: una, ..view() }),
        rtt: Some(Time::from_micros(rtt_us)),
        acked: 1,
        delivered: 1,
        prior_in_flight: in_flight + 1,
        prior_una: una.saturating_sub(1),
        rate: lent_rate(rate),
        ..ack_of_nothing()
    }
}

/// A loss at that time.
pub fn loss_at(now: Time) -> Congestion<'static> {
    congestion(view_at(now), Signal::Loss)
}

/// A congestion signal to the sender `view`.
pub fn congestion(view: View, signal: Signal) -> Congestion<'static> {
    Congestion { view: lent(view), signal }
}

/// A change of state at that time.
pub fn change_at(now: Time, event: StateEvent) -> StateChange<'static> {
    change(view_at(now), event)
}

/// A change of state of the sender `view`.
pub fn change(view: View, event: StateEvent) -> StateChange<'static> {
    StateChange { view: lent(view), event }
}
