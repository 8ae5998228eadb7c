//! Encryption changes bytes alone. Sizes and times of datagrams are the same from run to run, and the same as without
//! it.

use knee_core::Time;
use knee_quinn::{Control, Datagram, Peer, Quinn, Settings};
use std::collections::VecDeque;
use std::sync::Arc;

/// One way over a path without limits.
const DELAY: Time = Time::from_millis(10);

/// A datagram that left: when, whether from the client, and its bytes.
type Left = (Time, bool, Vec<u8>);

/// All datagrams of a transfer of `bytes`; each that `lose` picks by its number is lost.
fn transfer(tls: bool, bytes: u64, lose: impl Fn(usize) -> bool) -> Vec<Left> {
    transfer_with_delays(tls, bytes, |n| if lose(n) { None } else { Some(DELAY) })
}

/// All datagrams of a transfer of `bytes`; each is under way as long as `delay` says by its number, or lost.
fn transfer_with_delays(tls: bool, bytes: u64, delay: impl Fn(usize) -> Option<Time>) -> Vec<Left> {
    let settings = |seed| Settings { seed, tls, ..Settings::default() };
    let stack = Quinn(Arc::new(Control::named("cubic").unwrap()));
    let mut client = Peer::connect(&stack, Some(bytes), &settings(1), Time::ZERO);
    let mut server = Peer::receiver(&stack, &settings(2));
    let mut under_way: VecDeque<(Time, bool, Datagram)> = VecDeque::new();
    let (mut now, mut left) = (Time::ZERO, Vec::new());
    loop {
        for (from_client, end) in [(true, &mut client), (false, &mut server)] {
            while let Some(datagram) = end.transmit(now) {
                left.push((now, from_client, datagram.bytes.to_vec()));
                if let Some(delay) = delay(left.len()) {
                    let place = under_way.partition_point(|(at, ..)| *at <= now + delay);
                    under_way.insert(place, (now + delay, from_client, datagram));
                }
            }
        }
        if client.finished() {
            assert_eq!(server.received(), bytes);
            return left;
        }
        let next = [under_way.front().map(|(at, ..)| *at), client.deadline(), server.deadline()];
        now = next.into_iter().flatten().min().expect("a connection always waits for something").max(now);
        assert!(client.ended().is_none() && server.ended().is_none(), "{:?} {:?}", client.ended(), server.ended());
        assert!(now < Time::from_secs(60), "the transfer does not end");
        while under_way.front().is_some_and(|(at, ..)| *at <= now) {
            let (_, from_client, datagram) = under_way.pop_front().unwrap();
            if from_client { server.receive(now, datagram) } else { client.receive(now, datagram) }
        }
        client.fire(now);
        server.fire(now);
    }
}

fn sizes(left: &[Left]) -> Vec<(Time, bool, usize)> {
    left.iter().map(|(at, from_client, bytes)| (*at, *from_client, bytes.len())).collect()
}

#[test]
fn encrypted_runs_differ_in_bytes_alone() {
    let [first, second] = [(); 2].map(|()| transfer(true, 2_000_000, |n| n % 97 == 0));
    assert_eq!(sizes(&first), sizes(&second));
    assert!(first.iter().zip(&second).any(|(first, second)| first.2 != second.2));
}

#[test]
fn without_encryption_datagrams_have_the_same_sizes_and_times() {
    let [with, without] = [true, false].map(|tls| transfer(tls, 2_000_000, |n| n % 97 == 0));
    for (n, (with, without)) in sizes(&with).iter().zip(sizes(&without)).enumerate() {
        assert_eq!(*with, without, "datagram {n}");
    }
    assert_eq!(with.len(), without.len());
}

/// Lost parts of a handshake are sent again in pieces of the same sizes too.
#[test]
fn so_have_those_of_a_handshake_that_loses_any_one_of_its_datagrams() {
    for lost in 1..12 {
        let [with, without] = [true, false].map(|tls| sizes(&transfer(tls, 20_000, |n| n == lost)));
        assert_eq!(with, without, "with datagram {lost} lost");
    }
}

/// A header has the last byte of a packet's number while few packets are in flight. A packet that comes 128 numbers
/// late is read under another one, and decryption refuses it; taken for that one, its ACK would name a packet that was
/// never sent.
#[test]
fn so_have_those_of_which_one_comes_hundreds_of_packets_late() {
    for late in [20, 40, 60, 80, 100] {
        let delay = |n| Some(if n == late { Time::from_millis(150) } else { DELAY });
        let [with, without] = [true, false].map(|tls| sizes(&transfer_with_delays(tls, 3_000_000, delay)));
        assert_eq!(with, without, "with datagram {late} late");
    }
}

#[test]
fn stream_data_is_not_to_be_read_in_encrypted_datagrams() {
    // The data is zeros.
    let zeros = |left: &[Left]| left.iter().filter(|(.., bytes)| bytes.windows(64).any(|part| part == [0; 64])).count();
    assert_eq!(zeros(&transfer(true, 100_000, |_| false)), 0);
    assert!(zeros(&transfer(false, 100_000, |_| false)) > 60);
}
