//! The ACK filter: of a flow's pure ACKs in a queue one goes that those behind it make needless.
//!
//! An ACK that comes has a look at those before it in its queue, from the head. One of its own connection may go if it
//! acknowledges less and tells nothing that the new one does not: no SYN, no newer timestamp, no SACK block that the
//! new one lacks, no other ECN echo than the next of them. The first of two such goes, so that one is left in front of
//! the new one; "aggressive" lets the only one go, too, if the new one comes right behind it.
//!
//! Source: Linux cake_ack_filter, cake_tcph_may_drop and cake_tcph_sack_compare.
//!
//! Departures: SACK blocks are compared by how many segments are in them, where they are all that the receiver holds
//! beyond the same gap; an ACK with SACK blocks stays in front of one that acknowledges more, where it goes in Linux if
//! the new one has its blocks too. ACKs of a connection are taken to come in the order in which they were sent.

use knee_core::{Packet, Payload};

/// The ACKs whose ECN echo is the same.
const ECHO: u8 = Packet::ECE | Packet::CWR;
/// Behind 2^31 lies what is not ahead.
const HALF: u32 = 1 << 31;

/// True if `old` tells nothing that `new`, which comes behind it, does not.
fn covers(new: &Packet, old: &Packet) -> bool {
    if old.has(Packet::SYN) || old.has(Packet::AE) {
        return false;
    }
    match (new.payload, old.payload) {
        (Payload::Ack { next, tsecr, .. }, Payload::Ack { next: before, tsecr: echoed, .. }) => {
            let ahead = next.ahead_of(before);
            0 < ahead && ahead < HALF && tsecr.wrapping_sub(echoed) < HALF
        }
        (Payload::Sack { next, .. }, Payload::Ack { next: before, .. }) => next.ahead_of(before) < HALF,
        (Payload::Sack { next, sacked, .. }, Payload::Sack { next: before, sacked: held, .. }) => {
            next == before && held > 0 && sacked > held
        }
        _ => false,
    }
}

/// The packet `before` an ACK in its queue that is to go, counted from the head.
pub(super) fn needless<'a>(
    before: impl Iterator<Item = &'a Packet>,
    new: &Packet,
    is_aggressive: bool,
) -> Option<usize> {
    let mut first: Option<(usize, u8)> = None;
    let (mut found, mut last) = (0, 0);
    for (n, old) in before.enumerate() {
        last = n;
        if old.flow != new.flow || !old.has(Packet::ACK) {
            continue;
        }
        let echo = old.flags & ECHO;
        if first.is_some_and(|first| first.1 != echo) {
            first = None;
            found -= 1;
        }
        if !covers(new, old) {
            continue;
        }
        let (place, _) = *first.get_or_insert((n, echo));
        if found > 0 {
            return Some(place);
        }
        found += 1;
    }
    let (place, echo) = first?;
    (is_aggressive && place == last && echo == new.flags & ECHO).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use knee_core::Seq;

    fn ack(next: u64) -> Packet {
        let payload = Payload::Ack { next: Seq::new(next), tsecr: 5, tsval: 0 };
        Packet { flags: Packet::ACK, size: 52, payload, ..Packet::default() }
    }

    fn sack(next: u64, sacked: u16) -> Packet {
        Packet { payload: Payload::Sack { key: 0, next: Seq::new(next), sacked }, ..ack(0) }
    }

    fn echo(packet: Packet) -> Packet {
        Packet { flags: packet.flags | Packet::ECE, ..packet }
    }

    #[track_caller]
    fn goes(before: &[Packet], new: Packet, conservative: Option<usize>, aggressive: Option<usize>) {
        let found = [false, true].map(|is_aggressive| needless(before.iter(), &new, is_aggressive));
        assert_eq!(found, [conservative, aggressive]);
    }

    #[test]
    fn of_two_needless_acks_the_one_nearer_to_the_head_goes() {
        goes(&[], ack(9), None, None);
        goes(&[ack(1)], ack(9), None, Some(0));
        goes(&[ack(1), ack(3)], ack(9), Some(0), Some(0));
        goes(&[ack(1), ack(3), ack(5)], ack(9), Some(0), Some(0));
        // Numbers wrap.
        goes(&[ack((1 << 32) - 3), ack((1 << 32) - 1)], ack(1 << 32), Some(0), Some(0));
    }

    #[test]
    fn what_an_ack_alone_tells_stays() {
        // Duplicates, ACKs of more, newer timestamps, handshakes, other connections and data.
        goes(&[ack(9), ack(9)], ack(9), None, None);
        goes(&[ack(10), ack(11)], ack(9), None, None);
        let newer = Packet { payload: Payload::Ack { next: Seq::new(1), tsecr: 6, tsval: 0 }, ..ack(1) };
        goes(&[newer, newer], ack(9), None, None);
        let syn = Packet { flags: Packet::ACK | Packet::SYN, ..ack(1) };
        goes(&[syn, syn], ack(9), None, None);
        let other = Packet { flow: 1, ..ack(1) };
        let data = Packet { size: 1500, ..Packet::default() };
        goes(&[other, data, other], ack(9), None, None);
        // The only one goes in aggressive mode, if nothing lies between.
        goes(&[ack(1), other], ack(9), None, None);
        goes(&[other, ack(1)], ack(9), None, Some(1));
    }

    #[test]
    fn a_change_of_the_ecn_echo_is_kept() {
        goes(&[ack(1), echo(ack(3))], ack(9), None, None);
        goes(&[ack(1), echo(ack(3))], echo(ack(9)), None, Some(1));
        goes(&[ack(1), echo(ack(3)), echo(ack(5))], ack(9), Some(1), Some(1));
        goes(&[echo(ack(1))], ack(9), None, None);
    }

    #[test]
    fn sack_blocks_go_only_for_more_of_the_same_gap() {
        goes(&[sack(1, 1), sack(1, 2)], sack(1, 3), Some(0), Some(0));
        goes(&[sack(1, 3), sack(1, 3)], sack(1, 3), None, None);
        goes(&[sack(1, 0), sack(1, 0)], sack(1, 3), None, None);
        goes(&[sack(1, 1), sack(1, 2)], ack(9), None, None);
        goes(&[sack(1, 1), sack(1, 2)], sack(2, 9), None, None);
        goes(&[ack(1), ack(3)], sack(3, 1), Some(0), Some(0));
    }
}
