//! The program: `knee-endpoint TASK` does what the file TASK says. It prints `ready` once its sockets are there, reads
//! the time of the run's start (ns on the monotonic clock) from standard input, and at the end prints a line of JSON
//! and the rows that it counts. Exit code 1 and one line on standard error where something is wrong. If standard input
//! closes early, whoever started it has ended, and so does this.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

use knee_core::Rng;
use knee_endpoint::client::{self, Sockets};
use knee_endpoint::datagrams::{self as endpoint, Receiver, Sender};
use knee_endpoint::error::{Failure, failed};
use knee_endpoint::poller;
use knee_endpoint::record::EndRecord;
use knee_endpoint::server::{self, Server};
use knee_endpoint::task::{Role, Task};
use knee_traffic::datagrams;
use nix::sched::{CloneFlags, setns};
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_keep_capabilities, set_no_new_privs};
use std::fs::File;
use std::io::{self, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("knee-endpoint: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Failure> {
    let name = std::env::args().nth(1).ok_or_else(|| Failure::Task("expected the file of a task".into()))?;
    let text = std::fs::read_to_string(&name).map_err(failed(format!("cannot read {name}")))?;
    let task: Task = serde_json::from_str(&text).map_err(|error| Failure::Task(format!("{name}: {error}")))?;
    if let Some(path) = &task.namespace {
        let namespace = File::open(path).map_err(failed("cannot open the namespace"))?;
        setns(namespace, CloneFlags::CLONE_NEWNET).map_err(failed("cannot enter the namespace"))?;
    }
    let datagrams = Rng::stream(task.seed, &format!("datagrams/{}", task.flow));
    task.traffic.check().map_err(Failure::Task)?;
    if task.traffic.resolved().is_some_and(|(entry, _)| !entry.sockets) {
        return Err(Failure::Task("sockets do not carry this traffic yet".into()));
    }
    let record = match (task.role, datagrams::source(&task.traffic, false, datagrams)) {
        (Role::Client, Some(mut source)) => {
            let sender = Sender::new(&task)?;
            let start = ready(&task)?;
            endpoint::send(sender, source.as_mut(), &task, start)?
        }
        (Role::Server, Some(_)) => {
            let receiver = Receiver::new(&task)?;
            let start = ready(&task)?;
            endpoint::receive_all(receiver, &task, start)?
        }
        (Role::Client, None) => {
            let rng = Rng::stream(task.seed, &format!("traffic/{}", task.flow));
            let mut application = knee_traffic::application(&task.traffic, rng)
                .ok_or_else(|| Failure::Task("sockets do not carry this traffic".into()))?;
            let net = Sockets::new(&task)?;
            let start = ready(&task)?;
            client::run(net, application.as_mut(), &task, start)?
        }
        (Role::Server, None) => {
            let server = Server::new(&task)?;
            let start = ready(&task)?;
            server::run(server, &task, start)?
        }
    };
    give(&record).map_err(failed("cannot give what was seen"))
}

/// All sockets are there: drops privileges, says so, and waits for the time of the start.
fn ready(task: &Task) -> Result<u64, Failure> {
    if let Some(user) = task.user {
        drop_to(user).map_err(failed("cannot drop privileges"))?;
    }
    println!("ready");
    let mut line = String::new();
    io::stdin().read_line(&mut line).map_err(failed("cannot read the time of the start"))?;
    let start = line.trim().parse().map_err(|_| Failure::Task(format!("{line:?} is not the time of the start")))?;
    // Nothing happens before it: times of the run begin at 0.
    poller::sleep_until(start).map_err(failed("cannot wait for the start"))?;
    Ok(start)
}

/// Becomes `user` for good. It keeps one capability: connections to come may have any congestion control of the
/// kernel's.
fn drop_to(user: u32) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
    set_no_new_privs(true)?;
    set_keep_capabilities(true)?;
    // In an ordinary user's namespace there is no other user.
    if Uid::effective() != uid {
        setgroups(&[])?;
        setresgid(gid, gid, gid)?;
        setresuid(uid, uid, uid)?;
    }
    let (kept, none) = (CapabilitySet::NET_ADMIN, CapabilitySet::empty());
    Ok(set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable: none })?)
}

fn give(record: &EndRecord) -> io::Result<()> {
    let mut out = io::stdout().lock();
    record.write(&mut out)?;
    out.flush()
}
