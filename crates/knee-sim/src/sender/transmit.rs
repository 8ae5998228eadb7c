//! What leaves, and when: windows, bursts, pacing, retransmissions, timers.

use super::micros::Micros;
use super::queue::RateStart;
use super::ring::Burst;
use super::{Config, Departure, Pending, Resend, Sender, Spares, flags};
use crate::timer::Timer;
use knee_cc::{CaState, Sent, StateEvent};
use knee_core::packet::MSS;
use knee_core::{Bytes, Rate, Time};

/// Largest burst a host hands down at once, in segments: 64 KiB less headers (sk_gso_max_size).
const MAX_BURST: u64 = 45;
/// Segments per unit of the first writes, made while the receiver has offered 64 KiB: half of that at the most
/// (tcp_bound_to_half_wnd).
const EARLY_WRITE: u64 = 22;
/// Segments written by then. It depends on the application, not on the kernel; this figure (2 MB) was found from the
/// bursts of the recorded slow starts in docs/fidelity.md.
const WRITTEN_EARLY: u64 = 1440;
/// The same in bytes, as the sizing formula counts it.
const MAX_BURST_BYTES: u64 = 65_536 - 321;
/// Bursts are sized to 2^-10 s of the pacing rate (sk_pacing_shift).
const PACING_SHIFT: u32 = 10;
/// A window's part that is sent without waiting for more (tcp_tso_win_divisor).
const WINDOW_DIVISOR: u64 = 3;
/// Waiting for a larger burst is worth while when an ACK is due within this time.
const DEFER: Time = Time::from_millis(1);
/// First packets of a connection that are not paced, as Linux and sch_fq do.
const UNPACED: u64 = 10;
/// Least timer of a loss probe beyond two RTTs (TCP_TIMEOUT_MIN_US).
const PROBE_MIN: Time = Time::from_micros(2000);

/// Why `send_new` is called.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Push {
    /// As much as may leave.
    Normal,
    /// A single burst although the window is full: a tail loss probe.
    Probe,
}

/// Segments that the application's current write still holds when `snd_nxt` is next.
const fn left_of_write(snd_nxt: u64, initial_window: u32) -> u32 {
    let first = initial_window as u64;
    // Divisors the compiler knows.
    let left = if snd_nxt >= WRITTEN_EARLY {
        MAX_BURST - snd_nxt % MAX_BURST
    } else if snd_nxt < first {
        // The first unit loses the initial window at once and is filled up again.
        first + EARLY_WRITE - snd_nxt
    } else {
        EARLY_WRITE - (snd_nxt - first) % EARLY_WRITE
    };
    left as u32
}

impl Sender {
    /// Sends what may leave now after an ACK or a timer: retransmissions first where recovery wants them.
    pub fn send(&mut self, now: Time, config: &Config, out: &mut Vec<Departure>) {
        if self.established {
            self.send_new(Push::Normal, now, config, out);
        }
    }

    pub(super) fn send_after_ack(&mut self, resend: Resend, now: Time, config: &Config, out: &mut Vec<Departure>) {
        // Mostly all that is lost has been sent again.
        if resend == Resend::New || (resend == Resend::Lost && self.retrans_out < self.lost_out) {
            self.resend_first(resend, now, config, out);
        }
        if self.window_alone_limits_recovery(config) {
            self.send_in_recovery(now, config, out);
        } else {
            self.send_new(Push::Normal, now, config, out);
        }
    }

    #[cold]
    fn resend_first(&mut self, resend: Resend, now: Time, config: &Config, out: &mut Vec<Departure>) {
        if resend == Resend::New {
            self.send_new(Push::Normal, now, config, out);
            if self.view.snd_nxt > self.high_seq {
                return;
            }
            self.frto = false;
        }
        self.send_lost(now, config, out);
    }

    /// Largest burst now, in segments (tcp_tso_autosize).
    #[inline]
    pub(super) fn burst_limit(&self, config: &Config) -> u32 {
        if !config.tso {
            return 1;
        }
        let rate = self.control.pacing_rate.map_or_else(|| self.own_bytes_per_sec(), Rate::as_bytes_per_sec);
        let mut bytes = rate >> PACING_SHIFT;
        if let Some(min_rtt) = self.rtt.min_rtt_us() {
            let shift = min_rtt >> config.tso_rtt_log;
            bytes += if shift < 32 { MAX_BURST_BYTES >> shift } else { 0 };
        }
        let segments = bytes.min(MAX_BURST_BYTES) as u32 / u32::from(MSS);
        segments.clamp(self.least_burst(), MAX_BURST as u32)
    }

    /// What the largest burst is at least, with TSO.
    #[inline]
    pub(super) fn least_burst(&self) -> u32 {
        u32::from(self.control.min_burst).min(MAX_BURST as u32)
    }

    /// The largest burst now of at most `room` segments.
    #[inline]
    pub(super) fn burst_within(&self, room: u32, config: &Config) -> u32 {
        if config.tso && room <= self.least_burst() { room } else { room.min(self.burst_limit(config)) }
    }

    /// Size of the burst that leaves now of at most `room` segments, at least 1; 0: it is better to wait for a larger one, if
    /// it may `wait`.
    #[inline]
    pub(super) fn burst_now(&self, room: u32, wait: bool, config: &Config) -> u32 {
        let least = self.least_burst();
        // No burst limit is below that, so it need not be worked out.
        if config.tso && (room < least || room == least && !wait) {
            return if wait { 0 } else { room };
        }
        let max = self.burst_limit(config);
        if wait && room < max { 0 } else { room.min(max) }
    }

    /// Whether it may be better to wait for the next ACK and send a larger burst than `room` (tcp_tso_should_defer).
    #[inline]
    fn may_wait(&self, room: u32, now: Time, config: &Config) -> bool {
        config.tso
            && !matches!(self.view.ca, CaState::Recovery | CaState::Loss)
            && self.packets_out() > 0
            && self.may_defer(room, self.rtx.burst_of(self.view.snd_una).sent(), now, config)
    }

    /// The same where nothing is being repaired, and the oldest segment under way was sent at `oldest`.
    #[inline]
    pub(super) fn may_defer(&self, room: u32, oldest: Micros, now: Time, config: &Config) -> bool {
        if now.saturating_sub(self.view.paced_until) > DEFER
            || u64::from(room) * WINDOW_DIVISOR >= u64::from(self.control.cwnd)
            // The application writes in such units; the rest of one is filled up from the next.
            || room >= left_of_write(self.view.snd_nxt, config.initial_window)
        {
            return false;
        }
        let srtt = Time::from_nanos(self.rtt.srtt8_us() * 125);
        oldest.time() + srtt <= now + DEFER.min(srtt / 2)
    }

    /// Sends new segments as far as windows and pacing let them leave.
    #[inline(never)]
    pub(super) fn send_new(&mut self, push: Push, now: Time, config: &Config, out: &mut Vec<Departure>) {
        let next = self.view.snd_nxt;
        let mut max = 0;
        let mut limited = false;
        if self.control.restart_pacing {
            self.restart_pacing(now);
        }
        while self.view.snd_nxt < self.end {
            if self.paced && self.view.paced_until > now {
                self.pace_at = self.view.paced_until;
                break;
            }
            let room = self.room(push, config);
            if room == 0 {
                break;
            }
            let left = (self.end - self.view.snd_nxt).min(u64::from(u32::MAX)) as u32;
            if max == 0 {
                max = self.burst_limit(config);
            }
            if push == Push::Normal && left > room && room < max && self.may_wait(room, now, config) {
                limited = true;
                break;
            }
            self.depart(room.min(max).min(left), now, out);
            if push == Push::Probe {
                break;
            }
        }
        if self.view.snd_nxt >= self.end || self.view.snd_nxt >= self.view.snd_una + config.receive_window {
            self.check_app_limited();
        }
        let limited = limited || self.in_flight() >= self.control.cwnd;
        self.held_back = limited;
        if limited {
            self.window_limits(now);
        } else if self.view.snd_nxt != next {
            self.validate_cwnd(now, config);
        }
        if self.view.snd_nxt != next {
            self.after_departures((self.view.snd_nxt - next) as u32, push, now, config);
        }
    }

    /// How many new segments the windows let leave.
    #[inline]
    fn room(&self, push: Push, config: &Config) -> u32 {
        let room = self.control.cwnd.saturating_sub(self.in_flight());
        let room = if room == 0 && push == Push::Probe { 1 } else { room };
        let window = (self.view.snd_una + config.receive_window).saturating_sub(self.view.snd_nxt);
        room.min(window.min(u64::from(u32::MAX)) as u32)
    }

    /// What follows when `sent` new segments have left.
    fn after_departures(&mut self, sent: u32, push: Push, now: Time, config: &Config) {
        if self.reducing() {
            self.prr_out += sent;
        }
        if push == Push::Normal {
            self.schedule_probe(false, now, config);
        }
        self.tell_sent(sent, false, now);
    }

    /// Starts the pacing clock anew where the window opens after it held the sender back ([`Control::restart_pacing`]).
    fn restart_pacing(&mut self, now: Time) {
        if self.held_back && self.in_flight() < self.control.cwnd {
            self.held_back = false;
            let rate = self.control.pacing_rate.unwrap_or_else(|| self.own_pacing_rate());
            self.view.paced_until = self.view.paced_until.max(now.saturating_add(rate.time_for(Bytes(u64::from(MSS)))));
        }
    }

    #[inline]
    pub(super) fn tell_sent(&mut self, packets: u32, retransmission: bool, now: Time) {
        if self.needs.sent {
            self.ask(now, |cc, view, control| cc.on_sent(&Sent { view, packets, retransmission }, control));
        }
    }

    /// New segments leave in one burst.
    pub(super) fn depart(&mut self, count: u32, now: Time, out: &mut Vec<Departure>) {
        let start = self.view.snd_nxt;
        let burst = self.new_burst(start, count, false, Micros::of(now));
        self.push(burst);
        let was_empty = self.packets_out() == 0;
        if self.in_flight() == 0 {
            self.tell(StateEvent::Restart, now);
        }
        self.view.snd_nxt += u64::from(count);
        // In other states a probe is scheduled once all that may leave has left.
        if (was_empty || self.pending == Pending::Probe) && !self.may_probe() {
            self.rearm_timeout(now);
        }
        self.leave(Departure { start, count, retransmission: false }, now, out);
    }

    /// A transmission at `stamp`.
    #[inline]
    fn new_burst(&mut self, start: u64, count: u32, retransmission: bool, stamp: Micros) -> Burst {
        if self.needs.rate && self.packets_out() == 0 {
            self.first_tx = stamp;
            self.delivered_at = stamp;
        }
        Burst::new(start, count, stamp, self.view.delivered, retransmission)
    }

    /// The delivery state that a transmission of `count` segments takes along (tcp_rate_skb_sent).
    fn rate_start(&self, count: u32) -> RateStart {
        RateStart {
            first_tx: self.first_tx,
            delivered_at: self.delivered_at,
            delivered: self.view.delivered,
            delivered_ce: self.view.delivered_ce as u32,
            lost: self.view.lost as u32,
            in_flight: self.in_flight() + count,
            app_limited: self.view.app_limited,
        }
    }

    /// Books a transmission of new segments.
    #[inline]
    fn push(&mut self, burst: Burst) {
        self.rtx.push(burst);
        if self.needs.rate {
            self.push_start(burst.count());
        }
    }

    /// Apart, so that what few algorithms need does not lie in the way of all.
    #[inline(never)]
    pub(super) fn push_start(&mut self, count: u32) {
        self.rtx.push_start(self.rate_start(count));
    }

    /// Counts a departure and moves the time of the next one (tcp_update_skb_after_send).
    fn leave(&mut self, departure: Departure, now: Time, out: &mut Vec<Departure>) {
        let end = departure.start + u64::from(departure.count);
        let short = if end == self.end { u32::from(MSS) - self.last_payload } else { 0 };
        self.short_bytes += u64::from(short);
        let prior = self.view.paced_until;
        self.view.paced_until = prior.max(now);
        let sent_before = self.view.snd_nxt + self.retransmitted - u64::from(departure.count);
        if self.paced && sent_before >= UNPACED {
            let payload = departure.count * u32::from(MSS) - short;
            let rate = self.control.pacing_rate.unwrap_or_else(|| self.own_pacing_rate());
            let span = rate.time_for(Bytes(payload.into()));
            let credit = self.view.paced_until - prior;
            self.view.paced_until = self.view.paced_until.saturating_add(span - credit.min(span / 2));
        }
        out.push(departure);
    }

    /// The window limits sending now (tcp_cwnd_validate).
    #[inline]
    pub(super) const fn window_limits(&mut self, now: Time) {
        self.cwnd_limited = true;
        self.max_packets_out = self.packets_out();
        self.cwnd_usage_end = self.view.snd_nxt;
        self.cwnd_used = 0;
        self.cwnd_stamp = now;
    }

    /// Notes how much of the window is used where it does not limit sending now (tcp_cwnd_validate).
    #[inline(never)]
    fn validate_cwnd(&mut self, now: Time, config: &Config) {
        let packets_out = self.packets_out();
        if self.view.snd_una >= self.cwnd_usage_end || (!self.cwnd_limited && packets_out > self.max_packets_out) {
            self.cwnd_limited = false;
            self.max_packets_out = packets_out;
            self.cwnd_usage_end = self.view.snd_nxt;
        }
        if self.is_cwnd_limited() {
            self.cwnd_used = 0;
            self.cwnd_stamp = now;
        } else {
            self.cwnd_used = self.cwnd_used.max(packets_out);
            let idle = now - self.cwnd_stamp;
            if idle >= self.rtt.rto() && !self.needs.full_control {
                self.shrink_unused(now, config);
            }
        }
    }

    /// RFC 2861: a window that is not used decays towards what is.
    fn shrink_unused(&mut self, now: Time, config: &Config) {
        if self.view.ca == CaState::Open {
            let used = self.cwnd_used.max(config.initial_window);
            if used < self.control.cwnd {
                self.control.ssthresh = self.current_ssthresh();
                self.set_cwnd(u32::midpoint(self.control.cwnd, used), now);
            }
            self.cwnd_used = 0;
        }
        self.cwnd_stamp = now;
    }

    /// Whether the window may grow (tcp_is_cwnd_limited).
    pub(super) const fn is_cwnd_limited(&self) -> bool {
        self.cwnd_limited || (self.control.in_slow_start() && self.control.cwnd < 2 * self.max_packets_out)
    }

    /// Marks the time from which on rate samples speak of the application, not of the path.
    #[cold]
    fn check_app_limited(&mut self) {
        if self.in_flight() < self.control.cwnd && self.lost_out <= self.retrans_out {
            self.view.app_limited = true;
            self.app_limited_until = (self.view.delivered + u64::from(self.in_flight())).max(1);
        }
    }

    /// Retransmits lost segments as far as the window lets (tcp_xmit_retransmit_queue).
    pub(super) fn send_lost(&mut self, now: Time, config: &Config, out: &mut Vec<Departure>) {
        if !self.rtx.tracking() {
            return;
        }
        let mut seq = self.rtx.retransmit_hint().max(self.view.snd_una);
        let mut rearm = false;
        let mut total = 0;
        'holes: while self.retrans_out < self.lost_out
            && let Some((start, end)) = self.rtx.next_hole(seq, self.view.snd_nxt)
        {
            seq = start;
            while seq < end {
                if self.retrans_out >= self.lost_out {
                    break 'holes;
                }
                let segment = self.rtx.flags(seq);
                if segment & flags::LOST == 0 || segment & (flags::SACKED | flags::RETRANSMITTED) != 0 {
                    seq += 1;
                    continue;
                }
                self.rtx.set_retransmit_hint(seq);
                if self.paced && self.view.paced_until > now {
                    self.pace_at = self.view.paced_until;
                    break 'holes;
                }
                let room = self.control.cwnd.saturating_sub(self.in_flight());
                if room == 0 {
                    break 'holes;
                }
                let quota = self.burst_within(room, config);
                let mut count = 1;
                while count < quota
                    && seq + u64::from(count) < end
                    && self.rtx.flags(seq + u64::from(count)) & (flags::LOST | flags::SACKED | flags::RETRANSMITTED)
                        == flags::LOST
                {
                    count += 1;
                }
                rearm |= seq == self.view.snd_una && self.pending != Pending::Reordering;
                self.retransmit(seq, count, now, out);
                if self.reducing() {
                    self.prr_out += count;
                }
                total += count;
                seq += u64::from(count);
                self.rtx.set_retransmit_hint(seq);
            }
        }
        if total > 0 {
            self.tell_sent(total, true, now);
        }
        if rearm {
            self.set_timer(Pending::Timeout, self.rtt.rto(), now);
        }
    }

    /// Sends segments again and counts them as retransmissions in flight (tcp_retransmit_skb).
    pub(super) fn retransmit(&mut self, start: u64, count: u32, now: Time, out: &mut Vec<Departure>) {
        self.resend(start, count, now, out);
        for seq in start..start + u64::from(count) {
            // After an undo a retransmission may be under way of what is not lost; on a timeout the head leaves once more.
            self.retrans_out += u32::from(self.rtx.flags(seq) & flags::RETRANSMITTED == 0);
            self.rtx.set_flags(seq, flags::RETRANSMITTED, 0);
        }
        if self.retrans_stamp == 0 {
            self.retrans_stamp = Self::stamp(now);
        }
        self.undo_retrans = self.undo_retrans.max(0) + i64::from(count);
    }

    /// Sends segments again; only while tracking.
    fn resend(&mut self, start: u64, count: u32, now: Time, out: &mut Vec<Departure>) {
        let stamp = Micros::of(now);
        for seq in start..start + u64::from(count) {
            let burst = self.new_burst(seq, 1, true, stamp);
            if self.rtx.retransmit(seq, burst) && self.needs.rate {
                self.rtx.push_start(self.rate_start(1));
            }
            self.rtx.set_flags(seq, flags::EVER_RETRANSMITTED, 0);
        }
        self.retransmitted += u64::from(count);
        self.leave(Departure { start, count, retransmission: true }, now, out);
    }

    /// The pacing timer fired.
    pub fn on_pace(&mut self, now: Time, config: &Config, out: &mut Vec<Departure>) {
        self.pace_at = Time::MAX;
        if self.lost_out > self.retrans_out && self.control.cwnd > self.in_flight() {
            self.send_lost(now, config, out);
        }
        self.send(now, config, out);
    }

    /// The retransmission timer fired.
    pub fn on_timer(&mut self, now: Time, config: &Config, out: &mut Vec<Departure>, spares: &mut Spares) {
        self.timer = Timer::OFF;
        let pending = std::mem::replace(&mut self.pending, Pending::Nothing);
        match pending {
            Pending::Nothing => {}
            Pending::Reordering => self.on_reordering_timeout(now, config, out),
            Pending::Probe => self.send_probe(now, config, out, spares),
            Pending::Timeout => self.on_timeout(now, out, spares),
        }
    }

    /// RFC 8985, 7.3: a tail loss probe sends new data if there is some, else the last segment again.
    fn send_probe(&mut self, now: Time, config: &Config, out: &mut Vec<Departure>, spares: &mut Spares) {
        if !self.probing && self.packets_out() > 0 {
            self.tlp_retransmitted = false;
            let before = self.view.snd_nxt;
            let window_open = self.view.snd_nxt < self.view.snd_una + config.receive_window;
            if self.view.snd_nxt < self.end && window_open {
                self.send_new(Push::Probe, now, config, out);
            } else {
                self.rtx.track(self.view.snd_una, self.view.snd_nxt, spares);
                self.resend(self.view.snd_nxt - 1, 1, now, out);
                self.tlp_retransmitted = true;
            }
            if self.tlp_retransmitted || self.view.snd_nxt > before {
                self.set_probe_end(self.view.snd_nxt);
                self.pending = Pending::Nothing;
            }
        }
        self.rearm_timeout(now);
    }

    /// Sets the timer for a loss probe where one is due (tcp_schedule_loss_probe). `advancing`: an ACK made progress.
    pub(super) fn schedule_probe(&mut self, advancing: bool, now: Time, config: &Config) -> bool {
        if self.packets_out() == 0 || !self.may_probe() {
            return false;
        }
        let mut span = if self.rtt.srtt8_us() > 0 { self.probe_span(config) } else { super::rtt::RTO_INITIAL };
        if advancing {
            span = span.min(self.rtt.rto());
        } else if let Some(left) = self.timeout_left(now) {
            span = span.min(left);
        }
        self.set_timer(Pending::Probe, span, now);
        true
    }

    /// How long a loss probe waits where there is an RTT and something is in flight: two RTTs and a little.
    #[inline]
    pub(super) fn probe_span(&self, config: &Config) -> Time {
        let two_rtts = Time::from_micros(self.rtt.srtt8_us() >> 2);
        two_rtts + if self.packets_out() == 1 { config.rto_min } else { PROBE_MIN }
    }

    /// Whether loss probes are sent in this state.
    const fn may_probe(&self) -> bool {
        matches!(self.view.ca, CaState::Open | CaState::Cwr)
    }

    /// How far the timeout of the oldest segment is away; none where it is past.
    pub(super) fn timeout_left(&self, now: Time) -> Option<Time> {
        let due = Micros(self.rtx.burst_of(self.view.snd_una).sent().0 + self.rtt.rto_us().0).time();
        (due > now).then(|| due - now)
    }

    /// Sets the retransmission timeout, counted from the oldest segment where another timer ran before
    /// (tcp_rearm_rto).
    pub(super) fn rearm_timeout(&mut self, now: Time) {
        if self.packets_out() == 0 {
            self.pending = Pending::Nothing;
            self.timer = Timer::OFF;
            return;
        }
        let span = if matches!(self.pending, Pending::Reordering | Pending::Probe) {
            self.timeout_left(now).unwrap_or(Time::from_micros(1))
        } else {
            self.rtt.rto()
        };
        self.set_timer(Pending::Timeout, span, now);
    }

    pub(super) fn set_timer(&mut self, pending: Pending, span: Time, now: Time) {
        self.pending = pending;
        self.timer = Timer::set(now, span);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sender::testing::{config, sender};
    use crate::sender::{AckInfo, SenderInit, Spares};
    use crate::timer::Clock;
    use knee_core::Rate;

    /// Segments in a burst of a flow paced at 50 Mbit/s, whose millisecond (2^-10 s) holds 6103 bytes.
    fn burst(rtt_us: u64, tso_rtt_log: u32) -> u32 {
        let clock = Clock::new(Time::from_millis(4));
        let rto_min = Time::from_millis(200);
        let config = Config { clock, initial_window: 10, rto_min, tso: true, tso_rtt_log, receive_window: 1000 };
        let needs = knee_cc::find("reno").unwrap().needs;
        let mut sender = Sender::new(&SenderInit { needs, paced: false, ecn: false, bytes: None }, &config);
        sender.connect(Time::ZERO);
        sender.establish(Some(Time::from_micros(rtt_us)), Time::from_micros(rtt_us));
        sender.control.pacing_rate = Some(Rate::from_bytes_per_sec(6_250_000));
        sender.burst_limit(&config)
    }

    #[test]
    fn a_transfer_that_is_stopped_when_all_of_it_is_under_way_has_its_size() {
        let config = config(true, 9, 1000);
        let mut sender = sender("reno", Some(2000), false, &config);
        sender.stop();
        let ack = AckInfo { seq: 2, blocks: &[], tsecr: 1, flags: 0 };
        sender.on_ack(&ack, Time::from_millis(40), &config, &mut Vec::new(), &mut Spares::default());
        assert_eq!((sender.done(), sender.acked_bytes()), (true, 2000));
    }

    /// When the next packet may leave after an ACK at 40 ms opened a window that was full, at 100 packets a second.
    fn next_departure(restart: bool) -> Time {
        let config = config(false, 9, 1000);
        let mut sender = sender("reno", None, true, &config);
        sender.control.pacing_rate = Some(Rate::from_bytes_per_sec(100 * u64::from(MSS)));
        sender.control.restart_pacing = restart;
        let (now, mut out) = (Time::from_millis(40), Vec::new());
        sender.on_ack(
            &AckInfo { seq: 2, blocks: &[], tsecr: 1, flags: 0 },
            now,
            &config,
            &mut out,
            &mut Spares::default(),
        );
        if out.is_empty() { sender.view.paced_until } else { now }
    }

    #[test]
    fn where_the_pacing_clock_starts_anew_a_packet_waits_an_interval_after_the_ack_that_opens_the_window() {
        assert_eq!([next_departure(false), next_departure(true)], [40, 50].map(Time::from_millis));
    }

    #[test]
    fn bursts_hold_a_millisecond_of_the_rate() {
        // 6103 / 1448 = 4.2.
        assert_eq!(burst(20_000, 9), 4);
    }

    #[test]
    fn bursts_are_larger_on_short_paths() {
        // (6103 + 65215 / 2^2) / 1448 = 15.5 at 1.2 ms; all that a burst may have below 512 us.
        assert_eq!(burst(1_200, 9), 15);
        assert_eq!(burst(300, 9), 45);
    }

    #[test]
    fn before_linux_5_18_they_were_not() {
        assert_eq!(burst(300, 0), 4);
    }
}
