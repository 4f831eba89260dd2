// SPDX-License-Identifier: GPL-2.0-or-later
//! Misses of the data TLB, as processors count them (perf_event_open(2)): of loads and of stores, of programs and of the
//! kernel. Each processor has counters of its own for all that runs there, since a ring is filled in softirq, of which a
//! process's counters need not see anything.

use std::fs;
use std::io;

use perf_event::events::{Cache, CacheId, CacheOp, CacheResult};
use perf_event::{Builder, CountAndTime, Counter};

const ONLINE: &str = "/sys/devices/system/cpu/online";
const KINDS: usize = 4;
/// The kinds, by their names: whether they are the kernel's, and what accesses they are of.
static EVENTS: [(&str, bool, CacheOp); KINDS] = [
    ("user_loads", false, CacheOp::READ),
    ("user_stores", false, CacheOp::WRITE),
    ("kernel_loads", true, CacheOp::READ),
    ("kernel_stores", true, CacheOp::WRITE),
];

/// A kind on one processor, and what it was when last asked.
struct Watched {
    counter: Counter,
    before: CountAndTime,
}

struct Processor {
    number: usize,
    /// By kind.
    watched: [Option<Watched>; KINDS],
}

pub struct Misses(Vec<Processor>);

/// What one processor counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    pub processor: usize,
    /// By kind. None: the processor counts no such misses.
    pub misses: [Option<u64>; KINDS],
}

/// The processors that run, of a text such as "0-3,6".
fn processors(text: &str) -> Vec<usize> {
    let mut numbers = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse()) {
            numbers.extend(first..=last);
        }
    }
    numbers
}

/// Whether the processor has no such event.
fn is_missing(error: &io::Error) -> bool {
    let missing = [libc::ENOENT, libc::ENODEV, libc::EOPNOTSUPP, libc::EINVAL];
    error
        .raw_os_error()
        .is_some_and(|number| missing.contains(&number))
}

/// Why nothing is counted.
fn reason(error: &io::Error) -> String {
    match error.raw_os_error() {
        _ if is_missing(error) => {
            "the processor has no counter of them here, as in most virtual machines".into()
        }
        Some(libc::EACCES | libc::EPERM) => {
            "the kernel refuses: run as root, or: sudo sysctl kernel.perf_event_paranoid=0".into()
        }
        Some(libc::ENOSYS) => "the kernel has no perf events".into(),
        _ => error.to_string(),
    }
}

/// What was counted between two looks. A counter that had the processor for a part of the time only, since there are fewer
/// than are wanted, stands for all of it.
fn between(before: &CountAndTime, after: &CountAndTime) -> u64 {
    let count = u128::from(after.count.saturating_sub(before.count));
    let enabled = u128::from(after.time_enabled.saturating_sub(before.time_enabled));
    let running = u128::from(after.time_running.saturating_sub(before.time_running));
    (count * enabled).checked_div(running).unwrap_or(0) as u64
}

impl Watched {
    fn new(processor: usize, is_kernel: bool, operation: CacheOp) -> io::Result<Watched> {
        let mut builder = Builder::new(Cache {
            which: CacheId::DTLB,
            operation,
            result: CacheResult::MISS,
        });
        builder.any_pid().one_cpu(processor);
        builder.exclude_user(is_kernel).exclude_kernel(!is_kernel);
        let mut counter = builder.build()?;
        counter.enable()?;
        let before = counter.read_count_and_time()?;
        Ok(Watched { counter, before })
    }

    fn since(&mut self) -> io::Result<u64> {
        let after = self.counter.read_count_and_time()?;
        let counted = between(&self.before, &after);
        self.before = after;
        Ok(counted)
    }
}

impl Misses {
    /// Counts from now on, on all processors. Fails with the reason in words. To be done before rights are given up.
    pub fn start() -> std::result::Result<Misses, String> {
        let online = fs::read_to_string(ONLINE).map_err(|error| format!("{ONLINE}: {error}"))?;
        let all = processors(&online).into_iter();
        all.map(Processor::new)
            .collect::<io::Result<_>>()
            .map(Misses)
            .map_err(|error| reason(&error))
    }

    /// What was counted since the last call, or the start.
    pub fn since(&mut self) -> io::Result<Vec<Counted>> {
        self.0.iter_mut().map(Processor::since).collect()
    }
}

impl Processor {
    fn new(number: usize) -> io::Result<Processor> {
        let mut watched = [const { None }; KINDS];
        for (place, (_, is_kernel, operation)) in watched.iter_mut().zip(EVENTS) {
            *place = match Watched::new(number, is_kernel, operation) {
                // Some processors count loads alone.
                Err(error) if operation == CacheOp::WRITE && is_missing(&error) => None,
                other => Some(other?),
            };
        }
        Ok(Processor { number, watched })
    }

    fn since(&mut self) -> io::Result<Counted> {
        let mut misses = [None; KINDS];
        for (count, watched) in misses.iter_mut().zip(&mut self.watched) {
            *count = watched.as_mut().map(Watched::since).transpose()?;
        }
        Ok(Counted {
            processor: self.number,
            misses,
        })
    }
}

impl Counted {
    /// The kinds that are counted, with their names.
    fn named(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let named = EVENTS.iter().zip(&self.misses);
        named.filter_map(|((name, ..), count)| Some((*name, (*count)?)))
    }

    /// `{"cpu":0,"user_loads":12,...}`
    pub fn json(&self) -> String {
        let counts = self
            .named()
            .map(|(name, count)| format!(",\"{name}\":{count}"));
        format!(
            "{{\"cpu\":{}{}}}",
            self.processor,
            counts.collect::<String>()
        )
    }

    /// Of so many packets.
    pub fn text(&self, packets: u64) -> String {
        let counts = self.named().map(|(name, count)| {
            let each = count as f64 / packets.max(1) as f64;
            format!("{} {each:.4}", name.replace('_', " "))
        });
        let counts: Vec<String> = counts.collect();
        format!(
            "  dTLB misses a packet, CPU {}: {}",
            self.processor,
            counts.join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_listed() {
        assert_eq!(processors("0-1,4\n"), [0, 1, 4]);
        assert_eq!(processors("0\n"), [0]);
    }

    #[test]
    fn why_nothing_is_counted_is_said_with_a_cure() {
        let said = |number| reason(&io::Error::from_raw_os_error(number));
        assert!(said(libc::ENOENT).contains("has no counter"));
        assert!(said(libc::EOPNOTSUPP).contains("virtual machines"));
        assert!(said(libc::EACCES).contains("perf_event_paranoid"));
        assert!(said(libc::ENOSYS).contains("no perf events"));
        assert!(said(libc::EMFILE).contains("Too many open files"));
    }

    #[test]
    fn a_counter_that_shares_the_processor_stands_for_all_of_the_time() {
        let at = |count, time_enabled, time_running| CountAndTime {
            count,
            time_enabled,
            time_running,
        };
        assert_eq!(between(&at(100, 10, 10), &at(150, 30, 30)), 50);
        assert_eq!(between(&at(100, 10, 10), &at(150, 30, 20)), 100);
        assert_eq!(between(&at(100, 10, 10), &at(100, 30, 10)), 0);
    }

    #[test]
    fn what_a_processor_does_not_count_is_left_out() {
        let counted = Counted {
            processor: 3,
            misses: [Some(50), None, Some(200), None],
        };
        assert_eq!(
            counted.json(),
            "{\"cpu\":3,\"user_loads\":50,\"kernel_loads\":200}"
        );
        assert_eq!(
            counted.text(100),
            "  dTLB misses a packet, CPU 3: user loads 0.5000, kernel loads 2.0000"
        );
    }

    /// Either is right; what is told must fit.
    #[test]
    fn this_machine_counts_or_says_why_not() {
        match Misses::start() {
            Ok(mut misses) => {
                let counted = misses.since().unwrap();
                assert!(!counted.is_empty() && counted[0].misses[0].is_some());
            }
            Err(why) => assert!(!why.is_empty() && !why.contains('\n'), "{why}"),
        }
    }
}
