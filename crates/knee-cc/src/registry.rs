//! The list of all algorithms. To add one: write its file, declare the module, add its `ENTRY` here.

use crate::{
    Entry, bbr, bbr3, bic, c4, cdg, compound, copa, cubic, daimd, dctcp, fast, highspeed, htcp, hybla, illinois,
    ledbat, lola, lp, nv, prague, reno, scalable, timely, vegas, veno, vivace, westwood, yeah,
};
use knee_core::registry::{NameTaken, Named, Registry};

static REGISTRY: Registry<Entry> = Registry::new(&[
    // loss-based
    reno::ENTRY,
    cubic::ENTRY,
    bic::ENTRY,
    htcp::ENTRY,
    highspeed::ENTRY,
    scalable::ENTRY,
    westwood::ENTRY,
    hybla::ENTRY,
    // delay-based
    vegas::ENTRY,
    lola::ENTRY,
    daimd::ENTRY,
    nv::ENTRY,
    lp::ENTRY,
    fast::ENTRY,
    timely::ENTRY,
    copa::ENTRY,
    ledbat::ENTRY,
    // hybrid
    veno::ENTRY,
    illinois::ENTRY,
    yeah::ENTRY,
    cdg::ENTRY,
    compound::ENTRY,
    bbr::ENTRY,
    bbr3::ENTRY,
    c4::ENTRY,
    vivace::ENTRY,
    // ECN-based
    dctcp::ENTRY,
    prague::ENTRY,
]);

impl Named for Entry {
    fn name(&self) -> &'static str {
        self.name
    }
}

/// All algorithms that are built in, in the order of listings.
pub fn registry() -> &'static [Entry] {
    REGISTRY.built_in()
}

/// The algorithm called `name`.
pub fn find(name: &str) -> Option<&'static Entry> {
    REGISTRY.find(name)
}

/// Adds an algorithm of another crate, which scenarios of this process can name from now on.
///
/// # Errors
/// If another one has its name.
pub fn add(entry: &'static Entry) -> Result<(), NameTaken> {
    REGISTRY.add(entry)
}
