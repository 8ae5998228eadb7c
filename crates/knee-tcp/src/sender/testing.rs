//! Senders for tests that hold another path of an ACK against the slow one.

use super::{Config, Sender, SenderInit};
use crate::ecn::Ecn;
use crate::timer::Clock;
use knee_cc::Init;
use knee_core::{Params, Rng, Time};

/// How long opening takes.
const HANDSHAKE: Time = Time::from_millis(20);

/// Settings in which a test varies what decides on bursts.
pub fn config(tso: bool, tso_rtt_log: u32, receive_window: u64) -> Config {
    let clock = Clock::new(Time::from_millis(4));
    let rto_min = Time::from_millis(200);
    let (initial_window, slow_start_after_idle, window_growth) = (10, true, 0);
    Config { clock, initial_window, rto_min, tso, tso_rtt_log, slow_start_after_idle, receive_window, window_growth }
}

/// A connection that has just sent its first window.
pub fn sender(cc: &str, bytes: Option<u64>, paced: bool, config: &Config) -> Sender {
    let mut sender = established(cc, bytes, paced, Some(HANDSHAKE), config);
    sender.send(HANDSHAKE, config, &mut Vec::new());
    sender
}

/// A sender whose connection is established, for an application that has written nothing yet.
pub fn stream(cc: &str, config: &Config) -> Sender {
    let mut sender = established(cc, None, false, Some(HANDSHAKE), config);
    sender.open_stream();
    sender
}

/// One whose handshake gave no RTT, which has just sent its first window.
pub fn without_rtt(cc: &str, config: &Config) -> Sender {
    let mut sender = established(cc, None, false, None, config);
    sender.send(HANDSHAKE, config, &mut Vec::new());
    sender
}

/// A connection that was opened within 20 ms.
pub fn established(cc: &str, bytes: Option<u64>, paced: bool, rtt: Option<Time>, config: &Config) -> Sender {
    let entry = knee_cc::find(cc).unwrap();
    let mut sender = Sender::new(&SenderInit { needs: entry.needs, paced, ecn: Ecn::OFF, bytes }, config);
    let now = HANDSHAKE;
    sender.connect(Time::ZERO);
    sender.establish(rtt, now);
    let (rng, tick, tso) = (Rng::stream(1, "cc"), config.clock.tick(), config.tso);
    let cwnd = sender.control.cwnd;
    let init = Init { now, rtt: now, cwnd, mss: 1448, tick, paced, accurate_ecn: false, tso, rng };
    sender.adopt((entry.make)(&Params::defaults(entry.params), &init), now);
    sender
}

/// All of a sender that an ACK may change, but for its algorithm's own state.
pub fn state(s: &mut Sender) -> String {
    let ends = (
        s.view.snd_una,
        s.view.snd_nxt,
        s.view.delivered,
        s.rate_clock.delivered_at,
        s.rate_clock.first_tx,
        s.rate_clock.app_limited_until,
        s.tsecr,
    );
    let recovery = (
        s.view.ca,
        s.scoreboard.sacked,
        s.scoreboard.lost,
        s.scoreboard.retransmitted,
        s.recovery.prr.delivered,
        s.recovery.prr.out,
        s.recovery.high_seq,
    );
    let limits = (
        s.window_use.limited,
        s.window_use.max_out,
        s.window_use.end,
        s.window_use.used,
        s.window_use.since,
        s.totals.cwnd_integral,
    );
    let timers = (s.pending, s.timer, s.view.paced_until, s.pacer.due, s.own_pacing_rate(), s.recovery.backoffs);
    let flags = (s.tlp.is_outstanding(), s.widened, s.view.app_limited);
    let parts = (s.control, s.counters(), &s.rtt, &s.least_rtts, &s.rack, &s.rtx, flags);
    format!("{ends:?} {recovery:?} {limits:?} {timers:?} {parts:?}")
}
