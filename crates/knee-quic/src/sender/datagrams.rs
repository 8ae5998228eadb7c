//! Datagrams (RFC 9221) that wait in a sender: one a packet, before data of the stream, and never sent again.

use super::Sender;
use crate::config::Config;
use std::collections::VecDeque;

/// Bytes that a waiting datagram takes beside its own.
const EACH: u64 = 32;

/// Datagrams that wait, each with its number and size.
#[derive(Clone, Debug, Default)]
pub struct Datagrams {
    waiting: VecDeque<(u64, u16)>,
    bytes: u64,
    /// Numbers of datagrams that had no room.
    dropped: Vec<u64>,
}

impl Datagrams {
    /// The first one: its number and size.
    pub fn first(&self) -> Option<(u64, u16)> {
        self.waiting.front().copied()
    }

    /// The first one leaves.
    pub fn pop(&mut self) -> Option<(u64, u16)> {
        let first = self.waiting.pop_front()?;
        self.bytes -= EACH + u64::from(first.1);
        Some(first)
    }
}

impl Sender {
    /// Puts a datagram behind those that wait; the oldest are dropped where they have no room. It leaves once
    /// [`Sender::send`] lets it.
    pub fn push_datagram(&mut self, number: u64, len: u16, config: &Config) {
        //= RFC 9221, 5.4
        //# The sender MUST either delay sending the frame until the controller allows it or drop the frame without
        //# sending it (at which point it MAY notify the application).
        let room = config.settings.datagram_buffer.0;
        self.datagrams.waiting.push_back((number, len));
        self.datagrams.bytes += EACH + u64::from(len);
        while self.datagrams.bytes > room {
            let Some((oldest, _)) = self.datagrams.pop() else { return };
            self.datagrams.dropped.push(oldest);
        }
    }

    /// Drops all datagrams that wait.
    pub fn drop_datagrams(&mut self) {
        while let Some((number, _)) = self.datagrams.pop() {
            self.datagrams.dropped.push(number);
        }
    }

    /// Numbers of the datagrams that were dropped since the last call.
    pub fn take_dropped(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.datagrams.dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;
    use crate::sender::{SenderInit, testing};
    use knee_core::{Bytes, Time};

    fn sender(config: &Config) -> Sender {
        let init = SenderInit { bytes: Some(0), ..SenderInit::default() };
        testing::sender("reno", init, Some(Time::from_millis(100)), config)
    }

    /// RFC 9221, 5: a datagram that is lost is not sent again; 5.4: it leaves as the congestion control lets it.
    #[test]
    fn a_datagram_leaves_once_before_the_data_of_the_stream() {
        let config = testing::config(|settings| settings.pacing = false);
        let (mut sender, mut out, now) = (sender(&config), Vec::new(), Time::from_secs(1));
        sender.write(500);
        (0..12).for_each(|number| sender.push_datagram(number, 1000, &config));
        sender.send(now, &config, &mut out);
        // Eleven packets of 1,033 bytes take nearly all of the window of 12,000.
        let left =
            |out: &[crate::Outgoing]| -> Vec<_> { out.iter().map(|burst| (burst.datagram, burst.offset)).collect() };
        assert_eq!(left(&out), (0..11).map(|number| (true, number)).collect::<Vec<_>>());
        out.clear();
        // The ACK of the last five loses the six before: what leaves is new.
        let ack = testing::frame(&[(6, 11)], Time::ZERO, None);
        sender.on_ack(&ack, now + Time::from_millis(100), &config, &mut out).unwrap();
        assert_eq!((left(&out), sender.view().lost), (vec![(true, 11), (false, 0)], 6));
        let ack = testing::frame(&[(6, 13)], Time::ZERO, None);
        sender.on_ack(&ack, now + Time::from_millis(200), &config, &mut Vec::new()).unwrap();
        assert!(sender.done() && sender.view().in_flight == 0);
    }

    #[test]
    fn the_oldest_datagrams_go_where_the_buffer_is_full() {
        let settings = Settings { datagram_buffer: Bytes(3 * 1032 + 31), ..Settings::default() };
        let config = Config::new(&settings).unwrap();
        let mut sender = sender(&config);
        (0..5).for_each(|number| sender.push_datagram(number, 1000, &config));
        assert_eq!((sender.take_dropped(), sender.datagrams.first()), (vec![0, 1], Some((2, 1000))));
        assert_eq!(sender.take_dropped(), []);
    }
}
