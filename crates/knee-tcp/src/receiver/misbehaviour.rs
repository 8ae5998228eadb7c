//! Receivers that misbehave to get more than their share.
//!
//! | name | what it does | what Linux's sender makes of it |
//! |---|---|---|
//! | `ack-division` | acknowledges each segment in parts | counts segments when they are acknowledged whole |
//! | `dup-ack-spoofing` | sends duplicates of each ACK | counts nothing without SACK blocks |
//! | `optimistic-acks` | acknowledges what has not arrived | cannot tell, up to what it has sent |
//!
//! All three acknowledge every segment at once. Source: S. Savage, N. Cardwell, D. Wetherall, T. Anderson, "TCP
//! Congestion Control with a Misbehaving Receiver", ACM CCR 29(5), 1999, section 2.

use super::disorder::{Blocks, Range};
use super::{FullReply, Reply};
use knee_core::convert::saturating_u16;
use knee_core::packet::{MSS, MTU};
use knee_core::{Param, Params, params};

const SOURCE: &str = "Savage et al., CCR 1999";

/// A way to receive.
pub struct Entry {
    /// Its name in scenario files.
    pub name: &'static str,
    /// One line on what it does.
    pub about: &'static str,
    /// The paper or program that it follows.
    pub source: &'static str,
    /// Its parameters.
    pub params: &'static [Param],
    /// Losses do not hold back the sender's window, since it hears of none.
    pub conceals_losses: bool,
    make: fn(&Params) -> Option<Kind>,
}

/// All ways to receive, the honest one first.
pub static ENTRIES: [Entry; 4] = [
    Entry {
        name: "honest",
        about: "acknowledges what has arrived, as Linux does",
        source: "Linux net/ipv4/tcp_input.c",
        params: &[],
        conceals_losses: false,
        make: |_| None,
    },
    Entry {
        name: "ack-division",
        about: "acknowledges each segment in parts, so that more ACKs come than segments",
        source: SOURCE,
        params: Division::DECLARED,
        conceals_losses: false,
        make: |params| Some(Kind::Division(params.into())),
    },
    Entry {
        name: "dup-ack-spoofing",
        about: "sends each ACK several times",
        source: SOURCE,
        params: Spoofing::DECLARED,
        conceals_losses: false,
        make: |params| Some(Kind::Spoofing(params.into())),
    },
    Entry {
        name: "optimistic-acks",
        about: "acknowledges all up to the highest segment that has arrived, lost ones too, or beyond it",
        source: SOURCE,
        params: Optimistic::DECLARED,
        conceals_losses: true,
        make: |params| Some(Kind::Optimistic { params: params.into(), holes: Vec::new() }),
    },
];

params! {
    /// The parameter of `ack-division`.
    struct Division {
        /// ACKs for each segment
        parts: u64 = 8, in 2..=MSS as u64, from "ours: two to the power of three";
    }
}

params! {
    /// The parameter of `dup-ack-spoofing`.
    struct Spoofing {
        /// duplicates of each ACK, without SACK blocks
        copies: u64 = 3, in 1..=1000, from "RFC 5681, 3.2: three duplicates begin a fast retransmit";
    }
}

params! {
    /// The parameter of `optimistic-acks`.
    struct Optimistic {
        /// segments beyond the highest that has arrived, which the sender is believed to have sent
        ahead: u64 = 0, in 0..=1000, from "ours: 0 conceals losses and leaves the RTT as it is";
    }
}

/// The way to receive called `name`.
pub fn find(name: &str) -> Option<&'static Entry> {
    ENTRIES.iter().find(|entry| entry.name == name)
}

impl Entry {
    /// The misbehaviour of a receiver of this kind; `None` for an honest one.
    pub fn make(&self, params: &Params) -> Option<Misbehaviour> {
        (self.make)(params).map(|kind| Misbehaviour { kind, claimed: 0, short: None })
    }
}

/// A receiver's departure from honest acknowledgement, with its state.
#[derive(Clone, Debug)]
pub struct Misbehaviour {
    kind: Kind,
    /// The next segment expected, as its ACKs say.
    claimed: u64,
    /// The last segment of a transfer and its payload, where that is shorter than a full one.
    short: Option<(u64, u16)>,
}

#[derive(Clone, Debug)]
enum Kind {
    Division(Division),
    Spoofing(Spoofing),
    Optimistic {
        params: Optimistic,
        /// Segments that were acknowledged and have not arrived, ascending, apart.
        holes: Vec<Range>,
    },
}

impl Misbehaviour {
    /// The next segment expected, as its ACKs say.
    pub(super) const fn claimed(&self) -> u64 {
        self.claimed
    }

    /// Notes a data packet that has arrived.
    pub(super) const fn note(&mut self, seq: u64, size: u16) {
        if size < MTU {
            self.short = Some((seq, size - (MTU - MSS)));
        }
    }

    /// Where losses are concealed: takes segment `seq`, and moves `rcv_nxt` behind the highest one that has arrived,
    /// whatever is missing below. Gives whether it had not arrived before.
    pub(super) fn take(&mut self, seq: u64, rcv_nxt: &mut u64) -> Option<bool> {
        let Kind::Optimistic { holes, .. } = &mut self.kind else { return None };
        if seq >= *rcv_nxt {
            if seq > *rcv_nxt {
                holes.push((*rcv_nxt, seq));
            }
            *rcv_nxt = seq + 1;
            return Some(true);
        }
        let i = holes.partition_point(|hole| hole.1 <= seq);
        let Some(&(start, end)) = holes.get(i).filter(|hole| hole.0 <= seq) else { return Some(false) };
        let rest = [(start, seq), (seq + 1, end)].into_iter().filter(|hole| hole.0 < hole.1);
        holes.splice(i..=i, rest);
        Some(true)
    }

    /// Sends what goes in place of the ACK `honest`.
    pub(super) fn answer(&mut self, honest: FullReply, mut send: impl FnMut(FullReply)) {
        let next = honest.reply.seq;
        let bare = |seq, part| FullReply { reply: Reply { seq, ..honest.reply }, part, blocks: Blocks::NONE, tsval: 0 };
        match self.kind {
            Kind::Division(Division { parts }) => {
                for seq in self.claimed..next {
                    if seq > self.claimed {
                        send(bare(seq, 0));
                    }
                    let payload = self.payload(seq);
                    let parts = parts.min(payload);
                    (1..parts).for_each(|part| send(bare(seq, saturating_u16(payload * part / parts))));
                }
                send(honest);
            }
            Kind::Spoofing(Spoofing { copies }) => {
                send(honest);
                (0..copies).for_each(|_| send(bare(next, 0)));
            }
            Kind::Optimistic { params: Optimistic { ahead }, .. } => {
                // A segment that came before: the sender waits for what it has, and what is beyond that it may not have
                // sent.
                let ahead = if next + ahead > self.claimed { ahead } else { 0 };
                self.claimed = self.claimed.max(next + ahead);
                return send(bare(next + ahead, 0));
            }
        }
        self.claimed = next;
    }

    fn payload(&self, seq: u64) -> u64 {
        let short = self.short.filter(|short| short.0 == seq);
        u64::from(short.map_or(MSS, |(_, payload)| payload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knee_core::Value;

    fn misbehaviour(name: &str, given: &[(&str, Value)]) -> Misbehaviour {
        let entry = find(name).unwrap();
        entry.make(&Params::resolve(entry.params, given.iter().copied()).unwrap()).unwrap()
    }

    /// An ACK up to `seq`, with a SACK block for the segment behind.
    fn ack(seq: u64) -> FullReply {
        let mut blocks = Blocks::NONE;
        blocks.push((seq + 1, seq + 2));
        FullReply { reply: Reply { seq, tsecr: 1, flags: 0 }, part: 0, blocks, tsval: 0 }
    }

    /// Segments and bytes that each ACK acknowledges in the answer to an honest ACK of `seq`, and true where it has
    /// SACK blocks.
    fn answers(misbehaviour: &mut Misbehaviour, seq: u64) -> Vec<((u64, u16), bool)> {
        let mut sent = Vec::new();
        misbehaviour.answer(ack(seq), |ack| {
            sent.push(((ack.reply.seq, ack.part), !ack.blocks.is_empty()));
        });
        sent
    }

    #[test]
    fn an_honest_receiver_does_nothing_else() {
        assert!(find("honest").unwrap().make(&Params::defaults(&[])).is_none());
    }

    /// Section 2.1: a segment of N bytes is acknowledged by M ACKs, each of which covers one of M distinct pieces.
    #[test]
    fn a_divided_ack_covers_each_segment_in_pieces_and_ends_where_the_honest_one_does() {
        let mut division = misbehaviour("ack-division", &[("parts", Value::Count(4))]);
        assert_eq!(
            answers(&mut division, 1),
            [((0, 362), false), ((0, 724), false), ((0, 1086), false), ((1, 0), true)]
        );
        let two = answers(&mut division, 3);
        assert_eq!(two.len(), 8);
        assert!(two.is_sorted_by(|a, b| a.0 < b.0) && two[3] == ((2, 0), false) && two[7] == ((3, 0), true));
        // Nothing new: a duplicate stays one ACK.
        assert_eq!(answers(&mut division, 3), [((3, 0), true)]);
    }

    #[test]
    fn the_pieces_of_a_short_last_segment_are_within_it() {
        let mut division = misbehaviour("ack-division", &[("parts", Value::Count(4))]);
        division.note(0, 52 + 3);
        assert_eq!(answers(&mut division, 1), [((0, 1), false), ((0, 2), false), ((1, 0), true)]);
    }

    #[test]
    fn spoofed_duplicates_follow_the_ack_and_carry_no_blocks() {
        let mut spoofing = misbehaviour("dup-ack-spoofing", &[("copies", Value::Count(2))]);
        assert_eq!(answers(&mut spoofing, 9), [((9, 0), true), ((9, 0), false), ((9, 0), false)]);
    }

    #[test]
    fn an_optimistic_receiver_goes_on_behind_a_loss_and_knows_what_came_late() {
        let mut optimistic = misbehaviour("optimistic-acks", &[]);
        let mut rcv_nxt = 0;
        let mut take = |seq| (optimistic.take(seq, &mut rcv_nxt), rcv_nxt);
        assert_eq!(take(0), (Some(true), 1));
        assert_eq!(take(5), (Some(true), 6));
        // 3 was late, and then came again; 1, 2 and 4 are lost.
        assert_eq!([3, 3, 5, 0].map(|seq| take(seq).0), [Some(true), Some(false), Some(false), Some(false)]);
        assert_eq!([1, 2, 4].map(|seq| take(seq).0), [Some(true); 3]);
        assert_eq!(take(1), (Some(false), 6));
    }

    #[test]
    fn acks_ahead_of_the_data_go_back_to_it_where_something_comes_again() {
        let mut optimistic = misbehaviour("optimistic-acks", &[("ahead", Value::Count(10))]);
        assert_eq!(answers(&mut optimistic, 1), [((11, 0), false)]);
        assert_eq!(optimistic.claimed(), 11);
        assert_eq!(answers(&mut optimistic, 1), [((1, 0), false)]);
        assert_eq!(answers(&mut optimistic, 2), [((12, 0), false)]);
    }
}
