//! Datagrams (RFC 9221) that a stack holds until they leave in a packet, or until it gives them up.

use bytes::Bytes;
use std::sync::{Arc, Mutex, PoisonError};

/// Numbers of the datagrams that a stack no longer holds. A stack drops the data of a datagram as it writes it to a
/// packet, or as it gives it up, and tells it in no other way.
#[derive(Debug, Default)]
pub struct Held(Arc<Mutex<Vec<u64>>>);

struct Data {
    bytes: Vec<u8>,
    number: u64,
    gone: Arc<Mutex<Vec<u64>>>,
}

impl AsRef<[u8]> for Data {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        self.gone.lock().unwrap_or_else(PoisonError::into_inner).push(self.number);
    }
}

impl Held {
    /// The data of datagram `number`, for a stack.
    pub fn hold(&self, number: u64, bytes: Vec<u8>) -> Bytes {
        Bytes::from_owner(Data { bytes, number, gone: self.0.clone() })
    }

    /// The datagrams that went since the last call, in order.
    pub fn take_gone(&self) -> Vec<u64> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
