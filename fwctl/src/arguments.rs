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
use crate::paths::{CONFIG, POLICY};
use crate::top::arguments::Top;

const EXIT_CODES: &str = "\
Exit status: 0 no problem, 1 problem found (a ledger that does not reconcile,
flows whose verdict changes, findings), 2 bad command line, policy or capture,
3 no firewall found, 4 the firewall refused, failed or sent an unsupported
reply.";

const EVERYWHERE: &str = "Options of all commands";

/// Manages a running rust-firewall or c-firewall (docs/RUN.md).
///
/// The firewall needs a control socket: the systemd units set one, other firewalls need --control PATH. If
/// /run/twinwall has exactly one control socket, fwctl uses that.
#[derive(Parser)]
#[command(version, after_help = EXIT_CODES, term_width = 80)]
#[command(disable_help_subcommand = true, subcommand_required = true)]
pub struct Arguments {
    /// The firewall's control socket (default: the only one in /run/twinwall)
    #[arg(long = "socket", value_name = "PATH", global = true)]
    #[arg(env = "TWINWALL_CONTROL", hide_env_values = true)]
    #[arg(overrides_with = "given", help_heading = EVERYWHERE)]
    pub given: Option<PathBuf>,
    /// Name of the instance (web), or of its unit (twinwall-rust@web), instead of --socket
    #[arg(short, long, value_name = "NAME", global = true)]
    #[arg(overrides_with = "instance", help_heading = EVERYWHERE)]
    pub instance: Option<String>,
    /// The socket of the selected firewall, see `instance::socket`
    #[arg(skip)]
    pub socket: PathBuf,
    /// Print JSON, one object per line
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    pub json: bool,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Show process, policy, queues, ledger and failure contract
    ///
    /// The exit status is 1 if the ledger does not reconcile, or if the kernel does not hold the applied policy.
    Status(StatePlace),
    /// Watch rates, rules, queues, ledger and top talkers
    ///
    /// Keys: q quits, p pauses, s changes the order of the rules (rate, packets, place); the arrows (or j, k), Page Up,
    /// Page Down, Home and End scroll them. The talkers are counted from the packets of `tail`, which misses some at
    /// high rates.
    Top(Top),
    /// Show the rules of the policy with their counters
    Rules,
    /// List the connections that the firewall follows, with the names that clients have sent
    ///
    /// The firewall follows connections only if its policy reads names. States: undecided (no name sent yet), named,
    /// missing (the client sends no name), denied, unknown (the name can't be read). Connections that begin or end
    /// during the listing may be left out.
    Connections(Connections),
    /// Reload the policy file; if it has an error, the old policy stays
    ///
    /// A broken expectation in the policy's comments is an error too (docs/POLICY.md).
    Reload,
    /// List the flows whose verdict another policy would change
    ///
    /// The flows are those of a capture, or (--live) those that the firewall decides from now on. The exit status is 1
    /// if a verdict would change.
    Diff(Box<Diff>),
    /// Show the verdicts of the running policy for a capture's packets, and why
    ///
    /// Like `rust-firewall explain` (its --help has the options), with the policy, --default, --fail, --malformed and
    /// --undecided of the running firewall unless they are given. With --expect the exit status is 1 if a verdict is not
    /// the one that `record` recorded.
    #[command(override_usage = "fwctl explain [OPTION]... [POLICY] PCAP")]
    Explain(Explain),
    /// Show packets as the firewall decides them
    Tail(Tail),
    /// Record packets as the firewall decides them, as pcapng, until Ctrl-C
    ///
    /// The file has the bytes of each packet that the firewall copies, and a comment with the verdict, the rule, and
    /// the metadata that a policy can match. If packets were missed, the next packet has their number.
    Record(Record),
    /// Show the packet drops of the whole machine, with reasons from the kernel
    ///
    /// A packet is dropped by a netfilter rule, by a queue (full, or without a listener), by the firewall's verdict, or
    /// by another part of the kernel. Works without a firewall, and needs root. The source is the kernel's drop
    /// monitor; without it, the tracepoint skb:kfree_skb, which reports no interface and no flow.
    Drops(Drops),
    /// Run a command that can only reach the hosts that a policy allows
    ///
    /// Needs no root. The command runs in a cage: separate namespaces, which end with it. It keeps its terminal,
    /// folder, files and user. The firewall in the cage decides by the names in TLS, QUIC, HTTP and DNS. A denied
    /// connection fails at once. docs/CAGE.md lists what is prevented. The exit status is the command's; 125 if the
    /// cage failed, 126 if the command can't be run, 127 if it does not exist.
    #[command(override_usage = "fwctl run [OPTION]... [--] COMMAND [ARGUMENT]...")]
    Run(Box<Run>),
    /// Look for problems, and show how to solve them
    ///
    /// Works without a firewall, too, and without root, though with fewer checks. The exit status is 1 if there are
    /// findings; notes don't count.
    Doctor(Doctor),
    /// Check a policy before it is applied, without root
    ///
    /// Reads the policy like `apply`, splits it if it has names, and evaluates its expectations: comments such as
    /// `# expect: tls sni ads.example drop` (docs/POLICY.md). The exit status is 2 if an expectation is broken.
    Check(Check),
    /// Split a policy with names into a part for the kernel and a part for the firewall
    ///
    /// Prints the kernel's part, for `nft -f`: the policy, in which tests of the connection's mark replace names, and
    /// the chains that queue packets to the firewall (docs/STAGE.md). Works without a firewall. With --check it needs
    /// root, and the exit status is 2 if nft rejects the text.
    Split(Split),
    /// Replace the firewall by another binary without losing a packet
    ///
    /// BINARY takes over queues, sockets, counters, connections and learned addresses. It runs as the same user as the
    /// old firewall, with no more rights; if it fails, the old firewall stays. It gets the ARGUMENTs, by default those
    /// that the running firewall reports. If systemd runs the firewall, BINARY gets the command line of the unit.
    Upgrade {
        /// rust-firewall or c-firewall, of any version; only root may be able to change the file (default: the program
        /// of the running firewall, or of its unit)
        #[arg(value_name = "BINARY")]
        binary: Option<PathBuf>,
        /// Options of the new firewall, after --
        #[arg(value_name = "ARGUMENT", last = true, requires = "binary")]
        arguments: Vec<String>,
    },
    /// Show or set the log level of the firewall's stderr
    Log {
        #[arg(value_name = "LEVEL")]
        level: Option<Level>,
    },
    /// End the firewall when no packet waits for its verdict
    Drain {
        /// Seconds to wait; then the firewall ends even if packets wait
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
    /// Asks for the open ports, the sources of SSH, and the names that this host may
    /// connect to, unless options give them; detects its own SSH session and the
    /// ports that Docker publishes. Writes the policy, and applies it like `apply`:
    /// it is reverted unless `confirm` follows in time (docs/FIRST.md).
    Init(Box<Init>),
    /// Load a policy into the kernel; revert it unless `confirm` follows in time
    ///
    /// The tables of the policy are loaded in one transaction, with a table of fwctl that names the generation; no
    /// other table is changed. A timer that does not depend on this shell restores the earlier rules, with counters
    /// and elements of sets, so a policy that locks you out is reverted.
    Apply(Apply),
    /// Keep the policy that was applied last
    Confirm(StatePlace),
    /// Revert a policy that waits for `confirm`, or apply an earlier generation
    Revert(Revert),
    /// Remove the applied policy: restores the rules from before the first `apply`
    Unapply(StatePlace),
    /// List the last ten generations: time, user and outcome
    History(StatePlace),
    /// Started by `apply` without systemd; executes the firewall
    #[command(hide = true)]
    StartFirewall {
        #[arg(long)]
        pid_file: PathBuf,
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Load the policy at boot, for the unit twinwall.service
    ///
    /// If the policy's file can't be loaded, the generation that was confirmed last is loaded, and the exit status is
    /// 1.
    Boot(Boot),
    /// Manage one policy for many hosts, over etcd or a folder (docs/FLEET.md)
    #[command(subcommand)]
    Fleet(Box<Fleet>),
    /// Print a shell's completions; the packages include them
    #[command(hide = true)]
    Completion { shell: Shell },
    /// Run by a unit's ExecReload: reloads the policy, or starts another program in the unit if `upgrade` has requested
    /// it
    #[command(hide = true)]
    UnitReload {
        unit: String,
        /// Command of ExecStart
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Started by a firewall; prints facts about the rules that send packets to its queues
    #[command(hide = true)]
    QueueRules {
        #[arg(value_parser = queues)]
        queues: (u16, u16),
    },
    /// Started by `upgrade`; executes the new firewall by orders from stdin, a socket
    #[command(hide = true)]
    Launch {
        /// Process id of the parent, which ends: init adopts this process
        #[arg(long)]
        orphan: Option<i32>,
        /// Start this program again, as an orphan
        #[arg(long)]
        detach: bool,
    },
}

impl Command {
    /// Returns true if the command uses the control socket of a running firewall, which must be selected first.
    pub fn asks_firewall(&self) -> bool {
        if let Command::Diff(diff) = self {
            return diff.old.is_none();
        }
        !matches!(
            self,
            Command::Completion { .. }
                | Command::Drops(_)
                | Command::QueueRules { .. }
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
    /// The policy to compare NEW with, instead of the running firewall's; no firewall is needed. The capture is a
    /// record of the unit twinwall-record. If a policy reads names, only connections that begin in the record are
    /// compared, by their first packets
    #[arg(long, value_name = "POLICY", conflicts_with = "live")]
    pub old: Option<String>,
    /// Compare only the packets of the last N seconds; earlier packets are read for names of connections
    #[arg(long, value_name = "N", conflicts_with = "live")]
    pub last: Option<u32>,
    /// Compare packets that the firewall decides from now on
    #[arg(long, conflicts_with = "capture")]
    pub live: bool,
    /// With --live: duration in seconds
    #[arg(long, value_name = "N", default_value_t = 10, requires = "live")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=86400))]
    pub seconds: u32,
    #[command(flatten)]
    pub lacks: Lacks,
}

/// Options for the metadata of packets that a capture lacks, as in `explain`.
#[derive(Args, Default)]
#[command(next_help_heading = "What a capture lacks (as for explain)")]
pub struct Lacks {
    /// input, output, forward, prerouting or postrouting (default: that of the
    /// running policy's first base chain)
    #[arg(long, value_name = "HOOK", conflicts_with = "live")]
    pub hook: Option<String>,
    /// Input interface
    #[arg(long, value_name = "NAME", conflicts_with = "live")]
    pub iif: Option<String>,
    /// Output interface
    #[arg(long, value_name = "NAME", conflicts_with = "live")]
    pub oif: Option<String>,
    /// The packet's mark, as 0x hexadecimal or decimal
    #[arg(long, value_name = "N", conflicts_with = "live")]
    pub mark: Option<String>,
    /// Owner of the socket
    #[arg(long, value_name = "N", conflicts_with = "live")]
    pub uid: Option<String>,
    /// Group of the socket
    #[arg(long, value_name = "N", conflicts_with = "live")]
    pub gid: Option<String>,
    /// new, established, related, invalid or untracked
    #[arg(long, value_name = "STATE", conflicts_with = "live")]
    pub ct_state: Option<String>,
    /// Mark of the connection
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
    /// List only connections without a name so far
    #[arg(long)]
    pub undecided: bool,
    /// Maximum number of connections
    #[arg(long, value_name = "N", default_value_t = 1000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: u64,
}

#[derive(Args)]
pub struct Tail {
    /// Only packets with this verdict; may be repeated
    #[arg(long, value_name = "VERDICT")]
    pub verdict: Vec<Verdict>,
    /// End after this number of packets
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
}

#[derive(Args)]
pub struct Record {
    /// The file, which must not exist yet; - is stdout
    #[arg(short, long, value_name = "FILE")]
    pub write: PathBuf,
    /// Only packets with this verdict; may be repeated
    #[arg(long, value_name = "VERDICT")]
    pub verdict: Vec<Verdict>,
    /// End after this number of packets
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
}

#[derive(Args)]
pub struct Drops {
    /// Duration; Ctrl-C ends it earlier
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=86400))]
    pub seconds: u32,
    /// Stop a drop monitor that another process left running, and use it
    #[arg(long)]
    pub take: bool,
}

#[derive(Args)]
pub struct Run {
    #[command(flatten)]
    pub source: Source,
    /// Allow everything, and write a policy that allows the reached destinations
    #[arg(long, value_name = "FILE", conflicts_with_all = ["policy", "allow"])]
    pub learn: Option<PathBuf>,
    /// Write reached and denied destinations, as JSON
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Print a line for each denied connection
    #[arg(short, long)]
    pub verbose: bool,
    /// Let the command connect to the loopback addresses of the host
    #[arg(long)]
    pub host_loopback: bool,
    /// Keep this Unix socket of the host, or all sockets in this folder, reachable; may be repeated
    #[arg(long, value_name = "PATH")]
    pub host_socket: Vec<PathBuf>,
    /// With --allow: accept an encrypted ClientHello; browsers always send one
    #[arg(long)]
    pub ech: bool,
    /// The program of the firewall
    #[arg(long, value_name = "TWIN", default_value = "rust")]
    pub twin: Twin,
    /// The program that connects the cage (default: pasta if it is installed)
    #[arg(long, value_name = "PROGRAM")]
    pub uplink: Option<Uplink>,
    /// Print namespaces, rules and policy; start nothing
    #[arg(long)]
    pub print: bool,
    /// The command
    #[arg(value_name = "COMMAND", required_unless_present = "print")]
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<OsString>,
}

/// Options of `run` for the allowed destinations.
#[derive(Args)]
pub struct Source {
    /// A policy (docs/POLICY.md); the command's resolver is 169.254.53.53
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// A name (example.org, *.example.org: TLS and QUIC at port 443, HTTP at 80), a name with a port
    /// (git@example.org:22), an address, a prefix; may be repeated. Without --policy, --allow and --learn nothing is
    /// reachable
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
    /// The queues to check, N or N:M (default: those of the running firewall, or 0 if none runs)
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
    /// Policy with names; rules without names may use all of nft's language
    #[arg(value_name = "POLICY")]
    pub policy: String,
    /// Show the classes, and for each rule where it is decided, why, and what queues its packets
    #[arg(long)]
    pub explain: bool,
    /// Check the kernel's part with nft
    #[arg(long)]
    pub check: bool,
    /// Write into this folder instead: kernel.nft, names.nft (the firewall's
    /// --policy), stage (its --stage), and iptables.rules if needed
    #[arg(long, value_name = "FOLDER", conflicts_with = "explain")]
    pub write: Option<PathBuf>,
    /// Type of the queue rules
    #[arg(long, value_enum, value_name = "nft|iptables", default_value = "nft")]
    pub queue: SplitQueue,
    /// The firewall's queues, N or N:M
    #[arg(long, value_name = "N[:M]", default_value = "0", value_parser = queues)]
    pub queues: (u16, u16),
    /// Let packets pass while no firewall is bound to the queue
    #[arg(long)]
    pub bypass: bool,
    /// Verdict while a name is unknown: accept if a rule may accept, or drop
    #[arg(long, value_enum, value_name = "VERDICT", default_value = "accept")]
    pub undecided: SplitVerdict,
    /// Accept packets whose name can't be read
    #[arg(long)]
    pub unknown_open: bool,
    /// Bits of marks that may be used, as 0x hexadecimal or decimal
    #[arg(long, value_name = "MASK", default_value = "0xffffffff", value_parser = mask)]
    pub marks: u32,
    /// Number of this policy in a sequence: its classes differ from those of the previous policy
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub generation: u32,
}

/// Values of `split --queue`: kinds of rules that queue packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SplitQueue {
    Nft,
    Iptables,
}

/// Values of `split --undecided`: verdicts on packets whose name is not known yet.
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

/// Returns the name of an option's value, as on the command line.
pub fn name(choice: impl ValueEnum) -> String {
    let value = choice.to_possible_value();
    value.map_or(String::new(), |value| value.get_name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_without_a_firewall_selects_none() {
        for (words, asks) in [
            (&["drops"][..], false),
            (&["diff", "--old", "a.nft", "b.nft", "c.pcap"], false),
            (&["diff", "b.nft", "c.pcap"], true),
            (&["rules"], true),
        ] {
            let arguments = Arguments::parse_from([&["fwctl"], words].concat());
            assert_eq!(arguments.command.asks_firewall(), asks, "{words:?}");
        }
    }
}
