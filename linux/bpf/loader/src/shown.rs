//! What a loaded algorithm shows: the connections of a congestion control, the disciplines and flows of a queue discipline.

use crate::layout::{self, Field};
use anyhow::{Context, Result};
use libbpf_rs::btf::Btf;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// What a connection shows of itself.
const CONNECTION: &str = "knee_connection";
/// The maps of a queue discipline, and with what structure their values begin.
const QDISCS: [(&str, &str); 2] = [("qdiscs", "knee_cocoa_qdisc"), ("flows", "knee_cocoa_flow")];

/// The integers of a structure by name.
type Row = BTreeMap<String, i128>;

/// What there is to see.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Shown {
    /// Of a congestion control: its connections.
    Connections(Vec<Row>),
    /// Of a queue discipline: the rows of each map.
    Maps(BTreeMap<&'static str, Vec<Row>>),
}

/// Offset and size of each member of what a connection shows, in bytes, by name.
pub fn layout(object: &Path) -> Result<BTreeMap<String, (usize, usize)>> {
    let fields = layout::structure(&layout::btf(object)?, CONNECTION)?;
    Ok(fields.iter().map(|field| (field.name.clone(), field.place())).collect())
}

/// What a loaded algorithm shows.
pub fn show(object: &Path, pin: &Path) -> Result<Shown> {
    let btf = layout::btf(object)?;
    if layout::exists(&btf, CONNECTION) {
        return Ok(Shown::Connections(rows(&btf, pin, "connections", CONNECTION)?));
    }
    let maps = QDISCS.map(|(map, structure)| Ok((map, rows(&btf, pin, map, structure)?)));
    Ok(Shown::Maps(maps.into_iter().collect::<Result<_>>()?))
}

/// One row per entry of a map.
fn rows(btf: &Btf<'_>, pin: &Path, map: &str, structure: &str) -> Result<Vec<Row>> {
    let fields = layout::structure(btf, structure)?;
    let map = pinned(pin, map)?;
    let mut found = Vec::new();
    for key in map.keys() {
        // What it belongs to may have ended since the key was read.
        if let Some(memory) = map.lookup(&key, MapFlags::ANY)? {
            found.push(row(&fields, &memory));
        }
    }
    Ok(found)
}

fn row(fields: &[Field], memory: &[u8]) -> Row {
    fields.iter().map(|field| (field.name.clone(), field.read(memory))).collect()
}

/// A map of a loaded algorithm.
pub fn pinned(pin: &Path, map: &str) -> Result<MapHandle> {
    let path = pin.join(map);
    MapHandle::from_pinned_path(&path).with_context(|| format!("{} cannot be read", path.display()))
}
