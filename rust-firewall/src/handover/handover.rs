// SPDX-License-Identifier: GPL-2.0-or-later
//! Upgrade: one firewall takes the place of another, of either twin, and no packet is lost.
//!
//! Theory of operation: all slow steps come first, while the old process filters (handover_take, handover_give). The
//! new process reads and compiles its policy and connects to the control socket of the old one (docs/CONTROL.md,
//! `upgrade`). The old process sends its state, descriptors of the queues' sockets (queue_adopt describes how they are
//! used), and the rules of its policy. The new process pairs these rules with its own, adopts the sockets, and gives up
//! its rights. Then it sends "commit". The old process stops its workers between two batches: from now on packets wait
//! in the sockets. It sends the states (counts, counters of queues, fill levels of limits, bytes used by quotas) in an
//! order that both processes know by now. If both policies read names, it also sends each worker's connections; if both
//! policies learn addresses, the learned addresses. The new process stores all of it and starts its workers: here the
//! pause ends. Meanwhile the old process sends the sums (values of the policy's counters and logs). The new process
//! adds them and sends "taken". The old process confirms, and ends without unbinding the queues.
//!
//! The old process decides the outcome: until it has confirmed "taken" it resumes filtering if anything is wrong with
//! the new process (it ended, does not answer, or is no firewall). A new process that receives no confirmation makes
//! sure that it can't be sent any more, ends, and does not touch the queues. PREPARE_MS bounds the time before "commit",
//! PAUSE_MS the time for which the old workers stand still.

use std::os::fd::OwnedFd;

use crate::base::counts;
use crate::base::log::{failure_set, Failure, LogExit};
use crate::control::process;
use crate::handover::channel::HandoverChannel;
use crate::handover::connections::ConnectionsTaken;
use crate::handover::learned::LearnedTaken;
use crate::options::arguments::{self, ArgumentsOption};
use crate::options::Options;
use crate::ruleset::migration::{Migration, MigrationSide, MigrationStates};
use crate::worker::WorkerHandover;

/// Maximum time from the request of an upgrade to its "commit", in milliseconds; packets do not wait meanwhile.
pub const PREPARE_MS: u32 = 15000;
/// Time from "commit" within which the old process must receive "taken", in milliseconds; otherwise it resumes
/// filtering.
pub const PAUSE_MS: u32 = 2000;

/// Commands of the new process (COMMIT, TAKEN), and the line by which the old process confirms TAKEN (HEARD).
pub const COMMIT: &str = "commit";
pub const TAKEN: &str = "taken";
pub const HEARD: &str = "{\"ok\":true}\n";
/// Names that are sent with the descriptors of memory files (handover/memory); each file contains one part of the
/// state.
pub const RULES: &str = "rules";
pub const STATES: &str = "states";
pub const CONNECTIONS: &str = "connections";
pub const LEARNED: &str = "learned";
pub const SUMS: &str = "sums";

/// Kinds of the descriptors that options open, named like these options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandoverFd {
    Control,
    Events,
}

pub const FD_COUNT: usize = HandoverFd::Events as usize + 1;

/// State that the old process of an upgrade sends. After `commit`, also the results of adopting it.
#[derive(Default)]
pub struct Handover {
    /// Process ID of the old firewall.
    pub pid: i64,
    /// Generation of the old policy; 0 = no policy.
    pub generation: u32,
    pub queues: Vec<WorkerHandover>,
    pub counts: [u64; counts::ALL.len()],
    /// Indexes in this process's arrays for the counts that the old process sends, and for the counters of a queue;
    /// None if this process does not know the name.
    pub count_places: Vec<Option<usize>>,
    pub stat_places: Vec<Option<usize>>,
    /// Largest number of connections that any old worker followed before the workers stop. None if the old policy reads
    /// no names, and after `commit` also if the new policy reads no names.
    pub connections: Option<u32>,
    /// Numbers of connections that were transferred, and that were left out.
    pub followed: ConnectionsTaken,
    /// Name of the invalid part because of which all connections were refused; None if they were accepted.
    pub refused: Option<&'static str>,
    /// True if the old policy has sets that learn addresses; after `commit`, true if both policies have such sets.
    pub learns: bool,
    /// Numbers of learned addresses: transferred, left out, and of sets that the new policy does not have.
    pub learned: LearnedTaken,
    /// Name of the invalid part because of which all learned addresses were refused; None if they were accepted.
    pub unlearned: Option<&'static str>,
    /// Rules of the old policy.
    pub side: MigrationSide,
    /// Pairs of rules that both policies have, if there is a new policy.
    pub migration: Migration,
    pub states: MigrationStates,
    /// Values of --control and --events in the old process, with absolute paths; None = not set.
    pub options: [Option<String>; FD_COUNT],
    /// Descriptors that the old process opened for --control and --events. None if the old process sent none, or if
    /// this process has another value of the option.
    pub fds: [Option<OwnedFd>; FD_COUNT],
    /// Memory file with the old policy's rules, not read yet.
    pub rules: Option<OwnedFd>,
    /// Channel to the old process.
    pub channel: Option<HandoverChannel>,
    /// Time at which "commit" was sent (wait::clock).
    pub committed_ns: u64,
    /// Time between "commit" and the start of the workers, in which packets waited.
    pub waited_ns: u64,
}

/// Returns the values of --control and --events with absolute paths, by which two processes find out whether both have
/// the same. Must be called before the sandbox, which does not allow getcwd.
pub fn values(options: &Options) -> [Option<String>; FD_COUNT] {
    let value = |option, given: &Option<String>| {
        let name = arguments::name(option);
        given.as_deref().map(|given| process::value_of(name, given))
    };
    [
        value(ArgumentsOption::Control, &options.control),
        value(ArgumentsOption::Events, &options.events),
    ]
}

/// Returns the failure of the backend classic, which can't take over queues.
pub fn fail_classic() -> Failure {
    failure_set(
        LogExit::Usage,
        "the backend classic cannot take a queue over, as libnetfilter_queue opens sockets of its \
         own only: start the new firewall with --backend raw or mnl",
    )
}

/// Returns the failure for an unexpected line.
/// - whose: "old" or "new": the firewall that sent it.
pub fn fail_line(whose: &str) -> Failure {
    failure_set(
        LogExit::Call,
        format_args!(
            "the {whose} firewall sent an unexpected message: check that it is a Twinwall firewall"
        ),
    )
}
