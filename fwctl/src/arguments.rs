// SPDX-License-Identifier: GPL-2.0-or-later
//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use cage::allow::Allowed;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::applied::arguments::{Apply, Boot, Revert, StatePlace};
use crate::fleet::arguments::Fleet;
use crate::init::arguments::Init;
use crate::top::arguments::Top;

const EXIT_CODES: &str = "\
Exit status: 0 no problem, 1 problem found (a ledger that does not reconcile,
flows whose verdict changes, findings), 2 bad command line, policy or capture,
3 no firewall found, 4 the firewall refused, failed or sent an unsupported
reply.";

/// Default policy file of a host.
pub const POLICY: &str = "/etc/twinwall/policy.nft";
/// How the firewall of that policy runs.
pub const CONFIG: &str = "/etc/twinwall/twinwall.conf";

const EVERYWHERE: &str = "Options of all commands";

/// Manages a running rust-firewall or c-firewall (docs/RUN.md).
///
/// The firewall needs a control socket: the systemd units give it one, others
/// start it with --control PATH. The only one in /run/twinwall is found.
#[derive(Parser)]
#[command(version, after_help = EXIT_CODES, term_width = 80)]
#[command(disable_help_subcommand = true, subcommand_required = true)]
pub struct Arguments {
    /// The firewall's control socket (default: the only one in /run/twinwall)
    #[arg(long = "socket", value_name = "PATH", global = true)]
    #[arg(env = "TWINWALL_CONTROL", hide_env_values = true)]
    #[arg(overrides_with = "given", help_heading = EVERYWHERE)]
    pub given: Option<PathBuf>,
    /// Another way to choose a firewall: the instance's name (web), or its
    /// unit's (twinwall-rust@web)
    #[arg(short, long, value_name = "NAME", global = true)]
    #[arg(overrides_with = "instance", help_heading = EVERYWHERE)]
    pub instance: Option<String>,
    /// The firewall that these two name, see `instance::socket`
    #[arg(skip)]
    pub socket: PathBuf,
    /// Print JSON, an object a line
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    pub json: bool,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Show who runs, policy, queues, ledger and failure contract
    ///
    /// The exit status is 1 if the ledger does not reconcile, or if the kernel
    /// does not hold the applied policy.
    Status(StatePlace),
    /// Watch rates, rules, queues, ledger and top talkers
    ///
    /// Keys: q quits, p pauses, s changes the order of the rules (rate, packets,
    /// place), the arrows (or j, k), Page Up and Down, Home and End scroll them.
    /// The talkers are counted from the packets that `tail` shows; it misses
    /// some when they come fast.
    Top(Top),
    /// Show the rules of the policy with their counters
    Rules,
    /// List the connections that the firewall follows, and what clients have shown
    ///
    /// Only a policy that reads names has any followed. States: undecided (the
    /// client has not shown its name yet), named, missing (it has none), denied,
    /// unknown (it can't be read). Those that come or go meanwhile may be left out.
    Connections(Connections),
    /// Load the policy file anew; if it is wrong, the old policy goes on
    ///
    /// It is wrong, too, if it breaks an expectation in its comments
    /// (docs/POLICY.md).
    Reload,
    /// List the flows whose verdict another policy would change
    ///
    /// The flows are those of a capture, or (--live) those that the firewall
    /// decides on meanwhile. The exit status is 1 if a verdict would change.
    Diff(Box<Diff>),
    /// Say what the running policy does with the packets of a capture, and why
    ///
    /// As `rust-firewall explain` (its --help has the options), with the policy,
    /// --default, --fail and --malformed of the running firewall unless they are
    /// given. With --expect the exit status is 1 if a verdict is not the one that
    /// `record` recorded.
    #[command(override_usage = "fwctl explain [OPTION]... [POLICY] PCAP")]
    Explain(Explain),
    /// Show packets as they are decided on
    Tail(Tail),
    /// Record packets as they are decided on, as pcapng, until Ctrl-C
    ///
    /// Each as far as the firewall copies it, with a comment: its verdict, by
    /// what rule, and all that a policy can ask of it besides its bytes. The
    /// packet behind missed ones has their number.
    Record(Record),
    /// Show who dropped packets on the whole machine, and why, as the kernel says
    ///
    /// A packet is dropped by a rule of netfilter, by a queue (full, or nobody
    /// listens), by the firewall's verdict, or by the kernel, before or after
    /// these. Works without a firewall, and needs root. The source is the
    /// kernel's drop monitor, else the tracepoint skb:kfree_skb, which tells
    /// no interface and no flow.
    Drops(Drops),
    /// Run one command that reaches what a policy allows, and nothing else
    ///
    /// It needs no root. The command runs in namespaces of its own, which end
    /// with it; it keeps its terminal, folder, files, user and exit code. The
    /// firewall inside decides by the names in TLS, QUIC, HTTP and DNS. A denied
    /// connection fails at once. docs/CAGE.md says what is prevented. The exit
    /// status is the command's; 125 if the cage failed, 126 if the command can't
    /// be run, 127 if there is none.
    #[command(override_usage = "fwctl run [OPTION]... [--] COMMAND [ARGUMENT]...")]
    Run(Box<Run>),
    /// Look for what is wrong, and say what to do
    ///
    /// Works without a firewall, too, and without root, though it sees less
    /// then. The exit status is 1 if there are findings; notes don't count.
    Doctor(Doctor),
    /// Check a policy before it is applied, without root
    ///
    /// Reads it as `apply` does, splits it if it has names, and decides its
    /// expectations: comments such as `# expect: tls sni ads.example drop`
    /// (docs/POLICY.md). The exit status is 2 if one does not hold.
    Check(Check),
    /// Split a policy with names: the kernel decides, the firewall names
    ///
    /// Prints the kernel's text, for `nft -f`: the policy as it is written, with
    /// tests of classes in place of names, and the chains that ask the firewall
    /// (docs/STAGE.md). Works without a firewall. With --check it needs root,
    /// and the exit status is 2 if nft does not take the text.
    Split(Split),
    /// Replace the firewall by another binary; no packet is lost
    ///
    /// BINARY takes everything over, as the user whom the firewall runs as and
    /// with no more rights; if it can't, the old one goes on. It gets the
    /// ARGUMENTs, else what the running firewall says it was started with. A
    /// firewall that systemd runs is replaced by what its unit says.
    Upgrade {
        /// rust-firewall or c-firewall, of any version; nobody but root
        /// may be able to change the file (default: what runs, or the unit's)
        #[arg(value_name = "BINARY")]
        binary: Option<PathBuf>,
        /// Options of the new firewall, behind --
        #[arg(value_name = "ARGUMENT", last = true, requires = "binary")]
        arguments: Vec<String>,
    },
    /// Show or set the level of what the firewall prints on stderr
    Log {
        #[arg(value_name = "LEVEL")]
        level: Option<Level>,
    },
    /// End the firewall when no packet waits for its verdict
    Drain {
        /// How long to wait for that; after it the firewall ends all the same
        #[arg(long, value_name = "N", default_value_t = 10)]
        #[arg(value_parser = clap::value_parser!(u32).range(0..=3600))]
        seconds: u32,
    },
    /// Started by `run` in the cage's namespaces
    #[command(hide = true)]
    CageStage {
        name: String,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Make a policy of this host, show it, and apply it
    ///
    /// Asks which ports are open, where SSH may come from, and which names this
    /// host may connect to, unless options say so; finds the session of SSH that it
    /// runs in and the ports that Docker publishes. Writes the policy, and applies
    /// it as `apply` does: it is reverted unless `confirm` comes in time
    /// (docs/FIRST.md).
    Init(Box<Init>),
    /// Load a policy into the kernel, and go back unless `confirm` comes in time
    ///
    /// The tables of the policy are loaded in one transaction, with a table of
    /// our own that names the generation; no other table is changed. A timer
    /// outside of this shell restores the rules as they were, counters and
    /// elements of sets too, so that a mistake heals itself.
    Apply(Apply),
    /// Keep the policy that was applied last
    Confirm(StatePlace),
    /// Go back from a policy that waits for `confirm`, or to an earlier generation
    Revert(Revert),
    /// Remove the applied policy: the rules are as they were before the first `apply`
    Unapply(StatePlace),
    /// List the last ten generations: when, by whom, and what became of them
    History(StatePlace),
    /// Started by `apply` without systemd, to become the firewall
    #[command(hide = true)]
    StartFirewall {
        #[arg(long)]
        pid_file: PathBuf,
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Load the policy at boot, as the unit twinwall.service does
    ///
    /// If the policy's file can't be loaded, the generation that was confirmed
    /// last is; the exit status is 1 then.
    Boot(Boot),
    /// One policy for many hosts, by etcd or a folder (docs/FLEET.md)
    #[command(subcommand)]
    Fleet(Box<Fleet>),
    /// Prints what a shell completes; the packages have it
    #[command(hide = true)]
    Completion { shell: Shell },
    /// Run by a unit's ExecReload: reloads the policy, or starts another
    /// program in the unit if `upgrade` has asked for it
    #[command(hide = true)]
    UnitReload {
        unit: String,
        /// That of ExecStart
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Started by `upgrade`, to become the new firewall: its orders come on
    /// stdin, a socket
    #[command(hide = true)]
    Launch {
        /// Become an orphan: this parent ends
        #[arg(long)]
        orphan: Option<i32>,
        /// Start oneself as an orphan
        #[arg(long)]
        detach: bool,
    },
}

impl Command {
    /// Whether the command contacts a running firewall over its control socket.
    pub fn asks_firewall(&self) -> bool {
        !matches!(
            self,
            Command::Completion { .. }
                | Command::Launch { .. }
                | Command::StartFirewall { .. }
                | Command::Init(_)
                | Command::Apply(_)
                | Command::Confirm(_)
                | Command::Revert(_)
                | Command::Unapply(_)
                | Command::History(_)
                | Command::Boot(_)
                | Command::Fleet(_)
                | Command::Run(_)
                | Command::CageStage { .. }
                | Command::Check(_)
                | Command::Split(_)
        )
    }
}

#[derive(Args)]
pub struct Diff {
    /// The policy that would replace the running one
    #[arg(value_name = "NEW")]
    pub new: String,
    /// A capture: pcap, pcapng, - = stdin
    #[arg(value_name = "PCAP", required_unless_present = "live")]
    pub capture: Option<String>,
    /// Look at packets that the firewall decides on from now on
    #[arg(long, conflicts_with = "capture")]
    pub live: bool,
    /// With --live: how long
    #[arg(long, value_name = "N", default_value_t = 10, requires = "live")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=86400))]
    pub seconds: u32,
    #[command(flatten)]
    pub lacks: Lacks,
}

/// Facts that a capture lacks, as in explain.
#[derive(Args, Default)]
#[command(next_help_heading = "What a capture lacks (as for explain)")]
pub struct Lacks {
    /// input, output, forward, prerouting or postrouting (default: that of the
    /// running policy's first base chain)
    #[arg(long, value_name = "HOOK", conflicts_with = "live")]
    pub hook: Option<String>,
    /// The interface by which packets came in
    #[arg(long, value_name = "NAME", conflicts_with = "live")]
    pub iif: Option<String>,
    /// The interface by which packets go out
    #[arg(long, value_name = "NAME", conflicts_with = "live")]
    pub oif: Option<String>,
    /// The packet's mark, as 0x hexadecimal or decimal
    #[arg(long, value_name = "N", conflicts_with = "live")]
    pub mark: Option<String>,
    /// The user who owns the socket
    #[arg(long, value_name = "N", conflicts_with = "live")]
    pub uid: Option<String>,
    /// The group that owns the socket
    #[arg(long, value_name = "N", conflicts_with = "live")]
    pub gid: Option<String>,
    /// new, established, related, invalid or untracked
    #[arg(long, value_name = "STATE", conflicts_with = "live")]
    pub ct_state: Option<String>,
    /// The mark of the connection
    #[arg(long, value_name = "N", conflicts_with = "live")]
    pub ct_mark: Option<String>,
}

#[derive(Args)]
pub struct Explain {
    /// [POLICY] PCAP, and options of `rust-firewall explain`
    #[arg(value_name = "OPTION|POLICY|PCAP", required = true, num_args = 1..)]
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<OsString>,
}

#[derive(Args)]
pub struct Connections {
    /// Only those whose client has not shown its name yet
    #[arg(long)]
    pub undecided: bool,
    /// List so many at most
    #[arg(long, value_name = "N", default_value_t = 1000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: u64,
}

#[derive(Args)]
pub struct Tail {
    /// Only packets with this verdict; may be repeated
    #[arg(long, value_name = "VERDICT")]
    pub verdict: Vec<Verdict>,
    /// End after so many packets
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
}

#[derive(Args)]
pub struct Record {
    /// The file, which must not be there; - is stdout
    #[arg(short, long, value_name = "FILE")]
    pub write: PathBuf,
    /// Only packets with this verdict; may be repeated
    #[arg(long, value_name = "VERDICT")]
    pub verdict: Vec<Verdict>,
    /// End after so many packets
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
}

#[derive(Args)]
pub struct Drops {
    /// Duration; Ctrl-C ends it earlier
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=86400))]
    pub seconds: u32,
    /// Stop a drop monitor that was left running, and use it
    #[arg(long)]
    pub take: bool,
}

#[derive(Args)]
pub struct Run {
    #[command(flatten)]
    pub source: Source,
    /// Let everything pass, and write the policy that would have been enough
    #[arg(long, value_name = "FILE", conflicts_with_all = ["policy", "allow"])]
    pub learn: Option<PathBuf>,
    /// Write what was reached and what was denied, as JSON
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Print a line for each denied connection
    #[arg(short, long)]
    pub verbose: bool,
    /// Let the command connect to the loopback addresses of the host
    #[arg(long)]
    pub host_loopback: bool,
    /// Leave this Unix socket of the host, or all in this folder, reachable; may
    /// be repeated
    #[arg(long, value_name = "PATH")]
    pub host_socket: Vec<PathBuf>,
    /// With --allow: let an encrypted ClientHello pass; browsers always send one
    #[arg(long)]
    pub ech: bool,
    /// The firewall
    #[arg(long, value_name = "TWIN", default_value = "rust")]
    pub twin: Twin,
    /// The program that connects the cage (default: pasta if it is there)
    #[arg(long, value_name = "PROGRAM")]
    pub uplink: Option<Uplink>,
    /// Print namespaces, rules and policy, and start nothing
    #[arg(long)]
    pub print: bool,
    /// The command
    #[arg(value_name = "COMMAND", required_unless_present = "print")]
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<OsString>,
}

/// Allowed destinations.
#[derive(Args)]
pub struct Source {
    /// A policy (docs/POLICY.md); the command asks DNS at 169.254.53.53
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// A name (example.org, *.example.org: TLS and QUIC at port 443, HTTP at 80),
    /// a name with a port (git@example.org:22), an address, a prefix; may be
    /// repeated. With none of --policy, --allow and --learn nothing is reached
    #[arg(long, value_name = "WHAT", conflicts_with = "policy")]
    pub allow: Vec<Allowed>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Twin {
    Rust,
    C,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Uplink {
    Pasta,
    Slirp4netns,
}

#[derive(Args)]
pub struct Doctor {
    /// The queues to look at, N or N:M (default: those of the running firewall,
    /// else 0)
    #[arg(long, value_name = "N[:M]")]
    pub queue: Option<String>,
}

#[derive(Args)]
pub struct Check {
    /// The policy
    #[arg(value_name = "POLICY", default_value = POLICY)]
    pub policy: PathBuf,
    /// The options of the firewall
    #[arg(long, value_name = "FILE", default_value = CONFIG)]
    pub config: PathBuf,
}

#[derive(Args)]
pub struct Split {
    /// A policy with names; the rest of it may be all that nft knows
    #[arg(value_name = "POLICY")]
    pub policy: String,
    /// For each rule with a name: its classes, and the test in its place
    #[arg(long)]
    pub explain: bool,
    /// Ask nft whether it takes the kernel's text
    #[arg(long)]
    pub check: bool,
    /// Write into this folder instead: kernel.nft, names.nft (the firewall's
    /// --policy), stage (its --stage), and iptables.rules where they are needed
    #[arg(long, value_name = "FOLDER", conflicts_with = "explain")]
    pub write: Option<PathBuf>,
    /// Kind of queue rules
    #[arg(long, value_enum, value_name = "nft|iptables", default_value = "nft")]
    pub queue: SplitQueue,
    /// The firewall's queues, N or N:M
    #[arg(long, value_name = "N[:M]", default_value = "0", value_parser = queues)]
    pub queues: (u16, u16),
    /// Let packets pass while no firewall has the queue
    #[arg(long)]
    pub bypass: bool,
    /// While a name is not known: accept where a rule may accept, or drop
    #[arg(long, value_enum, value_name = "VERDICT", default_value = "accept")]
    pub undecided: SplitVerdict,
    /// Accept packets of which a name can't be read
    #[arg(long)]
    pub unknown_open: bool,
    /// Bits of marks that may be used, as 0x hexadecimal or decimal
    #[arg(long, value_name = "MASK", default_value = "0xffffffff", value_parser = mask)]
    pub marks: u32,
    /// Number of this policy in a sequence: each is another generation of classes
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub generation: u32,
}

/// Choices of --queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SplitQueue {
    Nft,
    Iptables,
}

/// Choices of --undecided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SplitVerdict {
    Accept,
    Drop,
}

fn queues(text: &str) -> Result<(u16, u16), String> {
    let (first, last) = text.split_once(':').unwrap_or((text, text));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if first <= last => Ok((first, last)),
        _ => Err("expected N or N:M, from 0 to 65535".to_owned()),
    }
}

pub fn mask(text: &str) -> Result<u32, String> {
    let mask = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    mask.ok_or_else(|| "expected a number of 32 bits".to_owned())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Verdict {
    Accept,
    Drop,
    Reject,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Level {
    Error,
    Warning,
    Info,
    Debug,
}

/// Returns the name of a choice, as on the command line.
pub fn name(choice: impl ValueEnum) -> String {
    let value = choice.to_possible_value();
    value.map_or(String::new(), |value| value.get_name().to_owned())
}
