//! The kernel's form (`linux/include/knee_lola_wild.h`, `knee_noise.h`, `knee_cubic_flow.h`) beside this one, event by
//! event on random paths.

use super::*;
use crate::View;
use crate::testing::{self, ack_of_nothing, after, change, congestion};
use knee_core::Rng;
use knee_core::convert::low_u16;
use knee_kernel_check as c;

/// Parameters with which both compute exactly: phi a power of two, times whole milliseconds, and slots of the filter
/// whole microseconds.
const EXACT: Params = Params {
    q_low: Time::from_millis(2),
    q_target: Time::from_millis(7),
    t_sync: Time::from_millis(100),
    t_measure: Time::from_millis(40),
    gamma: 973.0 / 1024.0,
    phi: 32.0,
    adapt: true,
    routes: true,
    compete: true,
    one_way: true,
};

const fn encoded(params: &Params) -> c::LolaWildParams {
    c::LolaWildParams {
        q_low: params.q_low.as_micros() as u32,
        q_target: params.q_target.as_micros() as u32,
        t_sync: params.t_sync.as_micros() as u32,
        t_measure: params.t_measure.as_micros() as u32,
        gamma: 973,
        phi: 32 * 1024,
        adapt: params.adapt as u32,
        routes: params.routes as u32,
        compete: params.compete as u32,
        one_way: params.one_way as u32,
    }
}

#[test]
fn the_filter_its_span_and_its_noise_are_the_same() {
    let rng = &mut Rng::stream(1, "noise");
    let mut spans = [0; 5];
    for _ in 0..500 {
        // Slots of whole microseconds.
        let shortest = 16 * (1 + rng.below(5_000)) as u32;
        let quiet = rng.below(2_000) as u32;
        let first = if rng.chance(0.1) { u32::MAX } else { rng.below(2_000) as u32 };
        let never = first == u32::MAX;
        let mut rust = Filter::new(
            Time::from_micros(shortest.into()),
            [if never { u64::MAX } else { first.into() }, quiet.into()],
        );
        let mut theirs = c::Noise::default();
        c::noise_init(&mut theirs);
        // The path's own variation: levels, each held for some of the shortest spans.
        let (held, height) = (u64::from(shortest) * (1 + rng.below(40)), 1 + rng.below(20_000));
        let (mut now, mut next, mut level) = (rng.below(1 << 40), 0, 0);
        for _ in 0..5_000 {
            now += match rng.below(1_000) {
                0 => rng.below(40 * u64::from(shortest)),
                _ => 1 + rng.below(u64::from(shortest) / 4),
            };
            if now >= next {
                (next, level) = (now + 1 + rng.below(held), rng.below(height));
            }
            let rtt = 20_000 + level + rng.below(300);
            let least = rust.update(Time::from_micros(now), rtt);
            assert_eq!(u64::from(c::noise_update(&mut theirs, now, rtt as u32, shortest, first, quiet)), least);
            assert_eq!(Time::from_micros(c::noise_span(&theirs, shortest).into()), rust.span());
            assert_eq!(u64::from(c::noise_level(&theirs)), rust.noise());
            spans[(c::noise_span(&theirs, shortest) / shortest).ilog2() as usize] += 1;
        }
    }
    assert!(spans.iter().all(|count| *count > 10_000), "{spans:?}");
}

#[test]
fn the_acks_queue_is_the_same() {
    let rng = &mut Rng::stream(1, "reverse");
    let mut found = 0;
    for _ in 0..500 {
        let (mut rust, mut theirs) = (Reverse::NEW, c::Reverse::default());
        let (mut now, ppm) = (1_000_000 + rng.below(1 << 40), rng.below(400));
        // Some clocks count ten milliseconds.
        let tick = if rng.chance(0.1) { 10_000 } else { 1_000 };
        let (mut there, mut back) = (0, 0);
        let offset = rng.next_u64() as u32;
        for _ in 0..2_000 {
            now += rng.below(20_000);
            there = if rng.chance(0.01) { 0 } else { there + rng.below(100) };
            back = if rng.chance(0.01) { rng.below(200_000) } else { back };
            let left = now - back;
            let tsval = ((left + left / 1_000_000 * ppm) / tick) as u32;
            let (tsval, rtt) = (tsval.wrapping_add(offset), 20_000 + there + back);
            let queue = rust.queue(Time::from_micros(now), rtt, Some(tsval));
            assert_eq!(u64::from(c::reverse_queue(&mut theirs, now, rtt as u32, tsval)), queue);
            found += u32::from(queue > 0);
        }
    }
    assert!(found > 100_000, "{found}");
}

/// A connection in both implementations.
struct Twins {
    rust: Wild,
    kernel: c::LolaWild,
    params: c::LolaWildParams,
    control: Control,
    view: View,
    /// When the last ACK came.
    delivered: Time,
    /// How long ACKs are on their way.
    acks_delay: Time,
}

impl Twins {
    fn new(params: Params) -> Self {
        let now = Time::from_secs(4_000);
        let init = Init { now, tick: Time::from_millis(1), ..testing::init() };
        let mut kernel = c::LolaWild::default();
        c::wild_init(&mut kernel, now.as_micros(), 0);
        Self {
            rust: Wild::new(params, &init),
            kernel,
            params: encoded(&params),
            control: Control::initial(10),
            view: View { now, ..testing::view() },
            delivered: now,
            acks_delay: Time::ZERO,
        }
    }

    fn now_us(&self) -> u64 {
        self.view.now.as_micros()
    }

    /// The control after an answer, as `tcp_lola_wild.c` and `lola-wild.bpf.c` apply it.
    fn applied(&self, answer: &c::WildAck, mut control: Control) -> Control {
        (control.cwnd, control.ssthresh) = (answer.cwnd, answer.ssthresh);
        if answer.reduced {
            control.cwnd_cnt = 0;
        }
        if answer.count > 0 {
            increase::additive_increase(&mut control, answer.count, answer.acked);
        }
        control.phase = c::wild_phase(&self.kernel);
        control
    }

    fn asked(&self, acked: u32, limited: bool) -> c::WildAck {
        c::WildAck {
            now: self.now_us(),
            acked,
            mss: self.view.mss,
            limited,
            reduced: false,
            cwnd: self.control.cwnd,
            ssthresh: self.control.ssthresh,
            count: 0,
        }
    }

    /// An ACK of `delivered` packets; without `grows`, one in a recovery, which the kernel's `cong_avoid` does not see.
    fn ack(&mut self, rtt: Time, delivered: u32, limited: bool, grows: bool) {
        self.delivered = self.view.now;
        let left = self.view.now.saturating_sub(self.acks_delay).as_millis() + 1;
        self.view.tsval_half = Some(low_u16(left));
        self.view.delivered += u64::from(delivered);
        let (view, now) = (self.view, self.now_us());
        let ack =
            Ack { view: &view, rtt: Some(rtt), delivered, acked: delivered, cwnd_limited: limited, ..ack_of_nothing() };
        let mut mine = after(self.control, |control| self.rust.on_measure(&ack, control));
        let sample = c::WildSample {
            now,
            rtt: rtt.as_micros() as u32,
            delivered: view.delivered as u32,
            tsval: view.tsval().unwrap_or_default(),
            stamped: view.tsval_half.is_some(),
        };
        c::wild_sample(&mut self.kernel, &self.params, &sample);
        if grows {
            let mut answer = self.asked(delivered, limited);
            c::wild_on_ack(&mut self.kernel, &self.params, &mut answer);
            mine = after(mine, |control| self.rust.on_ack(&ack, control));
            assert_eq!(self.applied(&answer, self.control), mine);
        }
        self.control = mine;
    }

    /// A loss; what follows it in recovery is for the caller.
    fn lose(&mut self, signal: Signal) {
        let (view, now) = (self.view, self.now_us());
        let mine = after(self.control, |control| self.rust.on_congestion(&congestion(view, signal), control)).ssthresh;
        let theirs = c::wild_on_loss(&mut self.kernel, &self.params, now, self.control.cwnd);
        assert_eq!(mine, theirs);
        self.control = Control { cwnd: mine, ssthresh: mine, cwnd_cnt: 0, ..self.control };
        if signal == Signal::Timeout {
            self.control.cwnd = 1;
            self.tell(StateEvent::Entered(CaState::Loss));
        }
    }

    fn tell(&mut self, event: StateEvent) {
        let event_at = change(self.view, event);
        let mine = after(self.control, |control| self.rust.on_state(&event_at, control));
        let now = self.now_us();
        let mut answer = self.asked(0, false);
        match event {
            StateEvent::Entered(_) => c::wild_on_timeout(&mut self.kernel, now),
            StateEvent::ReductionDone => c::wild_on_reduced(&mut self.kernel, &self.params, &mut answer),
            _ => {
                let idle = self.view.now.saturating_sub(self.delivered).as_micros();
                c::wild_on_restart(&mut self.kernel, now, idle, self.view.delivered as u32);
            }
        }
        assert_eq!(self.applied(&answer, self.control), mine);
        self.control = mine;
    }

    /// Shrinks the window after idle time, or one that is not used, as the sender does (`tcp_cwnd_restart`).
    fn shrink(&mut self) {
        let Control { cwnd, ssthresh, .. } = self.control;
        self.control.ssthresh = ssthresh.max(cwnd / 4 * 3);
        self.control.cwnd = cwnd.min(10);
    }
}

/// A link of four packets per millisecond that the flow shares with `others` packets of other flows.
struct Path {
    base_ms: u64,
    others: u32,
    others_grow: bool,
    jitter_ms: u64,
    slots: u64,
    /// A queue of the ACKs' way.
    acks_ms: u64,
}

impl Path {
    const RATE: u32 = 4;
    const BUFFER_MS: u64 = 150;

    fn new(rng: &mut Rng) -> Self {
        Self { base_ms: 10 + rng.below(60), others: 0, others_grow: false, jitter_ms: 0, slots: 0, acks_ms: 0 }
    }

    fn queue_ms(&self, cwnd: u32) -> u64 {
        u64::from((cwnd.saturating_add(self.others)) / Self::RATE).saturating_sub(self.base_ms)
    }

    /// Something of the path changes once in some seconds.
    fn step(&mut self, rng: &mut Rng, cwnd: u32) {
        match rng.below(4_000) {
            0 => self.others_grow = true,
            1 => (self.others_grow, self.others) = (false, 0),
            2 => self.base_ms = 10 + rng.below(100),
            3 => self.jitter_ms = rng.below(12),
            4 => self.jitter_ms = 0,
            5 => self.slots = rng.below(60),
            6 => self.slots = 0,
            7 => self.acks_ms = rng.below(300),
            8 => self.acks_ms = 0,
            _ => {}
        }
        if self.others_grow && rng.chance(0.3) {
            self.others += 1;
        }
        if self.queue_ms(cwnd) > Self::BUFFER_MS {
            self.others = self.others * 7 / 10;
        }
    }

    fn rtt(&self, rng: &mut Rng, cwnd: u32, now: Time) -> Time {
        let slot = match self.slots {
            0 => 0,
            slots => now.as_micros() / 1000 % slots,
        };
        let noise = if self.jitter_ms == 0 { 0 } else { rng.below(self.jitter_ms) };
        Time::from_millis(self.base_ms + self.queue_ms(cwnd).min(Self::BUFFER_MS) + noise + slot + self.acks_ms)
    }
}

/// Runs both over random paths; how many events each phase saw.
fn courses(params: Params, runs: u32) -> [u32; 7] {
    let rng = &mut Rng::stream(1, "lola-wild connections");
    let mut seen = [0; 7];
    for _ in 0..runs {
        let (mut twins, mut path) = (Twins::new(params), Path::new(rng));
        let mut recovery = 0;
        for _ in 0..20_000 {
            // Some ACKs come together, as those of an aggregate do.
            let passed = if rng.chance(0.3) { 0 } else { 1 + rng.below(6) };
            twins.view.now += Time::from_millis(passed);
            path.step(rng, twins.control.cwnd);
            let rtt = path.rtt(rng, twins.control.cwnd, twins.view.now);
            let full = path.queue_ms(twins.control.cwnd) > Path::BUFFER_MS;
            match rng.below(5_000) {
                0 => twins.lose(Signal::Timeout),
                1 => {
                    twins.view.now += Time::from_millis(1 + rng.below(3_000));
                    if rng.chance(0.7) {
                        twins.shrink();
                    }
                    twins.tell(StateEvent::Restart);
                }
                2..=5 if recovery == 0 => {
                    twins.lose(if rng.chance(0.3) { Signal::Ecn } else { Signal::Loss });
                    recovery = 1 + rng.below(20);
                }
                _ if full && recovery == 0 => {
                    twins.lose(Signal::Loss);
                    recovery = 1 + rng.below(20);
                }
                _ => {
                    twins.acks_delay = Time::from_millis(path.base_ms / 2 + path.acks_ms);
                    let delivered = 1 + rng.below(u64::from(Path::RATE) * passed.max(1)) as u32;
                    twins.ack(rtt, delivered, rng.chance(0.97), recovery == 0);
                    if recovery == 1 {
                        twins.tell(StateEvent::ReductionDone);
                    }
                    recovery = recovery.saturating_sub(1);
                }
            }
            seen[usize::from(twins.control.phase)] += 1;
        }
    }
    seen
}

#[test]
fn whole_connections_take_the_same_course_event_by_event() {
    let seen = courses(EXACT, 200);
    assert!(seen.iter().all(|count| *count > 2_000), "{seen:?}");
}

#[test]
fn without_a_part_they_take_the_same_course_too() {
    for params in [
        Params { adapt: false, ..EXACT },
        Params { routes: false, ..EXACT },
        Params { compete: false, ..EXACT },
        Params { one_way: false, ..EXACT },
    ] {
        let seen = courses(params, 50);
        assert!(seen[..5].iter().all(|count| *count > 500), "{seen:?}");
        assert_eq!(seen[5..].iter().sum::<u32>() > 0, params.compete);
    }
}
