//! Tins: classes of traffic by DSCP, each with a share of the bandwidth up to which it goes first.
//!
//! | | tins, from the one with all of the bandwidth | rates | weights without a shaper |
//! |---|---|---|---|
//! | besteffort | all | 1 | |
//! | diffserv3 | best effort, bulk, voice | 1, 1/16, 1/4 | 16 : 1 : 4 |
//! | diffserv4 | best effort, bulk, video, voice | 1, 1/16, 1/2, 1/4 | 16 : 1 : 8 : 4 |
//! | diffserv8 | eight, from least effort to network control | (7/8)^n | (7/8)^n |
//!
//! Source: Linux cake_config_diffserv3, 4 and 8 and their tables; tc-cake(8).

use knee_core::{Rate, choice};

choice! {
    /// By which codepoints traffic goes to tins.
    pub(super) enum Diffserv {
        BestEffort = "besteffort",
        Three = "diffserv3",
        Four = "diffserv4",
        Eight = "diffserv8",
    }
}

/// Codepoints by name (RFC 2474, 2597, 3246, 5865, 8622); the TOS values of RFC 1349 as far as Linux still has them.
const LE: u8 = 1;
const TOS_THROUGHPUT: u8 = 2;
const TOS_DELAY: u8 = 4;
const fn cs(class: u8) -> u8 {
    class << 3
}
const fn is_af(dscp: u8, class: u8) -> bool {
    dscp >> 3 == class && matches!(dscp & 7, 2 | 4 | 6)
}
const VA: u8 = 44;
const EF: u8 = 46;

/// A tin's part of a shaper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Its rate, as a part of the shaper's: a numerator and a denominator.
    rate: (u64, u64),
    /// Bytes of its turn where there is no shaper.
    pub(super) quantum: i64,
}

impl Part {
    /// Its rate with a shaper of `bandwidth`, at least 64 bytes a second (Linux cake_set_rate).
    pub(super) fn rate(self, bandwidth: Rate) -> Rate {
        let (numerator, denominator) = self.rate;
        bandwidth.mul_div(numerator, denominator).max(Rate::from_bps(64 * 8))
    }
}

impl Diffserv {
    /// The tins' parts.
    pub(super) fn parts(self) -> Vec<Part> {
        let shares = |dividers: &[u64]| {
            dividers.iter().map(|&d| Part { rate: (1, d), quantum: 1024 / i64::try_from(d).unwrap_or(1) }).collect()
        };
        match self {
            Self::BestEffort => vec![Part { rate: (1, 1), quantum: 65_535 }],
            Self::Three => shares(&[1, 16, 4]),
            Self::Four => shares(&[1, 16, 2, 4]),
            Self::Eight => {
                let mut quantum = 256;
                let part = |n| {
                    let part = Part { rate: (7u64.pow(n), 8u64.pow(n)), quantum };
                    quantum = quantum * 7 / 8;
                    part
                };
                (0..8).map(part).collect()
            }
        }
    }

    /// The tin of a codepoint.
    pub(super) fn tin(self, dscp: u8) -> usize {
        match self {
            Self::BestEffort => 0,
            Self::Three if dscp == TOS_DELAY || [VA, EF, cs(6), cs(7)].contains(&dscp) => 2,
            Self::Four if [VA, EF, cs(4), cs(5), cs(6), cs(7)].contains(&dscp) => 3,
            Self::Four if dscp == TOS_DELAY || [cs(2), cs(3)].contains(&dscp) => 2,
            Self::Four if (2..=4).any(|class| is_af(dscp, class)) => 2,
            Self::Three | Self::Four => usize::from(dscp == LE || dscp == cs(1)),
            Self::Eight if dscp == LE => 0,
            Self::Eight if dscp == cs(1) || dscp == TOS_THROUGHPUT || is_af(dscp, 1) => 1,
            Self::Eight if dscp == cs(3) || is_af(dscp, 3) || is_af(dscp, 4) => 3,
            Self::Eight if dscp == TOS_DELAY || is_af(dscp, 2) => 4,
            Self::Eight if dscp == cs(2) => 5,
            Self::Eight if [VA, EF, cs(4), cs(5)].contains(&dscp) => 6,
            Self::Eight if [cs(6), cs(7)].contains(&dscp) => 7,
            Self::Eight => 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Codepoints of a tin.
    fn of(diffserv: Diffserv, tin: usize) -> Vec<u8> {
        (0..64).filter(|dscp| diffserv.tin(*dscp) == tin).collect()
    }

    #[test]
    fn codepoints_go_to_the_tins_that_tc_cake_names() {
        // tc-cake(8): diffserv3 has voice (CS7, CS6, EF, VA, TOS4) and bulk (CS1, LE).
        assert_eq!((of(Diffserv::Three, 1), of(Diffserv::Three, 2)), (vec![1, 8], vec![4, 44, 46, 48, 56]));
        // diffserv4: voice (CS7, CS6, EF, VA, CS5, CS4), video (AF4x, AF3x, CS3, AF2x, TOS4, CS2), bulk (CS1, LE).
        assert_eq!(of(Diffserv::Four, 1), [1, 8]);
        assert_eq!(of(Diffserv::Four, 2), [4, 16, 18, 20, 22, 24, 26, 28, 30, 34, 36, 38]);
        assert_eq!(of(Diffserv::Four, 3), [32, 40, 44, 46, 48, 56]);
        // diffserv8.
        assert_eq!((of(Diffserv::Eight, 0), of(Diffserv::Eight, 1)), (vec![1], vec![2, 8, 10, 12, 14]));
        assert_eq!(of(Diffserv::Eight, 3), [24, 26, 28, 30, 34, 36, 38]);
        assert_eq!((of(Diffserv::Eight, 4), of(Diffserv::Eight, 5)), (vec![4, 18, 20, 22], vec![16]));
        assert_eq!((of(Diffserv::Eight, 6), of(Diffserv::Eight, 7)), (vec![32, 40, 44, 46], vec![48, 56]));
        assert!((0..64).all(|dscp| Diffserv::BestEffort.tin(dscp) == 0));
    }

    #[test]
    fn tins_have_their_parts_of_the_bandwidth() {
        let parts = |diffserv: Diffserv| -> Vec<_> {
            let rate = Rate::from_mbps(16);
            diffserv.parts().iter().map(|part| (part.rate(rate).as_bps() / 1000, part.quantum)).collect()
        };
        assert_eq!(parts(Diffserv::BestEffort), [(16_000, 65_535)]);
        assert_eq!(parts(Diffserv::Three), [(16_000, 1024), (1000, 64), (4000, 256)]);
        assert_eq!(parts(Diffserv::Four), [(16_000, 1024), (1000, 64), (8000, 512), (4000, 256)]);
        let eight = parts(Diffserv::Eight);
        assert_eq!((eight[1], eight[2], eight[7]), ((14_000, 224), (12_250, 196), (6283, 98)));
        assert_eq!(Diffserv::Three.parts()[1].rate(Rate::from_bps(800)), Rate::from_bps(512));
    }
}
