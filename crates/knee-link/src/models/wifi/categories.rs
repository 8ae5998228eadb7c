//! The access categories of EDCA: which packets are in which, and how each contends.

use super::air::Contention;
use knee_core::Time;

/// The rules of one category.
#[derive(Clone, Copy, Debug)]
pub(super) struct Category {
    pub(super) contention: Contention,
    /// The longest transmission. `None`: one aggregate of any length.
    pub(super) txop: Option<Time>,
}

/// The number of categories.
pub(super) const COUNT: u8 = 4;

/// Voice, video, best effort and background, by priority: IEEE 802.11-2012, table 8-105 (OFDM), which Linux sets where
/// an access point says nothing else (`ieee80211_set_wmm_default`).
pub(super) const CATEGORIES: [Category; COUNT as usize] = [
    Category { contention: Contention { aifsn: 2, cw_min: 3, cw_max: 7 }, txop: Some(Time::from_micros(1504)) },
    Category { contention: Contention { aifsn: 2, cw_min: 7, cw_max: 15 }, txop: Some(Time::from_micros(3008)) },
    Category { contention: Contention { aifsn: 3, cw_min: 15, cw_max: 1023 }, txop: None },
    Category { contention: Contention { aifsn: 7, cw_min: 15, cw_max: 1023 }, txop: None },
];

/// The category of a codepoint: that of its user priority.
pub(super) const fn category(dscp: u8) -> u8 {
    // IEEE 802.11-2020, table 10-1.
    match user_priority(dscp) {
        6 | 7 => 0,
        4 | 5 => 1,
        0 | 3 => 2,
        _ => 3,
    }
}

/// The user priority of a codepoint by RFC 8325, 4.3, as Linux has it since 6.8 (`cfg80211_classify8021d`): its three
/// upper bits (RFC 8325, 2.3), except where those contradict what the codepoint is for.
const fn user_priority(dscp: u8) -> u8 {
    match dscp {
        // AF11 to AF13, CS2.
        10 | 12 | 14 | 16 => 0,
        // AF21 to AF23.
        18 | 20 | 22 => 3,
        // CS3, AF31 to AF33.
        24 | 26 | 28 | 30 => 4,
        // VOICE-ADMIT, EF.
        44 | 46 => 6,
        // CS6.
        48 => 7,
        other => other >> 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codepoints_have_the_categories_of_rfc_8325() {
        let (voice, video, best_effort, background) = (0, 1, 2, 3);
        let said = [
            (46, voice),
            (44, voice),
            (48, voice),
            (56, voice),
            (40, video),
            (34, video),
            (36, video),
            (38, video),
            (32, video),
            (24, video),
            (26, video),
            (30, video),
            (0, best_effort),
            (10, best_effort),
            (14, best_effort),
            (16, best_effort),
            (18, best_effort),
            (22, best_effort),
            (8, background),
        ];
        for (dscp, expected) in said {
            assert_eq!(category(dscp), expected, "DSCP {dscp}");
        }
        assert!((0..64).all(|dscp| usize::from(category(dscp)) < CATEGORIES.len()));
    }
}
