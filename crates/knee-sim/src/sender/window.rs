//! Sending where only the window says what may leave.
//!
//! In recovery it is so after nearly every ACK, and most of what `send_new` asks is known beforehand. A test holds the two
//! against each other.

use super::{Config, Departure, Sender};
use knee_cc::CaState;
use knee_core::Time;

impl Sender {
    /// Whether recovery is under way, nothing is paced, and neither the transfer nor the receive window ends within the
    /// window. Where nothing is in flight any more, `send_new` has to tell the algorithm, which may change the window.
    #[inline]
    pub(super) fn window_alone_limits_recovery(&self, config: &Config) -> bool {
        let ends = self.end.min(self.view.snd_una + config.receive_window);
        let ahead = self.view.snd_nxt + u64::from(self.control.cwnd);
        self.view.ca == CaState::Recovery && !self.paced && self.in_flight() > 0 && ahead < ends
    }

    /// Sends new segments as `send_new` does then: nothing waits for a larger burst, and no probe is scheduled.
    #[inline]
    pub(super) fn send_in_recovery(&mut self, now: Time, config: &Config, out: &mut Vec<Departure>) {
        let sent = self.control.cwnd.saturating_sub(self.in_flight());
        let mut room = sent;
        while room > 0 {
            let count = self.burst_now(room, false, config);
            self.depart(count, now, out);
            room -= count;
        }
        self.window_limits(now);
        if sent > 0 {
            self.prr_out += sent;
            self.tell_sent(sent, false, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sender::testing::{Receiving, config, sender, state};
    use crate::sender::{AckInfo, Pending, Spares};
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn it_leads_to_the_same_state_as_send_new(
            cc in prop::sample::select(vec!["reno", "cubic", "vegas"]),
            bytes in prop::option::of(20_000u64..200_000),
            tso in any::<bool>(),
            tso_rtt_log in 0u32..32,
            receive_window in 15u64..100,
            // Of those under way, how many are lost and which one arrives; then the time, the room, the timer.
            steps in prop::collection::vec((0usize..3, 0usize..3, 1u64..20_000, 0u32..9, any::<bool>()), 1..80),
        ) {
            let config = config(tso, tso_rtt_log, receive_window);
            let [mut quick, mut slow] = [(); 2].map(|()| sender(cc, bytes, false, &config));
            let mut receiver = Receiving::default();
            let mut flight: VecDeque<u64> = (1..quick.view.snd_nxt).collect();
            let mut now = Time::from_millis(40);
            let mut spares = Spares::default();
            for (lost, arrives, us, room, probe) in steps {
                flight.drain(..(lost / 2).min(flight.len()));
                let last = flight.len().saturating_sub(1);
                let Some(seq) = flight.remove(arrives.saturating_sub(1).min(last)) else { break };
                let blocks = receiver.take(seq);
                let info = AckInfo { seq: receiver.next, blocks: &blocks, tsecr: 1, flags: 0 };
                let (mut out, mut expected) = (Vec::new(), Vec::new());
                quick.on_ack(&info, now, &config, &mut out, &mut spares);
                slow.on_ack(&info, now, &config, &mut expected, &mut Spares::default());
                if quick.view.ca == CaState::Recovery {
                    for sender in [&mut quick, &mut slow] {
                        sender.control.cwnd = (sender.in_flight() + room).max(1);
                        if probe {
                            sender.set_timer(Pending::Probe, Time::from_millis(10), now);
                        }
                    }
                }
                if quick.window_alone_limits_recovery(&config) {
                    quick.send_in_recovery(now, &config, &mut out);
                    slow.send(now, &config, &mut expected);
                    prop_assert_eq!(&out, &expected);
                    prop_assert_eq!(state(&mut quick), state(&mut slow));
                }
                flight.extend(out.iter().flat_map(|sent| sent.start..sent.start + u64::from(sent.count)));
                now += Time::from_micros(us);
            }
        }
    }
}
