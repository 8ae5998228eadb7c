//! The list of all kinds of traffic. To add one: write its file, declare the module, add its `ENTRY` here.

use crate::{Entry, bursts, datagrams, limited, requests, transfers, video};

knee_core::registry! {
    Entry;
    // over connections
    transfers::ENTRY,
    limited::ENTRY,
    bursts::ENTRY,
    requests::ENTRY,
    video::ENTRY,
    // in datagrams
    datagrams::UDP,
    datagrams::RTC,
}

#[cfg(test)]
mod tests {
    use super::*;
    use knee_core::testing::assert_declared;

    #[test]
    fn every_kind_declares_what_it_has() {
        assert_declared(registry().iter().map(|entry| (entry.name, entry.about, entry.source, entry.params)));
        for entry in registry() {
            let declared = |name: &&str| entry.params.iter().any(|param| param.name == *name);
            assert!(entry.required.iter().all(declared), "{}: {:?} are not all declared", entry.name, entry.required);
            assert!(!entry.params.iter().any(|param| param.name == "kind"), "{}: kind is its name", entry.name);
            let defaults = knee_core::Params::defaults(entry.params);
            assert_eq!((entry.check)(&defaults), Ok(()), "{}", entry.name);
        }
    }

    #[test]
    fn a_kind_with_tables_declares_no_parameters() {
        assert!(registry().iter().filter(|entry| entry.has_tables()).all(|entry| entry.params.is_empty()));
    }
}
