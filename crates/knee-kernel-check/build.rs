//! Compiles the headers that kernel modules and BPF programs share for user space.

use std::{env, fs, path::Path};

/// Entries of the table in `src/layout.c`, from the list of structures and fields in `src/mirrors.rs`.
fn fields(mirrors: &str) -> String {
    let mut structure = ("", "");
    let asked = mirrors.lines().map(str::trim).filter(|line| !line.starts_with("//")).filter_map(|line| {
        if let Some((name, rest)) = line.split_once(" = ") {
            structure = (name, rest.split([' ', ':']).next().unwrap_or_default());
            return Some(format!("WHOLE(\"{name}\", struct {})\n", structure.1));
        }
        let (field, _) = line.split_once(": ")?;
        Some(format!("FIELD(\"{}\", struct {}, {field})\n", structure.0, structure.1))
    });
    asked.collect()
}

fn main() {
    let out = env::var("OUT_DIR").expect("Cargo sets it");
    let mirrors = fs::read_to_string("src/mirrors.rs").expect("the list of structures");
    fs::write(Path::new(&out).join("fields.h"), fields(&mirrors)).expect("Cargo's folder can be written to");
    let include = "../../linux/include";
    println!("cargo::rerun-if-changed={include}");
    println!("cargo::rerun-if-changed=src");
    let compiled = cc::Build::new()
        .files(["src/shim.c", "src/shim_bbr3.c", "src/layout.c"])
        .include(include)
        .include(&out)
        .std("gnu11")
        .extra_warnings(true)
        .warnings_into_errors(true)
        .try_compile("knee_kernel_check");
    if let Err(error) = compiled {
        println!(
            "cargo::error=the kernel modules' arithmetic (linux/include) did not compile; it needs a C compiler, on \
             Debian: sudo apt-get install gcc libc6-dev. What the compiler said: {error}"
        );
        std::process::exit(1);
    }
}
