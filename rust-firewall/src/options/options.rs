// SPDX-License-Identifier: GPL-2.0-or-later
//! Values of the command line. The text of --help is cli/help.txt, embedded when the program is built.
//!
//! Theory of operation: `arguments` parses the syntax in command-line order and stores raw values; of an option that is
//! given several times, the last value applies; --help and --version take effect at once. Then the values are checked
//! in the order of the help text.

use std::ffi::OsString;

use crate::base::log::Failure;
use crate::connection::ConnectionSettings;
use crate::options::arguments::{
    self, Arguments, ArgumentsCommand, ArgumentsOption, ArgumentsText,
};
use crate::options::daemon;
use crate::options::explain;
use crate::options::types::{
    Options, OptionsConntrack, OptionsExplain, OptionsProfile, OptionsSituation, SITUATION_COUNT,
};
use crate::options::values;
use crate::packet::verdict::{Verdict, VERDICTS};
use crate::policy::requirement::{self, Requirement};
use crate::queue::{self, QueueSettings};
pub use crate::spec::option::{backend_name, conntrack_name, profile_name, QUEUES_MAX};
use crate::spec::option::{
    facts, BACKEND_NAMES, CONNTRACK_NAMES, LOG_LEVEL_NAMES, MALFORMED_NAMES, PROFILE_NAMES,
    SWITCH_NAMES,
};

pub const PROGRAM: &str = "rust-firewall";
pub const VERSION: &str = "0.1.0";

/// Size of the receive slot with --profile paper, in bytes. There is one slot, for one netlink message. Memory is
/// allocated only for the pages that are used.
pub const PAPER_SLOT_BYTES: u64 = 1 << 32;

/// Action that a valid command line requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionsAction {
    Run(Options),
    /// Command `check`; its options `policy` and `print` are set.
    Check(Options),
    /// Command `explain`; `policy`, `explain`, `json` and the values of --default, --malformed, --undecided and --fail
    /// are set.
    Explain(Options),
    /// Request to print the help text.
    Help,
    /// Request to print "rust-firewall 0.1.0".
    Version,
}

/// Text of --help.
pub const HELP: &str = include_str!("../../../cli/help.txt");

/// Parses the first and the last queue of "N" or "N:M".
fn parse_queues(value: &[u8]) -> Option<(u16, u16)> {
    let mut numbers = value.splitn(2, |byte| *byte == b':');
    let max = facts(ArgumentsOption::Queue).max;
    let first = values::parse_number(numbers.next()?, max)?;
    let last = match numbers.next() {
        Some(last) => values::parse_number(last, max)?,
        None => first,
    };
    if last < first || last - first >= QUEUES_MAX {
        return None;
    }
    Some((u16::try_from(first).ok()?, u16::try_from(last).ok()?))
}

fn check_queue(values: &Arguments, options: &mut Options) -> Result<(), Failure> {
    let Some(value) = arguments::value(values, ArgumentsOption::Queue) else {
        return Ok(());
    };
    (options.queue_first, options.queue_last) =
        parse_queues(value).ok_or_else(|| values::fail(ArgumentsOption::Queue, value))?;
    Ok(())
}

/// Returns the value that an option has in a profile if it is not given.
fn default_of(option: ArgumentsOption, profile: OptionsProfile) -> u32 {
    facts(option).defaults[profile as usize]
}

/// Returns the options of a profile, for a command line without other options.
fn profile_options(profile: OptionsProfile) -> Options {
    use ArgumentsOption as A;
    let number = |option| default_of(option, profile);
    let place = |option| number(option) as usize;
    Options {
        queue_first: number(A::Queue) as u16,
        queue_last: number(A::Queue) as u16,
        pin: false,
        backend: BACKEND_NAMES[place(A::Backend)].0,
        profile,
        copy_bytes: number(A::CopyBytes),
        batch: number(A::Batch),
        receive_buffer: number(A::ReceiveBuffer),
        receive_buffer_asked: false,
        copy_bytes_asked: false,
        queue_length: number(A::QueueLength),
        gso: SWITCH_NAMES[place(A::Gso)].0,
        spin_us: number(A::Spin),
        coalesce_us: number(A::Coalesce),
        policy: None,
        default_verdict: VERDICTS[place(A::Default)].0,
        malformed_by_policy: MALFORMED_NAMES[place(A::Malformed)].0,
        conntrack: CONNTRACK_NAMES[place(A::Conntrack)].0,
        undecided_verdict: Verdict::Accept,
        undecided_bytes: number(A::Undecided),
        connections: number(A::Connections),
        hello_memory: number(A::HelloMemory),
        hello_timeout_s: number(A::HelloTimeout),
        learned: number(A::Learned),
        stage: 0,
        settled: 0,
        fail_open: [false; SITUATION_COUNT],
        deadline_ms: number(A::Deadline),
        stats_s: number(A::Stats),
        json: false,
        events: None,
        events_rate: number(A::EventsRate),
        log_level: LOG_LEVEL_NAMES[place(A::LogLevel)].0,
        control: None,
        control_mode: number(A::ControlMode),
        control_owner: None,
        take_over: None,
        user: None,
        sandbox: SWITCH_NAMES[place(A::Sandbox)].0,
        print: false,
        explain: OptionsExplain::default(),
    }
}

fn fail_fixed(option: ArgumentsOption) -> Failure {
    values::usage(format!(
        "--profile paper fixes --{}: leave it out or use --profile fast",
        arguments::name(option)
    ))
}

fn fail_accepting(option: ArgumentsOption) -> Failure {
    values::usage(format!(
        "--profile paper accepts every packet: leave --{} out or use --profile fast",
        arguments::name(option)
    ))
}

/// Checks that no option or value is given that the profile paper excludes.
fn check_paper(values: &Arguments, options: &Options) -> Result<(), Failure> {
    if options.batch != 1 {
        return Err(fail_fixed(ArgumentsOption::Batch));
    }
    for option in [ArgumentsOption::Spin, ArgumentsOption::Coalesce] {
        if arguments::value(values, option).is_some() {
            return Err(fail_fixed(option));
        }
    }
    if options.policy.is_some() {
        return Err(fail_accepting(ArgumentsOption::Policy));
    }
    if options.default_verdict != Verdict::Accept {
        return Err(fail_accepting(ArgumentsOption::Default));
    }
    daemon::paper(values)
}

const NS_PER_SECOND: u64 = 1_000_000_000;

/// Returns the profile, which sets the values of options that are not given. An unknown name counts as fast here;
/// check_run reports it.
fn profile_of(values: &Arguments) -> OptionsProfile {
    let paper = profile_name(OptionsProfile::Paper).as_bytes();
    match arguments::value(values, ArgumentsOption::Profile) {
        Some(name) if name == paper => OptionsProfile::Paper,
        _ => OptionsProfile::Fast,
    }
}

/// Checks that no option that needs --policy is given without --policy.
fn check_policy(values: &Arguments, options: &Options) -> Result<(), Failure> {
    if options.policy.is_some() {
        return Ok(());
    }
    for option in [
        ArgumentsOption::Malformed,
        ArgumentsOption::Conntrack,
        ArgumentsOption::Undecided,
        ArgumentsOption::Connections,
        ArgumentsOption::HelloMemory,
        ArgumentsOption::HelloTimeout,
        ArgumentsOption::Learned,
        ArgumentsOption::Stage,
        ArgumentsOption::Settled,
    ] {
        if arguments::value(values, option).is_some() {
            return Err(values::fail_without(option, "a policy", "--policy"));
        }
    }
    Ok(())
}

/// Stores the values of a command line without a command, in the order of the help text.
fn check_run(values: &Arguments, o: &mut Options) -> Result<(), Failure> {
    use ArgumentsOption as A;
    check_queue(values, o)?;
    o.pin = arguments::value(values, A::Pin).is_some();
    values::choice(values, A::Backend, &BACKEND_NAMES, &mut o.backend)?;
    values::choice(values, A::Profile, &PROFILE_NAMES, &mut o.profile)?;
    values::number(values, A::CopyBytes, &mut o.copy_bytes)?;
    values::number(values, A::Batch, &mut o.batch)?;
    values::number(values, A::ReceiveBuffer, &mut o.receive_buffer)?;
    o.copy_bytes_asked = arguments::value(values, A::CopyBytes).is_some();
    o.receive_buffer_asked = arguments::value(values, A::ReceiveBuffer).is_some();
    values::number(values, A::QueueLength, &mut o.queue_length)?;
    values::choice(values, A::Gso, &SWITCH_NAMES, &mut o.gso)?;
    values::number(values, A::Spin, &mut o.spin_us)?;
    values::number(values, A::Coalesce, &mut o.coalesce_us)?;
    let path = arguments::value(values, A::Policy).map(values::path);
    o.policy = path.transpose()?;
    daemon::decision(values, o)?;
    values::choice(values, A::Conntrack, &CONNTRACK_NAMES, &mut o.conntrack)?;
    daemon::names(values, o)?;
    daemon::fail(values, o)?;
    daemon::values(values, o)?;
    if o.profile == OptionsProfile::Paper {
        check_paper(values, o)?;
    }
    check_policy(values, o)?;
    daemon::alone(values)
}

/// Stores the values of `check`.
fn check_check(values: &Arguments, o: &mut Options) -> Result<(), Failure> {
    if let [policy] = values.words.as_slice() {
        o.policy = Some(values::path(policy)?);
    }
    o.print = arguments::value(values, ArgumentsOption::Print).is_some();
    Ok(())
}

/// Parses a command line. The first argument, the program's name, is ignored.
pub fn parse(arguments: &[OsString]) -> Result<OptionsAction, Failure> {
    let values = arguments::parse(arguments)?;
    match values.text {
        Some(ArgumentsText::Help) => return Ok(OptionsAction::Help),
        Some(ArgumentsText::Version) => return Ok(OptionsAction::Version),
        None => {}
    }
    let mut options = profile_options(profile_of(&values));
    match values.command {
        ArgumentsCommand::Run => {
            check_run(&values, &mut options)?;
            Ok(OptionsAction::Run(options))
        }
        ArgumentsCommand::Check => {
            check_check(&values, &mut options)?;
            Ok(OptionsAction::Check(options))
        }
        ArgumentsCommand::Explain => {
            explain::values(&values, &mut options)?;
            Ok(OptionsAction::Explain(options))
        }
    }
}

/// Checks that the options provide the packet data that the policy needs. Fails if --copy-bytes is given and too small,
/// or if the policy uses ct mark, which --conntrack mark does not provide.
pub fn require(options: &Options, requirement: &Requirement) -> Result<(), Failure> {
    let copy_bytes = requirement.copy_bytes;
    if options.copy_bytes_asked && options.copy_bytes < copy_bytes {
        return Err(values::usage(format!(
            "the policy reads {copy_bytes} bytes of a packet where --copy-bytes gives it {}: \
             ask for {copy_bytes} or leave --copy-bytes out",
            options.copy_bytes
        )));
    }
    if requirement.conntrack_mark && options.conntrack == OptionsConntrack::Mark {
        return Err(values::usage(
            "the policy uses ct mark, which --conntrack mark does not give: \
             use --conntrack attribute or take ct mark out of the policy"
                .to_owned(),
        ));
    }
    Ok(())
}

/// Raises copy_bytes to the number of bytes that the policy needs, unless the command line sets it.
pub fn provide(options: &mut Options, requirement: &Requirement) {
    if !options.copy_bytes_asked {
        options.copy_bytes = options.copy_bytes.max(requirement.copy_bytes);
    }
}

/// Returns the settings of a queue.
/// - requirement: requirement of the policy; None without a policy.
pub fn queue(options: &Options, requirement: Option<&Requirement>, number: u16) -> QueueSettings {
    let asks_for = |what: fn(&Requirement) -> bool| requirement.is_some_and(what);
    let conntrack = asks_for(|reads| reads.conntrack_state || reads.conntrack_mark)
        && options.conntrack != OptionsConntrack::Mark;
    let copied = options.copy_bytes
        + if conntrack {
            queue::CONNTRACK_BYTES as u32
        } else {
            0
        };
    QueueSettings {
        number,
        kind: options.backend,
        copy_bytes: options.copy_bytes,
        batch: options.batch,
        slot_bytes: match options.profile {
            OptionsProfile::Paper => PAPER_SLOT_BYTES,
            OptionsProfile::Fast => queue::socket::slot_bytes(copied),
        },
        receive_buffer: options.receive_buffer,
        receive_buffer_required: options.receive_buffer_asked,
        queue_length: options.queue_length,
        gso: options.gso,
        fail_open: options.fail_open[OptionsSituation::Overload as usize],
        uid_gid: asks_for(|reads| reads.uid_gid),
        conntrack,
        names: asks_for(requirement::reads_names),
    }
}

/// Returns the settings for following the connections of a queue.
pub fn connections(options: &Options) -> ConnectionSettings {
    ConnectionSettings {
        connections: options.connections,
        hello_bytes: options.hello_memory.into(),
        hello_timeout_ns: u64::from(options.hello_timeout_s) * NS_PER_SECOND,
        undecided_bytes: options.undecided_bytes,
    }
}
