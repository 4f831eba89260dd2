// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: eventfd2 poll write close
//! Thread that notifies systemd's watchdog as long as the loop of each worker makes new rounds. It is independent of
//! the main thread, which may be busy with a large policy while no packet waits for it.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::base::log::{failure_set_start, Failure};
use crate::privilege::notify;
use crate::worker::workers::Workers;
use crate::worker::{self, Shared};

/// Time between checks whether a worker's loop has begun a new round, in milliseconds.
const LOOK_MS: u64 = 20;

/// Thread that notifies systemd's watchdog while the workers' loops make new rounds.
pub struct Watchdog {
    /// eventfd that requests the thread's end.
    stop_event: Arc<EventFd>,
    thread: JoinHandle<()>,
}

/// Waits for a time, or until the thread must end. Returns true if it must end.
fn ends_within(stop_event: &EventFd, ms: u64) -> bool {
    let mut sources = [PollFd::new(stop_event.as_fd(), PollFlags::POLLIN)];
    let timeout = PollTimeout::try_from(ms).unwrap_or(PollTimeout::MAX);
    let _ = poll(&mut sources, timeout); // it can't fail: signals are blocked
    sources[0].any() == Some(true)
}

/// Notifies systemd once per period, after each worker's loop has begun a new round.
fn run(workers: &[Arc<Shared>], stop_event: &EventFd, period_ms: u64) {
    while !ends_within(stop_event, period_ms) {
        for worker in workers {
            worker::ask_turn(worker);
        }
        while !workers.iter().all(|worker| worker::has_turned(worker)) {
            if ends_within(stop_event, LOOK_MS) {
                return;
            }
        }
        notify::watchdog();
    }
}

/// Starts the watchdog thread, if systemd has a watchdog for this service; otherwise returns None.
pub fn start(workers: &Workers) -> Result<Option<Watchdog>, Failure> {
    let period_ms = notify::watchdog_ms();
    if period_ms == 0 {
        return Ok(None);
    }
    let stop_event = EventFd::from_flags(EfdFlags::EFD_CLOEXEC)
        .map_err(|error| failure_set_start("eventfd", error))?;
    let stop_event = Arc::new(stop_event);
    let all = workers.all.iter();
    let shared: Vec<_> = all.map(|worker| Arc::clone(&worker.shared)).collect();
    let stops = Arc::clone(&stop_event);
    let thread = thread::Builder::new()
        .spawn(move || run(&shared, &stops, period_ms))
        .map_err(|error| {
            let error = error.raw_os_error().map_or(Errno::EAGAIN, Errno::from_raw);
            failure_set_start("pthread_create", error)
        })?;
    Ok(Some(Watchdog { stop_event, thread }))
}

/// Ends the watchdog thread.
pub fn stop(watchdog: Watchdog) {
    let _ = watchdog.stop_event.write(1); // can't fail: the counter is far from its limit
    let _ = watchdog.thread.join();
}
