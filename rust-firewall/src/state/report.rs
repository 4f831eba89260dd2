// SPDX-License-Identifier: GPL-2.0-or-later
//! Reports: the start line and the ledger, as text and as JSON. The functions that create a report have no side
//! effects; each returns a string with its line ends.

use std::fmt::Write as _;

use serde::Serialize;

use crate::base::object;
use crate::options::{self, Options, OptionsProfile, PROGRAM, VERSION};
use crate::packet::verdict;
use crate::policy::requirement::Requirement;
use crate::queue;
use crate::ruleset::tally::Tally;
use crate::spec::counter::CounterText;
use crate::state::contract::{self, Contract};
use crate::state::report_counters;
use crate::state::report_policy::{self, LedgerPolicyObject, StartPolicyObject};
use crate::worker::stats::{self, Ledger, Stats};

/// Reason for which a ledger is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ReportReason {
    Interval,
    Signal,
    Control,
    Exit,
}

fn print_start(
    out: &mut String,
    options: &Options,
    requirement: Option<&Requirement>,
    receive_buffer: u32,
) {
    let _ = write!(out, "ready: queue {}", options.queue_first);
    if options.queue_last > options.queue_first {
        let _ = write!(out, ":{}", options.queue_last);
    }
    let _ = write!(
        out,
        ", backend {}, profile {}, copy {} bytes, batch {}, receive buffer {receive_buffer} bytes, \
         queue length {}, gso {}, spin ",
        options::backend_name(options.backend),
        options::profile_name(options.profile),
        options.copy_bytes,
        options.batch,
        options.queue_length,
        if options.gso { "on" } else { "off" },
    );
    let _ = match options.profile {
        OptionsProfile::Paper => write!(out, "always"),
        OptionsProfile::Fast => write!(out, "{} us", options.spin_us),
    };
    let _ = write!(
        out,
        ", coalesce {} us, fail {}, default {}",
        options.coalesce_us,
        options::daemon::fail_text(options),
        verdict::name(options.default_verdict),
    );
    if let Some(requirement) = requirement {
        report_policy::print_start(out, options, requirement);
    }
    out.push('\n');
}

/// Returns the names and counters of the verdicts, in the order of the enum.
fn verdict_counts(stats: &Stats) -> impl Iterator<Item = (&'static str, u64)> + '_ {
    verdict::VERDICTS
        .into_iter()
        .map(|(_, name)| name)
        .zip(stats.verdicts)
}

/// Prints a ledger. The caller has already printed the start of its first line: the queue or "total".
fn print_ledger(out: &mut String, ledger: &Ledger) {
    let stats = &ledger.stats;
    let verdicts: Vec<String> = verdict_counts(stats)
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    let _ = writeln!(
        out,
        ": received {} packets, {} bytes",
        stats.received, stats.bytes
    );
    let _ = writeln!(
        out,
        "  verdicts: {}; refused by the kernel {}",
        verdicts.join(", "),
        stats.refused
    );
    report_counters::print_malformed(out, stats);
    out.push_str("  ");
    report_counters::print(out, stats, CounterText::Queue);
    let _ = writeln!(out, ", stalled {}", ledger.stalled);
    if !ledger.known {
        let _ = writeln!(
            out,
            "  kernel: unknown, {} can't be read\n  ledger: NOT RECONCILED, the losses are unknown",
            queue::proc::QUEUES
        );
        return;
    }
    let _ = writeln!(
        out,
        "  kernel: offered {}, waiting {}, queue full {}, user drop {}, unseen {}",
        ledger.offered, ledger.waiting, ledger.queue_full, ledger.user_drop, ledger.unseen
    );
    let _ = match ledger.reconciled {
        true => writeln!(
            out,
            "  ledger: reconciled, lost {} in the queue",
            ledger.lost
        ),
        false => writeln!(
            out,
            "  ledger: NOT RECONCILED, difference {}, lost {} in the queue",
            ledger.difference, ledger.lost
        ),
    };
}

fn sum_of(ledgers: &[Ledger]) -> Ledger {
    let mut sum = Ledger {
        known: true,
        reconciled: true,
        ..Ledger::default()
    };
    for ledger in ledgers {
        stats::ledger_add(&mut sum, ledger);
    }
    sum
}

fn print_ledgers(out: &mut String, ledgers: &[Ledger]) {
    for ledger in ledgers {
        let _ = write!(out, "queue {}", ledger.number);
        print_ledger(out, ledger);
    }
    if ledgers.len() > 1 {
        out.push_str("total");
        print_ledger(out, &sum_of(ledgers));
    }
}

#[derive(Serialize)]
struct StartObject<'a> {
    event: &'static str,
    program: &'static str,
    version: &'static str,
    time_ms: u64,
    queues: Vec<u16>,
    backend: &'static str,
    profile: &'static str,
    copy_bytes: u32,
    batch: u32,
    receive_buffer: u32,
    queue_length: u32,
    gso: bool,
    spin_us: Option<u32>,
    coalesce_us: u32,
    fail: String,
    deadline_ms: u32,
    default: &'static str,
    #[serde(flatten)]
    policy: Option<StartPolicyObject<'a>>,
    contract: &'a Contract,
}

fn start_object<'a>(
    options: &'a Options,
    requirement: Option<&Requirement>,
    receive_buffer: u32,
    contract: &'a Contract,
    time_ms: u64,
) -> StartObject<'a> {
    StartObject {
        event: "start",
        program: PROGRAM,
        version: VERSION,
        time_ms,
        queues: (options.queue_first..=options.queue_last).collect(),
        backend: options::backend_name(options.backend),
        profile: options::profile_name(options.profile),
        copy_bytes: options.copy_bytes,
        batch: options.batch,
        receive_buffer,
        queue_length: options.queue_length,
        gso: options.gso,
        spin_us: (options.profile != OptionsProfile::Paper).then_some(options.spin_us),
        coalesce_us: options.coalesce_us,
        fail: options::daemon::fail_text(options),
        deadline_ms: options.deadline_ms,
        default: verdict::name(options.default_verdict),
        policy: requirement.map(|requirement| report_policy::start_object(options, requirement)),
        contract,
    }
}

#[derive(Serialize)]
struct KernelObject {
    offered: u64,
    waiting: u64,
    queue_full: u64,
    user_drop: u64,
    unseen: u64,
}

fn kernel_object(ledger: &Ledger) -> KernelObject {
    KernelObject {
        offered: ledger.offered,
        waiting: ledger.waiting,
        queue_full: ledger.queue_full,
        user_drop: ledger.user_drop,
        unseen: ledger.unseen,
    }
}

#[derive(Serialize)]
struct QueueObject<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<u16>,
    #[serde(flatten, serialize_with = "report_counters::object")]
    stats: &'a Stats,
    stalled: u64,
    kernel: Option<KernelObject>,
    lost: Option<u64>,
    difference: u64,
    reconciled: bool,
}

/// Creates the JSON object of a ledger.
/// - queue: number of the queue; None = the sum of all queues.
fn queue_object(queue: Option<u16>, ledger: &Ledger) -> QueueObject<'_> {
    QueueObject {
        queue,
        stats: &ledger.stats,
        stalled: ledger.stalled,
        kernel: ledger.known.then(|| kernel_object(ledger)),
        lost: ledger.known.then_some(ledger.lost),
        difference: ledger.difference,
        reconciled: ledger.reconciled,
    }
}

#[derive(Serialize)]
struct LedgerObject<'a> {
    event: &'static str,
    program: &'static str,
    time_ms: u64,
    reason: ReportReason,
    queues: Vec<QueueObject<'a>>,
    total: QueueObject<'a>,
    reconciled: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<LedgerPolicyObject<'a>>,
}

fn ledger_object<'a>(
    options: &'a Options,
    reason: ReportReason,
    time_ms: u64,
    ledgers: &'a [Ledger],
    sum: &'a Ledger,
    tally: Option<&Tally>,
) -> LedgerObject<'a> {
    LedgerObject {
        event: "stats",
        program: PROGRAM,
        time_ms,
        reason,
        queues: ledgers
            .iter()
            .map(|ledger| queue_object(Some(ledger.number), ledger))
            .collect(),
        total: queue_object(None, sum),
        reconciled: sum.reconciled,
        policy: tally.map(|tally| report_policy::ledger_object(options, tally)),
    }
}

/// Creates the start line and the failure contract: as JSON if options.json is true, otherwise as text.
/// - requirement: requirement of the policy, if there is one.
/// - receive_buffer: size that the kernel has given the first queue's buffer, in bytes.
/// - time_ms: UNIX time.
pub fn start(
    options: &Options,
    requirement: Option<&Requirement>,
    receive_buffer: u32,
    contract: &Contract,
    time_ms: u64,
) -> String {
    if options.json {
        return object::line(&start_object(
            options,
            requirement,
            receive_buffer,
            contract,
            time_ms,
        ));
    }
    let mut out = String::new();
    print_start(&mut out, options, requirement, receive_buffer);
    contract::print(&mut out, contract);
    out
}

/// Creates the report of all queues' ledgers (at least one), their sum (in text only for several queues), and the
/// policy's counters, if there is a policy.
pub fn ledger(
    options: &Options,
    reason: ReportReason,
    time_ms: u64,
    ledgers: &[Ledger],
    tally: Option<&Tally>,
) -> String {
    if options.json {
        return object::line(&ledger_object(
            options,
            reason,
            time_ms,
            ledgers,
            &sum_of(ledgers),
            tally,
        ));
    }
    let mut out = String::new();
    print_ledgers(&mut out, ledgers);
    if let Some(tally) = tally {
        report_policy::print_ledger(&mut out, options, &sum_of(ledgers).stats, tally);
    }
    out
}
