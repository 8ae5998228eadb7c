//! LoLa's reaction to a loss and to a timeout, ACK by ACK.

use super::{ENTRY, Lola, Params, Phase};
use crate::testing::{self, change, congestion};
use crate::{Ack, CaState, CongestionControl, Control, Signal, StateEvent, View};
use knee_core::{Params as Given, Time, Value};

#[test]
fn a_loss_is_handled_as_by_cubic_and_only_a_timeout_leads_to_slow_start() {
    let given = Given::resolve(ENTRY.params, [("fast_convergence", Value::Bool(false))]).unwrap();
    let mut lola = Lola::new(Params::from(&given), &testing::init());
    // A window of 1 Gbit/s and 21 ms, without a queue.
    let (cwnd_max, rtt) = (1750, Time::from_millis(21));
    let mut control = testing::avoiding(cwnd_max);
    let mut view = View { now: Time::from_secs(20), ..testing::view() };
    // One ACK of the whole window a round trip.
    let round = |lola: &mut Lola, view: &mut View, control: &mut Control| {
        view.now += rtt;
        let now = *view;
        let ack = Ack { view: &now, rtt: Some(rtt), delivered: control.cwnd, ..testing::ack_of_nothing() };
        *control = testing::after(*control, |c| lola.on_measure(&ack, c));
        *control = testing::after(*control, |c| lola.on_ack(&ack, c));
    };
    round(&mut lola, &mut view, &mut control);
    control.cwnd = cwnd_max;
    control.ssthresh = testing::after(control, |c| lola.on_congestion(&congestion(view, Signal::Loss), c)).ssthresh;
    control.cwnd = control.ssthresh;
    lola.on_state(&change(view, StateEvent::ReductionDone), &mut control);
    assert_eq!((control.cwnd, lola.phase), (cwnd_max * 717 / 1024, Phase::CubicIncrease));

    // Eq. 1 with CWnd_max - CWnd = C K³, three seconds after the first ACK and one RTT ahead.
    let k = libm::cbrt(f64::from(cwnd_max - control.cwnd) / 0.4);
    let expected = f64::from(cwnd_max) - 0.4 * (k - 3.021).powi(3);
    let until = view.now + rtt + Time::from_secs(3);
    while view.now < until {
        round(&mut lola, &mut view, &mut control);
    }
    assert!((f64::from(control.cwnd) - expected).abs() < 5.0, "{} {expected}", control.cwnd);
    assert_eq!(lola.phase, Phase::CubicIncrease);

    lola.on_congestion(&congestion(view, Signal::Timeout), &mut control);
    lola.on_state(&change(view, StateEvent::Entered(CaState::Loss)), &mut control);
    assert_eq!(lola.phase, Phase::SlowStart);
}
