// SPDX-License-Identifier: GPL-2.0-or-later
//! The options of all commands, as a valid command line gives them.

use crate::base::log::LogLevel;
use crate::packet::verdict::Verdict;
use crate::policy::Hook;
use crate::queue::QueueKind;
pub use crate::spec::option::{
    OptionsConntrack, OptionsProfile, OptionsSituation, SITUATION_COUNT,
};

/// Metadata of a captured packet, besides its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OptionsFacts {
    /// Whether a hook was given; without it that of the first base chain.
    pub hook: Option<Hook>,
    /// Empty = none.
    pub iif: Vec<u8>,
    /// Empty = none.
    pub oif: Vec<u8>,
    pub mark: u32,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    /// As `Type::CtState`.
    pub ct_state: Option<u32>,
    pub ct_mark: Option<u32>,
}

/// Arguments of `explain`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OptionsExplain {
    /// "-" = stdin.
    pub capture: String,
    /// Verdicts are to be those that were recorded.
    pub expect: bool,
    /// Metadata of packets that the capture says nothing about.
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
    /// Bytes.
    pub receive_buffer: u32,
    /// On the command line, so a smaller one is a failure.
    pub receive_buffer_asked: bool,
    /// On the command line, so that a policy which reads more is a failure.
    pub copy_bytes_asked: bool,
    pub queue_length: u32,
    pub gso: bool,
    /// Without meaning in the profile paper.
    pub spin_us: u32,
    pub coalesce_us: u32,
    /// A path.
    pub policy: Option<String>,
    /// `Accept` or `Drop`.
    pub default_verdict: Verdict,
    pub malformed_by_policy: bool,
    pub conntrack: OptionsConntrack,
    /// `Accept` or `Drop`.
    pub undecided_verdict: Verdict,
    /// With accept: bytes each way, beyond which a name can't be read.
    pub undecided_bytes: u32,
    /// That a worker follows.
    pub connections: u32,
    /// Bytes, of a worker.
    pub hello_memory: u32,
    pub hello_timeout_s: u32,
    /// Addresses.
    pub learned: u32,
    /// Bits of marks in which classes are told; 0 = the policy decides.
    pub stage: u32,
    /// Bits of marks that rules set only where names are final.
    pub settled: u32,
    /// By `OptionsSituation`.
    pub fail_open: [bool; SITUATION_COUNT],
    /// 0 = none.
    pub deadline_ms: u32,
    /// 0 = no interval.
    pub stats_s: u32,
    pub json: bool,
    /// A file, "-" or unix:PATH.
    pub events: Option<String>,
    pub events_rate: u32,
    pub log_level: LogLevel,
    /// A path.
    pub control: Option<String>,
    pub control_mode: u32,
    /// USER or USER:GROUP; none = who starts the program.
    pub control_owner: Option<String>,
    /// A path.
    pub take_over: Option<String>,
    /// None = the default.
    pub user: Option<String>,
    pub sandbox: bool,
    /// `check`: print the policy.
    pub print: bool,
    /// The options of `explain`.
    pub explain: OptionsExplain,
}
