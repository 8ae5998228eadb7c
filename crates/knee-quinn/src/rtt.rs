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
    /// An ACK whose newest packet left at `sent`, and which the other end held back for `ack_delay`, has come at
    /// `view.now`. An ACK for older packets alone, which came late, says nothing about the RTT now. Updates the least
    /// RTT and the smoothed one (RFC 9002, 5.3). Gives the RTT as it is, and without the delay of the ACK, which is
    /// subtracted unless the rest were below the least RTT.
    pub fn sample(&mut self, sent: Time, ack_delay: Time, view: &mut View) -> Option<(Time, Time)> {
        if self.newest.is_some_and(|before| sent < before) {
            return None;
        }
        self.newest = Some(sent);
        let (latest, srtt) = (view.now.saturating_sub(sent), view.srtt);
        view.min_rtt = view.min_rtt.min(latest);
        let adjusted = if latest >= view.min_rtt.saturating_add(ack_delay) { latest - ack_delay } else { latest };
        view.srtt =
            if srtt == Time::ZERO { adjusted } else { (srtt.mul_div(7, 8)).saturating_add(adjusted.mul_div(1, 8)) };
        Some((latest, adjusted))
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
        assert_eq!(sampler.sample(ms(0), Time::ZERO, &mut view), Some((ms(40), ms(40))));
        assert_eq!((view.srtt, view.min_rtt), (ms(40), ms(40)));
        view.now = ms(90);
        assert_eq!(sampler.sample(ms(42), Time::ZERO, &mut view), Some((ms(48), ms(48))));
        assert_eq!((view.srtt, view.min_rtt), (ms(41), ms(40)));
        // An ACK that was overtaken.
        assert_eq!(sampler.sample(ms(41), Time::ZERO, &mut view), None);
        assert_eq!(view.srtt, ms(41));
    }

    /// RFC 9002, 5.3: the delay of the ACK is no part of the RTT, unless the RTT would be below the least one then.
    #[test]
    fn the_delay_of_an_ack_is_subtracted_down_to_the_least_rtt() {
        let mut sampler = Sampler::default();
        let mut view = View { now: ms(40), ..View::INITIAL };
        sampler.sample(ms(0), Time::ZERO, &mut view);
        view.now = ms(170);
        assert_eq!(sampler.sample(ms(100), ms(25), &mut view), Some((ms(70), ms(45))));
        view.now = ms(260);
        assert_eq!(sampler.sample(ms(200), ms(25), &mut view), Some((ms(60), ms(60))));
        assert_eq!(view.min_rtt, ms(40));
    }
}
