//! Devices in namespaces of their own, and the loop between two of them, with sockets of the running kernel. Needs
//! root, and the programs `unshare` and `ip`; without them the tests say so and end.

#![allow(clippy::unwrap_used, reason = "helpers of tests, outside of them")]

use knee_core::Time;
use knee_switch::clock::{self, Clock};
use knee_switch::config::Side;
use knee_switch::device::Device;
use knee_switch::ferry::Ferry;
use knee_switch::late::Late;
use knee_switch::network::SwitchNetwork;
use knee_switch::privileges;
use quinn_udp::{Transmit, UdpSocketState};
use rustix::process::geteuid;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::json;
use std::env;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

const PORT: u16 = 10_000;
const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 9, 0, 1), Ipv4Addr::new(10, 9, 0, 2)];

/// A network namespace, which ends with the process that holds it.
struct Namespace(Child);

impl Namespace {
    /// None: this machine has none for us.
    fn new() -> Option<Self> {
        let path = env::var_os("PATH").unwrap_or_default();
        let found = |program: &str| env::split_paths(&path).any(|folder| folder.join(program).exists());
        if !geteuid().is_root() || !found("unshare") || !found("ip") || !Path::new("/dev/net/tun").exists() {
            eprintln!("skipped: needs root, unshare, ip and /dev/net/tun");
            return None;
        }
        let mut child = Command::new("unshare");
        child.args(["--net", "sh", "-c", "echo ready; exec sleep 60"]).stdout(Stdio::piped());
        let mut child = child.spawn().unwrap();
        let mut ready = [0; 6];
        child.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
        Some(Self(child))
    }

    fn file(&self) -> PathBuf {
        format!("/proc/{}/ns/net", self.0.id()).into()
    }

    /// A device in it that is up; the calling thread is in the namespace afterwards.
    fn device(&self, side: usize) -> Device {
        let device = Device::open(&Side { namespace: self.file(), device: "knee-t".into() }).unwrap();
        let (own, peer) = (ADDRESSES[side].to_string(), ADDRESSES[1 - side].to_string());
        for command in
            [&["addr", "add", &own, "peer", &peer, "dev", "knee-t"][..], &["link", "set", "knee-t", "up"][..]]
        {
            assert!(Command::new("ip").args(command).status().unwrap().success());
        }
        device
    }

    fn enter(file: &Path) {
        let file = File::open(file).unwrap();
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// RFC 1071: the one's complement sum of 16-bit words, which is all ones over a header with its checksum.
fn sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// Waits for a packet for a second; those of IPv6 are none of ours.
fn read(device: &mut Device) -> Vec<u8> {
    let mut buffer = [0; 2048];
    let clock = Clock::new(0);
    let end = clock.now() + Time::from_secs(1);
    while clock.now() < end {
        match device.read(&mut buffer).unwrap() {
            Some(bytes) if buffer[0] >> 4 == 4 => return buffer[..bytes].to_vec(),
            _ => thread::yield_now(),
        }
    }
    panic!("no packet came");
}

#[test]
fn a_burst_that_the_kernel_hands_over_in_one_piece_is_read_as_the_packets_of_a_wire() {
    let Some(namespace) = Namespace::new() else { return };
    let mut device = namespace.device(0);
    let socket = UdpSocket::bind((ADDRESSES[0], 0)).unwrap();
    let state = UdpSocketState::new((&socket).into()).unwrap();
    let contents: Vec<u8> = (0..9 * 1200 + 333u32).map(|i| (i * 7 / 3) as u8).collect();
    let to = SocketAddr::new(ADDRESSES[1].into(), 7);
    let burst = Transmit { destination: to, ecn: None, contents: &contents, segment_size: Some(1200), src_ip: None };
    state.try_send((&socket).into(), &burst).unwrap();
    let packets: Vec<Vec<u8>> = (0..10).map(|_| read(&mut device)).collect();
    for (i, packet) in packets.iter().enumerate() {
        let length = |at: usize| usize::from(u16::from_be_bytes([packet[at], packet[at + 1]]));
        assert_eq!((length(2), length(24)), (packet.len(), packet.len() - 20), "packet {i}: lengths in its headers");
        assert_eq!(sum(&packet[..20]), 0xffff, "packet {i}: checksum of its IP header");
        // RFC 768: over addresses, protocol, length, header and data.
        let udp = [&packet[12..20], &[0, 17], &packet[24..26], &packet[20..]].concat();
        assert_eq!(sum(&udp), 0xffff, "packet {i}: checksum of its datagram");
    }
    let data: Vec<&[u8]> = packets.iter().map(|packet| &packet[28..]).collect();
    assert_eq!(data.iter().map(|data| data.len()).collect::<Vec<_>>(), [&[1200; 9][..], &[333]].concat());
    assert_eq!(data.concat(), contents);

    // The way back: with addresses and ports exchanged the checksums stay what they are.
    let first = &packets[0];
    let answer = [&first[..12], &first[16..20], &first[12..16], &first[22..24], &first[20..22], &first[24..]].concat();
    assert!(device.write(&answer).unwrap());
    let mut buffer = [0; 2048];
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    assert_eq!(socket.recv(&mut buffer).unwrap(), 1200);
    assert_eq!(buffer[..1200], *data[0]);
}

/// A link of 20 Mbit/s and an RTT of 20 ms between two sockets: what the receiver has got at any time is no more than
/// the link has carried since the start, and no ACK is back before the RTT is over, so nothing left before it was due.
/// All bytes come, in order, and each departure has its lateness.
#[test]
fn nothing_leaves_before_it_is_due() {
    const RATE: u64 = 20_000_000;
    const BYTES: usize = 1_000_000;
    let (Some(here), Some(there)) = (Namespace::new(), Namespace::new()) else { return };
    let spec = serde_json::from_value(json!({
        "duration": 1_500_000_000u64, "seed": 1, "warmup": 0, "interval": 100_000_000,
        "links": [{"name": "bottleneck", "capacity": {"rate": RATE}, "queue": "pfifo",
            "limit": {"packets": 1000}, "overhead": 0, "loss": 0.0, "delay": 0, "jitter": 0, "reorder": false}],
        "flows": [{"label": "flow 1", "cc": "reno", "rtt": 20_000_000, "start": 0, "stop": 1_500_000_000, "path": [0]}],
    }));
    let mut network = SwitchNetwork::new(&spec.unwrap(), PORT, None).unwrap();
    let mut sides = [here.device(0), there.device(1)];
    let listener = TcpListener::bind((ADDRESSES[1], PORT)).unwrap();
    let contents: Vec<u8> = (0..BYTES).map(|i| (i / 3) as u8).collect();
    let clock = Clock::new(Clock::new(0).now().as_nanos());
    let receiver = thread::spawn(move || {
        let (mut got, mut buffer) = (Vec::<u8>::new(), [0; 4096]);
        let (mut socket, _) = listener.accept().unwrap();
        loop {
            let bytes = socket.read(&mut buffer).unwrap();
            let now = clock.now();
            got.extend(&buffer[..bytes]);
            let carried = u128::from(RATE) * u128::from(now.as_nanos()) / 8_000_000_000;
            assert!(got.len() as u128 <= carried, "{} bytes at {now:?}", got.len());
            if bytes == 0 {
                return got;
            }
        }
    });
    let (sent, file) = (contents.clone(), here.file());
    let sender = thread::spawn(move || {
        Namespace::enter(&file);
        let begin = clock.now();
        let mut socket = TcpStream::connect((ADDRESSES[1], PORT)).unwrap();
        let rtt = clock.now() - begin;
        socket.write_all(&sent).unwrap();
        rtt
    });
    let mut late = Late::default();
    let end = Time::from_millis(1500);
    let mut ferry = Ferry { clock, end, forced_sleeps: false, asked: &AtomicBool::new(false), live: None };
    let (refused, ended) = ferry.run(&mut network, &mut sides, &mut late).unwrap();
    assert_eq!(ended, end);
    let (rtt, got) = (sender.join().unwrap(), receiver.join().unwrap());
    assert!(rtt >= Time::from_millis(20), "{rtt:?}");
    assert!(got == contents, "{} of {BYTES} bytes came", got.len());
    let figures = late.figures();
    // A packet of 1500 bytes carries at most 1460; an ACK, at least, for each 64 KiB.
    assert!(figures.departures >= (BYTES / 1460 + BYTES / 65_536) as u64, "{figures:?}");
    assert_eq!(refused, 0);
}

/// Linux takes 5 % of each second away from what has real-time priority, in one piece, unless that leaves them to
/// others.
#[test]
fn the_loop_leaves_to_others_what_linux_would_take() {
    let (Some(here), Some(there)) = (Namespace::new(), Namespace::new()) else { return };
    if privileges::be_prompt() != "fifo" {
        eprintln!("skipped: no real-time priority");
        return;
    }
    // Something is due each 50 us, for which the loop stays awake.
    let spec = serde_json::from_value(json!({
        "duration": 500_000_000u64, "seed": 1, "warmup": 0, "interval": 50_000,
        "links": [{"name": "bottleneck", "capacity": {"rate": 1_000_000}, "queue": "pfifo",
            "limit": {"packets": 5}, "overhead": 0, "loss": 0.0, "delay": 0, "jitter": 0, "reorder": false}],
        "flows": [{"label": "flow 1", "cc": "reno", "rtt": 20_000_000, "start": 0, "stop": 500_000_000, "path": [0]}],
    }));
    let mut network = SwitchNetwork::new(&spec.unwrap(), PORT, None).unwrap();
    let mut sides = [here.device(0), there.device(1)];
    let clock = Clock::new(Clock::new(0).now().as_nanos());
    let end = Time::from_millis(500);
    let before = clock::processor();
    let mut ferry = Ferry { clock, end, forced_sleeps: true, asked: &AtomicBool::new(false), live: None };
    ferry.run(&mut network, &mut sides, &mut Late::default()).unwrap();
    let share = (clock::processor() - before).as_secs_f64() / end.as_secs_f64();
    assert!(share < 0.95, "{share:.3} of the processor");
    // Otherwise the loop slept for another reason.
    assert!(share > 0.5, "{share:.3} of the processor");
}
