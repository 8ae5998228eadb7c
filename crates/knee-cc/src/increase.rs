//! Parts of window growth that many algorithms share: slow start and the additive increase of Linux.

use crate::Control;

/// Phase of an algorithm that knows only slow start (0) and congestion avoidance (1).
pub const fn classic_phase(control: &Control) -> u8 {
    if control.in_slow_start() { 0 } else { 1 }
}

/// Slow start (RFC 5681, 3.1, with byte counting without limit as in Linux's `tcp_slow_start`): grows by what was
/// acknowledged, up to `ssthresh`. Returns the control and the packets not used up.
pub fn slow_start(mut control: Control, acked: u32) -> (Control, u32) {
    let cwnd = control.cwnd.saturating_add(acked).min(control.ssthresh);
    let used = cwnd - control.cwnd;
    control.cwnd = cwnd;
    (control, acked - used)
}

/// Additive increase by one packet per `w` packets acknowledged (Linux's `tcp_cong_avoid_ai`, with its credit of at
/// most one window where `w` suddenly shrinks).
pub fn additive_increase(mut control: Control, w: u32, acked: u32) -> Control {
    let w = w.max(1);
    // A credit from a larger `w` is paid out as one packet only.
    if control.cwnd_cnt >= w {
        control.cwnd_cnt = 0;
        control.cwnd = control.cwnd.saturating_add(1);
    }
    control.cwnd_cnt = control.cwnd_cnt.saturating_add(acked);
    if control.cwnd_cnt >= w {
        let delta = control.cwnd_cnt / w;
        control.cwnd_cnt -= delta * w;
        control.cwnd = control.cwnd.saturating_add(delta);
    }
    control
}

/// Reno's growth (RFC 5681): slow start, then one packet per window. Other algorithms fall back on it.
pub fn reno(control: Control, acked: u32) -> Control {
    let (control, rest) = if control.in_slow_start() { slow_start(control, acked) } else { (control, acked) };
    if rest == 0 { control } else { additive_increase(control, control.cwnd, rest) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(cwnd: u32, ssthresh: u32) -> Control {
        Control { ssthresh, ..Control::initial(cwnd) }
    }

    #[test]
    fn slow_start_grows_by_what_was_acknowledged_and_stops_at_ssthresh() {
        assert_eq!(slow_start(control(10, 100), 2), (control(12, 100), 0));
        assert_eq!(slow_start(control(99, 100), 3), (control(100, 100), 2));
    }

    #[test]
    fn additive_increase_takes_one_packet_per_window() {
        let mut c = control(4, 2);
        for _ in 0..3 {
            c = additive_increase(c, 4, 1);
            assert_eq!(c.cwnd, 4);
        }
        c = additive_increase(c, 4, 1);
        assert_eq!((c.cwnd, c.cwnd_cnt), (5, 0));
    }

    #[test]
    fn a_shrunken_w_pays_its_credit_out_as_one_packet() {
        let c = Control { cwnd_cnt: 90, ..control(10, 2) };
        let c = additive_increase(c, 10, 1);
        assert_eq!((c.cwnd, c.cwnd_cnt), (11, 1));
    }
}
