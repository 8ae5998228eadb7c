//! Vectors with knee's own algorithms and with programs.

mod mutants;
mod own;
