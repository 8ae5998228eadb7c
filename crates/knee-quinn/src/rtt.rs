//! RTT samples of a connection: of the newest packet that an ACK newly acknowledges (RFC 9002, 5.1).

use knee_cc::View;
use knee_core::Time;

/// Takes RTT samples.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sampler {
    /// The newest packet acknowledged by earlier ACKs left then.
    newest: Option<Time>,
}

impl Sampler {
    /// An ACK whose newest packet left at `sent` has come at `view.now`. An ACK for older packets alone, which came late,
    /// says nothing about the RTT now. Updates the least RTT and the smoothed one (RFC 9002, 5.3). Gives the RTT, in which
    /// the delay of the ACK is: quinn lends its estimator, which knows that, as of the ACK before.
    pub fn sample(&mut self, sent: Time, view: &mut View) -> Option<Time> {
        if self.newest.is_some_and(|before| sent < before) {
            return None;
        }
        self.newest = Some(sent);
        let (rtt, srtt) = (view.now.saturating_sub(sent), view.srtt);
        view.min_rtt = view.min_rtt.min(rtt);
        view.srtt = if srtt == Time::ZERO { rtt } else { (srtt.mul_div(7, 8)).saturating_add(rtt.mul_div(1, 8)) };
        Some(rtt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    #[test]
    fn samples_are_of_the_newest_packet_and_smoothed_by_an_eighth() {
        let mut sampler = Sampler::default();
        let mut view = View { now: ms(40), ..View::INITIAL };
        assert_eq!(sampler.sample(ms(0), &mut view), Some(ms(40)));
        assert_eq!((view.srtt, view.min_rtt), (ms(40), ms(40)));
        view.now = ms(90);
        assert_eq!(sampler.sample(ms(42), &mut view), Some(ms(48)));
        assert_eq!((view.srtt, view.min_rtt), (ms(41), ms(40)));
        // An ACK that was overtaken.
        assert_eq!(sampler.sample(ms(41), &mut view), None);
        assert_eq!(view.srtt, ms(41));
    }
}
