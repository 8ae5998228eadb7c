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
    datagrams::PROBE,
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
            let names: Vec<_> = (entry.params.iter().map(|param| param.name))
                .chain(entry.tables.iter().map(|table| table.name))
                .collect();
            let declared = |name: &&str| names.contains(name);
            assert!(entry.required.iter().all(declared), "{}: {:?} are not all declared", entry.name, entry.required);
            assert!(!names.contains(&"kind"), "{}: kind is its name", entry.name);
            let twice = |name: &&&str| names.iter().filter(|known| known == name).count() > 1;
            assert_eq!(names.iter().find(twice), None, "{}", entry.name);
        }
    }
}
