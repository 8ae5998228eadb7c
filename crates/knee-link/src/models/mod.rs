//! Models of links that people have. Each is validated against a published figure in its tests, and simple:
//! docs/links.md says what each leaves out.

pub mod cellular;
pub mod docsis;
pub mod leo;
pub mod wifi;

#[cfg(test)]
pub(crate) mod testing;
