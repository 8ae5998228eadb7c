//! The arithmetic and the state machines of the kernel modules and BPF programs (`linux/include`), for tests of the
//! Rust code.
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
        $(#[allow(clippy::too_many_arguments, reason = "as many as the C function takes")]
        pub fn $name($($arg: $type),*) $(-> $ret)? {
            unsafe { c::$symbol($($arg),*) }
        })*
    };
}

/// Structures that only C looks into.
macro_rules! opaque {
    ($($name:ident = $c:ident: $words:literal;)*) => {
        $(#[repr(C)]
        #[derive(Clone, Copy, Debug)]
        pub struct $name([u64; $words]);

        impl Default for $name {
            fn default() -> Self {
                Self([0; $words])
            }
        })*

        /// Name and size of all of them.
        #[cfg(test)]
        pub const OPAQUE: &[(&str, usize)] = &[$((stringify!($name), size_of::<$name>()),)*];
    };
}

/// Structures that Rust looks into too; a test compares where each field lies.
macro_rules! mirrors {
    ($($name:ident = $c:ident { $($field:ident: $type:ty,)* })*) => {
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
        pub const MIRRORED: &[(&str, Option<&str>, usize, usize)] = &[
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

mod mirrors;
pub use mirrors::*;

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
    fn noise_init = check_noise_init(n: &mut Noise);
    fn noise_update = check_noise_update(n: &mut Noise, now: u64, rtt: u32, shortest: u32, first: u32, quiet: u32) -> u32;
    fn noise_span = check_noise_span(n: &Noise, shortest: u32) -> u32;
    fn noise_level = check_noise_level(n: &Noise) -> u32;
    fn wild_init = check_wild_init(w: &mut LolaWild, now: u64, delivered: u32);
    fn wild_phase = check_wild_phase(w: &LolaWild) -> u8;
    fn reverse_queue = check_reverse_queue(r: &mut Reverse, now: u64, rtt: u32, tsval: u32) -> u32;
    fn wild_sample = check_wild_sample(w: &mut LolaWild, p: &LolaWildParams, s: &WildSample);
    fn wild_on_ack = check_wild_on_ack(w: &mut LolaWild, p: &LolaWildParams, a: &mut WildAck);
    fn wild_on_loss = check_wild_on_loss(w: &mut LolaWild, p: &LolaWildParams, now: u64, cwnd: u32) -> u32;
    fn wild_on_reduced = check_wild_on_reduced(w: &mut LolaWild, p: &LolaWildParams, a: &mut WildAck);
    fn wild_on_timeout = check_wild_on_timeout(w: &mut LolaWild, now: u64);
    fn wild_on_restart = check_wild_on_restart(w: &mut LolaWild, now: u64, idle: u64, delivered: u32);
    fn daimd_scaled = check_daimd_scaled(time: u64, ratio: u32) -> u64;
    fn daimd_alpha = check_daimd_alpha(increase: u32, since: u64, cwnd: u32) -> u64;
    fn daimd_beta = check_daimd_beta(delta: u32, rtt_min: u64, rtt: u64, max: u32) -> u32;
    fn daimd_threshold = check_daimd_threshold(base: u64, gamma: u32, occupancy: u64) -> u64;
    fn daimd_decay = check_daimd_decay(rtt: u64, cwnd: u32, a: u32) -> u64;
    fn daimd_gain = check_daimd_gain(rate: u64, cwnd: u32) -> u64;
    fn daimd_max_ssthresh = check_daimd_max_ssthresh(cwnd: u32, tau0: u64, occupancy: u64) -> u32;
    fn daimd_init = check_daimd_init(d: &mut Daimd, p: &DaimdParams, now: u64);
    fn daimd_sample = check_daimd_sample(d: &mut Daimd, p: &DaimdParams, now: u64, rtt_us: u32, acked: u32, una: u32, cwnd: u32, ssthresh: u32);
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
}

#[cfg(test)]
mod tests {
    use super::mirrors::{MIRRORED, OPAQUE};
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
        for &(structure, size) in OPAQUE {
            assert_eq!((0, size), layout(structure, None), "{structure}");
        }
    }

    #[test]
    fn a_connections_state_fits_the_104_bytes_that_a_socket_has() {
        for size in [size_of::<Lola>(), size_of::<Daimd>()] {
            assert!(size <= 104);
        }
    }
}
