//! The list of all algorithms. To add one: write its file, declare the module, add its `ENTRY` here.

use crate::{
    Make, Needs, bbr, bbr3, bic, cdg, compound, copa, cubic, daimd, dctcp, fast, highspeed, htcp, hybla, illinois,
    ledbat, lola, lp, nv, reno, scalable, timely, vegas, veno, vivace, westwood, yeah,
};
use knee_core::Param;

/// Family of a congestion control by the signal it follows (Interactions, Fig. 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// Reacts to loss.
    LossBased,
    /// Reacts to delay.
    DelayBased,
    /// Reacts to both, or follows a model of the path.
    Hybrid,
    /// Reacts to explicit congestion notification.
    EcnBased,
}

impl Family {
    /// As written in listings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LossBased => "loss-based",
            Self::DelayBased => "delay-based",
            Self::Hybrid => "hybrid",
            Self::EcnBased => "ECN-based",
        }
    }
}

/// Everything there is to know about an algorithm before it runs.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name in scenario files.
    pub name: &'static str,
    /// Its family.
    pub family: Family,
    /// One line on what it does.
    pub about: &'static str,
    /// The paper, RFC or kernel file it follows.
    pub source: &'static str,
    /// Its parameters.
    pub params: &'static [Param],
    /// Names of its phases, by [`crate::Control::phase`].
    pub phases: &'static [&'static str],
    /// The transitions its state diagram allows, as pairs of phases.
    pub edges: &'static [(u8, u8)],
    /// The least window it may ever ask for, in packets.
    pub min_cwnd: u32,
    /// What it asks of the sender.
    pub needs: Needs,
    /// Makes one.
    pub make: Make,
}

/// Phases of an algorithm that has slow start and congestion avoidance and nothing else.
pub const CLASSIC_PHASES: &[&str] = &["slow_start", "congestion_avoidance"];
/// Transitions between [`CLASSIC_PHASES`].
pub const CLASSIC_EDGES: &[(u8, u8)] = &[(0, 1), (1, 0)];

static REGISTRY: &[Entry] = &[
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
    vivace::ENTRY,
    // ECN-based
    dctcp::ENTRY,
];

/// All algorithms, in the order of listings.
pub fn registry() -> &'static [Entry] {
    REGISTRY
}

/// The algorithm called `name`.
pub fn find(name: &str) -> Option<&'static Entry> {
    REGISTRY.iter().find(|entry| entry.name == name)
}
