// SPDX-License-Identifier: GPL-2.0-or-later
//! One firewall takes the place of another, of either twin, and no packet is lost.
//!
//! Theory of operation: all that takes long comes first, while the old process filters (handover_take,
//! handover_give). The new one reads and compiles its policy and asks the old one by its control socket
//! (docs/CONTROL.md, `upgrade`). That says what it is, gives descriptors of the queues' sockets away
//! (queue_adopt tells how they go on), and tells the rules of its policy; the new one finds those of
//! its own among them, adopts the sockets, and gives up its rights. Then it says "commit". The old one
//! stops its workers between two batches: from now on packets wait in the sockets. It passes on the
//! states, how full limits are and what quotas have used, in numbers whose places both know by now, and,
//! if both policies read names, what each worker knows of its connections, and what sets have learnt, if
//! both have such; the new one takes them over and starts its workers: here the pause ends. Meanwhile the
//! old one passes on the sums, what counters counted; the new one adds them and says "taken"; the old one
//! says that it heard, and ends without unbinding anything.
//!
//! It is the old one that decides: until it has heard "taken" it goes on by itself if anything is wrong
//! with the new one (it ends, is silent, is no firewall), and a new one that is not told that it was
//! heard ends, and leaves the queues alone. PREPARE_MS bounds what comes before "commit", PAUSE_MS how
//! long the old one's workers stand still.

use std::os::fd::OwnedFd;

use crate::base::counts;
use crate::base::log::{failure_set, Failure, LogExit};
use crate::handover::channel::HandoverChannel;
use crate::handover::connections::ConnectionsTaken;
use crate::handover::learned::LearnedTaken;
use crate::ruleset::migration::{Migration, MigrationSide, MigrationStates};
use crate::worker::WorkerHandover;

/// From the request to "commit"; packets do not wait.
pub const PREPARE_MS: u32 = 15000;
/// From "commit" to "taken" for the old one, which goes on then.
pub const PAUSE_MS: u32 = 2000;

/// Messages of the new process, and the last answer to it.
pub const COMMIT: &str = "commit";
pub const TAKEN: &str = "taken";
pub const HEARD: &str = "{\"ok\":true}\n";
/// The names of what is passed on beside queues and what options name.
pub const RULES: &str = "rules";
pub const STATES: &str = "states";
pub const CONNECTIONS: &str = "connections";
pub const LEARNED: &str = "learned";
pub const SUMS: &str = "sums";

/// Descriptors beside those of queues, called as the options are that they come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandoverFd {
    Control,
    Events,
}

pub const FD_COUNT: usize = HandoverFd::Events as usize + 1;

/// State that one process passes to another, and its part that was adopted.
#[derive(Default)]
pub struct Handover {
    /// The old one's process.
    pub pid: i64,
    /// The generation of its policy; 0 = none.
    pub generation: u32,
    pub queues: Vec<WorkerHandover>,
    pub counts: [u64; counts::ALL.len()],
    /// For each count, and each counter of a queue, that will come: which of ours it is.
    pub count_places: Vec<Option<usize>>,
    pub stat_places: Vec<Option<usize>>,
    /// How many connections one of its workers knows, at most, while all run; none if its policy reads no names. Then
    /// none, too, if ours doesn't.
    pub connections: Option<u32>,
    /// Outcome of the connections.
    pub followed: ConnectionsTaken,
    /// Why they were not taken: the part that is not as it should be.
    pub refused: Option<&'static str>,
    /// Its policy has sets that learn; then, that ours has, too.
    pub learns: bool,
    /// Outcome of the learned addresses.
    pub learned: LearnedTaken,
    /// Why it was not taken, as refused.
    pub unlearned: Option<&'static str>,
    /// The rules of its policy.
    pub side: MigrationSide,
    /// Outcome in our policy, if there is one.
    pub migration: Migration,
    pub states: MigrationStates,
    /// Values of these options in the old process.
    pub options: [Option<String>; FD_COUNT],
    /// None also if it is of no use, as our option says something else.
    pub fds: [Option<OwnedFd>; FD_COUNT],
    /// The memory of rules.
    pub rules: Option<OwnedFd>,
    /// To the old one.
    pub channel: Option<HandoverChannel>,
    /// When "commit" was said, by wait::clock.
    pub committed_ns: u64,
    /// How long packets waited.
    pub waited_ns: u64,
}

/// A failure: the backend can't take part.
pub fn fail_classic() -> Failure {
    failure_set(
        LogExit::Usage,
        "the backend classic cannot take a queue over, as libnetfilter_queue opens sockets of its \
         own only: start the new firewall with --backend raw or mnl",
    )
}

/// A failure: a line is not one that is expected. whose: "old", "new".
pub fn fail_line(whose: &str) -> Failure {
    failure_set(
        LogExit::Call,
        format_args!("the {whose} firewall says what no firewall would: is it one of this kind?"),
    )
}
