//! What the tests of algorithms share: events made by hand, and a small network to run flows in.

mod dumbbell;
mod events;
mod flow;

pub use dumbbell::{Dumbbell, close};
pub use events::{
    ack, ack_at, ack_of_nothing, ack_up_to, after, avoiding, change, change_at, changed, congestion, init, lent,
    lent_rate, loss_at, make, make_with, view, view_at,
};
