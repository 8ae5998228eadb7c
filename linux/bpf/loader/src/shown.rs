//! What the connections of a loaded algorithm show.

use crate::layout;
use crate::load::CONNECTIONS;
use anyhow::{Context, Result};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::collections::BTreeMap;
use std::path::Path;

/// What a connection shows of itself.
const STRUCTURE: &str = "knee_connection";

/// Offset and size of each member of what a connection shows, in bytes, by name.
pub fn layout(object: &Path) -> Result<BTreeMap<String, (usize, usize)>> {
    let fields = layout::structure(&layout::btf(object)?, STRUCTURE)?;
    Ok(fields.iter().map(|field| (field.name.clone(), field.place())).collect())
}

/// One entry per connection: the members of `struct knee_connection` by name.
pub fn connections(object: &Path, pin: &Path) -> Result<Vec<BTreeMap<String, i128>>> {
    let fields = layout::structure(&layout::btf(object)?, STRUCTURE)?;
    let path = pin.join(CONNECTIONS);
    let map = MapHandle::from_pinned_path(&path).with_context(|| format!("{} cannot be read", path.display()))?;
    let mut found = Vec::new();
    for key in map.keys() {
        // A connection may have ended since its key was read.
        if let Some(memory) = map.lookup(&key, MapFlags::ANY)? {
            found.push(fields.iter().map(|field| (field.name.clone(), field.read(&memory))).collect());
        }
    }
    Ok(found)
}
