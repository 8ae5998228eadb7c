//! Laws of connections with several streams, whatever is lost and however it is reordered.

use super::testing::{config, counted, sender};
use super::{Outgoing, Sender, SenderInit};
use crate::config::Config;
use crate::frame::{AckFrame, varint};
use crate::frames::{Frames, StreamFrame};
use crate::ranges::Ranges;
use crate::receiver::{Arrival, Receiver};
use knee_core::{Bytes, Priority, Rng, Time};
use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;

/// One end of a connection, and what the test knows of its streams.
struct End {
    sender: Sender,
    receiver: Receiver,
    /// The next packet number.
    next: u64,
    /// Bytes that came, by stream, and the streams that came as a whole.
    came: BTreeMap<u64, Ranges>,
    complete: BTreeSet<u64>,
    /// The place after the last byte that was sent, and bytes that were acknowledged, by stream.
    sent: BTreeMap<u64, u64>,
    acked: BTreeMap<u64, Ranges>,
    /// The size of each message that it writes.
    sizes: BTreeMap<u64, u64>,
}

/// A packet of either end.
#[derive(Clone)]
enum Packet {
    Frames(Arrival, Arc<Frames>),
    /// A PING.
    Bare(Arrival),
    Ack(AckFrame),
}

/// A client with messages, a server that answers each on its stream, and a network between them.
struct Connection {
    config: Config,
    ends: [End; 2],
    now: Time,
    rng: Rng,
    loss: u64,
    jitter: u64,
    queue: BinaryHeap<Reverse<(Time, usize)>>,
    packets: Vec<(usize, Packet)>,
}

fn priority(draw: u8) -> Priority {
    Priority { urgency: draw % 8, incremental: draw >= 128 }
}

impl Connection {
    fn new(cc: &str, config: &Config, seed: u64, loss: u64, jitter: u64) -> Self {
        let end = |opens| {
            let init = SenderInit { bytes: Some(0), ..SenderInit::default() };
            let mut sender = sender(cc, init, Some(Time::from_millis(20)), config);
            sender.use_streams(opens, config);
            let (came, complete, sent, acked) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
            End { sender, receiver: Receiver::default(), next: 0, came, complete, sent, acked, sizes: BTreeMap::new() }
        };
        Self {
            config: *config,
            ends: [end(true), end(false)],
            now: Time::ZERO,
            rng: Rng::stream(seed, "pipe"),
            loss,
            jitter,
            queue: BinaryHeap::new(),
            packets: Vec::new(),
        }
    }

    fn carry(&mut self, to: usize, packet: Packet) {
        let (lost, extra) = (self.rng.next_u64() % 100 < self.loss, self.rng.next_u64() % (self.jitter + 1));
        if !lost {
            self.queue.push(Reverse((self.now + Time::from_millis(10) + Time::from_nanos(extra), self.packets.len())));
            self.packets.push((to, packet));
        }
    }

    fn write(&mut self, from: usize, stream: u64, bytes: u64, priority: Priority) {
        self.ends[from].sizes.insert(stream, bytes);
        self.ends[from].sender.write_stream(stream, bytes, priority);
    }

    fn send(&mut self, from: usize) {
        let mut out = Vec::new();
        self.ends[from].sender.send(self.now, &self.config, &mut out);
        self.leave(from, &out);
    }

    /// Packets leave an end: each has its own number, and nothing in them is beyond a limit.
    fn leave(&mut self, from: usize, out: &[Outgoing]) {
        for burst in out {
            let end = &mut self.ends[from];
            assert_eq!((burst.first, burst.count), (end.next, 1), "no number is used twice");
            end.next += 1;
            let mut arrival = Arrival::of(burst, burst.first, burst.mark);
            arrival.len = 0;
            let Some(frames) = end.sender.frames(burst.first).cloned().filter(|_| burst.framed) else {
                self.carry(1 - from, Packet::Bare(arrival));
                continue;
            };
            self.check_frames(from, burst, &frames);
            self.carry(1 - from, Packet::Frames(arrival, frames));
        }
        assert_eq!(self.ends[from].sender.new_bytes(), self.ends[from].sent.values().sum::<u64>());
        let (sent, acknowledged, in_flight, lost) = self.ends[from].sender.packets();
        assert_eq!((sent, sent), (self.ends[from].next, acknowledged + u64::from(in_flight) + lost));
        let sender = &self.ends[from].sender;
        assert_eq!(counted(sender, &self.config), (in_flight, sender.bytes_in_flight()));
    }

    fn check_frames(&mut self, from: usize, burst: &Outgoing, frames: &Frames) {
        let settings = &self.config.settings;
        let [client, server] = &mut self.ends;
        let (end, peer) = if from == 0 { (client, server) } else { (server, client) };
        let head = |frame: &StreamFrame| {
            3 + varint(4 * frame.stream) + if frame.offset > 0 { varint(frame.offset) } else { 0 }
        };
        let data: u16 = frames.streams.iter().map(|frame| head(frame) + frame.len).sum();
        // 27 bytes are around the frames; the last frame may lack its length.
        let bytes = u64::from(27 + data + frames.max_streams.map_or(0, |limit| 1 + varint(limit)));
        let size = self.config.size(burst.len);
        assert!(bytes == size || bytes == size + 2 || frames.streams.is_empty(), "{bytes} in {size}: {frames:?}");
        assert!(size <= u64::from(self.config.datagram), "no larger than a datagram");
        for frame in &frames.streams {
            assert!(frame.len > 0 && frame.fin == (frame.end() == end.sizes[&frame.stream]));
            let in_order = peer.came.get(&frame.stream).map_or(0, |came| came.first_missing(0));
            assert!(frame.end() <= in_order + settings.stream_receive_window.0, "the stream's limit");
            let acked = end.acked.entry(frame.stream).or_default();
            let missing: Vec<_> = acked.gaps(frame.offset, frame.end()).collect();
            assert_eq!(missing, [(frame.offset, frame.end())], "nothing is sent again that was acknowledged");
            let sent = end.sent.entry(frame.stream).or_default();
            *sent = frame.end().max(*sent);
        }
        let all: u64 = peer.came.values().map(|came| came.first_missing(0)).sum();
        assert!(end.sent.values().sum::<u64>() <= all + settings.receive_window.0, "the connection's limit");
        if from == 0 {
            let most = u64::from(settings.max_streams) + end.complete.len() as u64;
            assert!(end.sent.len() as u64 <= most, "the limit of streams");
        }
    }

    /// A packet arrives at an end.
    fn arrive(&mut self, to: usize, packet: &Packet) {
        let (config, now) = (self.config, self.now);
        let end = &mut self.ends[to];
        let mut out = Vec::new();
        let ack = match packet {
            Packet::Ack(ack) => {
                // Lost packets are forgotten after three probe timeouts.
                let kept = end.sender.rtt().pto(&config) * 3;
                let old = |n: &u64| {
                    end.sender.lost_packets.iter().any(|lost| lost.number == *n && now.saturating_sub(lost.at) > kept)
                };
                let numbers = ack.ranges().flat_map(|(from, to)| from..to).filter(|n| !old(n));
                let known = numbers.filter_map(|n| end.sender.frames(n));
                for frame in known.flat_map(|frames| &frames.streams) {
                    end.acked.entry(frame.stream).or_default().insert(frame.offset, frame.end());
                }
                end.sender.on_ack(ack, now, &config, &mut out).unwrap();
                None
            }
            Packet::Bare(arrival) => end.receiver.on_packet(arrival, now, &config),
            Packet::Frames(arrival, frames) => {
                let ack = end.receiver.on_frames(arrival, frames, now, &config);
                frames.max_streams.into_iter().for_each(|limit| end.sender.on_max_streams(limit));
                for frame in &frames.streams {
                    end.came.entry(frame.stream).or_default().insert(frame.offset, frame.end());
                }
                ack
            }
        };
        self.leave(to, &out);
        self.ends[to].sender.take_finished();
        if let Some(ack) = ack {
            self.carry(1 - to, Packet::Ack(ack));
        }
        for stream in self.ends[to].receiver.take_complete() {
            let came = self.ends[to].came[&stream].as_slice().to_vec();
            assert_eq!(came, [(0, self.ends[1 - to].sizes[&stream])], "all of it, and nothing else");
            assert!(self.ends[to].complete.insert(stream), "each comes once");
            if to == 1 {
                let bytes = 1 + self.rng.next_u64() % 30_000;
                self.write(1, stream, bytes, priority((stream * 37) as u8));
            }
        }
        self.send(to);
    }

    /// Runs until all `count` answers have come. Gives when that was.
    fn run(&mut self, count: usize) -> Time {
        self.send(0);
        for _ in 0..400_000 {
            let settled = self.ends.iter().all(|end| end.sender.done());
            if settled && self.ends[0].complete.len() == count {
                let delivered: u64 = self.ends.iter().map(|end| end.receiver.delivered()).sum();
                let written: u64 = self.ends.iter().flat_map(|end| end.sizes.values()).sum();
                assert_eq!(delivered, written);
                return self.now;
            }
            let timers = |end: &End| (end.sender.due(), end.receiver.delayed.not_before());
            let due = self.ends.iter().flat_map(|end| <[Time; 2]>::from(timers(end))).min().unwrap();
            let next = self.queue.peek().map_or(Time::MAX, |Reverse((at, _))| *at);
            assert!(due.min(next) < Time::MAX, "nothing will happen");
            self.now = self.now.max(due.min(next));
            if next <= due {
                let Reverse((_, i)) = self.queue.pop().unwrap();
                let (to, packet) = self.packets[i].clone();
                self.arrive(to, &packet);
                continue;
            }
            for i in 0..2 {
                let mut out = Vec::new();
                let (now, config) = (self.now, self.config);
                let End { sender, receiver, .. } = &mut self.ends[i];
                let ack = receiver.on_timer(now);
                if sender.timer.not_before() <= now {
                    sender.on_timer(now, &config, &mut out);
                } else if sender.pacer.due <= now {
                    sender.send(now, &config, &mut out);
                }
                self.leave(i, &out);
                if let Some(ack) = ack {
                    self.carry(1 - i, Packet::Ack(ack));
                }
            }
        }
        panic!("not all came: {:?}", self.ends[0].complete.len());
    }
}

fn any_config(windows: (u64, u64), streams: u32, pacing: bool) -> Config {
    config(|settings| {
        (settings.receive_window, settings.stream_receive_window) = (Bytes(windows.0), Bytes(windows.1));
        (settings.max_streams, settings.pacing) = (streams, pacing);
    })
}

/// Runs a sender that opens these streams at once, with nothing lost. Gives the packets in the order of leaving, each
/// with its streams and their bytes.
fn served(streams: &[(u64, Priority)]) -> Vec<Vec<(u64, u64)>> {
    let config = any_config((1 << 30, 1 << 30), 100, false);
    let mut sender = sender("reno", SenderInit { bytes: Some(0), ..SenderInit::default() }, None, &config);
    sender.use_streams(false, &config);
    (0..).zip(streams).for_each(|(id, (bytes, priority))| sender.write_stream(id, *bytes, *priority));
    let (mut packets, mut now) = (Vec::new(), Time::ZERO);
    let mut out = Vec::new();
    sender.send(now, &config, &mut out);
    while !out.is_empty() {
        let last = out.last().unwrap().first;
        packets.extend(out.drain(..).map(|burst| {
            let frames = sender.frames(burst.first).unwrap();
            frames.streams.iter().map(|frame| (frame.stream, u64::from(frame.len))).collect::<Vec<_>>()
        }));
        now += Time::from_millis(10);
        let ack = AckFrame { top: (0, last + 1), ..AckFrame::default() };
        sender.on_ack(&ack, now, &config, &mut out).unwrap();
    }
    assert!(sender.done());
    packets
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, max_shrink_iters: 300, ..ProptestConfig::default() })]

    /// All messages come, each once and as a whole, within all limits.
    #[test]
    fn each_stream_comes_once_within_the_limits(
        seed: u64, cc: u8, loss in 0u64..30, jitter in 0u64..30_000_000,
        windows in (2_000u64..60_000, 2_000u64..60_000), streams in 1u32..20, pacing: bool,
        messages in prop::collection::vec((1u64..6_000, any::<u8>()), 1..40),
    ) {
        let entries = knee_cc::registry();
        let entry = &entries[usize::from(cc) % entries.len()];
        let run = || {
            let config = any_config(windows, streams, pacing);
            let mut connection = Connection::new(entry.name, &config, seed, loss, jitter);
            for (stream, &(bytes, draw)) in (0..).zip(&messages) {
                connection.write(0, stream, bytes, priority(draw));
            }
            connection.run(messages.len())
        };
        // And the same twice.
        prop_assert_eq!(run(), run());
    }

    /// RFC 9218, 10: nothing of a lower urgency leaves while a higher one has data; streams that are not incremental
    /// come one by one; incremental ones that have data all along differ by at most one packet.
    #[test]
    fn streams_are_served_by_their_priorities(
        streams in prop::collection::vec((1u64..20_000, any::<u8>()), 1..12)
    ) {
        // Few urgencies, so that several streams share one.
        let few = |draw: u8| Priority { urgency: draw % 3, incremental: draw >= 100 };
        let streams: Vec<(u64, Priority)> = streams.iter().map(|&(bytes, draw)| (bytes, few(draw))).collect();
        let packets = served(&streams);
        let mut left: Vec<u64> = streams.iter().map(|(bytes, _)| *bytes).collect();
        let mut turns = vec![0u64; streams.len()];
        for packet in packets {
            for (id, bytes) in packet {
                let id = id as usize;
                let own = streams[id].1;
                turns[id] += 1;
                for (other, (_, theirs)) in streams.iter().enumerate().filter(|(other, _)| left[*other] > 0) {
                    prop_assert!(theirs.urgency >= own.urgency, "stream {} before {}", id, other);
                    let both = theirs.urgency == own.urgency;
                    let in_order = both && !theirs.incremental && !own.incremental;
                    prop_assert!(!in_order || other >= id, "stream {} before {}", id, other);
                    if both && theirs.incremental && own.incremental {
                        prop_assert!(turns[id].abs_diff(turns[other]) <= 1, "{:?}", turns);
                    }
                }
                left[id] -= bytes;
            }
        }
        prop_assert!(left.iter().all(|left| *left == 0));
    }
}

/// Two streams in a packet, worked by hand: 1,173 bytes for frames. The first stream's 100 bytes take 1 for the type,
/// 1 for the ID and 2 for the length; the second's head is 2, and it fills the packet.
#[test]
fn a_packet_has_the_tail_of_one_stream_and_the_head_of_the_next() {
    let usual = Priority::default();
    assert_eq!(served(&[(100, usual), (2_000, usual)]), [vec![(0, 100), (1, 1067)], vec![(1, 933)]]);
    // As soon as fewer bytes are left than a head may have, the packet leaves.
    assert_eq!(served(&[(1_150, usual), (10, usual)]), [vec![(0, 1_150)], vec![(1, 10)]]);
}

/// RFC 9000, 4.1: a lost packet's data leaves again before new data of its stream, and only what is missing; with a
/// stream's window of 2,400 bytes nothing new leaves until the hole is filled.
#[test]
fn lost_data_of_a_stream_leaves_before_its_new_data() {
    let config = config(|settings| {
        settings.stream_receive_window = Bytes(2_400);
        settings.pacing = false;
    });
    let mut sender = sender("reno", SenderInit { bytes: Some(0), ..SenderInit::default() }, None, &config);
    sender.use_streams(false, &config);
    sender.write_stream(0, 5_000, Priority::default());
    sender.write_stream(1, 2_000, Priority { urgency: 5, incremental: false });
    let (mut out, at) = (Vec::new(), Time::from_millis);
    let left = |sender: &Sender, out: &mut Vec<Outgoing>| -> Vec<Vec<(u64, u64, u16)>> {
        let frames = |burst: Outgoing| sender.frames(burst.first).unwrap().clone();
        let one = |frames: Arc<Frames>| frames.streams.iter().map(|f| (f.stream, f.offset, f.len)).collect();
        out.drain(..).map(|burst| one(frames(burst))).collect()
    };
    sender.send(at(0), &config, &mut out);
    // 1 + 1 + 0 bytes of head, then 1 + 1 + 2; the third packet has the stream's last 60 bytes and the other stream.
    assert_eq!(
        left(&sender, &mut out),
        [vec![(0, 0, 1171)], vec![(0, 1171, 1169)], vec![(0, 2340, 60), (1, 0, 1105)], vec![(1, 1105, 895)]]
    );
    // Packets 1 to 3 have come, packet 0 is lost by number: what filled the window comes again, and no more.
    sender.on_ack(&AckFrame { top: (1, 4), ..AckFrame::default() }, at(40), &config, &mut out).unwrap();
    assert_eq!(left(&sender, &mut out), [vec![(0, 0, 1171)]]);
    sender.on_ack(&AckFrame { top: (1, 5), ..AckFrame::default() }, at(80), &config, &mut out).unwrap();
    assert_eq!(left(&sender, &mut out), [vec![(0, 2400, 1169)], vec![(0, 3569, 1169)], vec![(0, 4738, 62)]]);
    assert!(sender.take_finished() == [1] && !sender.done());
}

/// RFC 9002, 6.2.4: two probes carry what the two oldest packets did, where nothing is new, and once that has come,
/// nothing more leaves.
#[test]
fn probes_carry_what_the_oldest_packets_did() {
    let config = config(|settings| settings.pacing = false);
    let mut sender = sender("reno", SenderInit { bytes: Some(0), ..SenderInit::default() }, None, &config);
    sender.use_streams(false, &config);
    sender.write_stream(0, 3_000, Priority::default());
    let (mut out, at) = (Vec::new(), Time::from_millis);
    sender.send(at(0), &config, &mut out);
    assert_eq!(out.drain(..).count(), 3);
    let probe = sender.timer.not_before();
    sender.on_timer(probe, &config, &mut out);
    let offsets =
        |number: u64| sender.frames(number).unwrap().streams.iter().map(|f| (f.offset, f.len)).collect::<Vec<_>>();
    assert_eq!((out.len(), offsets(3), offsets(4)), (2, vec![(0, 1171)], vec![(1171, 1169)]));
    out.clear();
    sender.on_ack(&AckFrame { top: (2, 5), ..AckFrame::default() }, probe + at(40), &config, &mut out).unwrap();
    assert!(sender.done() && out.is_empty());
}

/// RFC 9000, 4.6: with a limit of eight, nothing of the ninth stream leaves; the second answer that is over raises the
/// limit to ten, which a packet says, and says again where it is lost.
#[test]
fn a_server_raises_the_limit_of_streams_as_they_are_over() {
    let config = any_config((1 << 30, 1 << 30), 8, false);
    let init = SenderInit { bytes: Some(0), ..SenderInit::default() };
    let mut server = sender("reno", init, None, &config);
    server.use_streams(false, &config);
    let mut client = sender("reno", init, None, &config);
    client.use_streams(true, &config);
    (0..9).for_each(|stream| client.write_stream(stream, 10, Priority::default()));
    let mut out = Vec::new();
    client.send(Time::ZERO, &config, &mut out);
    let asked = client.frames(0).unwrap().streams.iter().map(|frame| frame.stream).collect::<Vec<_>>();
    assert_eq!((out.len(), asked), (1, (0..8).collect()));
    let (mut out, at) = (Vec::new(), Time::from_millis);
    for stream in 0..2 {
        server.write_stream(stream, 10, Priority::default());
        server.send(at(10), &config, &mut out);
        assert_eq!(out.len() as u64, stream + 1, "one answer is no more than an eighth");
        let ack = AckFrame { top: (0, stream + 1), ..AckFrame::default() };
        server.on_ack(&ack, at(50), &config, &mut out).unwrap();
    }
    assert_eq!((out.len(), server.frames(2).unwrap().max_streams), (3, Some(10)));
    server.on_timer(server.timer.not_before(), &config, &mut out);
    assert_eq!(server.frames(3).unwrap().max_streams, Some(10));
    assert!(!client.done());
    client.on_max_streams(10);
    client.on_max_streams(8);
    out.clear();
    client.send(at(70), &config, &mut out);
    assert_eq!(client.frames(1).unwrap().streams[0].stream, 8);
}
