//! The cubic function of CUBIC (RFC 9438, 4.2) in Linux's fixed point: time in units of 2^-10 s, windows in packets.

use knee_core::Time;

/// Fractional bits of a second (`BICTCP_HZ`).
pub const TIME_BITS: u32 = 10;

/// Integer cube root, rounded down.
///
/// Exact, where Linux's `cubic_root` refines a table once and is off by 0.2 % on average.
pub fn cube_root(a: u64) -> u32 {
    // The cube root of 2^64 is below 2^22.
    (0..22).rev().fold(0, |root: u32, bit| {
        let larger = root | 1 << bit;
        if u128::from(larger).pow(3) <= u128::from(a) { larger } else { root }
    })
}

/// `C · |t - K|³` in packets, rounded down; `offset` in 2^-10 s, `scale` is C in 1/1024, Linux's `10 · bic_scale`.
pub fn cube(scale: u64, offset: u64) -> u64 {
    let offset = u128::from(offset.min(1 << 32));
    let packets = (u128::from(scale) * offset.pow(3)) >> (10 + 3 * TIME_BITS);
    u64::try_from(packets).unwrap_or(u64::MAX)
}

//= RFC 9438, 4.1.2
//# W_cubic(_t_): The congestion window in segments at time _t_ in seconds based on the cubic increase function,
/// `W(t) = C (t - K)³ + W_max` in packets, not below zero (RFC 9438, Eq. 1); `k` in 2^-10 s.
pub fn w_cubic(scale: u64, t: Time, k: u64, w_max: u32) -> u64 {
    let t = t.mul_div(1 << TIME_BITS, 1_000_000_000).as_nanos();
    let delta = cube(scale, t.abs_diff(k));
    let w_max = u64::from(w_max);
    if t < k { w_max.saturating_sub(delta) } else { w_max.saturating_add(delta) }
}

//= RFC 9438, 4.2
//# _K_ is the time period that the above function takes to increase the congestion window size at the beginning of the
//# current congestion avoidance stage to _W_max_ if there are no further congestion events.
/// K in 2^-10 s: the time in which the cubic function grows by `packets` up to its plateau.
pub fn k(scale: u64, packets: u32) -> u64 {
    let per_packet = (1u64 << (10 + 3 * TIME_BITS)) / scale.max(1);
    u64::from(cube_root(per_packet.saturating_mul(u64::from(packets))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hand_worked_values() {
        assert_eq!([0, 1, 7, 8, 26, 27, 1_000_000, u64::MAX].map(cube_root), [0, 1, 1, 2, 2, 3, 100, 2_642_245]);
        // C = 0.4 packets/s³: after 2 s 0.400390625 · 8 = 3.2 packets, after 10 s 400.39.
        assert_eq!([2_048, 10_240].map(|t| cube(410, t)), [3, 400]);
        // The function with K = 2 s starts at 100 - 3.2 and is as far above 100 after 4 s.
        assert_eq!([0, 2, 4].map(|s| w_cubic(410, Time::from_secs(s), 2_048, 100)), [97, 100, 103]);
        // 300 packets at C = 410/1024: cbrt(300 / 0.400390625) = 9.0827 s = 9300.7 / 1024 s.
        assert_eq!(k(410, 300), 9_300);
    }

    proptest! {
        #[test]
        fn the_root_is_exact(a in any::<u64>()) {
            let root = u128::from(cube_root(a));
            prop_assert!(root.pow(3) <= u128::from(a) && u128::from(a) < (root + 1).pow(3));
        }

        #[test]
        fn k_inverts_the_cube_within_one_packet_and_one_time_unit(packets in 1u32..10_000_000) {
            let k = k(410, packets);
            prop_assert!(cube(410, k) <= u64::from(packets));
            prop_assert!(cube(410, k + 1) + 1 >= u64::from(packets));
        }
    }
}
