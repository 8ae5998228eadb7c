//! Loads congestion controls and queue disciplines written in BPF (`struct_ops`) into the running kernel, reads what they
//! show, sets a discipline's options, unloads them.
//!
//! A loaded algorithm is a folder in bpffs: `link` keeps it registered, the other files are maps: those in which its
//! connections, or its disciplines and flows, show themselves, and those with options. So it stays when this program ends,
//! and goes when the folder does. Names, tunables and the layout of what is shown come from the program's own BTF, which the
//! kernel keeps: the C sources are the only place that declares them.

mod layout;
mod load;
mod options;
mod shown;

use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Parser)]
#[command(about, version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Load an object and pin it to a new folder in bpffs.
    Load {
        /// The finished object.
        object: PathBuf,
        /// The folder to make.
        pin: PathBuf,
        /// A tunable of the program and its value, as NAME=INTEGER.
        #[arg(long = "set", value_parser = load::setting)]
        settings: Vec<(String, i64)>,
    },
    /// Let the kernel verify an object without loading it; how many instructions it follows in each program, in JSON.
    Verify {
        /// The finished object.
        object: PathBuf,
        /// A tunable of the program and its value, as NAME=INTEGER.
        #[arg(long = "set", value_parser = load::setting)]
        settings: Vec<(String, i64)>,
    },
    /// Finish what the compiler made, which leaves open where its variables lie.
    Finish {
        /// The compiler's output.
        compiled: PathBuf,
        /// The object to write.
        object: PathBuf,
    },
    /// The tunables of an object with their values as compiled, in JSON.
    Tunables {
        /// The finished object.
        object: PathBuf,
    },
    /// What the connections of a loaded congestion control show, or the disciplines and flows of a queue discipline, in JSON.
    Show {
        /// Its folder in bpffs.
        pin: PathBuf,
    },
    /// The tunables of a loaded algorithm with the values that it was loaded with, in JSON.
    Values {
        /// Its folder in bpffs.
        pin: PathBuf,
    },
    /// Where the members of what a connection shows lie (offset and size in bytes), in JSON.
    Layout {
        /// The folder of a loaded congestion control in bpffs.
        pin: PathBuf,
    },
    /// Set options of an interface of this network namespace, for a queue discipline that is loaded.
    Options {
        /// Its folder in bpffs.
        pin: PathBuf,
        /// The interface's index.
        ifindex: u32,
        /// Set all options that are not given to the defaults.
        #[arg(long)]
        replace: bool,
        /// An option and its value, as NAME=INTEGER.
        #[arg(long = "set", value_parser = load::setting)]
        settings: Vec<(String, i64)>,
    },
    /// Take an algorithm out of the kernel; its connections and interfaces keep it until they end.
    Unload {
        /// Its folder in bpffs.
        pin: PathBuf,
    },
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Load { object, pin, settings } => load::load(&object, &pin, &settings),
        Command::Verify { object, settings } => load::verify(&object, &settings).and_then(|found| print(&found)),
        Command::Finish { compiled, object } => load::finish(&compiled, &object),
        Command::Tunables { object } => load::tunables(&object).and_then(|found| print(&found)),
        Command::Show { pin } => shown::show(&pin).and_then(|found| print(&found)),
        Command::Values { pin } => shown::values(&pin).and_then(|found| print(&found)),
        Command::Layout { pin } => shown::layout(&pin).and_then(|found| print(&found)),
        Command::Options { pin, ifindex, replace, settings } => options::set(&pin, ifindex, &settings, replace),
        Command::Unload { pin } => load::unload(&pin),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn print(value: &impl serde::Serialize) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string(value)?);
    Ok(())
}
