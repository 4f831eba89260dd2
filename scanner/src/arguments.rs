// SPDX-License-Identifier: GPL-2.0-or-later
//! The command line.

use clap::{Parser, ValueEnum};

/// Asks from outside what a firewall lets through: a TCP port scanner on io_uring, and the verifier of policies.
#[derive(Debug, Parser)]
#[command(name = "scanner", version, max_term_width = 100)]
#[command(
    after_help = "Exit status: 0 all targets were asked (--verify: and met what the policy says), 1 a system \
call failed, or --verify found a difference, 2 bad command line, 3 a right is missing, 4 interrupted."
)]
pub struct Arguments {
    /// 10.0.0.1, 10.0.0.0/24, 10.0.0.1-20, fe80::/120%eth0, host.example
    #[arg(value_name = "TARGET")]
    pub targets: Vec<String>,

    /// 22,80,443,8000-8100; - is all of them
    #[arg(short, long, value_name = "PORTS")]
    pub ports: Option<String>,

    /// Read targets from a file, too (-: stdin); # begins a comment
    #[arg(long = "targets", value_name = "FILE", help_heading = "Targets")]
    pub target_file: Option<String>,

    /// Leave these out
    #[arg(
        long,
        value_name = "TARGET",
        value_delimiter = ',',
        help_heading = "Targets"
    )]
    pub exclude: Vec<String>,

    /// Leave out those of a file
    #[arg(long, value_name = "FILE", help_heading = "Targets")]
    pub exclude_file: Option<String>,

    /// Never ask those of this file (default /etc/twinwall/scanner.block, if it is there)
    #[arg(long, value_name = "FILE", help_heading = "Targets")]
    pub block_file: Option<String>,

    /// Ask addresses that are neither private nor loopback: their owner agrees
    #[arg(long, help_heading = "Targets")]
    pub i_am_authorised: bool,

    /// Go through the targets in order, not in a keyed permutation
    #[arg(long, help_heading = "Targets")]
    pub sequential: bool,

    /// The key of the permutation (default: another each time)
    #[arg(
        long,
        value_name = "N",
        help_heading = "Targets",
        conflicts_with = "sequential"
    )]
    pub seed: Option<u64>,

    /// Read the version line and match it against an expression
    #[arg(long, value_name = "REGEX", help_heading = "Probes", group = "probe")]
    pub ssh: Option<String>,

    /// Ask for a page and read the head of the response
    #[arg(long, help_heading = "Probes", group = "probe")]
    pub http: bool,

    /// Read what the server says of its own accord
    #[arg(long, help_heading = "Probes", group = "probe")]
    pub banner: bool,

    /// Send bare SYNs from a raw socket: no connection comes about (needs CAP_NET_RAW)
    #[arg(long, help_heading = "Probes", group = "probe")]
    pub syn: bool,

    /// Match the answer against an expression; several must all match
    #[arg(long = "match", value_name = "REGEX", help_heading = "Probes")]
    pub matches: Vec<String>,

    /// A header field of the request
    #[arg(
        long,
        value_name = "NAME: VALUE",
        help_heading = "Probes",
        requires = "http"
    )]
    pub header: Vec<String>,

    /// The path of the request
    #[arg(
        long,
        value_name = "PATH",
        help_heading = "Probes",
        requires = "http",
        default_value = "/"
    )]
    pub path: String,

    /// Speak TLS; certificates are not verified
    #[arg(long, help_heading = "Probes", requires = "http")]
    pub tls: bool,

    /// Form of the results
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        help_heading = "Output",
        default_value = "human"
    )]
    pub output: Format,

    /// What is told one by one: open, closed, filtered, error, all, matched; all is counted
    #[arg(
        long,
        value_name = "STATES",
        value_delimiter = ',',
        help_heading = "Output",
        default_value = "open"
    )]
    pub show: Vec<Show>,

    /// No progress bar, no summary
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,

    /// Targets a second (default: as fast as it goes)
    #[arg(long, value_name = "N", help_heading = "Speed", default_value_t = 0)]
    pub rate: u64,

    /// Attempts beyond the first when nothing comes
    #[arg(long, value_name = "N", help_heading = "Speed", default_value_t = 1, value_parser = clap::value_parser!(u8).range(..=20))]
    pub retries: u8,

    /// How long a connection may take
    #[arg(long, value_name = "MS", help_heading = "Speed", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=600_000))]
    pub timeout: u64,

    /// How long a conversation may take as a whole
    #[arg(long, value_name = "MS", help_heading = "Speed", default_value_t = 3000, value_parser = clap::value_parser!(u64).range(1..=600_000))]
    pub read_timeout: u64,

    /// Targets that are asked at the same time, at most
    #[arg(long, value_name = "N", help_heading = "Speed", default_value_t = 16384, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub max_inflight: u64,

    /// Threads with a ring each (default: one a CPU, more if their tables are too small)
    #[arg(long, value_name = "N", help_heading = "Speed", value_parser = clap::value_parser!(u64).range(1..=256))]
    pub rings: Option<u64>,

    /// What carries the sockets; auto is io_uring where it works
    #[arg(
        long,
        value_name = "NAME",
        help_heading = "Speed",
        default_value = "auto"
    )]
    pub engine: EngineName,

    /// Go on where this file says, and write it on SIGINT
    #[arg(long, value_name = "FILE", conflicts_with = "syn")]
    pub resume: Option<String>,

    /// Compare what is met with what a policy says: needs --to
    #[arg(long, value_name = "POLICY", help_heading = "Verify", conflicts_with_all = ["probe", "resume", "targets", "target_file"], requires = "to")]
    pub verify: Option<String>,

    /// The host behind the firewall
    #[arg(
        long,
        value_name = "ADDRESS",
        help_heading = "Verify",
        requires = "verify"
    )]
    pub to: Option<String>,

    /// Ask from a network namespace: a name of `ip netns`, or a path
    #[arg(long, value_name = "NAMESPACE", help_heading = "Verify")]
    pub from: Option<String>,

    /// The firewall that explains the policy (default: rust-firewall beside this program, or on PATH)
    #[arg(
        long,
        value_name = "PROGRAM",
        help_heading = "Verify",
        requires = "verify"
    )]
    pub firewall: Option<String>,

    /// The hook that the policy is asked at
    #[arg(
        long,
        value_name = "HOOK",
        help_heading = "Verify",
        requires = "verify",
        default_value = "input"
    )]
    pub hook: String,

    /// The interface that packets come in by, as the policy names it
    #[arg(
        long,
        value_name = "NAME",
        help_heading = "Verify",
        requires = "verify"
    )]
    pub iif: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Human,
    Json,
    Csv,
    Grepable,
    NmapXml,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Show {
    Open,
    Closed,
    Filtered,
    Error,
    All,
    Matched,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EngineName {
    Auto,
    #[value(name = "io_uring")]
    IoUring,
    Epoll,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn probes_exclude_each_other() {
        let parse = |words: &[&str]| Arguments::try_parse_from([&["scanner"], words].concat());
        assert!(parse(&["10.0.0.1", "-p", "22", "--ssh", "x"]).is_ok());
        for words in [
            &["10.0.0.1", "--ssh", "x", "--http"][..],
            &["10.0.0.1", "--tls"],
            &["10.0.0.1", "--verify", "p"],
            &["10.0.0.1", "--retries", "21"],
            &["10.0.0.1", "--max-inflight", "0"],
            &["--syn", "--verify", "p", "--to", "::1"],
        ] {
            assert!(parse(words).is_err(), "{words:?}");
        }
    }
}
