//! The algorithm under evaluation, and those it is compared with.

use crate::guard::{Guard, GuardedAlgorithm, GuardedFactory};
use crate::scenario::PLACE;
use knee_cc::Entry;
use knee_conform::{Implementation, Own as Conforming};
use knee_core::Params;
use knee_net::spec::Transport;
use knee_quinn::conform::Controllers;
use knee_quinn::proto::congestion::ControllerFactory;
use knee_quinn::stack;
use knee_sim::{Own, OwnMake};
use serde::Deserialize;
use std::fmt;
use std::sync::Arc;

/// An algorithm that is deployed; in the place of the one under evaluation it runs over that one's transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Deployed {
    /// CUBIC (RFC 9438).
    Cubic,
    /// BBR, version 1, as Linux has it.
    Bbr,
    /// BBR, version 3 (draft-ietf-ccwg-bbr).
    Bbr3,
    /// Reno (RFC 5681).
    Reno,
}

impl Deployed {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Cubic, Self::Bbr3, Self::Bbr, Self::Reno];

    /// Its name in scenarios.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
            Self::Bbr3 => "bbr3",
            Self::Reno => "reno",
        }
    }
}

impl fmt::Display for Deployed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl AsRef<[Self]> for Deployed {
    fn as_ref(&self) -> &[Self] {
        std::slice::from_ref(self)
    }
}

/// Makes a factory of quinn's interface, anew for each flow.
pub(crate) type MakeFactory = Arc<dyn Fn() -> Arc<dyn ControllerFactory + Send + Sync> + Send + Sync>;

/// The algorithm under evaluation.
#[derive(Clone)]
pub(crate) enum Subject {
    /// A controller of quinn's interface; its flows go over QUIC.
    Quinn(MakeFactory),
    /// A controller of another stack, fitted to quinn's interface; its flows go over QUIC.
    Window(MakeFactory),
    /// An algorithm of knee's interface; its flows go over TCP.
    Algorithm(&'static Entry),
}

impl Subject {
    pub(crate) const fn transport(&self) -> Transport {
        match self {
            Self::Quinn(_) | Self::Window(_) => Transport::Quic,
            Self::Algorithm(_) => Transport::Tcp,
        }
    }

    /// The algorithm as an implementation under conformance vectors.
    pub(crate) fn implementation(&self, name: &str) -> Box<dyn Implementation> {
        match self.clone() {
            Self::Quinn(make) | Self::Window(make) => Box::new(Controllers::new(name, make)),
            Self::Algorithm(entry) => Box::new(Conforming::new(entry, Params::defaults(entry.params)).named(name)),
        }
    }

    /// The algorithm under watch, as a simulation takes it.
    pub(crate) fn own(&self, guard: &Guard) -> Own {
        let guard = guard.clone();
        // quinn does not follow a pacing rate.
        let paced = matches!(self, Self::Window(_));
        let (entry, make) = match self.clone() {
            Self::Quinn(make) | Self::Window(make) => {
                let make = move |_| -> Arc<dyn ControllerFactory + Send + Sync> {
                    Arc::new(GuardedFactory { inner: make(), guard: guard.clone(), paced })
                };
                (&stack::OTHER, OwnMake::Quinn(Arc::new(make)))
            }
            Self::Algorithm(entry) => {
                let make = OwnMake::Algorithm(Arc::new(move |params, init, _| {
                    Box::new(GuardedAlgorithm::new((entry.make)(params, init), guard.clone()))
                }));
                (entry, make)
            }
        };
        Own { name: PLACE.into(), entry, make }
    }
}
