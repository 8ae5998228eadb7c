//! The idle timeout (RFC 9000, 10.1): an end to which nothing has come for long closes the connection without a word.
//!
//! It runs at an end from the end of the handshake there on. The other end learns nothing of it, and times out itself.

use super::QuicEnds;
use crate::simulation::hosts::End;
use knee_core::Time;
use knee_quic::{Config, handshake};

/// PTOs that an idle timeout lasts at least.
const LEAST_PTOS: u64 = 3;

/// The timer of idle time at an end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Idle {
    /// When it closes the connection; `Time::MAX`: it is off.
    pub(super) due: Time,
    /// A packet that elicits an ACK has left since one came.
    sent: bool,
}

impl Idle {
    pub(super) const OFF: Self = Self { due: Time::MAX, sent: false };
}

impl QuicEnds {
    /// How long an end waits.
    fn idle_period(&self, end: End, config: &Config) -> Time {
        let sender = match end {
            End::Sender => Some(&self.sender),
            End::Receiver => self.back.as_deref().map(|back| &back.sender),
        };
        let rtt = if end == self.client_end { self.client.connected() } else { self.server.connected() };
        let pto = sender.map_or_else(|| handshake::pto_of_data(rtt, config), |sender| sender.rtt().pto(config));
        //= RFC 9000, 10.1
        //# To avoid excessively small idle timeout periods, endpoints MUST increase the idle timeout period to be at
        //# least three times the current Probe Timeout (PTO).
        config.settings.idle_timeout.max(pto.mul_div(LEAST_PTOS, 1))
    }

    /// The timer of an end begins, at the end of its handshake, if there is one.
    pub(super) fn start_idle(&mut self, end: End, now: Time, config: &Config) {
        if config.settings.idle_timeout > Time::ZERO {
            self.restart_idle(end, false, now, config);
        }
    }

    #[cold]
    fn restart_idle(&mut self, end: End, sent: bool, now: Time, config: &Config) {
        let due = now.saturating_add(self.idle_period(end, config));
        self.idle[end as usize] = Idle { due, sent };
        self.note_rare_timers();
    }

    /// A packet has come to an end.
    #[inline]
    pub(super) fn note_heard(&mut self, end: End, now: Time, config: &Config) {
        //= RFC 9000, 10.1
        //# An endpoint restarts its idle timer when a packet from its peer is received and processed successfully.
        if self.idle[end as usize].due < Time::MAX {
            self.restart_idle(end, false, now, config);
        }
    }

    /// Packets that elicit ACKs leave an end.
    #[inline]
    pub(super) fn note_eliciting(&mut self, end: End, now: Time, config: &Config) {
        //= RFC 9000, 10.1
        //# An endpoint also restarts its idle timer when sending an ack-eliciting packet if no other ack-eliciting
        //# packets have been sent since last receiving and processing a packet.
        let Idle { due, sent } = self.idle[end as usize];
        if due < Time::MAX && !sent {
            self.restart_idle(end, true, now, config);
        }
    }

    /// Closes the connection at an end if nothing has come for as long as that waits. True: it did.
    #[cold]
    pub(super) fn times_out(&mut self, end: End, now: Time) -> bool {
        let over = self.idle[end as usize].due <= now;
        if over {
            //= RFC 9000, 10.1
            //# If a max_idle_timeout is specified by either endpoint in its transport parameters (Section 18.2), the
            //# connection is silently closed and its state is discarded when it remains idle for longer than the
            //# minimum of the max_idle_timeout value advertised by both endpoints.
            self.note_cwnd(now);
            (self.closed[end as usize], self.open[end as usize]) = (true, false);
            if let Some(sender) = self.tx(end) {
                sender.drop_datagrams();
            }
            match end {
                End::Sender => self.established = false,
                End::Receiver => self.back_established = false,
            }
            self.note_cwnd(now);
        }
        over
    }

    /// True once the end that opened the connection has closed it.
    pub(in crate::simulation) const fn is_over(&self) -> bool {
        self.closed[self.client_end as usize]
    }
}
