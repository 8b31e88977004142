//! Ends processes: a group by its id, and on Linux whatever carries a call's marker, also where
//! it made itself a group or session of its own (tools#7).

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::{thread, time::Duration};

/// The variable that marks all processes of one call.
pub const MARKER: &str = "STEPCLAW_EXEC_ID";
/// Searches of the process table before those that are still there are given up.
const PASSES_MAX: usize = 50;
const PASS_PAUSE: Duration = Duration::from_millis(4);
/// How long a survivor may take to end by itself.
const SURVIVOR_GRACE: Duration = Duration::from_millis(100);

/// The start time of a process (field 22 of its `stat`), 0 where unknown. Together with the id
/// it names a process for ever; the id alone is used again.
#[must_use]
pub fn start_time(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name in the second field may hold blanks and brackets: count from its end.
    let fields = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    fields.split(' ').nth(19).and_then(|field| field.parse().ok()).unwrap_or(0)
}

/// Sends a signal to a group and to its leader, which may not have made the group yet.
pub(super) fn signal(leader: Pid, signal: Signal) {
    let _ = kill_process_group(leader, signal);
    let _ = kill_process(leader, signal);
}

/// Ends every process that carries the marker with this value, those included that are born
/// meanwhile. A process that cleared its environment is not found.
#[cfg(target_os = "linux")]
pub(super) fn sweep(id: &str) {
    let wanted = format!("{MARKER}={id}");
    for _ in 0..PASSES_MAX {
        if marked(wanted.as_bytes()) == 0 {
            return;
        }
        thread::sleep(PASS_PAUSE);
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn sweep(_id: &str) {}

/// How many marked processes were found and told to end.
#[cfg(target_os = "linux")]
fn marked(wanted: &[u8]) -> usize {
    use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};
    let mut count = 0;
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        // Opened before the environment is read: the signal goes to the process that was looked
        // at, or to none.
        let Some(pid) = Pid::from_raw(pid) else { continue };
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        let environ = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        if environ.split(|byte| *byte == 0).any(|variable| variable == wanted)
            && pidfd_send_signal(&process, Signal::KILL).is_ok()
        {
            count += 1;
        }
    }
    count
}

/// Ends a process group that a stopped gateway left behind, if its leader is still the process
/// that was recorded. Returns whether it was.
#[must_use]
pub fn end_survivor(pgid: u32, started: u64) -> bool {
    end(pgid, started, SURVIVOR_GRACE)
}

/// Ends a process group of ours without waiting for it: the process is leaving.
pub fn end_now(pgid: u32, started: u64) {
    let _ = end(pgid, started, Duration::ZERO);
}

fn end(pgid: u32, started: u64, grace: Duration) -> bool {
    let same = || started != 0 && start_time(pgid) == started;
    let Some(leader) = i32::try_from(pgid).ok().and_then(Pid::from_raw) else { return false };
    if pgid <= 1 || pgid == std::process::id() || !same() {
        return false;
    }
    let environ = std::fs::read(format!("/proc/{pgid}/environ")).unwrap_or_default();
    let marker = format!("{MARKER}=");
    let id = environ
        .split(|byte| *byte == 0)
        .find_map(|variable| std::str::from_utf8(variable.strip_prefix(marker.as_bytes())?).ok());
    if !grace.is_zero() {
        signal(leader, Signal::TERM);
        thread::sleep(grace);
    }
    if same() {
        signal(leader, Signal::KILL);
    }
    if let Some(id) = id.filter(|id| !id.is_empty()) {
        sweep(id);
    }
    true
}
