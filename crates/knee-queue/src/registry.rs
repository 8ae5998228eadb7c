//! The list of all queue disciplines. To add one: write its file, declare the module, add its `ENTRY` here.

use crate::{Make, cake, cocoa, codel, docsis_lld, docsis_pie, dualpi2, fq, fq_codel, fq_pie, pfifo, pie, red};
use knee_core::Param;

/// Everything there is to know about a queue discipline before it runs.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name in scenario files.
    pub name: &'static str,
    /// One line on what it does.
    pub about: &'static str,
    /// The paper, RFC or kernel file it follows.
    pub source: &'static str,
    /// Its parameters, beside the limit: `DECLARED` of what [`knee_core::params!`] makes.
    pub params: &'static [Param],
    /// Makes one.
    pub make: Make,
}

static REGISTRY: &[Entry] = &[
    pfifo::ENTRY,
    pfifo::BFIFO,
    codel::ENTRY,
    pie::ENTRY,
    docsis_pie::ENTRY,
    red::ENTRY,
    fq::ENTRY,
    fq_codel::ENTRY,
    fq_pie::ENTRY,
    cake::ENTRY,
    dualpi2::ENTRY,
    docsis_lld::ENTRY,
    cocoa::ENTRY,
];

/// All disciplines, in the order of listings.
pub fn registry() -> &'static [Entry] {
    REGISTRY
}

/// The discipline called `name`.
pub fn find(name: &str) -> Option<&'static Entry> {
    REGISTRY.iter().find(|entry| entry.name == name)
}
