//! The arithmetic and the state machines of the kernel modules and BPF programs (`linux/include`), for tests of the Rust
//! code.
//!
//! The functions have the names of the C ones without `knee_`, and their units. Structures that only C looks into are
//! opaque; the others are mirrored, and a test compares them field by field.
#![expect(unsafe_code, reason = "C is called; every pointer comes from a reference to a structure of the same layout")]
#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]
#![allow(missing_docs, reason = "documented in linux/include, under the same names")]

macro_rules! calls {
    ($(fn $name:ident = $symbol:ident($($arg:ident: $type:ty),*) $(-> $ret:ty)?;)*) => {
        mod c {
            use super::*;
            unsafe extern "C" {
                $(pub fn $symbol($($arg: $type),*) $(-> $ret)?;)*
            }
        }
        $(pub fn $name($($arg: $type),*) $(-> $ret)? {
            unsafe { c::$symbol($($arg),*) }
        })*
    };
}

/// Structures that only C looks into.
macro_rules! opaque {
    ($($name:ident: $words:literal;)*) => {
        $(#[repr(C)]
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $name([u64; $words]);)*
    };
}

opaque! {
    Filter: 6;
    Lola: 13;
    Daimd: 11;
}

/// Structures that Rust looks into too; a test compares where each field lies.
macro_rules! mirrors {
    ($($name:ident { $($field:ident: $type:ty,)* })*) => {
        $(#[repr(C)]
        #[derive(Clone, Copy, Debug)]
        pub struct $name {
            $(pub $field: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                // All are integers and truth values, of which zero bits are a value.
                unsafe { std::mem::zeroed() }
            }
        })*

        /// Structure, field, offset and size of all of them.
        #[cfg(test)]
        const MIRRORED: &[(&str, Option<&str>, usize, usize)] = &[
            $((stringify!($name), None, 0, size_of::<$name>()),
            $((
                stringify!($name),
                Some(stringify!($field)),
                std::mem::offset_of!($name, $field),
                size_of::<$type>(),
            ),)*)*
        ];
    };
}

mirrors! {
    LolaParams {
        q_low: u32,
        q_target: u32,
        t_sync: u32,
        t_measure: u32,
        gamma: u32,
        phi: u32,
        c: u32,
        min_rtt_resets: u32,
        min_rtt_close: u32,
        beta: u32,
        fast_convergence: u32,
        filter_slow_start: u32,
    }
    LolaAck {
        now: u64,
        acked: u32,
        mss: u32,
        limited: bool,
        cwnd: u32,
        ssthresh: u32,
        count: u32,
    }
    DaimdParams {
        tau0: u32,
        w0: u32,
        increase: u32,
        scale_increase: u32,
        adaptive_backoff: u32,
        delta: u32,
        beta_max: u32,
        beta: u32,
        loss_backoff: u32,
        gamma: u32,
        backoff_threshold: u32,
        decay: u32,
        hold: u32,
        delta0_mode: u32,
        delta0_factor: u32,
        delta0: u32,
        slow_start: u32,
        fixed_backoffs: u32,
        rtt_min_initial: u32,
    }
    DaimdAck {
        now: u64,
        acked: u32,
        snd_nxt: u32,
        limited: bool,
        cwnd: u32,
        ssthresh: u32,
    }
    Cocoa {
        buffer: u32,
        least: u32,
        sent: u64,
        idle_since: u64,
        idle: u64,
        start: u64,
        longest: u64,
        guard_end: u64,
        sojourn: u64,
        standing: u32,
        enlarged: bool,
    }
    CocoaParams {
        multiplier: u32,
        max_increase: u32,
        max_guard: u64,
        max_guard_rtts: u32,
        base_rtt: u64,
        initial_buffer: u32,
        learn_initial: bool,
    }
    CocoaLearned {
        buffer: u64,
    }
    HtcpParams {
        use_rtt_scaling: u32,
        use_bandwidth_switch: u32,
    }
    Htcp {
        last: u64,
        undo_last: u64,
        since: u64,
        packets: u32,
        rate: u32,
        max_rate: u32,
        old_max_rate: u32,
        undo_old_max_rate: u32,
        rtt_min: u32,
        rtt_max: u32,
        undo_rtt_max: u32,
        alpha: u32,
        pkts_acked: u32,
        reductions: u32,
        beta: u8,
        adaptive: bool,
        reducing: bool,
    }
    VegasParams {
        alpha: u32,
        beta: u32,
        gamma: u32,
    }
    Vegas {
        round_end: u32,
        rtt: u32,
        base: u32,
        samples: u16,
        enabled: bool,
        rounds: u32,
    }
    VegasAck {
        una: u32,
        snd_nxt: u32,
        cwnd: u32,
        ssthresh: u32,
        round_over: bool,
        decided: bool,
    }
    Bbr3 {
        state: u8,
        acks: u8,
        idle_restart: bool,
        round_start: bool,
        round: u32,
        round_end: u32,
        max_bw: [u32; 2],
        marked: bool,
        mark_from: u32,
        mark_until: u32,
        extra_acked: [[u32; 2]; 3],
        interval_start: u64,
        interval_delivered: u32,
        inflight_longterm: u32,
        inflight_shortterm: u32,
        bw_shortterm: u32,
        bw_latest: u32,
        inflight_latest: u32,
        loss_round_end: u32,
        loss_round_start: bool,
        loss_in_round: bool,
        ranges_in_round: u32,
        lost_seen: u32,
        full_reached: bool,
        full_now: bool,
        full_rounds: u8,
        full_bw: u32,
        probe_samples: bool,
        prev_too_high: bool,
        prev_precautionary: bool,
        drain_round: u32,
        rounds_since_probe: u32,
        cycle_start: u64,
        wait: u32,
        up_rounds: u32,
        up_acked: u32,
        acked_per_step: u32,
        min_rtt: u32,
        recent_rtt: u32,
        min_rtt_stamp: u64,
        recent_rtt_stamp: u64,
        rtt_expired: bool,
        probe_rtt_round_done: bool,
        probe_rtt_done: u64,
        prior_cwnd: u32,
        origin: u8,
        repairing: bool,
        undo_bw_shortterm: u32,
        undo_inflight_shortterm: u32,
        undo_inflight_longterm: u32,
        initial_cwnd: u32,
        mss: u32,
        rate: u64,
        newest: u32,
        found: u32,
        departures: [[u32; 5]; 256],
    }
    Bbr3View {
        now: u64,
        cwnd: u32,
        in_flight: u32,
        delivered: u32,
        lost: u32,
        snd_nxt: u32,
        ca_state: u8,
        app_limited: bool,
        cwnd_limited: bool,
    }
    Bbr3Sample {
        valid: bool,
        app_limited: bool,
        bw: u32,
        delivered: u32,
        acked: u32,
        prior_delivered: u32,
        tx_in_flight: u32,
        lost: u32,
        rtt: u32,
    }
}

/// Values of `enum knee_cocoa_branch`.
pub const COCOA_ENLARGE: u32 = 0;
pub const COCOA_RESTART: u32 = 1;
pub const COCOA_REDUCE: u32 = 2;
pub const COCOA_LOSS: u32 = 3;

calls! {
    fn mul_div = check_mul_div(a: u64, b: u64, c: u64) -> u64;
    fn mul_shift = check_mul_shift(a: u64, b: u64, shift: u32) -> u64;
    fn cube_root = check_cube_root(a: u64) -> u32;
    fn cubic_time = check_cubic_time(us: u64) -> u64;
    fn cubic_window = check_cubic_window(scale: u32, t: u64, k: u32, w_max: u32) -> u64;
    fn cubic_k = check_cubic_k(scale: u32, packets: u32) -> u32;
    fn cubic_ssthresh = check_cubic_ssthresh(cwnd: u32, beta: u32) -> u32;
    fn cubic_w_max = check_cubic_w_max(cwnd: u32, w_max: u32, beta: u32, fast: bool) -> u32;
    fn filter_init = check_filter_init(f: &mut Filter, now: u64);
    fn filter_update = check_filter_update(f: &mut Filter, now: u64, least: u32, value: u32, span: u32) -> u32;
    fn lola_fair_target = check_lola_fair_target(t: u32, phi: u32) -> u64;
    fn lola_q_data = check_lola_q_data(cwnd: u64, rtt_now: u32, rtt_min: u32) -> u64;
    fn lola_decreased = check_lola_decreased(cwnd: u32, rtt_now: u32, rtt_min: u32, gamma: u32) -> u32;
    fn lola_init = check_lola_init(l: &mut Lola, now: u64);
    fn lola_phase = check_lola_phase(l: &Lola) -> u8;
    fn lola_rtt_now = check_lola_rtt_now(l: &Lola) -> u32;
    fn lola_sample = check_lola_sample(l: &mut Lola, p: &LolaParams, now: u64, rtt: u32);
    fn lola_on_ack = check_lola_on_ack(l: &mut Lola, p: &LolaParams, a: &mut LolaAck);
    fn lola_on_loss = check_lola_on_loss(l: &mut Lola, p: &LolaParams, now: u64, cwnd: u32) -> u32;
    fn lola_on_reduced = check_lola_on_reduced(l: &mut Lola, p: &LolaParams, now: u64);
    fn lola_on_timeout = check_lola_on_timeout(l: &mut Lola, now: u64);
    fn lola_on_restart = check_lola_on_restart(l: &mut Lola, now: u64, idle: u64);
    fn daimd_scaled = check_daimd_scaled(time: u64, ratio: u32) -> u64;
    fn daimd_alpha = check_daimd_alpha(increase: u32, since: u64, cwnd: u32) -> u64;
    fn daimd_beta = check_daimd_beta(delta: u32, rtt_min: u64, rtt: u64, max: u32) -> u32;
    fn daimd_threshold = check_daimd_threshold(base: u64, gamma: u32, occupancy: u64) -> u64;
    fn daimd_decay = check_daimd_decay(rtt: u64, cwnd: u32, a: u32) -> u64;
    fn daimd_gain = check_daimd_gain(rate: u64, cwnd: u32) -> u64;
    fn daimd_max_ssthresh = check_daimd_max_ssthresh(cwnd: u32, tau0: u64, occupancy: u64) -> u32;
    fn daimd_init = check_daimd_init(d: &mut Daimd, p: &DaimdParams, now: u64);
    fn daimd_sample = check_daimd_sample(d: &mut Daimd, p: &DaimdParams, now: u64, rtt_us: u32, una: u32, cwnd: u32, ssthresh: u32);
    fn daimd_on_ack = check_daimd_on_ack(d: &mut Daimd, p: &DaimdParams, a: &mut DaimdAck);
    fn daimd_srtt = check_daimd_srtt(d: &Daimd) -> u64;
    fn daimd_rtt_min = check_daimd_rtt_min(d: &Daimd) -> u64;
    fn daimd_rtt_max = check_daimd_rtt_max(d: &Daimd) -> u64;
    fn daimd_on_loss = check_daimd_on_loss(d: &mut Daimd, p: &DaimdParams, now: u64, snd_nxt: u32, cwnd: u32) -> u32;
    fn daimd_on_restart = check_daimd_on_restart(d: &mut Daimd, now: u64, idle: u64);
    fn cocoa_times = check_cocoa_times(factor: u32, time: u64) -> u64;
    fn cocoa_packets = check_cocoa_packets(factor: u32, packets: u32) -> u32;
    fn cocoa_missed = check_cocoa_missed(sent: u64, active: u64, idle: u64) -> u32;
    fn cocoa_initial = check_cocoa_initial(p: &CocoaParams, learned: &CocoaLearned) -> u32;
    fn cocoa_init = check_cocoa_init(f: &mut Cocoa, buffer: u32, now: u64);
    fn cocoa_on_full = check_cocoa_on_full(f: &mut Cocoa, p: &CocoaParams, learned: &mut CocoaLearned, now: u64) -> u32;
    fn cocoa_on_arrival = check_cocoa_on_arrival(f: &mut Cocoa, now: u64);
    fn cocoa_on_departure = check_cocoa_on_departure(f: &mut Cocoa, held: u32, now: u64, sojourn: u64);
    fn htcp_growth = check_htcp_growth(d: u64) -> u64;
    fn htcp_rtt_scaled = check_htcp_rtt_scaled(growth: u64, rtt_min: u32) -> u64;
    fn htcp_alpha = check_htcp_alpha(growth: u64, beta: u32) -> u32;
    fn htcp_adaptive_beta = check_htcp_adaptive_beta(rtt_min: u32, rtt_max: u32) -> u32;
    fn htcp_is_steady = check_htcp_is_steady(rate: u32, old: u32) -> bool;
    fn htcp_init = check_htcp_init(h: &mut Htcp, now: u64);
    fn htcp_on_measure = check_htcp_on_measure(h: &mut Htcp, p: &HtcpParams, now: u64, rtt: u32, cwnd: u32, acked: u32, state: u8);
    fn htcp_increase = check_htcp_increase(h: &mut Htcp, p: &HtcpParams, now: u64, cwnd: &mut u32, count: &mut u32);
    fn htcp_on_congestion = check_htcp_on_congestion(h: &mut Htcp, p: &HtcpParams, now: u64, cwnd: u32) -> u32;
    fn htcp_on_state = check_htcp_on_state(h: &mut Htcp, now: u64, state: u8);
    fn htcp_on_undo = check_htcp_on_undo(h: &mut Htcp);
    fn vegas_diff = check_vegas_diff(cwnd: u32, rtt: u32, base: u32) -> u64;
    fn vegas_target = check_vegas_target(cwnd: u32, rtt: u32, base: u32) -> u64;
    fn vegas_restart = check_vegas_restart(v: &mut Vegas, snd_nxt: u32);
    fn vegas_begin_round = check_vegas_begin_round(v: &mut Vegas, snd_nxt: u32);
    fn vegas_on_state = check_vegas_on_state(v: &mut Vegas, snd_nxt: u32, state: u8);
    fn vegas_sample = check_vegas_sample(v: &mut Vegas, rtt: u32);
    fn vegas_on_ack = check_vegas_on_ack(v: &Vegas, p: &VegasParams, a: &mut VegasAck) -> u32;
    fn vegas_bounds = check_vegas_bounds(a: &mut VegasAck);
    fn bbr3_draws = check_bbr3_draws(first: u32, second: u32);
    fn bbr3_rate = check_bbr3_rate(bw: u32, gain: u32, mss: u32, margin_percent: u32) -> u64;
    fn bbr3_bdp = check_bbr3_bdp(b: &Bbr3, bw: u32, gain: u32) -> u32;
    fn bbr3_with_headroom = check_bbr3_with_headroom(bound: u32) -> u32;
    fn bbr3_inflight_at_loss = check_bbr3_inflight_at_loss(in_flight: u32, lost: u32) -> u32;
    fn bbr3_init = check_bbr3_init(b: &mut Bbr3, v: &Bbr3View, rtt: u32, mss: u32);
    fn bbr3_on_sample = check_bbr3_on_sample(b: &mut Bbr3, v: &mut Bbr3View, s: &Bbr3Sample);
    fn bbr3_handle_echo = check_bbr3_handle_echo(b: &mut Bbr3, v: &Bbr3View);
    fn bbr3_save_state = check_bbr3_save_state(b: &mut Bbr3, v: &Bbr3View);
    fn bbr3_restore_state = check_bbr3_restore_state(b: &mut Bbr3, v: &Bbr3View);
    fn bbr3_left_recovery = check_bbr3_left_recovery(b: &mut Bbr3, ca_state: u8) -> bool;
    fn bbr3_restart = check_bbr3_restart(b: &mut Bbr3, v: &mut Bbr3View);
    fn bbr3_is_marked = check_bbr3_is_marked(b: &Bbr3, delivered: u32) -> bool;
    fn fields = check_fields() -> u32;
}

/// Values of `enum knee_vegas_growth`.
pub const VEGAS_HOLD: u32 = 0;
pub const VEGAS_SLOW_START: u32 = 1;
pub const VEGAS_RENO: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::{CString, c_char};

    unsafe extern "C" {
        fn check_layout(structure: *const c_char, name: *const c_char, offset: *mut u64) -> u64;
    }

    /// Offset and size that C gives a field, or a structure.
    fn layout(structure: &str, field: Option<&str>) -> (usize, usize) {
        let structure = CString::new(structure).unwrap();
        let field = field.map(|field| CString::new(field).unwrap());
        let mut offset = 0;
        let name = field.as_ref().map_or(std::ptr::null(), |field| field.as_ptr());
        let size = unsafe { check_layout(structure.as_ptr(), name, &raw mut offset) };
        (offset as usize, size as usize)
    }

    #[test]
    fn every_field_lies_where_c_puts_it() {
        for &(structure, field, offset, size) in MIRRORED {
            assert_eq!((offset, size), layout(structure, field), "{structure}.{}", field.unwrap_or("(all)"));
        }
        let opaque = [("Filter", size_of::<Filter>()), ("Lola", size_of::<Lola>()), ("Daimd", size_of::<Daimd>())];
        for (structure, size) in opaque {
            assert_eq!((0, size), layout(structure, None), "{structure}");
        }
        assert_eq!(MIRRORED.len() + opaque.len(), fields() as usize, "one of the two has a field more");
    }

    #[test]
    fn a_connections_state_fits_the_104_bytes_that_a_socket_has() {
        for size in [size_of::<Lola>(), size_of::<Daimd>(), size_of::<Htcp>(), size_of::<Vegas>()] {
            assert!(size <= 104);
        }
    }
}
