//! The list of all algorithms. To add one: write its file, declare the module, add its `ENTRY` here.

use crate::{
    Entry, bbr, bbr3, bic, c4, cdg, compound, copa, cubic, daimd, dctcp, fast, highspeed, htcp, hybla, illinois,
    ledbat, ledbat_pp, lola, lola_wild, lp, nv, prague, reno, scalable, timely, vegas, veno, vivace, westwood, yeah,
};

knee_core::registry! {
    Entry;
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
    lola_wild::ENTRY,
    daimd::ENTRY,
    nv::ENTRY,
    lp::ENTRY,
    fast::ENTRY,
    timely::ENTRY,
    copa::ENTRY,
    ledbat::ENTRY,
    ledbat_pp::ENTRY,
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
}
