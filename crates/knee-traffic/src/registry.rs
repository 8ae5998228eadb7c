//! The list of all kinds of traffic. To add one: write its file, declare the module, add its `ENTRY` here.

use crate::{Entry, bursts, datagrams, limited, requests, transfers, video};

static REGISTRY: &[Entry] = &[
    // over connections
    transfers::ENTRY,
    limited::ENTRY,
    bursts::ENTRY,
    requests::ENTRY,
    video::ENTRY,
    // in datagrams
    datagrams::UDP,
    datagrams::RTC,
];

/// All kinds, in the order of listings.
pub fn registry() -> &'static [Entry] {
    REGISTRY
}

/// The kind called `name`.
pub fn find(name: &str) -> Option<&'static Entry> {
    REGISTRY.iter().find(|entry| entry.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use knee_core::testing::assert_declared;

    #[test]
    fn every_kind_declares_what_it_has() {
        assert_declared(REGISTRY.iter().map(|entry| (entry.name, entry.about, entry.source, entry.params)));
        for entry in REGISTRY {
            let declared = |name: &&str| entry.params.iter().any(|param| param.name == *name);
            assert!(entry.required.iter().all(declared), "{}: {:?} are not all declared", entry.name, entry.required);
            assert!(!entry.params.iter().any(|param| param.name == "kind"), "{}: kind is its name", entry.name);
            let defaults = knee_core::Params::defaults(entry.params);
            assert_eq!((entry.check)(&defaults), Ok(()), "{}", entry.name);
        }
    }

    #[test]
    fn a_kind_with_tables_declares_no_parameters() {
        assert!(REGISTRY.iter().filter(|entry| entry.has_tables()).all(|entry| entry.params.is_empty()));
    }
}
