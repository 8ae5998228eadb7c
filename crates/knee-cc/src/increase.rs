//! Parts of window growth that many algorithms share: slow start and the additive increase of Linux.

use crate::Control;

/// Phase of an algorithm that has slow start and congestion avoidance and nothing else.
pub const SLOW_START: u8 = 0;
/// Phase after slow start of such an algorithm.
pub const CONGESTION_AVOIDANCE: u8 = 1;
/// Names of these two phases.
pub const CLASSIC_PHASES: &[&str] = &["slow_start", "congestion_avoidance"];
/// Transitions between these two phases.
pub const CLASSIC_EDGES: &[(u8, u8)] = &[(SLOW_START, CONGESTION_AVOIDANCE), (CONGESTION_AVOIDANCE, SLOW_START)];

/// The one of these phases that a window is in.
pub const fn classic_phase(control: &Control) -> u8 {
    if control.in_slow_start() { SLOW_START } else { CONGESTION_AVOIDANCE }
}

/// Slow start (RFC 5681, 3.1, with byte counting without limit as in Linux's `tcp_slow_start`): grows by what was
/// acknowledged, up to `ssthresh`. Returns the packets not used up.
pub fn slow_start(control: &mut Control, acked: u32) -> u32 {
    //= RFC 5681, 3.1 (departs: Linux counts every packet acknowledged, without limit)
    //# During slow start, a TCP increments cwnd by at most SMSS bytes for each ACK received that cumulatively
    //# acknowledges new data.
    let before = control.cwnd;
    //= RFC 5681, 3.1
    //# increase the window from 1 full-sized segment to the new value of ssthresh, at which point congestion avoidance
    //# again takes over.
    control.cwnd = before.saturating_add(acked).min(control.ssthresh);
    acked - (control.cwnd - before)
}

/// Additive increase by one packet per `w` packets acknowledged (Linux's `tcp_cong_avoid_ai`, with its credit of at
/// most one window where `w` suddenly shrinks).
pub fn additive_increase(control: &mut Control, w: u32, acked: u32) {
    let w = w.max(1);
    // A credit from a larger `w` is paid out as one packet only.
    if control.cwnd_cnt >= w {
        control.cwnd_cnt = 0;
        control.cwnd = control.cwnd.saturating_add(1);
    }
    //= RFC 5681, 3.1 (departs: counted in packets, as in Linux)
    //# The RECOMMENDED way to increase cwnd during congestion avoidance is to count the number of bytes that have been
    //# acknowledged by ACKs for new data.
    control.cwnd_cnt = control.cwnd_cnt.saturating_add(acked);
    if control.cwnd_cnt >= w {
        let delta = control.cwnd_cnt / w;
        control.cwnd_cnt -= delta * w;
        control.cwnd = control.cwnd.saturating_add(delta);
    }
}

/// Reno's growth (RFC 5681): slow start, then one packet per window. Other algorithms fall back on it.
pub fn reno(control: &mut Control, acked: u32) {
    //= RFC 5681, 3.1
    //# The slow start and congestion avoidance algorithms MUST be used by a TCP sender to control the amount of
    //# outstanding data being injected into the network.
    let rest = if control.in_slow_start() { slow_start(control, acked) } else { acked };
    if rest > 0 {
        //= RFC 5681, 3.1
        //# Note that during congestion avoidance, cwnd MUST NOT be increased by more than SMSS bytes per RTT.
        additive_increase(control, control.cwnd, rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(cwnd: u32, ssthresh: u32) -> Control {
        Control { ssthresh, ..Control::initial(cwnd) }
    }

    #[test]
    fn slow_start_grows_by_what_was_acknowledged_and_stops_at_ssthresh() {
        for (cwnd, acked, grown, rest) in [(10, 2, 12, 0), (99, 3, 100, 2)] {
            let mut c = control(cwnd, 100);
            assert_eq!(slow_start(&mut c, acked), rest);
            assert_eq!(c, control(grown, 100));
        }
    }

    #[test]
    fn additive_increase_takes_one_packet_per_window() {
        let mut c = control(4, 2);
        for _ in 0..3 {
            additive_increase(&mut c, 4, 1);
            assert_eq!(c.cwnd, 4);
        }
        additive_increase(&mut c, 4, 1);
        assert_eq!((c.cwnd, c.cwnd_cnt), (5, 0));
    }

    #[test]
    fn a_shrunken_w_pays_its_credit_out_as_one_packet() {
        let mut c = Control { cwnd_cnt: 90, ..control(10, 2) };
        additive_increase(&mut c, 10, 1);
        assert_eq!((c.cwnd, c.cwnd_cnt), (11, 1));
    }
}
