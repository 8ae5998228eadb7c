//! Loading, unloading and the tunables.

use crate::layout::{self, Field};
use anyhow::{Context, Result, anyhow, bail};
use libbpf_rs::btf::Btf;
use libbpf_rs::{Linker, MapCore, MapType, Object, ObjectBuilder, OpenObject, PrintLevel};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::sync::Mutex;

/// Where `const volatile` variables lie.
pub const TUNABLES: &str = ".rodata";
/// The pinned link that keeps an algorithm registered.
const LINK: &str = "link";
/// The pinned section of the tunables, with what was set.
pub const DEFAULTS: &str = "defaults";
/// Maps for user space that an object may have, by their names in it and as they are pinned.
pub const MAPS: [&str; 5] = ["connections", "qdiscs", "flows", "options", "version"];

/// The structure of a congestion control's operations, in objects as in the kernel.
const OPERATIONS: &str = "tcp_congestion_ops";
/// The same of a queue discipline, and what the kernel has only where it takes those.
const DISCIPLINES: [&str; 2] = ["Qdisc_ops", "bpf_struct_ops_Qdisc_ops"];
/// Operations that are left out on kernels without them, because they then call another one (knee_bpf.h).
const OPTIONAL: [&str; 1] = ["cwnd_event_tx_start"];

/// The verifier's log has statistics and nothing else.
const LOG_STATISTICS: u32 = 4;

/// What libbpf has to say, the verifier's reasons among it.
static SAID: Mutex<String> = Mutex::new(String::new());

/// NAME=INTEGER of the command line.
pub fn setting(text: &str) -> Result<(String, i64)> {
    let (name, value) = text.split_once('=').ok_or_else(|| anyhow!("{text} is not NAME=INTEGER"))?;
    Ok((name.to_owned(), value.parse().with_context(|| format!("{value} is not an integer"))?))
}

/// Links one compiled file into an object whose type information says where each variable lies.
pub fn finish(compiled: &Path, object: &Path) -> Result<()> {
    let mut linker = Linker::new(object)?;
    linker.add_file(compiled).and_then(|()| linker.link()).map_err(|error| refused(&error, "it cannot be linked"))
}

/// The tunables of an object with their values as compiled.
pub fn tunables(object: &Path) -> Result<BTreeMap<String, i128>> {
    let fields = layout::section(&layout::btf(object)?, TUNABLES);
    let open = open(object, PrintLevel::Warn)?;
    let section = open.maps().find(|map| is_tunables(map.name()));
    let memory = section.as_ref().and_then(|map| map.initial_value()).unwrap_or_default();
    Ok(fields.iter().map(|field| (field.name.clone(), field.read(memory))).collect())
}

/// Loads an object, registers its algorithm and pins both to the new folder `pin`, all of it or nothing.
pub fn load(object: &Path, pin: &Path, settings: &[(String, i64)]) -> Result<()> {
    if pin.exists() {
        bail!("{} is there already; unload it first", pin.display());
    }
    let mut loaded = checked(object, settings, PrintLevel::Warn, 0)?;
    let mut operations = loaded
        .maps_mut()
        .find(|map| map.map_type() == MapType::StructOps)
        .ok_or_else(|| anyhow!("{} has no congestion control and no queue discipline", object.display()))?;
    let mut link = operations
        .attach_struct_ops()
        .map_err(|error| refused(&error, "the kernel does not register the algorithm (is the name taken?)"))?;
    fs::create_dir(pin).with_context(|| format!("{} cannot be made", pin.display()))?;
    let pinned = link.pin(pin.join(LINK)).and_then(|()| {
        loaded.maps_mut().try_for_each(|mut map| {
            let name = if is_tunables(map.name()) {
                Some(DEFAULTS)
            } else {
                MAPS.into_iter().find(|name| map.name() == *name)
            };
            name.map_or(Ok(()), |name| map.pin(pin.join(name)))
        })
    });
    pinned.map_err(|error| {
        drop(fs::remove_dir_all(pin));
        refused(&error, "what was loaded cannot be pinned")
    })
}

/// Number of instructions that the verifier of this kernel follows in each program of an object, which is not registered.
pub fn verify(object: &Path, settings: &[(String, i64)]) -> Result<BTreeMap<String, u64>> {
    checked(object, settings, PrintLevel::Debug, LOG_STATISTICS)?;
    let said = SAID.lock().map(|said| said.clone()).unwrap_or_default();
    let mut counts = BTreeMap::new();
    let mut program = None;
    for line in said.lines() {
        if let Some(rest) = line.strip_suffix(" -- BEGIN PROG LOAD LOG --") {
            program = rest.rsplit('\'').nth(1).map(str::to_owned);
        } else if let Some(rest) = line.strip_prefix("processed ") {
            let count = rest.split(' ').next().and_then(|word| word.parse().ok());
            counts.extend(program.take().zip(count));
        }
    }
    Ok(counts)
}

/// An object that the kernel has verified, with `settings`.
fn checked(object: &Path, settings: &[(String, i64)], print: PrintLevel, log: u32) -> Result<Object> {
    let btf = layout::btf(object)?;
    let fields = layout::section(&btf, TUNABLES);
    let kernel = Btf::from_vmlinux().context("the kernel has no type information")?;
    let [operations, registered] = DISCIPLINES;
    if layout::exists(&btf, operations) && !layout::exists(&kernel, registered) {
        bail!("the kernel has no BPF queue disciplines ({registered}): they take Linux 6.16 with CONFIG_NET_SCH_BPF");
    }
    let mut open = open(object, print)?;
    set(&mut open, &fields, settings)?;
    leave_out(&mut open, &btf, &kernel);
    for mut program in open.progs_mut() {
        program.set_log_level(log);
    }
    open.load().map_err(|error| refused(&error, "the kernel does not take the program"))
}

/// Takes an algorithm out of the kernel. The maps go last, for they are what a later call would look for.
pub fn unload(pin: &Path) -> Result<()> {
    for name in [LINK, DEFAULTS].into_iter().chain(MAPS) {
        let path = pin.join(name);
        if path.exists() {
            fs::remove_file(&path).with_context(|| format!("{} cannot be removed", path.display()))?;
        }
    }
    fs::remove_dir(pin).with_context(|| format!("{} cannot be removed", pin.display()))
}

fn open(object: &Path, print: PrintLevel) -> Result<OpenObject> {
    libbpf_rs::set_print(Some((print, |_, line| {
        if let Ok(mut said) = SAID.lock() {
            said.push_str(&line);
        }
    })));
    ObjectBuilder::default().open_file(object).map_err(|error| refused(&error, "the object cannot be read"))
}

/// Whether a map is the section of the tunables; libbpf puts the object's name before it.
fn is_tunables(name: &OsStr) -> bool {
    name.to_string_lossy().ends_with(TUNABLES)
}

/// Leaves out the optional operations that `kernel` does not have; libbpf then does not load their programs.
fn leave_out(open: &mut OpenObject, object: &Btf<'_>, kernel: &Btf<'_>) {
    let Some(mut operations) = open.maps_mut().find(|map| map.map_type() == MapType::StructOps) else { return };
    let Some(memory) = operations.initial_value_mut() else { return };
    for name in OPTIONAL {
        let here = layout::member(object, OPERATIONS, name);
        if let (Some(offset), None) = (here, layout::member(kernel, OPERATIONS, name)) {
            memory[offset..offset + size_of::<usize>()].fill(0);
        }
    }
}

fn set(open: &mut OpenObject, fields: &[Field], settings: &[(String, i64)]) -> Result<()> {
    let mut section = open.maps_mut().find(|map| is_tunables(map.name()));
    write(section.as_mut().and_then(|map| map.initial_value_mut()).unwrap_or_default(), fields, settings)
}

/// Writes settings into memory that has the `fields`.
pub fn write(memory: &mut [u8], fields: &[Field], settings: &[(String, i64)]) -> Result<()> {
    for (name, value) in settings {
        let field = fields.iter().find(|field| &field.name == name).ok_or_else(|| {
            let names: Vec<_> = fields.iter().map(|field| field.name.as_str()).collect();
            anyhow!("there is no tunable {name}; there are {}", names.join(", "))
        })?;
        field.write(memory, *value)?;
    }
    Ok(())
}

fn refused(error: &libbpf_rs::Error, what: &str) -> anyhow::Error {
    let said = SAID.lock().map(|said| said.trim().to_owned()).unwrap_or_default();
    let separator = if said.is_empty() { "" } else { "\n" };
    anyhow!("{what}: {error}{separator}{said}")
}
