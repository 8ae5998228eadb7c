//! Compiles the headers that kernel modules and BPF programs share for user space.

fn main() {
    let include = "../../linux/include";
    println!("cargo::rerun-if-changed={include}");
    println!("cargo::rerun-if-changed=src");
    let compiled = cc::Build::new()
        .files(["src/shim.c", "src/shim_bbr3.c", "src/layout.c"])
        .include(include)
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
