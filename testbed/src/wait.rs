// SPDX-License-Identifier: GPL-2.0-or-later
//! Waits with a limit: for a child, and for a condition. Tests sleep by the functions of this file only
//! (case `platform/sleeps`).

use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

/// Waits for a child. Returns None if it still runs after the limit, or if waiting fails.
pub fn wait_within(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let end = Instant::now() + limit;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < end => thread::sleep(Duration::from_millis(5)),
            _ => return None,
        }
    }
}

/// Time limit for events that must occur. It is far longer than they ever take, because a busy machine may withhold CPU
/// time for whole seconds. A passing test does not wait for the limit.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Returns the time limit for an event: PATIENCE if it must occur, else `briefly`, since only time shows its absence.
pub fn patience(must_occur: bool, briefly: Duration) -> Duration {
    match must_occur {
        true => PATIENCE,
        false => briefly,
    }
}

/// Waits while something must not happen. Only time shows it, since nothing signals an absence.
pub fn watch_silence(time: Duration) {
    thread::sleep(time);
}

/// Pauses as a step of a test: the pace of a client, or a time that the program under test measures itself. A longer pause
/// must not change the outcome; `until` waits for results.
pub fn pause_for(time: Duration) {
    thread::sleep(time);
}

/// Waits until `condition` returns true; fails with `what` after the limit.
pub fn until(
    what: &str,
    limit: Duration,
    mut condition: impl FnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let end = Instant::now() + limit;
    while !condition()? {
        if Instant::now() > end {
            anyhow::bail!("waited {} ms in vain: {what}", limit.as_millis());
        }
        thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}
