//! A process's descendants, found through `/proc`, and their end.

use std::{collections::BTreeMap, fs, thread, time::Duration};

use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, wait},
};

/// The descendants of a process that are not dead, the nearest first. Zombies are left out: they run no more.
pub(crate) fn descendants(root: u32) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<(u32, bool)>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        if let Some((parent, alive)) =
            fs::read_to_string(entry.path().join("stat")).ok().and_then(|s| parse_stat(&s))
        {
            children.entry(parent).or_default().push((pid, alive));
        }
    }
    let mut found = Vec::new();
    let mut next = vec![root];
    while let Some(parent) = next.pop() {
        for &(pid, alive) in children.get(&parent).into_iter().flatten() {
            next.push(pid);
            if alive {
                found.push(pid);
            }
        }
    }
    found
}

/// Parent and liveness, from `/proc/PID/stat`. The name stands in parentheses and may hold anything, so the fields
/// behind the last one are read.
fn parse_stat(stat: &str) -> Option<(u32, bool)> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    Some((parent, !matches!(state, "Z" | "X" | "x")))
}

/// Sends a signal to every descendant.
pub(crate) fn signal_tree(root: u32, signal: Signal) {
    for pid in descendants(root) {
        send(pid, signal);
    }
}

fn send(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // It may have ended since it was listed.
        let sent = kill_process(pid, signal);
        debug_assert!(matches!(sent, Ok(()) | Err(Errno::SRCH | Errno::PERM)), "{sent:?}");
    }
}

/// Kills every descendant of this process. First all are stopped, again and again until no new one turns up, so that
/// none forks away while others are killed. `except` is left alone, with what comes from it.
pub(crate) fn kill_tree(except: Option<u32>, mut reaped: impl FnMut(u32, WaitStatus)) {
    let me = std::process::id();
    let targets = || -> Vec<u32> {
        let spared = except.map(descendants).unwrap_or_default();
        descendants(me).into_iter().filter(|pid| Some(*pid) != except && !spared.contains(pid)).collect()
    };
    // Each round kills what the one before has seen; processes in an uninterruptible wait take their time.
    for _ in 0..2_000 {
        let mut known = 0;
        loop {
            let found = targets();
            if found.len() <= known {
                break;
            }
            known = found.len();
            found.into_iter().for_each(|pid| send(pid, Signal::STOP));
        }
        let found = targets();
        found.iter().for_each(|pid| send(*pid, Signal::KILL));
        reap(&mut reaped);
        if found.is_empty() {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Takes the status of every child that has ended.
pub(crate) fn reap(reaped: &mut impl FnMut(u32, WaitStatus)) {
    while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
        reaped(pid.as_raw_nonzero().get().unsigned_abs(), status);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_confuse() {
        assert_eq!(parse_stat("12 (a) b) S 7 12 12 0"), Some((7, true)));
        assert_eq!(parse_stat("12 (x) Z 1 0"), Some((1, false)));
        assert_eq!(parse_stat("garbage"), None);
    }
}
