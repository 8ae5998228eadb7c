//! DCTCP: reduces the window in proportion to the fraction of marked packets.
//!
//! Source: RFC 8257; Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010; in the form of Linux's
//! net/ipv4/tcp_dctcp.c.
//!
//! Once per window of data, with `F` the fraction of packets delivered with a mark (RFC 8257, Sec. 3.3):
//!
//! - `alpha = (1 - g) · alpha + g · F`, with `g = 2^-dctcp_shift_g`, `alpha` in units of 1/1024
//! - mark: `ssthresh = cwnd · (1 - alpha / 2)`, once per window
//! - loss and timeout: half the window, as Reno; growth as Reno
//!
//! Departures from the RFC, all as Linux does: packets are counted, not bytes; an alpha below 2^g/1024 drops to zero
//! rather than staying there for want of resolution; the integer fraction is rounded down.
//! Departures from Linux: where ECN was not granted, since the first SYN was lost, it goes on without marks, which is
//! what Linux's fall-back to Reno does; no path change on persistent congestion (PLB, off by default there).

use crate::entry::{Entry, Family};
use crate::increase::{CLASSIC_EDGES, CLASSIC_PHASES};
use crate::{
    Ack, CaState, Congestion, CongestionControl, Control, Ecn, Needs, Signal, StateChange, StateEvent, Undo, increase,
    reno, slow_start,
};
use knee_core::convert::saturating_u32;
use knee_core::params;

/// DCTCP's registry entry.
pub const ENTRY: Entry = Entry {
    name: "dctcp",
    family: Family::EcnBased,
    about: "cuts the window in proportion to the fraction of marked packets",
    source: "RFC 8257; Linux net/ipv4/tcp_dctcp.c",
    params: Params::DECLARED,
    phases: CLASSIC_PHASES,
    edges: CLASSIC_EDGES,
    min_cwnd: 1,
    needs: Needs { ecn: Ecn::PerPacket, ..Needs::NONE },
    make: |params, init| {
        let params = Params::from(params);
        let cc = Dctcp { shift_g: params.dctcp_shift_g, state: DctcpState::new(params.dctcp_alpha_on_init) };
        slow_start::with(cc, &params.start, init)
    },
};

params! {
    /// DCTCP's parameters.
    struct Params {
        /// the gain g of alpha is 2 to minus this
        dctcp_shift_g: u32 = 4, in 0..=10, from "RFC 8257, Sec. 4.2: g = 1/16";
        //= RFC 8257, 3.3
        //# DCTCP.Alpha, which is initialized to 1
        /// alpha at the start, in 1/1024
        dctcp_alpha_on_init: u32 = 1024, in 0..=1024, from "RFC 8257, Sec. 4.2: 1";
        #[flatten]
        start: slow_start::Params;
    }
}

//= RFC 8257, 4.2
//# An efficient kernel implementation MAY scale the DCTCP.Alpha value for efficient computation using shift operations.
/// An alpha of one, in units of 1/1024 (Linux's `DCTCP_MAX_ALPHA`).
pub const ALPHA_ONE: u32 = 1024;

#[derive(Clone)]
struct DctcpState {
    /// Average fraction of marked packets, in 1/1024.
    alpha: u32,
    /// The window of data ends when this segment is the first unacknowledged.
    window_end: u64,
    /// Packets delivered when the window of data began.
    delivered: u64,
    /// Packets delivered with a mark when the window of data began.
    delivered_ce: u64,
    /// Window at the last reduction, for its undoing.
    loss_cwnd: u32,
}

impl DctcpState {
    const fn new(alpha: u32) -> Self {
        Self { alpha, window_end: 0, delivered: 0, delivered_ce: 0, loss_cwnd: 0 }
    }
}

#[derive(Clone)]
struct Dctcp {
    shift_g: u32,
    state: DctcpState,
}

/// The next alpha, in 1/1024, after a window in which `marked` of `delivered` packets were marked (RFC 8257, Sec. 3.3).
pub fn next_alpha(alpha: u32, shift_g: u32, marked: u64, delivered: u64) -> u32 {
    //= RFC 8257, 4.2
    //# A scaling implementation SHOULD ensure that DCTCP.Alpha is able to reach 0 once it falls below the smallest
    //# shifted value (16 in the above example).
    let decay = match alpha >> shift_g {
        0 => alpha,
        part => part,
    };
    //= RFC 8257, 3.3
    //# M = DCTCP.BytesMarked / DCTCP.BytesAcked
    let gain = (marked << (10 - shift_g.min(10))) / delivered.max(1);
    //= RFC 8257, 3.3
    //# DCTCP.Alpha = DCTCP.Alpha * (1 - g) + g * M
    //= RFC 8257, 4.2
    //# So, DCTCP.Alpha MUST be clamped after an update.
    (alpha - decay).saturating_add(saturating_u32(gain.min(u64::from(ALPHA_ONE)))).min(ALPHA_ONE)
}

/// `ssthresh` after a mark: `cwnd · (1 - alpha / 2)`, `alpha` in 1/1024.
pub fn marked_ssthresh(cwnd: u32, alpha: u32) -> u32 {
    //= RFC 8257, 3.3
    //# Rather than always halving the congestion window as described in [RFC3168], the sender SHOULD update cwnd as
    //# follows: cwnd = cwnd * (1 - DCTCP.Alpha / 2)
    let cut = (u64::from(cwnd) * u64::from(alpha.min(ALPHA_ONE))) >> 11;
    (cwnd - saturating_u32(cut)).max(2)
}

impl Dctcp {
    fn halve(&mut self, control: &mut Control) {
        self.state.loss_cwnd = control.cwnd;
        control.ssthresh = reno::halved(control.cwnd);
        control.phase = increase::classic_phase(control);
    }
}

impl CongestionControl for Dctcp {
    fn on_measure(&mut self, ack: &Ack, _: &mut Control) {
        let (view, state) = (ack.view, &mut self.state);
        //= RFC 8257, 3.3
        //# In particular, an observation window ends when all bytes in flight at the beginning of the window have been
        //# acknowledged.
        if view.snd_una >= state.window_end {
            //= RFC 8257, 3.3 (departs: in packets, SACKed ones included, as in Linux)
            //# DCTCP.BytesAcked += BytesAcked
            let delivered = view.delivered.saturating_sub(state.delivered);
            let marked = view.delivered_ce.saturating_sub(state.delivered_ce).min(delivered);
            state.alpha = next_alpha(state.alpha, self.shift_g, marked, delivered);
            //= RFC 8257, 3.3
            //# DCTCP.WindowEnd = SND.NXT
            state.window_end = view.snd_nxt;
            //= RFC 8257, 3.3
            //# DCTCP.BytesAcked = DCTCP.BytesMarked = 0
            state.delivered = view.delivered;
            state.delivered_ce = view.delivered_ce;
        }
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        if ack.cwnd_limited {
            increase::reno(control, ack.delivered);
        }
        control.phase = increase::classic_phase(control);
    }

    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control) {
        self.state.loss_cwnd = control.cwnd;
        control.ssthresh = match congestion.signal {
            Signal::Ecn => marked_ssthresh(control.cwnd, self.state.alpha),
            //= RFC 8257, 3.5
            //# For cases where the packet loss is inferred and not explicitly signaled by ECN, the cwnd and other state
            //# variables like ssthresh MUST be changed in the same way that a conventional TCP would have changed them.
            Signal::Loss | Signal::Timeout => reno::halved(control.cwnd),
        };
    }

    fn on_state(&mut self, change: &StateChange, control: &mut Control) {
        match change.event {
            // A loss halves the window even while a reduction after a mark is under way.
            //= RFC 8257, 3.5
            //# A DCTCP sender MUST react to loss episodes in the same way as conventional TCP, including fast
            //# retransmit and fast recovery algorithms, as specified in [RFC5681].
            StateEvent::Entered(CaState::Recovery) | StateEvent::Timeout => self.halve(control),
            _ => {}
        }
    }

    fn on_undo(&mut self, _: &Undo, control: &mut Control) {
        control.cwnd = control.cwnd.max(self.state.loss_cwnd);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn dctcp() -> Dctcp {
        Dctcp { shift_g: 4, state: DctcpState::new(Params::default().dctcp_alpha_on_init) }
    }

    #[test]
    fn alpha_moves_by_a_sixteenth_towards_the_fraction_marked() {
        // 512 - 32 + (1024 / 16) · 50 / 100 = 512; none marked: 480; all marked: 544.
        assert_eq!([50, 0, 100].map(|marked| next_alpha(512, 4, marked, 100)), [512, 480, 544]);
    }

    #[test]
    fn without_marks_alpha_reaches_zero() {
        let windows = (1..).scan(ALPHA_ONE, |alpha, n| {
            *alpha = next_alpha(*alpha, 4, 0, 10);
            Some((n, *alpha))
        });
        // (15/16)^n · 1024 falls below 16 at n = 65; what is left then goes at once.
        let n: u32 = windows.take(200).find(|(_, alpha)| *alpha == 0).unwrap().0;
        assert!((60..=75).contains(&n), "{n}");
    }

    #[test]
    fn with_all_packets_marked_a_mark_halves_the_window_and_with_few_it_hardly_shrinks() {
        assert_eq!(marked_ssthresh(1000, ALPHA_ONE), 500);
        // 1000 · 64 / 2048 = 31.25
        assert_eq!(marked_ssthresh(1000, 64), 969);
        assert_eq!(marked_ssthresh(3, ALPHA_ONE), 2);
    }

    #[test]
    fn alpha_is_updated_once_per_window_of_data() {
        let mut cc = dctcp();
        cc.state.alpha = 512;
        cc.state.window_end = 100;
        let mut ack = testing::ack_up_to(99, 200, 1000);
        ack.view = testing::changed(ack.view, |view| (view.delivered, view.delivered_ce) = (99, 50));
        cc.on_measure(&ack, &mut Control::initial(100));
        assert_eq!(cc.state.alpha, 512);
        ack.view = testing::changed(ack.view, |view| (view.snd_una, view.delivered) = (100, 100));
        cc.on_measure(&ack, &mut Control::initial(100));
        // 512 - 32 + 64 · 50 / 100; the next window begins here.
        assert_eq!((cc.state.alpha, cc.state.window_end, cc.state.delivered_ce), (512, 200, 50));
    }

    #[test]
    fn a_loss_halves_the_window_whatever_alpha_is() {
        let mut cc = dctcp();
        cc.state.alpha = 0;
        let control = Control::initial(100);
        let signalled = |cc: &mut Dctcp, signal| {
            testing::after(control, |c| cc.on_congestion(&testing::congestion(testing::view(), signal), c)).ssthresh
        };
        assert_eq!([Signal::Ecn, Signal::Loss, Signal::Timeout].map(|s| signalled(&mut cc, s)), [100, 50, 50]);
        let recovery = testing::change(testing::view(), StateEvent::Entered(CaState::Recovery));
        assert_eq!(
            testing::after(Control { cwnd: 80, ssthresh: 60, ..control }, |c| cc.on_state(&recovery, c)).ssthresh,
            40
        );
        assert_eq!(
            testing::after(Control::initial(40), |c| cc.on_undo(&Undo { view: &testing::view(), prior_cwnd: 0 }, c))
                .cwnd,
            80
        );
    }

    #[test]
    fn growth_is_renos() {
        let mut cc = dctcp();
        let ack = testing::ack_up_to(5, 15, 1000);
        assert_eq!(testing::after(Control::initial(10), |c| cc.on_ack(&ack, c)).cwnd, 11);
        let after = testing::after(Control { ssthresh: 5, ..Control::initial(10) }, |c| cc.on_ack(&ack, c));
        assert_eq!((after.cwnd, after.cwnd_cnt, after.phase), (10, 1, 1));
    }
}
