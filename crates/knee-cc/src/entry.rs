//! An algorithm's entry in the registry.

use crate::slow_start::Kind;
use crate::{DynCongestionControl, Init};
use knee_core::{Param, Params};

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
    /// The name in listings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LossBased => "loss-based",
            Self::DelayBased => "delay-based",
            Self::Hybrid => "hybrid",
            Self::EcnBased => "ECN-based",
        }
    }
}

/// The description of an algorithm.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name in scenario files.
    pub name: &'static str,
    /// The signal that it reacts to.
    pub family: Family,
    /// One line on what it does.
    pub about: &'static str,
    /// The paper, RFC or kernel file it follows.
    pub source: &'static str,
    /// Its parameters: `DECLARED` of what [`knee_core::params!`] makes.
    pub params: &'static [Param],
    /// Names of its phases, by [`crate::Control::phase`].
    pub phases: &'static [&'static str],
    /// The transitions its state diagram allows, as pairs of phases.
    pub edges: &'static [(u8, u8)],
    /// The smallest window that it may set, in packets.
    pub min_cwnd: u32,
    /// Requirements of the sender; [`Entry::needs_with`] adds those of the parameters.
    pub needs: Needs,
    /// Creates an instance.
    pub make: Make,
}

impl Entry {
    /// Requirements of the sender for the algorithm with these parameters.
    pub fn needs_with(&self, params: &Params) -> Needs {
        let Needs { pacing, lossless, open_window, .. } = self.needs;
        // A start that is paced jumps to a window; RDMA has none at the receiver.
        let jumps = Kind::asked(self.params, params).is_some_and(Kind::paces);
        Needs { pacing: pacing || jumps, open_window: open_window || lossless || jumps, ..self.needs }
    }
}

/// Builds [`Entry::edges`] from an enum whose variants have the order of [`Entry::phases`]:
/// `edges![Phase: SlowStart => Hold, Hold => SlowStart]`.
macro_rules! edges {
    ($phase:ident: $($from:ident => $to:ident),* $(,)?) => {
        &[$(($phase::$from as u8, $phase::$to as u8)),*]
    };
}
pub(crate) use edges;

/// Creates an algorithm from its parameters at the start of a connection.
pub type Make = fn(&Params, &Init) -> Box<dyn DynCongestionControl>;

/// How an algorithm reacts to ECN (RFC 3168, RFC 8257).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// Like a loss, once per round trip; only if the scenario enables ECN.
    #[default]
    Classic,
    /// The receiver echoes each mark and the algorithm counts them (DCTCP); always enabled.
    PerPacket,
    /// Like `PerPacket`, with packets marked ECT(1) (L4S, RFC 9331).
    Scalable,
}

/// Requirements that an algorithm has of the sender.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    /// Packets are paced, at [`crate::Control::pacing_rate`] or the sender's own rate.
    pub pacing: bool,
    /// [`crate::CongestionControl::on_ack`] is called on every ACK and sets the window also during recovery (Linux's
    /// `cong_control`): no proportional rate reduction.
    pub full_control: bool,
    /// [`crate::CongestionControl::on_sent`] is called.
    pub sent: bool,
    /// [`crate::Ack::rate`] is read.
    pub rate: bool,
    /// Reaction to ECN.
    pub ecn: Ecn,
    /// A network without loss: drops do not slow it.
    pub lossless: bool,
    /// A receiver whose window is open from the start: one that grows, as Linux's, would hold back what leaves at once.
    pub open_window: bool,
}

impl Needs {
    /// Only ACKs, losses and changes of state; ECN marks count as losses.
    pub const NONE: Self = Self {
        pacing: false,
        full_control: false,
        sent: false,
        rate: false,
        ecn: Ecn::Classic,
        lossless: false,
        open_window: false,
    };
}
