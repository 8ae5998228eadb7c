//! Validation of ECN counts (RFC 9000, 13.4.2), which gives the marks that an ACK newly reports.

use crate::frame::{EcnCounts, Mark};

/// The use of ECN by a sender.
#[derive(Clone, Copy, Debug)]
pub struct Validation {
    mark: Mark,
    /// Packets sent with an ECT codepoint.
    sent: u64,
    /// The largest counts reported.
    counts: EcnCounts,
}

impl Validation {
    /// Packets leave with this codepoint, until the counts turn out wrong.
    pub const fn new(mark: Mark) -> Self {
        Self { mark, sent: 0, counts: EcnCounts { ect0: 0, ect1: 0, ce: 0 } }
    }

    /// The ECN field of packets that leave.
    pub const fn mark(&self) -> Mark {
        self.mark
    }

    /// True if packets leave with an ECT codepoint.
    pub const fn is_on(&self) -> bool {
        !matches!(self.mark, Mark::NotEct)
    }

    /// `packets` leave.
    pub fn sent(&mut self, packets: u32) {
        if self.is_on() {
            self.sent += u64::from(packets);
        }
    }

    /// Takes the counts of an ACK that newly acknowledges `newly` packets sent with an ECT codepoint; `advances`: it
    /// increases the largest packet acknowledged. Gives the packets newly reported as marked with CE.
    pub fn take(&mut self, reported: Option<&EcnCounts>, newly: u32, advances: bool) -> u64 {
        if !self.is_on() {
            return 0;
        }
        //= RFC 9000, 13.4.2.1
        //# An endpoint MUST NOT fail ECN validation as a result of processing an ACK frame that does not increase the
        //# largest acknowledged packet number.
        if advances && !self.valid(reported, u64::from(newly)) {
            //= RFC 9000, 13.4.2.2
            //# If validation fails, then the endpoint MUST disable ECN.
            //= RFC 9000, 13.4.2.2
            //# Network routing and path elements can change mid-connection; an endpoint MUST disable ECN if validation
            //# later fails.
            self.mark = Mark::NotEct;
            return 0;
        }
        let Some(reported) = reported else { return 0 };
        let marks = reported.ce.saturating_sub(self.counts.ce);
        let EcnCounts { ect0, ect1, ce } = self.counts;
        self.counts =
            EcnCounts { ect0: ect0.max(reported.ect0), ect1: ect1.max(reported.ect1), ce: ce.max(reported.ce) };
        marks
    }

    fn valid(&self, reported: Option<&EcnCounts>, newly: u64) -> bool {
        //= RFC 9000, 13.4.2.1
        //# If an ACK frame newly acknowledges a packet that the endpoint sent with either the ECT(0) or ECT(1)
        //# codepoint set, ECN validation fails if the corresponding ECN counts are not present in the ACK frame.
        let Some(reported) = reported else { return newly == 0 };
        let (own, own_before, other) = match self.mark {
            Mark::Ect1 => (reported.ect1, self.counts.ect1, reported.ect0),
            _ => (reported.ect0, self.counts.ect0, reported.ect1),
        };
        //= RFC 9000, 13.4.2.1
        //# ECN validation also fails if the sum of the increase in ECT(0) and ECN-CE counts is less than the number of
        //# newly acknowledged packets that were originally sent with an ECT(0) marking.
        let increase = own.saturating_sub(own_before) + reported.ce.saturating_sub(self.counts.ce);
        //= RFC 9000, 13.4.2.1
        //# ECN validation can fail if the received total count for either ECT(0) or ECT(1) exceeds the total number of
        //# packets sent with each corresponding ECT codepoint.
        increase >= newly && other == 0 && own <= self.sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn counts(ect0: u64, ect1: u64, ce: u64) -> EcnCounts {
        EcnCounts { ect0, ect1, ce }
    }

    /// The counts of one ACK after ten packets were sent with ECT(0): the marks, and whether ECN stays on.
    fn after(reported: Option<EcnCounts>, newly: u32, advances: bool) -> (u64, bool) {
        let mut ecn = Validation::new(Mark::Ect0);
        ecn.sent(10);
        (ecn.take(reported.as_ref(), newly, advances), ecn.is_on())
    }

    /// RFC 9000, 13.4.2.1, one sentence a case.
    #[test]
    fn counts_that_do_not_fit_what_was_sent_end_the_use_of_ecn() {
        assert_eq!(after(Some(counts(3, 0, 2)), 5, true), (2, true));
        assert_eq!(after(Some(counts(5, 0, 2)), 5, true), (2, true), "lost ACKs let counts grow by more");
        assert_eq!(after(None, 5, true), (0, false), "no counts");
        assert_eq!(after(Some(counts(3, 0, 1)), 5, true), (0, false), "too small an increase");
        assert_eq!(after(Some(counts(4, 1, 0)), 4, true), (0, false), "a codepoint never applied");
        assert_eq!(after(Some(counts(11, 0, 0)), 5, true), (0, false), "more than was sent");
        assert_eq!(after(None, 5, false), (0, true), "an ACK that came late");
        assert_eq!(after(Some(counts(0, 0, 1)), 5, false), (1, true), "its marks count");
    }

    #[test]
    fn marks_are_reported_once_and_without_ect_never() {
        let mut ecn = Validation::new(Mark::Ect1);
        ecn.sent(10);
        let taken = [(0, 1), (0, 2), (1, 2)].map(|(ect1, ce)| ecn.take(Some(&counts(0, ect1, ce)), 1, true));
        assert_eq!((taken, ecn.counts), ([1, 1, 0], counts(0, 1, 2)));
        assert_eq!(Validation::new(Mark::NotEct).take(Some(&counts(0, 0, 3)), 0, true), 0);
    }
}
