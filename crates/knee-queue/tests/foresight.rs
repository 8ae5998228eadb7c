//! A queue that lets packets leave ahead of their time does the same as one that is asked packet by packet.

use knee_core::{Bytes, Packet, Params, Rate, Rng, Time};
use knee_queue::{Backlog, Coming, Context, Crossing, Gone, Init, Key, Left, Limit, Queue, Service, Wire, find};
use proptest::prelude::*;

const OVERHEAD: u32 = 14;

/// A queue, the wire behind it, and what has become of the packets.
struct Link {
    queue: Box<dyn Queue>,
    cx: Context,
    wire: Wire,
    loss: f64,
    loss_rng: Rng,
    service: Service,
    /// The packet on the wire; `enqueued` is when it will have left.
    on_wire: Option<Left>,
    gone: Gone,
}

impl Link {
    fn new(name: &str, limit: Limit, rate: Rate, loss: f64) -> Self {
        let entry = find(name).expect("a registered discipline");
        let init = Init { limit: Some(limit), overhead: OVERHEAD, rate, rng: Rng::stream(1, name) };
        Self {
            queue: (entry.make)(&Params::defaults(entry.params), &init),
            cx: Context::default(),
            wire: Wire::new(rate),
            loss,
            loss_rng: Rng::stream(1, "loss"),
            service: Service { due: Time::MAX, waiting: false, since: Time::ZERO },
            on_wire: None,
            gone: Gone::default(),
        }
    }

    /// Packet by packet: all leave that do up to `until`.
    fn serve(&mut self, until: Time) {
        while self.service.due <= until {
            self.gone.left.extend(self.on_wire.take());
            self.begin(self.service.due);
        }
    }

    /// Packet by packet: the idle wire takes the next one.
    fn begin(&mut self, now: Time) {
        self.cx.now = now;
        self.service.due = Time::MAX;
        if let Some(packet) = self.queue.dequeue(&mut self.cx) {
            let stay = now - packet.enqueued;
            let due = now + self.wire.time_for(u64::from(packet.size) + u64::from(OVERHEAD));
            self.service = Service { due, waiting: false, since: now };
            let packet = Packet { enqueued: due, extra: Packet::queued_units(stay), ..packet };
            self.on_wire = Some(Left { packet, stay });
        }
    }

    /// Packet by packet: one comes.
    fn come(&mut self, packet: Packet) {
        let now = packet.enqueued;
        self.serve(now);
        if self.loss > 0.0 && self.loss_rng.chance(self.loss) {
            self.gone.dropped.push(packet);
            return;
        }
        self.cx.now = now;
        self.queue.enqueue(packet, &mut self.cx);
        self.gone.dropped.append(&mut self.cx.dropped);
        if self.service.is_idle() {
            self.begin(now);
        }
    }

    /// All at once, as far as it is known.
    fn cross(&mut self, bursts: &[Coming], order: &[Key], from: Time, until: Time, foresees: bool) {
        self.gone.left.extend(self.on_wire.take());
        let crossing = Crossing {
            wire: &mut self.wire,
            service: self.service,
            overhead: u64::from(OVERHEAD),
            loss: self.loss,
            loss_rng: &mut self.loss_rng,
            bursts,
            order,
            from,
            until,
            foresees,
            gone: &mut self.gone,
        };
        self.service = self.queue.cross(crossing, &mut self.cx);
        if !self.service.is_idle() {
            self.on_wire = self.gone.left.pop();
        }
    }

    /// What leaves after `now` has not been sent.
    fn recall(&mut self, now: Time) {
        self.queue.settle(now);
        if self.service.is_idle() {
            return;
        }
        self.gone.left.extend(self.on_wire.take());
        if let Some(since) = self.queue.recall(&mut self.gone.left, &mut self.wire) {
            self.service.since = since;
        }
        self.on_wire = self.gone.left.pop_if(|left| left.packet.enqueued > now);
        self.service.due = self.on_wire.map_or(Time::MAX, |left| left.packet.enqueued);
    }

    /// What the wire does, where it sends.
    fn sends(&self) -> Option<(Packet, Time, Service)> {
        self.on_wire.map(|left| (left.packet, left.stay, self.service))
    }

    /// What its queue holds, what has left it, and what was dropped up to `now`.
    fn seen(&mut self, now: Time) -> (Backlog, Vec<(Packet, Time)>, &[Packet]) {
        self.queue.settle(now);
        let left = self.gone.left.iter().chain(&self.on_wire).map(|left| (left.packet, left.stay));
        let left = left.take_while(|(packet, _)| packet.enqueued <= now).collect();
        (self.queue.backlog(), left, &self.gone.dropped)
    }
}

/// Ends of spans, and what comes, are at whole ones of these; a full frame at 12.112 Mbit/s takes four.
const STEP: Time = Time::from_micros(250);

/// What happens at the end of a span.
#[derive(Clone, Copy, Debug)]
enum Then {
    Nothing,
    Recall,
    /// Recall, and another limit.
    Limit(Limit),
    /// Recall, and the next span goes packet by packet.
    Pass,
}

/// So many steps long, in which, after as many, some packets of a size come.
type Span = (u64, Vec<(u64, u32, u16)>, Then);

fn limits() -> impl Strategy<Value = Limit> {
    prop_oneof![
        (0u64..30).prop_map(Limit::Packets),
        (0u64..40_000).prop_map(|n| Limit::Bytes(Bytes(n))),
        (0u64..40_000).prop_map(|us| Limit::Time(Time::from_micros(us))),
    ]
}

fn spans() -> impl Strategy<Value = Vec<Span>> {
    let then = prop_oneof![
        3 => Just(Then::Nothing),
        1 => Just(Then::Recall),
        1 => limits().prop_map(Then::Limit),
        1 => Just(Then::Pass),
    ];
    let size = prop_oneof![3 => Just(1500u16), 1 => 52u16..1500];
    let bursts = prop::collection::vec((0u64..200, 1u32..9, size), 0..20);
    prop::collection::vec((1u64..200, bursts, then), 1..12)
}

proptest! {
    #[test]
    fn what_leaves_ahead_of_its_time_leaves_as_packet_by_packet(
        name in prop_oneof![Just("pfifo"), Just("bfifo")],
        limit in limits(),
        rate in prop_oneof![1 => Just(12_112_000), 2 => 1_000_000u64..12_000_000],
        loss in prop_oneof![Just(0.0), Just(0.2)],
        spans in spans(),
    ) {
        let rate = Rate::from_bps(rate);
        let (mut ahead, mut single) = (Link::new(name, limit, rate, loss), Link::new(name, limit, rate, loss));
        let (mut at, mut seq, mut foresees) = (Time::ZERO, 0, true);
        for (span, mut bursts, then) in spans {
            for burst in &mut bursts {
                burst.0 %= span;
            }
            bursts.sort_by_key(|burst| burst.0);
            let (mut coming, mut order) = (Vec::new(), Vec::new());
            for (steps, count, size) in bursts {
                let after = STEP * steps;
                let first = Packet { enqueued: at + after, seq, size, ..Packet::default() };
                order.push(Key::new(after, coming.len() as u32));
                coming.push(Coming::new(first, count));
                for k in 0..u64::from(count) {
                    single.come(Packet { seq: seq + k, ..first });
                }
                seq += u64::from(count);
            }
            let until = at + STEP * span;
            ahead.cross(&coming, &order, at, until, foresees);
            single.serve(until);
            prop_assert_eq!(ahead.seen(until), single.seen(until), "at {}", until);
            (at, foresees) = (until, !matches!(then, Then::Pass));
            if !matches!(then, Then::Nothing) {
                ahead.recall(at);
                prop_assert_eq!(ahead.seen(at), single.seen(at), "taken back at {}", at);
                prop_assert_eq!(ahead.gone.left.len(), single.gone.left.len());
                prop_assert_eq!(ahead.sends(), single.sends(), "at {}", at);
            }
            if let Then::Limit(limit) = then {
                for link in [&mut ahead, &mut single] {
                    link.queue.set_limit(limit, &mut link.cx);
                    link.gone.dropped.append(&mut link.cx.dropped);
                }
            }
        }
        let end = at + Time::from_secs(10_000);
        ahead.cross(&[], &[], at, end, foresees);
        single.serve(end);
        prop_assert_eq!(ahead.seen(end), single.seen(end));
        prop_assert_eq!(ahead.seen(end).0, Backlog::default());
    }
}
