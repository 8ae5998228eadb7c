//! What a loaded algorithm shows: the connections of a congestion control, the disciplines and flows of a queue discipline.

use crate::layout::{self, Field};
use crate::load::{DEFAULTS, TUNABLES};
use crate::options::{self, OPTIONS};
use anyhow::{Context, Result, anyhow};
use libbpf_rs::btf::Btf;
use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// What a connection shows of itself.
const CONNECTION: &str = "knee_connection";
/// The maps of a queue discipline, and with what structure their values begin.
const DISCIPLINES: &str = "qdiscs";
const QDISCS: [(&str, &str); 2] = [(DISCIPLINES, "knee_cocoa_qdisc"), ("flows", "knee_cocoa_flow")];

/// The integers of a structure by name.
pub type Row = BTreeMap<String, i128>;

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
pub fn layout(pin: &Path) -> Result<BTreeMap<String, (usize, usize)>> {
    let fields = layout::structure(&btf(pin)?, CONNECTION)?;
    Ok(fields.iter().map(|field| (field.name.clone(), field.place())).collect())
}

/// What a loaded algorithm shows.
pub fn show(pin: &Path) -> Result<Shown> {
    let btf = btf(pin)?;
    if layout::exists(&btf, CONNECTION) {
        return Ok(Shown::Connections(rows(&btf, pin, "connections", CONNECTION)?));
    }
    let maps = QDISCS.map(|(map, structure)| Ok((map, rows(&btf, pin, map, structure)?)));
    let mut maps: BTreeMap<_, _> = maps.into_iter().collect::<Result<_>>()?;
    let fields = layout::structure(&btf, OPTIONS)?;
    for discipline in maps.get_mut(DISCIPLINES).into_iter().flatten() {
        let interface = ["netns", "ifindex"].map(|name| discipline.get(name).copied().unwrap_or_default() as u32);
        // It reads its options with its next packet; those that were set since are the ones that hold.
        take(discipline, row(&fields, &options::of(pin, interface)?));
    }
    Ok(Shown::Maps(maps))
}

/// Puts the options into what a discipline shows. Some are by the device where they are 0.
fn take(discipline: &mut Row, options: Row) {
    for (name, value) in options {
        let default = discipline.get(&format!("default_{name}")).copied().unwrap_or_default();
        discipline.insert(name, if value == 0 { default } else { value });
    }
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

/// The tunables of a loaded algorithm with the values that it was loaded with.
pub fn values(pin: &Path) -> Result<Row> {
    let memory = options::defaults(pin)?;
    Ok(row(&layout::section(&btf(pin)?, TUNABLES), &memory))
}

/// The type information of a loaded algorithm, as the kernel has it: that of the programs which use its tunables.
pub fn btf(pin: &Path) -> Result<Btf<'static>> {
    let tunables = pinned(pin, DEFAULTS)?.info()?.info.id;
    let maps = ProgInfoQueryOptions::default().include_map_ids(true);
    let program = ProgInfoIter::with_query_opts(maps).find(|program| program.map_ids.contains(&tunables));
    let program = program.ok_or_else(|| anyhow!("no program of {} is in the kernel", pin.display()))?;
    Ok(Btf::from_prog_id(program.id)?)
}

/// A map of a loaded algorithm.
pub fn pinned(pin: &Path, map: &str) -> Result<MapHandle> {
    let path = pin.join(map);
    MapHandle::from_pinned_path(&path).with_context(|| format!("{} cannot be read", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row_of(values: &[(&str, i128)]) -> Row {
        values.iter().map(|&(name, value)| (name.to_owned(), value)).collect()
    }

    #[test]
    fn options_that_no_packet_has_found_yet_are_shown() {
        let mut discipline = row_of(&[("limit", 10_000), ("quantum", 600), ("default_quantum", 3028), ("packets", 7)]);
        take(&mut discipline, row_of(&[("limit", 77), ("quantum", 0), ("learn_initial", 0)]));
        assert_eq!(
            discipline,
            row_of(&[
                ("limit", 77),
                ("quantum", 3028),
                ("default_quantum", 3028),
                ("packets", 7),
                ("learn_initial", 0)
            ])
        );
    }
}
