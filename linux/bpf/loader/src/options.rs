//! Options of a queue discipline by interface.

use crate::layout;
use crate::load::{self, DEFAULTS};
use crate::shown::{btf, pinned};
use anyhow::{Context, Result, anyhow};
use libbpf_rs::{MapCore, MapFlags};
use std::fs;
use std::path::Path;

/// The structure of the options.
pub const OPTIONS: &str = "knee_cocoa_options";

/// Sets options of an interface of this network namespace: those that it has with `settings`, or with `replace` the defaults
/// with them. A discipline that is there takes them with its next packet.
pub fn set(pin: &Path, ifindex: u32, settings: &[(String, i64)], replace: bool) -> Result<()> {
    let fields = layout::structure(&btf(pin)?, OPTIONS)?;
    let (options, version) = (pinned(pin, "options")?, pinned(pin, "version")?);
    let key = key([namespace()?, ifindex]);
    if replace && settings.is_empty() {
        // It has the defaults from now on.
        if options.lookup(&key, MapFlags::ANY)?.is_some() {
            options.delete(&key)?;
        }
    } else {
        let mut values = if replace { defaults(pin)? } else { of(pin, [namespace()?, ifindex])? };
        load::write(&mut values, &fields, settings)?;
        options.update(&key, &values, MapFlags::ANY).context("the options cannot be set")?;
    }
    let first = 0_u32.to_ne_bytes();
    let before = version.lookup(&first, MapFlags::ANY)?.and_then(|value| value.try_into().ok());
    let next = before.map_or(0, u32::from_ne_bytes).wrapping_add(1);
    Ok(version.update(&first, &next.to_ne_bytes(), MapFlags::ANY)?)
}

/// The options of an interface, which is a network namespace and an index: its own, or else the defaults.
pub fn of(pin: &Path, interface: [u32; 2]) -> Result<Vec<u8>> {
    let own = pinned(pin, "options")?.lookup(&key(interface), MapFlags::ANY)?;
    own.map_or_else(|| defaults(pin), Ok)
}

fn key(interface: [u32; 2]) -> Vec<u8> {
    interface.map(u32::to_ne_bytes).concat()
}

/// The section of the tunables as an algorithm was loaded; a discipline has its options there and nothing else.
pub fn defaults(pin: &Path) -> Result<Vec<u8>> {
    let memory = pinned(pin, DEFAULTS)?.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY)?;
    memory.ok_or_else(|| anyhow!("{} has no defaults", pin.display()))
}

/// The number of this network namespace, as the kernel has it.
fn namespace() -> Result<u32> {
    let link = fs::read_link("/proc/self/ns/net").context("/proc is not mounted")?;
    let name = link.to_string_lossy();
    let number = name.strip_prefix("net:[").and_then(|rest| rest.strip_suffix(']'));
    number.and_then(|text| text.parse().ok()).ok_or_else(|| anyhow!("{name} is no network namespace"))
}
