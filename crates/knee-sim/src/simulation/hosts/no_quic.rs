//! QUIC stacks in a build that leaves them out: the types of `quic.rs`, without values. No name finds a controller of
//! theirs.

use super::{Algorithm, At, End, EndFigures, HostPair, Outbox, Progress};
use knee_cc::Entry;
use knee_core::{Packet, Received, Time};
use knee_net::spec::{FlowSpec, QuicSpec, Spec};

/// Makes controllers of a stack's interface: nothing does.
#[derive(Clone)]
pub enum MakeFactory {}

/// Both ends of a QUIC flow: there is none.
pub(in crate::simulation) struct QuicFlow(Never);

/// Nothing.
enum Never {}

/// How the connections of an application's flow are.
#[derive(Clone, Copy)]
#[expect(dead_code, reason = "no connection is made of it")]
pub(in crate::simulation) struct QuicTraffic {
    pub(in crate::simulation) tls: bool,
    pub(in crate::simulation) client: End,
    pub(in crate::simulation) streams: bool,
    pub(in crate::simulation) endpoints: QuicSpec,
}

/// The controller of a stack that has this name.
pub(in crate::simulation) const fn find(_: &str) -> Option<&'static Entry> {
    None
}

impl QuicFlow {
    pub(in crate::simulation) fn connection(
        _: &Algorithm,
        _: QuicTraffic,
        _: bool,
        _: (u32, u64),
        _: u64,
        _: Time,
    ) -> Self {
        unreachable!("this build leaves QUIC stacks out")
    }

    pub(in crate::simulation) fn of(_: &Algorithm, _: &FlowSpec, _: usize, _: bool, _: &Spec) -> Self {
        unreachable!("this build leaves QUIC stacks out")
    }

    pub(in crate::simulation) fn progress(&self) -> Option<Progress> {
        match self.0 {}
    }

    pub(in crate::simulation) fn close(&mut self) {
        match self.0 {}
    }

    pub(super) const fn sent(&self) -> u64 {
        match self.0 {}
    }

    pub(super) const fn received(&self) -> &Received {
        match self.0 {}
    }

    pub(super) fn figures(&mut self, _: Time) -> EndFigures {
        match self.0 {}
    }

    pub(super) fn due(&mut self, _: End) -> Time {
        match self.0 {}
    }

    pub(super) fn stop(&mut self) {
        match self.0 {}
    }

    pub(super) fn on_drop(&mut self, _: &Packet) {
        match self.0 {}
    }
}

impl HostPair<'_, QuicFlow> {
    pub(super) fn start(&mut self, _: &At<'_>, _: &mut impl Outbox) {
        match self.ends.0 {}
    }

    pub(super) fn open(&mut self, _: &At<'_>, _: &mut impl Outbox) -> End {
        match self.ends.0 {}
    }

    pub(super) fn write(&mut self, _: bool, _: u64, _: &At<'_>, _: &mut impl Outbox) -> (u64, End) {
        match self.ends.0 {}
    }

    pub(super) fn on_packet(&mut self, _: &At<'_>, _: &Packet, _: &mut impl Outbox) {
        match self.ends.0 {}
    }

    pub(super) fn on_timer(&mut self, _: End, _: &At<'_>, _: &mut impl Outbox) {
        match self.ends.0 {}
    }
}
