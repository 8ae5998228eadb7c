//! Privileges and scheduling of the process.

use rustix::process::{
    Gid, Pid, Resource, Rlimit, Signal, Uid, geteuid, getppid, getrlimit, set_parent_process_death_signal,
    setpriority_process, setrlimit,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, set_capabilities, set_current_timer_slack, set_no_new_privs, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};
use std::io;
use std::num::NonZeroU64;
use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};

/// Least nice value: first in turn among ordinary processes.
const FIRST: i32 = -20;

/// Asks that the calling thread be run at once when a timer or a packet wakes it: before all ordinary processes, where
/// another processor is left to them; else as the first of them. Gives what the machine allowed.
pub fn be_prompt() -> &'static str {
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    let shared = std::thread::available_parallelism().is_ok_and(|processors| processors.get() > 1);
    if shared && real_time().is_ok() {
        "fifo"
    } else if setpriority_process(None, FIRST).is_ok() {
        "nice"
    } else {
        "ordinary"
    }
}

/// The least of the real-time priorities: ordinary processes have none.
fn real_time() -> Result<(), thread_priority::Error> {
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, policy)
}

/// Makes the calling thread one of `user` for good, without any capability, and without a way to gain any.
///
/// # Errors
/// Where the kernel refuses.
pub fn drop_all(user: u32) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
    set_no_new_privs(true)?;
    if geteuid() == uid {
        // In an ordinary user's namespace there is no other user: only the capabilities go.
        let none = CapabilitySet::empty();
        return Ok(set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?);
    }
    set_thread_groups(&[])?;
    set_thread_res_gid(gid, gid, gid)?;
    // With the last user id that is root's go all capabilities.
    set_thread_res_uid(uid, uid, uid)?;
    Ok(())
}

/// Lets this process open as many files as it may.
pub fn open_many_files() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Ends this process when `parent` ends, however that does. To be asked for after the user has changed.
///
/// # Errors
/// Where the kernel refuses, or `parent` has ended already.
pub fn end_with(parent: i32) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid() != Pid::from_raw(parent) {
        return Err(io::Error::other("the process that started the switch has ended"));
    }
    Ok(())
}
