//! The header is that of the library, and a program in C finds what Rust does.

#![allow(clippy::unwrap_used, unsafe_code, reason = "tests call as C does")]

use knee::{
    knee_flow, knee_link, knee_net, knee_net_background, knee_net_error, knee_net_flow, knee_net_free, knee_net_link,
    knee_net_next, knee_net_open, knee_net_poll, knee_net_read, knee_net_send, knee_net_write_pcap, knee_packet,
};
use std::ffi::{CStr, CString, c_char};
use std::mem::MaybeUninit;
use std::path::Path;
use std::process::Command;
use std::ptr::{null, null_mut};

const HERE: &str = env!("CARGO_MANIFEST_DIR");
const TEMPORARY: &str = env!("CARGO_TARGET_TMPDIR");

/// With `KNEE_WRITE` set it is written.
#[test]
fn the_header_is_the_librarys() {
    let config = cbindgen::Config::from_file(format!("{HERE}/cbindgen.toml")).unwrap();
    let mut header = Vec::new();
    cbindgen::Builder::new()
        .with_src(format!("{HERE}/src/lib.rs"))
        .with_config(config)
        .generate()
        .unwrap()
        .write(&mut header);
    let file = format!("{HERE}/include/knee.h");
    if std::env::var_os("KNEE_WRITE").is_some() {
        std::fs::write(&file, &header).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(kept.as_bytes() == header, "{file} is another: KNEE_WRITE=1 cargo test -p knee-capi writes it");
}

/// Runs the example, linked with the library of this suffix.
fn example(suffix: &str) -> String {
    let program = Path::new(TEMPORARY).join(format!("bufferbloat-{suffix}"));
    let built = std::env::current_exe().unwrap();
    let built = built.parent().unwrap();
    let library = built.join(format!("libknee.{suffix}"));
    assert!(library.exists(), "{}", library.display());
    let compiled = Command::new("cc")
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program)
        .args([&format!("-I{HERE}/include"), &format!("{HERE}/examples/bufferbloat.c")])
        .arg(&library)
        .args(["-lpthread", "-ldl", "-lm"])
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let run = Command::new(&program).env("LD_LIBRARY_PATH", built).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap()
}

#[test]
fn a_program_in_c_finds_a_queue_that_grows() {
    let told = example("a");
    assert_eq!(told, example("so"));
    // 1250 packets of 1242 bytes come at 12.42 Mbit/s, and 10 Mbit/s leave: the last wait for a fifth of a second.
    assert!(told.starts_with("1250 packets arrived; 95 % of them waited up to 22"), "{told}");
}

struct Owned(*mut knee_net);

impl Owned {
    fn read(toml: &str) -> Result<Self, String> {
        let (toml, mut error) = (CString::new(toml).unwrap(), [0; 1_000]);
        // SAFETY: the text ends with a zero byte, and the buffer has its size.
        let net = unsafe { knee_net_read(toml.as_ptr(), error.as_mut_ptr(), error.len()) };
        if net.is_null() { Err(told(error.as_ptr())) } else { Ok(Self(net)) }
    }

    fn error(&self) -> String {
        // SAFETY: the network is there.
        told(unsafe { knee_net_error(self.0) })
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: it is not used again.
        unsafe { knee_net_free(self.0) };
    }
}

fn told(text: *const c_char) -> String {
    // SAFETY: texts of the library end with a zero byte.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap().to_owned()
}

#[test]
fn what_cannot_be_is_an_error_with_a_text() {
    let refused = Owned::read("[link]\nrate = \"10 Mbps/s\"\n").err().unwrap();
    assert!(refused.starts_with("the text:2:8: link.rate: "), "{refused}");
    let net = Owned::read("[link]\nrate = \"10 Mbit/s\"\n").unwrap();
    let large = [0; 1_473];
    // SAFETY: pointers are NULL or to memory of this test.
    unsafe {
        assert_eq!(knee_net_send(net.0, 0, 0, large.as_ptr(), large.len(), 0), -1);
        assert!(net.error().starts_with("a packet of 1501 bytes"), "{}", net.error());
        assert_eq!(knee_net_send(net.0, 0, 7, large.as_ptr(), 10, 0), -1);
        assert!(net.error().starts_with("there is no port"), "{}", net.error());
        assert_eq!(knee_net_send(net.0, 0, 0, null(), 10, 0), -1);
        assert!(net.error().contains("NULL"), "{}", net.error());
        assert_eq!(knee_net_link(net.0, c"uplink".as_ptr(), null_mut()), -1);
        assert!(net.error().contains("no link is named"), "{}", net.error());
        assert_eq!(knee_net_link(net.0, c"bottleneck".as_ptr(), null_mut()), -1);
        assert!(net.error().contains("figures to write into are NULL"), "{}", net.error());
        assert_eq!(knee_net_write_pcap(net.0, c"/nowhere/x.pcapng".as_ptr()), -1);
        assert!(net.error().contains("/nowhere/x.pcapng cannot be written"), "{}", net.error());
        assert_eq!(knee_net_poll(null_mut(), 0, null_mut()), -1);
        assert_eq!(told(knee_net_error(null())), "there is no network (NULL)");
        assert_eq!(knee_net_next(null()), u64::MAX);
        let mut short = [1; 8];
        assert!(knee_net_open(c"nowhere.toml".as_ptr(), short.as_mut_ptr(), short.len()).is_null());
        assert_eq!(told(short.as_ptr()), "nowhere", "as far as there is room");
        assert!(knee_net_open(null(), null_mut(), 0).is_null());
    }
}

#[test]
fn a_program_that_takes_one_packet_at_a_time_is_never_sent_back_in_time() {
    let net = Owned::read("[link]\nrate = \"12 Mbit/s\"\noverhead = \"0 B\"\n").unwrap();
    let mut packet = MaybeUninit::<knee_packet>::uninit();
    // SAFETY: pointers are to memory of this test.
    unsafe {
        for _ in 0..5 {
            assert_eq!(knee_net_send(net.0, 0, 0, [7; 1_472].as_ptr(), 1_472, 0), 0);
        }
        let mut now = 10_000_000;
        for left in (0..5).rev() {
            assert_eq!(knee_net_poll(net.0, now, packet.as_mut_ptr()), 1, "{}", net.error());
            let next = knee_net_next(net.0);
            assert_eq!(next, if left > 0 { now } else { u64::MAX });
            now = now.max(next);
        }
    }
}

#[test]
fn bytes_and_figures_come_out() {
    let net = Owned::read("[link]\nrate = \"12 Mbit/s\"\noverhead = \"0 B\"\n[[flows]]\nrtt = \"20 ms\"\n").unwrap();
    let (mut packet, mut link) = (MaybeUninit::<knee_packet>::uninit(), MaybeUninit::<knee_link>::uninit());
    let file = Path::new(TEMPORARY).join("capi.pcapng");
    // SAFETY: pointers are to memory of this test, and only what was written is read.
    unsafe {
        assert_eq!(knee_net_next(net.0), u64::MAX);
        assert_eq!(knee_net_send(net.0, 1_000, 0, [7; 1_472].as_ptr(), 1_472, 1), 0);
        let due = knee_net_next(net.0);
        assert_eq!(due, 1_001_000, "1500 bytes take a millisecond");
        assert_eq!(knee_net_poll(net.0, due, packet.as_mut_ptr()), 1);
        let packet = packet.assume_init();
        assert_eq!((packet.at, packet.sent, packet.queued, packet.port, packet.ecn), (1_001_000, 1_000, 0, 1, 1));
        assert_eq!(std::slice::from_raw_parts(packet.bytes, packet.len), [7; 1_472]);
        assert_eq!(knee_net_poll(net.0, due, null_mut()), 0);
        assert_eq!(knee_net_link(net.0, c"bottleneck".as_ptr(), link.as_mut_ptr()), 0);
        assert_eq!(link.assume_init().bytes, 1_500);
        let name = CString::new(file.to_str().unwrap()).unwrap();
        assert_eq!(knee_net_write_pcap(net.0, name.as_ptr()), 0);
    }
    assert!(file.metadata().unwrap().len() > 200);
}

const BESIDE: &str = r#"
[link]
rate = "10 Mbit/s"
[[flows]]
label = "call"
rtt = "20 ms"
[[flows]]
label = "download"
cc = "cubic"
rtt = "20 ms"
"#;

#[test]
fn the_simulator_sends_beside_the_program() {
    beside(&Owned::read(BESIDE).unwrap(), 9e6);
    let quic = "cc = \"cubic\"\ntransport = \"quic\"";
    beside(&Owned::read(&BESIDE.replace("cc = \"cubic\"", quic)).unwrap(), 8.5e6);
}

/// The simulator's download has `least` bit/s.
fn beside(net: &Owned, least: f64) {
    let mut flow = MaybeUninit::<knee_flow>::uninit();
    // SAFETY: pointers are NULL or to memory of this test, and only what was written is read.
    unsafe {
        assert_eq!(knee_net_background(net.0, null()), -1);
        assert_eq!(knee_net_background(net.0, c"upload".as_ptr()), -1);
        assert!(net.error().starts_with("no flow is named \"upload\""), "{}", net.error());
        assert_eq!(knee_net_background(net.0, c"download".as_ptr()), 0, "{}", net.error());
        assert_eq!(knee_net_flow(net.0, c"call".as_ptr(), flow.as_mut_ptr()), -1);
        assert!(net.error().contains("is the program's"), "{}", net.error());
        assert_eq!(knee_net_flow(net.0, c"download".as_ptr(), null_mut()), -1);
        assert_eq!(knee_net_poll(net.0, 5_000_000_000, null_mut()), 0, "{}", net.error());
        assert_eq!(knee_net_flow(net.0, c"download".as_ptr(), flow.as_mut_ptr()), 0);
        let flow = flow.assume_init();
        assert!(flow.goodput > least && flow.delivered < flow.sent * 1_460, "{}", flow.goodput);
    }
}
