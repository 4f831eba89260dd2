// SPDX-License-Identifier: GPL-2.0-or-later
//! `drops`: lists packet drops with origin and reason as the kernel reports them, beside the firewall's ledger.

mod drop;
mod monitor;
mod tracepoint;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::arguments::{Arguments, Drops as Asked};
use crate::failure::{tell, words, Exit, Failure};
use crate::output;
use crate::table::{self, Side};
use crate::units;

use drop::{Culprit, Drops};
use monitor::{Monitor, Refusal};
use tracepoint::Trace;

/// Maximum time between reads of a source, so that a signal or the end is noticed.
const LOOK: Duration = Duration::from_millis(50);
const SIDES: [Side; 6] = [
    Side::Right,
    Side::Left,
    Side::Left,
    Side::Left,
    Side::Left,
    Side::Left,
];

enum Source {
    Monitor(Monitor),
    Trace(Trace),
}

impl Source {
    fn name(&self) -> &'static str {
        match self {
            Source::Monitor(_) => "drop monitor",
            Source::Trace(_) => "tracepoint skb:kfree_skb",
        }
    }

    /// Starts the monitor if the kernel has it, since it also reports interface and flow; otherwise the tracepoint.
    /// Fails if another process uses the monitor, unless `asked.take` is true.
    fn start(asked: &Asked) -> Result<Source, Failure> {
        match Monitor::start(asked.take) {
            Ok(monitor) => return Ok(Source::Monitor(monitor)),
            Err(Refusal::Absent) => {}
            Err(Refusal::Busy) => {
                let text =
                    "the kernel's drop monitor is in use: end who uses it (dropwatch, another \
                            fwctl drops), or if nobody does any more: fwctl drops --take";
                return Err(Failure::new(Exit::Refused, text));
            }
            Err(Refusal::Failed(what, error)) => return Err(refused(what, error)),
        }
        let trace = Trace::start().map_err(|error| match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => refused("the tracepoint skb:kfree_skb", Errno::EPERM),
            _ => {
                let text = format!(
                    "the kernel reports no dropped packets (no drop monitor; tracepoint skb:kfree_skb: {}): \
                     sudo modprobe drop_monitor, or a kernel with CONFIG_NET_DROP_MONITOR",
                    words(&error)
                );
                Failure::new(Exit::Refused, text)
            }
        })?;
        Ok(Source::Trace(trace))
    }

    /// Adds drops that the source has reported: the next one of the monitor, or all that wait at the tracepoint. Waits
    /// for about LOOK at most.
    fn read(&mut self, drops: &mut Drops) -> Result<(), Failure> {
        match self {
            Source::Monitor(monitor) => {
                let waited = monitor.wait(LOOK, |drop| drops.add(drop));
                drops.overruns = monitor.overruns;
                waited.map_err(|error| refused("the drop monitor", error))
            }
            Source::Trace(trace) => {
                thread::sleep(LOOK);
                drops.lost += trace.read(|drop| drops.add(drop));
                Ok(())
            }
        }
    }
}

fn refused(what: &str, error: Errno) -> Failure {
    let cure = match error {
        Errno::EPERM | Errno::EACCES => "be root in the machine's own network namespace",
        _ => "uname -r says which kernel this is",
    };
    Failure::new(Exit::Refused, format!("{what}: {}: {cure}", error.desc()))
}

/// Returns the name of the source that `drops` would use; None if there is none. Starts nothing.
pub fn source() -> Option<&'static str> {
    if monitor::exists() {
        return Some("drop monitor");
    }
    let folders = ["/sys/kernel/tracing", "/sys/kernel/debug"];
    let has_tracing = folders
        .iter()
        .any(|folder| std::path::Path::new(folder).is_dir());
    has_tracing.then_some("tracepoint skb:kfree_skb")
}

pub fn run(arguments: &Arguments, asked: &Asked) -> Result<Exit, Failure> {
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&ended))
            .map_err(|error| Failure::new(Exit::Refused, format!("signals: {}", words(&error))))?;
    }
    let mut source = Source::start(asked)?;
    let mut drops = Drops::default();
    let start = Instant::now();
    let limit = Duration::from_secs(asked.seconds.into());
    let span = units::span(limit.as_secs());
    tell("note", format!("watching for {span} by {}", source.name()));
    while start.elapsed() < limit && !ended.load(Ordering::Relaxed) {
        source.read(&mut drops)?;
    }
    let name = source.name();
    // The source is stopped before printing, because the reader of the output may be slow.
    std::mem::drop(source);
    match arguments.json {
        true => output::json(&objects(&drops, name, start.elapsed())),
        false => output::lines(&text(&drops)),
    };
    Ok(Exit::Fine)
}

fn objects(drops: &Drops, source: &str, took: Duration) -> Vec<String> {
    let mut lines: Vec<String> = drops.objects().iter().map(|row| row.to_string()).collect();
    let sum = |culprit| drops.packets(culprit);
    let total = json!({
        "source": source, "seconds": took.as_secs_f64(), "untold": drops.overruns + drops.lost,
        "rule": sum(Culprit::Rule), "queue": sum(Culprit::Queue),
        "verdict": sum(Culprit::Verdict), "kernel": sum(Culprit::Kernel),
    });
    lines.push(total.to_string());
    lines
}

fn text(drops: &Drops) -> Vec<String> {
    let mut rows =
        vec![["packets", "by", "place", "reason", "interface", "last flow"].map(str::to_owned)];
    rows.extend(drops.cells());
    let mut lines = match rows.len() {
        1 => vec!["no packet was dropped".to_owned()],
        _ => table::lines(SIDES, &rows),
    };
    lines.extend(unreported(drops));
    lines
}

/// Returns a line about drops that the kernel did not report because they came too fast. Only one of both sources is in
/// use.
fn unreported(drops: &Drops) -> Option<String> {
    if drops.overruns > 0 {
        return Some(format!(
            "an unknown number of drops was not reported: {} times",
            units::thousands(drops.overruns)
        ));
    }
    let lost = units::thousands(drops.lost);
    (drops.lost > 0).then(|| format!("drops that were not reported: {lost}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_has_the_unit_of_its_source() {
        let last = |overruns, lost| {
            let mut drops = Drops::default();
            (drops.overruns, drops.lost) = (overruns, lost);
            text(&drops).pop()
        };
        assert_eq!(last(0, 0).as_deref(), Some("no packet was dropped"));
        let times = "an unknown number of drops was not reported: 3 times";
        assert_eq!(last(3, 0).as_deref(), Some(times));
        let drops = "drops that were not reported: 3";
        assert_eq!(last(0, 3).as_deref(), Some(drops));
    }
}
