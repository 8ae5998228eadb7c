//! The arithmetic and the state machines of the kernel modules (`linux/include`), for tests of the Rust code.
//!
//! The functions have the names of the C ones without `knee_`, and their units. Structures that only C looks into are
//! opaque; the others are mirrored, and a test compares the sizes.
#![expect(unsafe_code, reason = "C is called; every pointer comes from a reference to a structure of the same layout")]
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

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LolaParams {
    pub q_low: u32,
    pub q_target: u32,
    pub t_sync: u32,
    pub t_measure: u32,
    pub gamma: u32,
    pub phi: u32,
    pub c: u32,
    pub min_rtt_resets: u32,
    pub min_rtt_close: u32,
    pub beta: u32,
    pub fast_convergence: u32,
    pub filter_slow_start: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct LolaAck {
    pub now: u64,
    pub acked: u32,
    pub mss: u32,
    pub limited: bool,
    pub cwnd: u32,
    pub ssthresh: u32,
    pub count: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DaimdParams {
    pub tau0: u32,
    pub w0: u32,
    pub increase: u32,
    pub scale_increase: u32,
    pub adaptive_backoff: u32,
    pub delta: u32,
    pub beta_max: u32,
    pub beta: u32,
    pub loss_backoff: u32,
    pub gamma: u32,
    pub decay: u32,
    pub hold: u32,
    pub delta0_mode: u32,
    pub delta0_factor: u32,
    pub delta0: u32,
    pub slow_start: u32,
    pub fixed_backoffs: u32,
    pub rtt_min_initial: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct DaimdAck {
    pub now: u64,
    pub acked: u32,
    pub snd_nxt: u32,
    pub limited: bool,
    pub cwnd: u32,
    pub ssthresh: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Cocoa {
    pub buffer: u32,
    pub least: u32,
    pub sent: u64,
    pub idle_since: u64,
    pub idle: u64,
    pub start: u64,
    pub longest: u64,
    pub guard_end: u64,
    pub sojourn: u64,
    pub standing: u32,
    pub enlarged: bool,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CocoaParams {
    pub multiplier: u32,
    pub max_increase: u32,
    pub max_guard: u64,
    pub max_guard_rtts: u32,
    pub base_rtt: u64,
    pub initial_buffer: u32,
    pub learn_initial: bool,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct CocoaLearned {
    pub buffer: u64,
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
    fn daimd_on_loss = check_daimd_on_loss(d: &mut Daimd, p: &DaimdParams, now: u64, snd_nxt: u32, cwnd: u32) -> u32;
    fn daimd_on_restart = check_daimd_on_restart(d: &mut Daimd, now: u64);
    fn cocoa_times = check_cocoa_times(factor: u32, time: u64) -> u64;
    fn cocoa_packets = check_cocoa_packets(factor: u32, packets: u32) -> u32;
    fn cocoa_missed = check_cocoa_missed(sent: u64, active: u64, idle: u64) -> u32;
    fn cocoa_initial = check_cocoa_initial(p: &CocoaParams, learned: &CocoaLearned) -> u32;
    fn cocoa_init = check_cocoa_init(f: &mut Cocoa, buffer: u32, now: u64);
    fn cocoa_on_full = check_cocoa_on_full(f: &mut Cocoa, p: &CocoaParams, learned: &mut CocoaLearned, now: u64) -> u32;
    fn cocoa_on_arrival = check_cocoa_on_arrival(f: &mut Cocoa, now: u64);
    fn cocoa_on_departure = check_cocoa_on_departure(f: &mut Cocoa, held: u32, now: u64, sojourn: u64);
    fn size = check_size(which: u32) -> u64;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::size_of;

    #[test]
    fn the_structures_have_the_sizes_that_c_gives_them() {
        let mine = [
            size_of::<Filter>(),
            size_of::<Lola>(),
            size_of::<LolaParams>(),
            size_of::<LolaAck>(),
            size_of::<Daimd>(),
            size_of::<DaimdParams>(),
            size_of::<DaimdAck>(),
            size_of::<Cocoa>(),
            size_of::<CocoaParams>(),
            size_of::<CocoaLearned>(),
        ];
        let theirs: Vec<_> = (0..mine.len()).map(|which| size(which as u32) as usize).collect();
        assert_eq!(mine.to_vec(), theirs);
    }

    #[test]
    fn a_connections_state_fits_the_104_bytes_that_a_socket_has() {
        assert!(size_of::<Lola>() <= 104 && size_of::<Daimd>() <= 104);
    }
}
