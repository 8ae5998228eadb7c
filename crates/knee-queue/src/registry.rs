//! The list of all queue disciplines. To add one: write its file, declare the module, add its `ENTRY` here.

use crate::{Entry, cake, cocoa, codel, docsis_lld, docsis_pie, dualpi2, fq, fq_codel, fq_pie, pfifo, pie, prio, red};

knee_core::registry! {
    Entry;
    pfifo::ENTRY,
    pfifo::BFIFO,
    prio::ENTRY,
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
}
