//! The bytes of the packets inside. Queues and links move [`knee_core::Packet`]s, whose payload is the slot where the
//! bytes are.

use knee_core::convert::index_u32;
use knee_core::{Packet, Payload};

/// Room for a packet of 1500 bytes, and one of more so that none is cut unseen.
const ROOM: usize = 2048;

/// Packets' bytes, in slots that are used again.
#[derive(Default)]
#[expect(clippy::vec_box, reason = "a store that grows must not move the packets in it about")]
pub struct Store {
    slots: Vec<Box<[u8; ROOM]>>,
    free: Vec<u32>,
}

impl Store {
    /// A free slot; it stays free until [`Store::take`].
    pub fn free(&mut self) -> &mut [u8] {
        if self.free.is_empty() {
            self.free.push(index_u32(self.slots.len()));
            self.slots.push(Box::new([0; ROOM]));
        }
        let slot = self.free[self.free.len() - 1] as usize;
        &mut self.slots[slot][..]
    }

    /// Takes the slot that [`Store::free`] gave, for the payload of a packet.
    pub fn take(&mut self) -> Payload {
        Payload::Stored(self.free.pop().unwrap_or_default())
    }

    /// The bytes of a packet.
    pub fn bytes(&mut self, packet: &Packet) -> &mut [u8] {
        &mut self.slots[packet.payload.key() as usize][..usize::from(packet.size)]
    }

    /// A packet has gone.
    pub fn release(&mut self, packet: &Packet) {
        self.free.push(packet.payload.key());
    }

    /// Packets inside.
    pub fn held(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_used_again_only_after_its_packet_has_gone() {
        let mut store = Store::default();
        let put = |store: &mut Store, byte: u8| {
            store.free()[0] = byte;
            Packet { payload: store.take(), size: 1, ..Packet::default() }
        };
        let (a, b) = (put(&mut store, 1), put(&mut store, 2));
        assert_eq!((store.bytes(&a)[0], store.bytes(&b)[0], store.held()), (1, 2, 2));
        store.release(&a);
        let c = put(&mut store, 3);
        assert_eq!((c.payload, store.bytes(&b)[0], store.bytes(&c)[0], store.held()), (a.payload, 2, 3, 2));
    }
}
