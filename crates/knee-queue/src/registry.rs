//! The list of all queue disciplines. To add one: write its file, declare the module, add its `ENTRY` here.

use crate::{Make, cake, cocoa, codel, docsis_lld, docsis_pie, dualpi2, fq, fq_codel, fq_pie, pfifo, pie, red};
use knee_core::Param;
use knee_core::registry::{NameTaken, Named, Registry};

/// Everything there is to know about a queue discipline before it runs.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name in scenario files.
    pub name: &'static str,
    /// One line on what it does.
    pub about: &'static str,
    /// The paper, RFC or kernel file it follows.
    pub source: &'static str,
    /// Its parameters, apart from the limit: `DECLARED` of what [`knee_core::params!`] makes.
    pub params: &'static [Param],
    /// Makes one.
    pub make: Make,
}

static REGISTRY: Registry<Entry> = Registry::new(&[
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
]);

impl Named for Entry {
    fn name(&self) -> &'static str {
        self.name
    }
}

/// All disciplines that are built in, in the order of listings.
pub fn registry() -> &'static [Entry] {
    REGISTRY.built_in()
}

/// The discipline called `name`.
pub fn find(name: &str) -> Option<&'static Entry> {
    REGISTRY.find(name)
}

/// Adds a discipline of another crate, which scenarios of this process can name from now on.
///
/// # Errors
/// If another one has its name.
pub fn add(entry: &'static Entry) -> Result<(), NameTaken> {
    REGISTRY.add(entry)
}
