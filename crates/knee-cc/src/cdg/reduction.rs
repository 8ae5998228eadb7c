//! The window's way down after a backoff: proportional rate reduction (RFC 6937, in the form of Linux's
//! `tcp_cwnd_reduction`) over one round trip.

use crate::{Ack, View};
use knee_core::convert::saturating_u32;

#[derive(Clone)]
pub(super) struct Reduction {
    /// The window before, in packets.
    prior_cwnd: u32,
    /// Next segment when it began; it ends with the first ACK beyond.
    began_at: u64,
    /// Packets delivered since.
    delivered: u32,
}

impl Reduction {
    pub const fn new(view: &View, prior_cwnd: u32) -> Self {
        Self { prior_cwnd, began_at: view.snd_nxt, delivered: 0 }
    }

    pub const fn ended(&self, view: &View) -> bool {
        view.snd_una > self.began_at
    }

    /// The window after this ACK on the way to `ssthresh`; `None` if the ACK delivered nothing.
    pub fn window(&mut self, ack: &Ack, ssthresh: u32) -> Option<u32> {
        if ack.delivered == 0 {
            return None;
        }
        self.delivered = self.delivered.saturating_add(ack.delivered);
        let in_flight = ack.view.in_flight;
        let delivered = u64::from(self.delivered);
        // Nothing is sent again in this state, so whatever left is new.
        let sent = ack.view.snd_nxt.saturating_sub(self.began_at);
        let more = if in_flight > ssthresh {
            (u64::from(ssthresh) * delivered).div_ceil(u64::from(self.prior_cwnd.max(1))).saturating_sub(sent)
        } else {
            let advanced = u64::from(ack.view.snd_una > ack.prior_una && ack.lost == 0);
            let room = u64::from(ssthresh - in_flight);
            (delivered.saturating_sub(sent).max(u64::from(ack.delivered)) + advanced).min(room)
        };
        let least = u64::from(sent == 0);
        let window = u64::from(in_flight) + more.max(least);
        Some(saturating_u32(window.clamp(1, u64::from(self.prior_cwnd.max(1)))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn sending_slows_down_in_proportion_until_the_threshold_is_reached() {
        // From 100 to 70: of every ten packets delivered, seven make room for new ones.
        let view = testing::ack_up_to(0, 100, 0).view;
        let mut reduction = Reduction::new(view, 100);
        let (mut una, mut nxt) = (0, 100);
        for delivered in 1..=99_u64 {
            una += 1;
            let cwnd = reduction.window(&testing::ack_up_to(una, nxt, 0), 70).unwrap();
            nxt = nxt.max(una + u64::from(cwnd));
            // The last few are rounded up early, so that 70 are in flight one packet sooner.
            assert_eq!(nxt - 100, (7 * delivered.min(97)).div_ceil(10).max(1) + delivered / 99, "after {delivered}");
        }
        assert!(!reduction.ended(testing::ack_up_to(100, nxt, 0).view));
        assert!(reduction.ended(testing::ack_up_to(101, nxt, 0).view));
        assert_eq!(nxt - una, 70);
    }
}
