//! How a connection begins: the sender is made, the handshake, the algorithm takes its place.

use super::cwnd::WindowUse;
use super::micros::Micros;
use super::probe::Tlp;
use super::queue::RetransmitQueue;
use super::rack::Rack;
use super::rate::RateClock;
use super::recovery::Recovery;
use super::rtt::{LeastRtts, RttEstimator};
use super::sack::Scoreboard;
use super::{Config, Pacer, Pending, Sender, Totals};
use crate::ecn::{Ecn, FIRST_COUNT};
use crate::timer::Timer;
use knee_cc::{Control, DynCongestionControl, Needs, StateEvent, View};
use knee_core::convert::saturating_u32;
use knee_core::packet::MSS;
use knee_core::{Packet, Time};

/// How a sender is made.
#[derive(Clone, Copy, Debug)]
pub struct SenderInit {
    /// Requirements of the algorithm.
    pub needs: Needs,
    /// It is paced whatever the algorithm.
    pub paced: bool,
    /// How it uses ECN.
    pub ecn: Ecn,
    /// Bytes to send.
    pub bytes: Option<u64>,
}

impl Sender {
    /// A sender before its handshake.
    pub fn new(init: &SenderInit, config: &Config) -> Self {
        let mss = u64::from(MSS);
        let (end, last_payload) = match init.bytes {
            None => (u64::MAX, u32::from(MSS)),
            Some(bytes) => {
                let segments = bytes.div_ceil(mss).max(1);
                (segments, saturating_u32(bytes - (segments - 1) * mss))
            }
        };
        Self {
            cc: None,
            control: Control::initial(config.initial_window),
            view: View::INITIAL,
            rtx: RetransmitQueue::new(init.needs.rate),
            end,
            pacer: Pacer::new(init.paced || init.needs.pacing),
            rtt: RttEstimator::new(config.rto_min),
            timer: Timer::OFF,
            tlp: Tlp::default(),
            tsecr: 0,
            scoreboard: Scoreboard::default(),
            pending: Pending::Nothing,
            widened: false,
            held_back: false,
            established: false,
            plain_packets: !init.ecn.is_on(),
            ecn: init.ecn,
            known_marks: if init.ecn.is_accurate() { Packet::ace(FIRST_COUNT) } else { 0 },
            needs: init.needs,
            rate_clock: RateClock::default(),
            totals: Totals::default(),
            rack: Rack { reorder_steps: 1, ..Rack::default() },
            reached: (0, 0),
            window_use: WindowUse::default(),
            recovery: Recovery::NONE,
            last_payload,
            least_rtts: LeastRtts::NONE,
            cwr_to_signal: false,
            stream: None,
        }
    }

    /// The SYN leaves: until its answer the timer runs for the initial timeout, then for twice that, and so on.
    pub fn connect(&mut self, now: Time) {
        self.timer = Timer::set(now, self.rtt.rto());
        self.pending = Pending::Timeout;
    }

    /// The SYN's timer fired: it has to be sent again.
    pub fn reconnect(&mut self, now: Time) {
        self.totals.timeouts += 1;
        self.rtt.back_off();
        self.recovery.backoffs += 1;
        self.connect(now);
    }

    /// RTT of a handshake whose first SYN left at `first` and whose answer echoes the timestamp `tsecr`. Where the
    /// first SYN was answered after all, its timeouts were spurious and cost nothing (Linux's
    /// `tcp_try_undo_spurious_syn`).
    pub fn answer_to_syn(&mut self, first: Time, tsecr: u32, now: Time) -> Time {
        if self.recovery.backoffs == 0 {
            return Micros::of(now).time() - Micros::of(first).time();
        }
        if tsecr == Self::tsval(first) {
            self.recovery.backoffs = 0;
        }
        // Linux takes no RTT below a millisecond from timestamps.
        Time::from_millis(u64::from(Self::tsval(now).wrapping_sub(tsecr)).max(1))
    }

    /// The SYN was answered: the connection is there. `rtt` is none where the peer's timestamps are off.
    pub fn establish(&mut self, rtt: Option<Time>, now: Time) {
        self.established = true;
        self.pending = Pending::Nothing;
        self.timer = Timer::OFF;
        //= RFC 5681, 3.1 (departs: Linux forgives one lost SYN, and any number that were not lost)
        //# Further, if the SYN or SYN/ACK is lost, the initial window used by a sender after a correctly transmitted
        //# SYN MUST be one segment consisting of at most SMSS bytes.
        // More than one lost SYN costs the initial window (Linux's tcp_init_transfer; RFC 6928, 3, says so of one).
        if self.recovery.backoffs > 1 {
            self.control.cwnd = 1;
        }
        self.recovery.backoffs = 0;
        if let Some(rtt) = rtt {
            let rtt = Micros::of(rtt);
            self.feed_rtt(rtt, rtt, Micros::of(now));
        }
        // The SYN counts as delivered, so that "nothing delivered" never describes a live connection.
        self.view.delivered = 1;
        self.rate_clock.delivered_at = Micros::of(now);
        self.rate_clock.first_tx = Micros::of(now);
        self.window_use.since = now;
        self.view.paced_until = now;
        self.totals.cwnd_integral = (0, now);
        self.update_pacing_rate();
    }

    /// Puts the algorithm in place, once the connection is there.
    pub fn adopt(&mut self, cc: Box<dyn DynCongestionControl>, now: Time) {
        self.cc = Some(cc);
        self.tell(StateEvent::Start, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sender::testing::config;

    /// RFC 6928, 3, as Linux has it: the initial window is lost with the second SYN.
    #[test]
    fn one_lost_syn_is_forgiven_and_two_cost_the_initial_window() {
        let config = config(false, 9, 1_000);
        let entry = knee_cc::find("reno").unwrap();
        let windows = [0, 1, 2].map(|lost| {
            let init = SenderInit { needs: entry.needs, paced: false, ecn: crate::ecn::Ecn::OFF, bytes: None };
            let mut sender = Sender::new(&init, &config);
            sender.connect(Time::ZERO);
            // RFC 6298, 5.5 and 5.7: a second, doubled with each.
            for k in 1..=lost {
                let due = config.clock.expiry(&sender.timer);
                assert!(due >= Time::from_secs((1 << k) - 1));
                sender.reconnect(due);
            }
            sender.establish(None, Time::from_secs(10));
            sender.control.cwnd
        });
        assert_eq!(windows, [10, 10, 1]);
    }

    /// Linux 6.18, one flow over an RTT of 10 s: SYNs at 0, 1, 3 and 7 s, and ten packets when the first is answered.
    #[test]
    fn timeouts_before_the_answer_to_the_first_syn_cost_neither_the_window_nor_the_rtt() {
        let config = config(false, 9, 1_000);
        let entry = knee_cc::find("reno").unwrap();
        let first = Time::from_micros(300);
        let after_answer_to = |sent: Time| {
            let init = SenderInit { needs: entry.needs, paced: false, ecn: crate::ecn::Ecn::OFF, bytes: None };
            let mut sender = Sender::new(&init, &config);
            sender.connect(first);
            for second in [1, 3, 7] {
                sender.reconnect(Time::from_secs(second));
            }
            let now = sent + Time::from_secs(10);
            let rtt = sender.answer_to_syn(first, Sender::tsval(sent), now);
            sender.establish(Some(rtt), now);
            (sender.control.cwnd, sender.srtt(), sender.rtt.rto())
        };
        // RFC 6298, 2.2: RTO = SRTT + 4 * SRTT / 2.
        let (rtt, rto) = (Time::from_secs(10), Time::from_secs(30));
        assert_eq!(after_answer_to(first), (10, rtt, rto));
        assert_eq!(after_answer_to(Time::from_secs(3)), (1, rtt, rto), "the first two were lost");
    }
}
