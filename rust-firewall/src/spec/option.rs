// SPDX-License-Identifier: GPL-2.0-or-later
// Made by spec/generate from spec/options.toml.
//! The command line.

pub const BATCH_MAX: u32 = 1024;
pub const COPY_BYTES_FAST: u32 = 128;
pub const INTERFACE_BYTES_MAX: u32 = 15;
pub const QUEUES_MAX: u32 = 256;
pub const SOCKET_BYTES_MAX: u32 = 107;

/// Command: the first argument, if it is a command's name; otherwise Run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentsCommand {
    Run,
    Check,
    Explain,
}

pub const COMMAND_COUNT: usize = 3;

/// Properties of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandFacts {
    pub command: ArgumentsCommand,
    pub name: &'static str,
    /// Number of words (arguments that are not options) that the command needs after its name.
    pub words: usize,
    /// Description of the command's words for messages, e.g. "a policy".
    pub needs: &'static str,
}

/// All commands, in order.
pub const COMMANDS: [CommandFacts; COMMAND_COUNT] = [
    CommandFacts {
        command: ArgumentsCommand::Run,
        name: "",
        words: 0,
        needs: "",
    },
    CommandFacts {
        command: ArgumentsCommand::Check,
        name: "check",
        words: 1,
        needs: "a policy",
    },
    CommandFacts {
        command: ArgumentsCommand::Explain,
        name: "explain",
        words: 2,
        needs: "a policy and a capture",
    },
];

/// Backend of a queue (--backend).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueueKind {
    /// The callback API of libnetfilter_queue.
    Classic,
    /// Libmnl and libnetfilter_queue's message API.
    Mnl,
    /// Netlink without a library.
    Raw,
}

pub const BACKEND_COUNT: usize = 3;

/// All values in order, with their names on the command line.
pub const BACKEND_NAMES: [(QueueKind, &str); BACKEND_COUNT] = [
    (QueueKind::Classic, "classic"),
    (QueueKind::Mnl, "mnl"),
    (QueueKind::Raw, "raw"),
];

/// Profile: a set of defaults for the options (--profile).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OptionsProfile {
    /// Sleep when idle, receive and answer in batches.
    Fast,
    /// The published experiment: classic backend, busy loop, one packet a call; it loses packets.
    Paper,
}

pub const PROFILE_COUNT: usize = 2;

/// All values in order, with their names on the command line.
pub const PROFILE_NAMES: [(OptionsProfile, &str); PROFILE_COUNT] = [
    (OptionsProfile::Fast, "fast"),
    (OptionsProfile::Paper, "paper"),
];

/// Failures for which --fail sets a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OptionsSituation {
    /// The queue or its socket is full.
    Overload,
    /// Packets wait, and none gets a verdict.
    Stall,
    /// The firewall ends unexpectedly.
    Crash,
    /// The packet's headers are invalid.
    Malformed,
    /// Bytes that a rule reads are missing.
    Truncated,
    /// A name that a rule reads can't be read.
    Unknown,
}

pub const SITUATION_COUNT: usize = 6;

/// All values in order, with their names on the command line.
pub const SITUATION_NAMES: [(OptionsSituation, &str); SITUATION_COUNT] = [
    (OptionsSituation::Overload, "overload"),
    (OptionsSituation::Stall, "stall"),
    (OptionsSituation::Crash, "crash"),
    (OptionsSituation::Malformed, "malformed"),
    (OptionsSituation::Truncated, "truncated"),
    (OptionsSituation::Unknown, "unknown"),
];

/// Source of ct state (--conntrack): attribute of messages, packet mark, or auto (attribute, if the kernel has it).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OptionsConntrack {
    Auto,
    Attribute,
    Mark,
}

pub const CONNTRACK_COUNT: usize = 3;

/// All values in order, with their names on the command line.
pub const CONNTRACK_NAMES: [(OptionsConntrack, &str); CONNTRACK_COUNT] = [
    (OptionsConntrack::Auto, "auto"),
    (OptionsConntrack::Attribute, "attribute"),
    (OptionsConntrack::Mark, "mark"),
];

/// Log level: messages of this level and of those before it are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    Error,
    Warning,
    Info,
    Debug,
}

pub const LOG_LEVEL_COUNT: usize = 4;

/// All values in order, with their names on the command line.
pub const LOG_LEVEL_NAMES: [(LogLevel, &str); LOG_LEVEL_COUNT] = [
    (LogLevel::Error, "error"),
    (LogLevel::Warning, "warning"),
    (LogLevel::Info, "info"),
    (LogLevel::Debug, "debug"),
];

pub const DEFAULT_COUNT: usize = 2;

/// All values in order, with their names on the command line.
pub const DEFAULT_NAMES: [(bool, &str); DEFAULT_COUNT] = [(false, "accept"), (true, "drop")];

pub const MALFORMED_COUNT: usize = 2;

/// All values in order, with their names on the command line.
pub const MALFORMED_NAMES: [(bool, &str); MALFORMED_COUNT] = [(false, "fail"), (true, "policy")];

pub const MODE_COUNT: usize = 2;

/// All values in order, with their names on the command line.
pub const MODE_NAMES: [(bool, &str); MODE_COUNT] = [(false, "closed"), (true, "open")];

pub const SWITCH_COUNT: usize = 2;

/// All values in order, with their names on the command line.
pub const SWITCH_NAMES: [(bool, &str); SWITCH_COUNT] = [(false, "off"), (true, "on")];

/// All options except --help and --version, in the order of the help text, in which their values
/// are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentsOption {
    Queue,
    Pin,
    Backend,
    Profile,
    CopyBytes,
    Batch,
    ReceiveBuffer,
    QueueLength,
    Gso,
    Spin,
    Coalesce,
    Policy,
    Default,
    Malformed,
    Conntrack,
    Undecided,
    Connections,
    HelloMemory,
    HelloTimeout,
    Learned,
    Stage,
    Settled,
    Fail,
    Deadline,
    Stats,
    Json,
    Events,
    EventsRate,
    LogLevel,
    Control,
    ControlMode,
    ControlOwner,
    TakeOver,
    User,
    Sandbox,
    Print,
    Hook,
    Iif,
    Oif,
    Mark,
    Uid,
    Gid,
    CtState,
    CtMark,
    Expect,
}

pub const OPTION_COUNT: usize = ArgumentsOption::Expect as usize + 1;

/// Properties of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionFacts {
    /// Name without its hyphens.
    pub name: &'static str,
    /// Commands that accept the option, as bits 1 << ArgumentsCommand.
    pub commands: u32,
    pub has_value: bool,
    /// Description of the value for messages; empty = the option has no value, or accepts any.
    pub expected: &'static str,
    /// Range of a number: min to max.
    pub min: u32,
    pub max: u32,
    /// True if a number may also be 0.
    pub zero: bool,
    /// Maximum length of a text in bytes.
    pub bytes: usize,
    /// Defaults by profile: a number, or the index of a choice's value.
    pub defaults: [u32; PROFILE_COUNT],
}

/// All options, in order.
#[rustfmt::skip]
pub const OPTIONS: [OptionFacts; OPTION_COUNT] = [
    OptionFacts {
        name: "queue", commands: 1 << ArgumentsCommand::Run as u32, has_value: true,
        expected: "N or N:M, 0 <= N <= M <= 65535, at most 256 queues",
        min: 0, max: 65535, zero: false, bytes: 0, defaults: [0, 0],
    },
    OptionFacts {
        name: "pin", commands: 1 << ArgumentsCommand::Run as u32, has_value: false,
        expected: "",
        min: 0, max: 0, zero: false, bytes: 0, defaults: [0, 0],
    },
    OptionFacts {
        name: "backend", commands: 1 << ArgumentsCommand::Run as u32, has_value: true,
        expected: "classic, mnl or raw",
        min: 0, max: 0, zero: false, bytes: 0, defaults: [2, 0],
    },
    OptionFacts {
        name: "profile", commands: 1 << ArgumentsCommand::Run as u32, has_value: true,
        expected: "fast or paper",
        min: 0, max: 0, zero: false, bytes: 0, defaults: [0, 1],
    },
    OptionFacts {
        name: "copy-bytes", commands: 1 << ArgumentsCommand::Run as u32, has_value: true,
        expected: "a whole number from 0 to 65535",
        min: 0, max: 65535, zero: false, bytes: 0, defaults: [128, 65535],
    },
    OptionFacts {
        name: "batch", commands: 1 << ArgumentsCommand::Run as u32, has_value: true,
        expected: "a whole number from 1 to 1024",
        min: 1, max: 1024, zero: false, bytes: 0, defaults: [64, 1],
    },
    OptionFacts {
        name: "receive-buffer", commands: 1 << ArgumentsCommand::Run as u32, has_value: true,
        expected: "a whole number from 0 to 1073741823",
        min: 0, max: 1073741823, zero: false, bytes: 0, defaults: [67108864, 0],
    },
    OptionFacts {
        name: "queue-length", commands: 1 << ArgumentsCommand::Run as u32, has_value: true,
        expected: "a whole number from 1 to 4294967295",
        min: 1, max: 4294967295, zero: false, bytes: 0, defaults: [131072, 1024],
    },
    OptionFacts {
        name: "gso", commands: 1 << ArgumentsCommand::Run as u32, has_value: true,
        expected: "on or off",
        min: 0, max: 0, zero: false, bytes: 0, defaults: [1, 0],
    },
    OptionFacts {
        name: "spin", commands: 1 << ArgumentsCommand::Run as u32, has_value: true,
        expected: "a whole number from 0 to 1000",
        min: 0, max: 1000, zero: false, bytes: 0, defaults: [50, 0],
    },
    OptionFacts {
        name: "coalesce", commands: 1 << ArgumentsCommand::Run as u32, has_value: true,
        expected: "a whole number from 0 to 1000",
        min: 0, max: 1000, zero: false, bytes: 0, defaults: [60, 0],
    },
    OptionFacts {
        name: "policy", commands: 1 << ArgumentsCommand::Run as u32, has_value: true,
        expected: "",
        min: 0, max: 0, zero: false, bytes: 0, defaults: [0, 0],
    },
    OptionFacts {
        name: "default", commands: 1 << ArgumentsCommand::Run as u32 | 1 << ArgumentsCommand::Explain as u32, has_value: true,
        expected: "accept or drop",
        min: 0, max: 0, zero: false, bytes: 0, defaults: [0, 0],
    },
    OptionFacts {
        name: "malformed", commands: 1 << ArgumentsCommand::Run as u32 | 1 << ArgumentsCommand::Explain as u32, has_value: true,
        expected: "fail or policy",
        min: 0, max: 0, zero: false, bytes: 0, defaults: [0, 0],
    },
    OptionFacts {
        name: "conntrack", commands: 1 << ArgumentsCommand::Run as u32, has_value: true,
        expected: "auto, attribute or mark",
        min: 0, max: 0, zero: false, bytes: 0, defaults: [0, 0],
    },
    OptionFacts {
        name: "undecided", commands: 1 << ArgumentsCommand::Run as u32 | 1 << ArgumentsCommand::Explain as u32, has_value: true,
        expected: "accept, drop, or accept:BYTES with at least 1024",
        min: 1024, max: 4294967295, zero: false, bytes: 0, defaults: [32768, 32768],
    },
    OptionFacts {
        name: "connections", commands: 1 << ArgumentsCommand::Run as u32, has_value: true,
        expected: "a whole number from 16 to 16777216",
        min: 16, max: 16777216, zero: false, bytes: 0, defaults: [65536, 65536],
    },
    OptionFacts {
        name: "hello-memory", commands: 1 << ArgumentsCommand::Run as u32, has_value: true,
        expected: "a whole number from 16384 to 4294967295",
        min: 16384, max: 4294967295, zero: false, bytes: 0, defaults: [33554432, 33554432],
    },
    OptionFacts {
        name: "hello-timeout", commands: 1 << ArgumentsCommand::Run as u32, has_value: true,
        expected: "a whole number from 1 to 3600",
        min: 1, max: 3600, zero: false, bytes: 0, defaults: [10, 10],
    },
    OptionFacts {
        name: "learned", commands: 1 << ArgumentsCommand::Run as u32, has_value: true,
        expected: "a whole number from 64 to 1048576",
        min: 64, max: 1048576, zero: false, bytes: 0, defaults: [65536, 65536],
    },
    OptionFacts {
        name: "stage", commands: 1 << ArgumentsCommand::Run as u32, has_value: true,
        expected: "a mask of at least 5 bits in a row, decimal or 0x hexadecimal",
        min: 0, max: 0, zero: false, bytes: 0, defaults: [0, 0],
    },
    OptionFacts {
        name: "settled", commands: 1 << ArgumentsCommand::Run as u32, has_value: true,
        expected: "a mask, decimal or 0x hexadecimal",
        min: 0, max: 0, zero: false, bytes: 0, defaults: [0, 0],
    },
    OptionFacts {
        name: "fail", commands: 1 << ArgumentsCommand::Run as u32 | 1 << ArgumentsCommand::Explain as u32, has_value: true,
        expected: "open or closed, or a list like overload=open,crash=closed of overload, stall, crash, malformed, truncated and unknown",
        min: 0, max: 0, zero: false, bytes: 0, defaults: [0, 0],
    },
    OptionFacts {
        name: "deadline", commands: 1 << ArgumentsCommand::Run as u32, has_value: true,
        expected: "0 or a whole number from 10 to 60000",
        min: 10, max: 60000, zero: true, bytes: 0, defaults: [1000, 0],
    },
    OptionFacts {
        name: "stats", commands: 1 << ArgumentsCommand::Run as u32, has_value: true,
        expected: "a whole number from 1 to 86400",
        min: 1, max: 86400, zero: false, bytes: 0, defaults: [0, 0],
    },
    OptionFacts {
        name: "json", commands: 1 << ArgumentsCommand::Run as u32 | 1 << ArgumentsCommand::Explain as u32, has_value: false,
        expected: "",
        min: 0, max: 0, zero: false, bytes: 0, defaults: [0, 0],
    },
    OptionFacts {
        name: "events", commands: 1 << ArgumentsCommand::Run as u32, has_value: true,
        expected: "a file, - or unix:PATH of at most 107 bytes",
        min: 0, max: 0, zero: false, bytes: 4095, defaults: [0, 0],
    },
    OptionFacts {
        name: "events-rate", commands: 1 << ArgumentsCommand::Run as u32, has_value: true,
        expected: "a whole number from 1 to 1000000",
        min: 1, max: 1000000, zero: false, bytes: 0, defaults: [1000, 1000],
    },
    OptionFacts {
        name: "log-level", commands: 1 << ArgumentsCommand::Run as u32, has_value: true,
        expected: "error, warning, info or debug",
        min: 0, max: 0, zero: false, bytes: 0, defaults: [2, 2],
    },
    OptionFacts {
        name: "control", commands: 1 << ArgumentsCommand::Run as u32, has_value: true,
        expected: "a path of 1 to 107 bytes",
        min: 0, max: 0, zero: false, bytes: 107, defaults: [0, 0],
    },
    OptionFacts {
        name: "control-mode", commands: 1 << ArgumentsCommand::Run as u32, has_value: true,
        expected: "an octal mode from 0 to 0777",
        min: 0, max: 511, zero: false, bytes: 4, defaults: [384, 384],
    },
    OptionFacts {
        name: "control-owner", commands: 1 << ArgumentsCommand::Run as u32, has_value: true,
        expected: "USER or USER:GROUP",
        min: 0, max: 0, zero: false, bytes: 256, defaults: [0, 0],
    },
    OptionFacts {
        name: "take-over", commands: 1 << ArgumentsCommand::Run as u32, has_value: true,
        expected: "a path of 1 to 107 bytes",
        min: 0, max: 0, zero: false, bytes: 107, defaults: [0, 0],
    },
    OptionFacts {
        name: "user", commands: 1 << ArgumentsCommand::Run as u32, has_value: true,
        expected: "a user's name",
        min: 0, max: 0, zero: false, bytes: 256, defaults: [0, 0],
    },
    OptionFacts {
        name: "sandbox", commands: 1 << ArgumentsCommand::Run as u32, has_value: true,
        expected: "on or off",
        min: 0, max: 0, zero: false, bytes: 0, defaults: [1, 1],
    },
    OptionFacts {
        name: "print", commands: 1 << ArgumentsCommand::Check as u32, has_value: false,
        expected: "",
        min: 0, max: 0, zero: false, bytes: 0, defaults: [0, 0],
    },
    OptionFacts {
        name: "hook", commands: 1 << ArgumentsCommand::Explain as u32, has_value: true,
        expected: "input, output, forward, prerouting or postrouting",
        min: 0, max: 0, zero: false, bytes: 0, defaults: [0, 0],
    },
    OptionFacts {
        name: "iif", commands: 1 << ArgumentsCommand::Explain as u32, has_value: true,
        expected: "an interface name of 1 to 15 bytes of UTF-8",
        min: 0, max: 0, zero: false, bytes: 15, defaults: [0, 0],
    },
    OptionFacts {
        name: "oif", commands: 1 << ArgumentsCommand::Explain as u32, has_value: true,
        expected: "an interface name of 1 to 15 bytes of UTF-8",
        min: 0, max: 0, zero: false, bytes: 15, defaults: [0, 0],
    },
    OptionFacts {
        name: "mark", commands: 1 << ArgumentsCommand::Explain as u32, has_value: true,
        expected: "a number from 0 to 4294967295, decimal or 0x hexadecimal",
        min: 0, max: 4294967295, zero: false, bytes: 0, defaults: [0, 0],
    },
    OptionFacts {
        name: "uid", commands: 1 << ArgumentsCommand::Explain as u32, has_value: true,
        expected: "a whole number from 0 to 4294967294",
        min: 0, max: 4294967294, zero: false, bytes: 0, defaults: [0, 0],
    },
    OptionFacts {
        name: "gid", commands: 1 << ArgumentsCommand::Explain as u32, has_value: true,
        expected: "a whole number from 0 to 4294967294",
        min: 0, max: 4294967294, zero: false, bytes: 0, defaults: [0, 0],
    },
    OptionFacts {
        name: "ct-state", commands: 1 << ArgumentsCommand::Explain as u32, has_value: true,
        expected: "new, established, related, invalid or untracked",
        min: 0, max: 0, zero: false, bytes: 0, defaults: [0, 0],
    },
    OptionFacts {
        name: "ct-mark", commands: 1 << ArgumentsCommand::Explain as u32, has_value: true,
        expected: "a number from 0 to 4294967295, decimal or 0x hexadecimal",
        min: 0, max: 4294967295, zero: false, bytes: 0, defaults: [0, 0],
    },
    OptionFacts {
        name: "expect", commands: 1 << ArgumentsCommand::Explain as u32, has_value: false,
        expected: "",
        min: 0, max: 0, zero: false, bytes: 0, defaults: [0, 0],
    },
];

/// Options of older releases, with their hyphens, and the advice which program or option replaces them.
pub static GONE: [(&str, &str); 1] = [(
    "--metrics",
    "twinwall-exporter --control SOCKET --listen ADDR:PORT serves the metrics",
)];

/// Returns the properties of an option.
pub fn facts(option: ArgumentsOption) -> &'static OptionFacts {
    &OPTIONS[option as usize]
}

/// Returns the name of a value on the command line.
pub fn backend_name(backend: QueueKind) -> &'static str {
    BACKEND_NAMES[backend as usize].1
}

/// Returns the name of a value on the command line.
pub fn profile_name(profile: OptionsProfile) -> &'static str {
    PROFILE_NAMES[profile as usize].1
}

/// Returns the name of a value on the command line.
pub fn situation_name(situation: OptionsSituation) -> &'static str {
    SITUATION_NAMES[situation as usize].1
}

/// Returns the name of a value on the command line.
pub fn conntrack_name(conntrack: OptionsConntrack) -> &'static str {
    CONNTRACK_NAMES[conntrack as usize].1
}

/// Returns the name of a value on the command line.
pub fn log_level_name(log_level: LogLevel) -> &'static str {
    LOG_LEVEL_NAMES[log_level as usize].1
}

/// Returns the name of a value on the command line: "closed" for false, "open" for true.
pub fn mode_name(mode: bool) -> &'static str {
    MODE_NAMES[usize::from(mode)].1
}
