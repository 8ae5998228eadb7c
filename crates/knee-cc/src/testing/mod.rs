//! Events made by hand, which the tests of algorithms share. Claims that need a network are in `knee-sim/tests/claims`.

mod events;

pub use events::{
    ack, ack_at, ack_of_nothing, ack_up_to, after, avoiding, change, change_at, changed, congestion, init, lent,
    lent_rate, loss_at, make, make_with, view, view_at,
};

/// True if two worked numbers agree to nine digits.
pub fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
}
