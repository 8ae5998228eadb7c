//! The BPF program's arithmetic and states (`linux/include/knee_vegas.h`) beside these, on random input.

use super::*;
use crate::testing::{self, ack_of_nothing};
use crate::{CaState, StateEvent, View};
use knee_core::{Rng, Time};
use knee_kernel_check as c;

const PARAMS: c::VegasParams = c::VegasParams { alpha: 2, beta: 4, gamma: 1 };

#[test]
fn the_packets_in_the_queue_and_the_target_are_the_same_where_linux_does_not_overflow() {
    let rng = &mut Rng::stream(1, "vegas");
    for _ in 0..1_000_000 {
        // The product of 32 bits: below 4096 packets and 1 s of queueing delay.
        let (cwnd, base) = (rng.below(1 << 12) as u32, 1 + rng.below(1 << 24) as u32);
        let rtt = base + rng.below(1 << 20) as u32;
        assert_eq!(c::vegas_diff(cwnd, rtt, base), u64::from(diff(cwnd, rtt, base)), "{cwnd} {rtt} {base}");
        assert_eq!(c::vegas_target(cwnd, rtt, base), u64::from(target(cwnd, rtt, base)), "{cwnd} {rtt} {base}");
    }
}

/// A connection in both implementations; its segments are the program's sequence numbers, which wrap on the way.
struct Twins {
    rust: Vegas,
    program: c::Vegas,
    control: Control,
    una: u64,
    nxt: u64,
}

impl Twins {
    fn new() -> Self {
        let una = (1 << 32) - 2_000;
        let mut program = c::Vegas::default();
        c::vegas_restart(&mut program, una as u32);
        let rust = Vegas { params: Params { alpha: 2, beta: 4, gamma: 1 }, rtt: VegasRtt::new(una) };
        Self { rust, program, control: Control::initial(10), una, nxt: una }
    }

    fn view(&self) -> View {
        View { snd_una: self.una, snd_nxt: self.nxt, ..testing::view() }
    }

    fn tell(&mut self, event: StateEvent) {
        self.rust.on_state(&StateChange { view: &self.view(), event }, &mut self.control);
        match event {
            StateEvent::Entered(ca) => c::vegas_on_state(&mut self.program, self.nxt as u32, ca as u8),
            _ => c::vegas_restart(&mut self.program, self.nxt as u32),
        }
    }

    fn ack(&mut self, rtt: Option<Time>, acked: u32, limited: bool) {
        self.una = (self.una + u64::from(acked)).min(self.nxt);
        self.nxt = self.nxt.max(self.una + u64::from(self.control.cwnd));
        let view = self.view();
        let ack = Ack { view: &view, rtt, acked, delivered: acked, cwnd_limited: limited, ..ack_of_nothing() };
        self.rust.on_measure(&ack, &mut self.control);
        let before = self.control;
        if let Some(rtt) = rtt {
            c::vegas_sample(&mut self.program, rtt.as_micros() as u32);
        }
        self.rust.on_ack(&ack, &mut self.control);
        // What vegas.bpf.c does with the answer.
        let mut a = c::VegasAck {
            una: self.una as u32,
            snd_nxt: self.nxt as u32,
            cwnd: before.cwnd,
            ssthresh: before.ssthresh,
            ..Default::default()
        };
        let growth = c::vegas_on_ack(&self.program, &PARAMS, &mut a);
        let mut theirs = Control { cwnd: a.cwnd, ssthresh: a.ssthresh, ..before };
        match growth {
            c::VEGAS_RENO if limited => increase::reno(&mut theirs, acked),
            c::VEGAS_SLOW_START => {
                increase::slow_start(&mut theirs, acked);
            }
            _ => {}
        }
        if a.decided {
            (a.cwnd, a.ssthresh) = (theirs.cwnd, theirs.ssthresh);
            c::vegas_bounds(&mut a);
            (theirs.cwnd, theirs.ssthresh) = (a.cwnd, a.ssthresh);
        }
        if a.round_over {
            c::vegas_begin_round(&mut self.program, self.nxt as u32);
        }
        theirs.phase = increase::classic_phase(&theirs);
        assert_eq!(theirs, self.control);
        let mine = &self.rust.rtt;
        let same = (self.program.base, self.program.rtt, self.program.samples, self.program.enabled);
        assert_eq!((mine.base, mine.min, mine.count, mine.enabled), same);
    }
}

#[test]
fn whole_connections_take_the_same_course_ack_by_ack() {
    let rng = &mut Rng::stream(1, "vegas connections");
    let (mut avoiding, mut starting) = (0, 0);
    for _ in 0..500 {
        let mut twins = Twins::new();
        let base = 1 + rng.below(100);
        for _ in 0..1_000 {
            match rng.below(300) {
                0 => {
                    twins.control = Control { cwnd: 1, ssthresh: reno::halved(twins.control.cwnd), ..twins.control };
                    twins.tell(StateEvent::Entered(CaState::Loss));
                }
                1 => twins.tell(StateEvent::Entered(CaState::Recovery)),
                2..=8 => twins.tell(StateEvent::Entered(CaState::Open)),
                9 => twins.tell(StateEvent::Restart),
                _ => {
                    // A queue that grows with the window, as that of a link would, of 100 us a packet.
                    let queue = u64::from(twins.control.cwnd).saturating_sub(10 * base) * 100;
                    let rtt = Time::from_micros(1000 * base + queue + rng.below(200));
                    // Where Linux's product of 32 bits overflows the two differ.
                    twins.control.cwnd = twins.control.cwnd.min(4_000);
                    twins.ack(rng.chance(0.9).then_some(rtt), 1 + rng.below(3) as u32, rng.chance(0.95));
                }
            }
            *if twins.control.in_slow_start() { &mut starting } else { &mut avoiding } += 1;
        }
    }
    assert!(avoiding > 10_000 && starting > 10_000, "{avoiding} {starting}");
}
