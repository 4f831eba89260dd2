// SPDX-License-Identifier: GPL-2.0-or-later
//! Counts misses of the data TLB with the processor's counters (perf_event_open(2)): loads and stores, user and kernel. The
//! counters are per processor and cover all that runs there, since the kernel fills a ring in softirq, which the counters of
//! a process need not see.

use std::fs;
use std::io;

use perf_event::events::{Cache, CacheId, CacheOp, CacheResult};
use perf_event::{Builder, CountAndTime, Counter};

const ONLINE: &str = "/sys/devices/system/cpu/online";
const KINDS: usize = 4;
/// Kinds of data TLB misses: name, true for accesses by the kernel (false for user programs), and type of access.
static EVENTS: [(&str, bool, CacheOp); KINDS] = [
    ("user_loads", false, CacheOp::READ),
    ("user_stores", false, CacheOp::WRITE),
    ("kernel_loads", true, CacheOp::READ),
    ("kernel_stores", true, CacheOp::WRITE),
];

/// A counter of one kind of TLB miss on one processor, and its last reading.
struct Watched {
    counter: Counter,
    before: CountAndTime,
}

struct Processor {
    number: usize,
    /// Counters by kind of miss; None if the processor doesn't count the kind.
    watched: [Option<Watched>; KINDS],
}

pub struct Misses(Vec<Processor>);

/// Numbers of TLB misses on one processor between two readings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    pub processor: usize,
    /// Misses by kind; None if the processor doesn't count the kind.
    pub misses: [Option<u64>; KINDS],
}

/// Parses a list of processors such as "0-3,6".
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

/// Returns true if the error means that the processor lacks the event.
fn is_missing(error: &io::Error) -> bool {
    let missing = [libc::ENOENT, libc::ENODEV, libc::EOPNOTSUPP, libc::EINVAL];
    error
        .raw_os_error()
        .is_some_and(|number| missing.contains(&number))
}

/// Explains why no TLB misses can be counted, from the error of the system call.
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

/// Returns the count between two readings. If the counter was active only part of the time (the processor has too few
/// counters), the count is scaled to the whole time. Returns 0 if the counter was never active.
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
    /// Starts counting on all processors. Returns the reason as text if it fails. Must precede the dropping of privileges.
    pub fn start() -> std::result::Result<Misses, String> {
        let online = fs::read_to_string(ONLINE).map_err(|error| format!("{ONLINE}: {error}"))?;
        let all = processors(&online).into_iter();
        all.map(Processor::new)
            .collect::<io::Result<_>>()
            .map(Misses)
            .map_err(|error| reason(&error))
    }

    /// Returns the TLB misses of each processor since the last call, or since the start.
    pub fn since(&mut self) -> io::Result<Vec<Counted>> {
        self.0.iter_mut().map(Processor::since).collect()
    }
}

impl Processor {
    fn new(number: usize) -> io::Result<Processor> {
        let mut watched = [const { None }; KINDS];
        for (place, (_, is_kernel, operation)) in watched.iter_mut().zip(EVENTS) {
            *place = match Watched::new(number, is_kernel, operation) {
                // Some processors count only loads.
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
    /// Iterates over the kinds of misses that the processor counts: the kind's name, and the number of misses.
    fn named(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let named = EVENTS.iter().zip(&self.misses);
        named.filter_map(|((name, ..), count)| Some((*name, (*count)?)))
    }

    /// Returns the numbers of data TLB misses as JSON, e.g. `{"cpu":0,"user_loads":12,...}`. A kind is missing if the
    /// processor does not count it.
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

    /// Formats the average misses per packet, by kind.
    /// - packets: number of packets that were read while the misses were counted.
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

    /// Either outcome is valid here: misses are counted, or the reason is a line of text.
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
