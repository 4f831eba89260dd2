// SPDX-License-Identifier: GPL-2.0-or-later
//! Options of all commands, from a valid command line.

use crate::base::log::LogLevel;
use crate::packet::verdict::Verdict;
use crate::policy::Hook;
use crate::queue::QueueKind;
pub use crate::spec::option::{
    OptionsConntrack, OptionsProfile, OptionsSituation, SITUATION_COUNT,
};

/// Metadata of a captured packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OptionsFacts {
    /// Hook, if --hook or the packet's comment names it; otherwise the hook of the first base chain applies.
    pub hook: Option<Hook>,
    /// Name of the interface at which the packet arrived, from --iif or the packet's comment; empty = none.
    pub iif: Vec<u8>,
    /// Name of the interface by which the packet leaves, from --oif or the packet's comment; empty = none.
    pub oif: Vec<u8>,
    pub mark: u32,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    /// Connection state, as bits of `Type::CtState`; None = not given.
    pub ct_state: Option<u32>,
    pub ct_mark: Option<u32>,
}

/// Arguments of `explain`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OptionsExplain {
    /// Path of the capture; "-" = stdin.
    pub capture: String,
    /// True if verdicts must equal the recorded verdicts (--expect).
    pub expect: bool,
    /// Metadata of packets without a valid comment in the capture.
    pub facts: OptionsFacts,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub queue_first: u16,
    pub queue_last: u16,
    pub pin: bool,
    pub backend: QueueKind,
    pub profile: OptionsProfile,
    pub copy_bytes: u32,
    pub batch: u32,
    /// Size of the receive buffer of a queue's socket in bytes; 0 = the kernel's default.
    pub receive_buffer: u32,
    /// True if the command line sets the receive buffer: then it is a failure if the kernel gives less.
    pub receive_buffer_asked: bool,
    /// True if the command line sets copy_bytes: then it is a failure if the policy needs more.
    pub copy_bytes_asked: bool,
    pub queue_length: u32,
    pub gso: bool,
    /// Maximum time for which a worker checks for further packets before it sleeps, in microseconds (--spin). Ignored
    /// in the profile paper.
    pub spin_us: u32,
    pub coalesce_us: u32,
    /// Path of the policy; None = no policy.
    pub policy: Option<String>,
    /// Verdict for well-formed packets that no chain of a policy sees: `Accept` or `Drop`.
    pub default_verdict: Verdict,
    pub malformed_by_policy: bool,
    pub conntrack: OptionsConntrack,
    /// Verdict for packets at a rule that reads an undecided name (--undecided): `Accept` or `Drop`. `Accept` applies
    /// only if the rules may accept the packet.
    pub undecided_verdict: Verdict,
    /// Maximum number of data bytes in each direction while the name of a connection is undecided; after these the
    /// name is unreadable.
    pub undecided_bytes: u32,
    /// Maximum number of connections that a worker follows at a time.
    pub connections: u32,
    /// Memory of a worker for incomplete messages with names, in bytes.
    pub hello_memory: u32,
    pub hello_timeout_s: u32,
    /// Maximum number of learned addresses at a time, in all sets together.
    pub learned: u32,
    /// Bits of the mark for classes (--stage); 0 = no classes, the policy's verdict is final.
    pub stage: u32,
    /// Bits of the mark that rules set only if the names are final (--settled).
    pub settled: u32,
    /// Failure modes by `OptionsSituation`; true = open.
    pub fail_open: [bool; SITUATION_COUNT],
    /// Time without a verdict, while packets wait, after which the guard answers them, in milliseconds; 0 = never.
    pub deadline_ms: u32,
    /// Interval of printed ledgers in seconds; 0 = only on SIGUSR1 and at exit.
    pub stats_s: u32,
    pub json: bool,
    /// Destination of events: a file, "-" (stdout) or unix:PATH; None = no events.
    pub events: Option<String>,
    pub events_rate: u32,
    pub log_level: LogLevel,
    /// Path of the control socket; None = no socket.
    pub control: Option<String>,
    pub control_mode: u32,
    /// Owner of the control socket, USER or USER:GROUP; None = the user that starts the program.
    pub control_owner: Option<String>,
    /// Path of the old firewall's control socket; None = no upgrade.
    pub take_over: Option<String>,
    /// User to become if root starts the program; None = the user twinwall.
    pub user: Option<String>,
    pub sandbox: bool,
    /// True if `check` prints the policy.
    pub print: bool,
    /// Arguments of `explain`.
    pub explain: OptionsExplain,
}
