//! The priority of a message among those of one connection (RFC 9218, 4).

use serde::Deserialize;

/// The urgency of a message, and whether it is used in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Priority {
    /// Urgency, 0 to 7; 0 goes first.
    pub urgency: u8,
    /// True if parts of it are of use, so that it shares the connection with others of its urgency.
    pub incremental: bool,
}

impl Priority {
    /// The greatest urgency value, which goes last.
    pub const LAST: u8 = 7;
}

impl Default for Priority {
    //= RFC 9218, 4
    //# When receiving an HTTP request that does not carry these priority parameters, a server SHOULD act as if their
    //# default values were specified.
    fn default() -> Self {
        //= RFC 9218, 4.1
        //# The default value is 3.
        //= RFC 9218, 4.2
        //# The default value of the incremental parameter is false (0).
        Self { urgency: 3, incremental: false }
    }
}
