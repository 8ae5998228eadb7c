//! What the process may do, and how it is run.

use rustix::process::{Gid, Pid, Signal, Uid, getppid, set_parent_process_death_signal, setpriority_process};
use rustix::thread::{set_current_timer_slack, set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::io;
use std::num::NonZeroU64;

/// Least nice value: first in turn among ordinary processes.
const FIRST: i32 = -20;

/// Asks to be run at once when a timer or a packet wakes us. A machine that does not allow it runs us as any other.
pub fn be_prompt() {
    let _ = setpriority_process(None, FIRST);
    let _ = set_current_timer_slack(NonZeroU64::new(1));
}

/// Becomes `user` for good, without any capability. The process must have one thread only.
///
/// # Errors
/// Where the kernel refuses.
pub fn drop_all(user: u32) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
    set_thread_groups(&[])?;
    set_thread_res_gid(gid, gid, gid)?;
    // With the last user id that is root's go all capabilities.
    set_thread_res_uid(uid, uid, uid)?;
    Ok(())
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
