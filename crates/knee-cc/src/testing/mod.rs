mod dumbbell;
mod path;
pub use dumbbell::*;
pub use path::*;
