//! Proportional rate reduction (RFC 6937 with the bounds of Linux's tcp_cwnd_reduction), counted in packets.

/// State of PRR during a reduction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Prr {
    /// The window when the reduction began; 0: none has.
    pub prior_cwnd: u32,
    /// Packets delivered since.
    pub delivered: u32,
    /// Packets sent since.
    pub out: u32,
}

impl Prr {
    /// A reduction begins with this window.
    pub(super) const fn begin(prior_cwnd: u32) -> Self {
        //= RFC 6937, 3
        //# prr_delivered = 0 // Total bytes delivered during recovery prr_out = 0 // Total bytes sent during recovery
        Self { prior_cwnd, delivered: 0, out: 0 }
    }

    /// How many packets an ACK lets leave that delivered `delivered`, with `pipe` in flight. `progress`: it
    /// acknowledged new data, and no new loss was found. `None`: the window stays.
    pub(super) fn sndcnt(&mut self, delivered: u32, pipe: u32, ssthresh: u32, progress: bool) -> Option<i64> {
        if delivered == 0 || self.prior_cwnd == 0 {
            return None;
        }
        //= RFC 6937, 3
        //# prr_delivered += DeliveredData
        self.delivered += delivered;
        let (ssthresh, prr_delivered, prr_out) = (i64::from(ssthresh), i64::from(self.delivered), i64::from(self.out));
        //= RFC 6937, 3
        //# pipe = (RFC 6675 pipe algorithm)
        let room = ssthresh - i64::from(pipe);
        let count = if room < 0 {
            //= RFC 6937, 3 (departs: Linux takes cwnd at the start of recovery for it)
            //# RecoverFS = snd.nxt-snd.una // FlightSize at the start of recovery
            let prior = i64::from(self.prior_cwnd);
            //= RFC 6937, 3
            //# sndcnt = CEIL(prr_delivered * ssthresh / RecoverFS) - prr_out
            (ssthresh * prr_delivered + prior - 1) / prior - prr_out
        } else {
            //= RFC 6937, 3 (departs: Linux adds the MSS only where the ACK made progress without a new loss)
            //# limit = MAX(prr_delivered - prr_out, DeliveredData) + MSS
            let bound = (prr_delivered - prr_out).max(i64::from(delivered));
            //= RFC 6937, 3 (departs: at least what the ACK delivered)
            //# limit = prr_delivered - prr_out
            // Progress without new losses: grow as in slow start.
            //= RFC 6937, 3
            //# sndcnt = MIN(ssthresh - pipe, limit)
            room.min(bound + i64::from(progress))
        };
        // The first ACK lets the retransmission leave.
        Some(count.max(i64::from(self.out == 0)))
    }
}

#[cfg(test)]
mod tests {
    use super::Prr;

    /// RFC 6937, 3: from 20 to 10, CEIL(prr_delivered * 10 / 20) - prr_out is a packet for every second one delivered.
    #[test]
    fn above_ssthresh_packets_leave_in_proportion() {
        let mut prr = Prr::begin(20);
        let mut pipe = 19;
        let mut sent = Vec::new();
        for _ in 0..8 {
            pipe -= 1;
            let count = u32::try_from(prr.sndcnt(1, pipe, 10, false).unwrap()).unwrap();
            (prr.out, pipe) = (prr.out + count, pipe + count);
            sent.push(count);
        }
        assert_eq!(sent, [1, 0, 1, 0, 1, 0, 1, 0]);
    }

    /// RFC 6937, 3.1: below ssthresh, no more than was delivered, one more with progress, and never beyond ssthresh.
    #[test]
    fn below_ssthresh_packets_are_conserved_unless_there_is_progress() {
        let prr = Prr { prior_cwnd: 20, delivered: 5, out: 5 };
        let sndcnt = |mut prr: Prr, delivered, pipe, progress| prr.sndcnt(delivered, pipe, 10, progress);
        assert_eq!(sndcnt(prr, 1, 4, false), Some(1));
        assert_eq!(sndcnt(prr, 1, 4, true), Some(2));
        assert_eq!(sndcnt(prr, 3, 9, true), Some(1), "a room of one");
        assert_eq!(sndcnt(Prr { out: 2, ..prr }, 1, 4, false), Some(4), "what was not sent before");
    }

    #[test]
    fn without_a_reduction_or_a_delivery_the_window_stays() {
        assert_eq!(Prr::default().sndcnt(3, 5, 10, true), None);
        assert_eq!(Prr::begin(20).sndcnt(0, 5, 10, true), None);
    }
}
