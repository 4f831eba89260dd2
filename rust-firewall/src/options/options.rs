// SPDX-License-Identifier: GPL-2.0-or-later
//! The command line: what its values mean. The text of --help is cli/help.txt, embedded when the
//! program is built.
//!
//! Theory of operation: `arguments` takes the structure in command-line order and keeps raw values,
//! of which the last given wins; --help and --version act when met. Then the values are checked in
//! the order of the help text.

use std::ffi::OsString;

use crate::base::log::{Failure, LogLevel};
use crate::options::arguments::{
    self, Arguments, ArgumentsCommand, ArgumentsOption, ArgumentsText,
};
use crate::options::daemon;
use crate::options::explain;
use crate::options::types::{
    Options, OptionsConntrack, OptionsExplain, OptionsProfile, OptionsSituation, SITUATION_COUNT,
};
use crate::options::values;
use crate::packet;
use crate::packet::verdict::{self, Verdict};
use crate::policy::requirement::Requirement;
use crate::queue::{self, QueueKind, QueueSettings};

pub const PROGRAM: &str = "rust-firewall";
pub const VERSION: &str = "0.1.0";

pub const QUEUES_MAX: u32 = 256;
/// What --profile paper allots to its only slot; committed as far as it is touched.
pub const PAPER_SLOT_BYTES: u64 = 1 << 32;

/// What to do with a good command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionsAction {
    Run(Options),
    /// `policy`; `print`.
    Check(Options),
    /// `policy`; `explain`.
    Explain(Options),
    /// Print `HELP`, nothing else.
    Help,
    /// Print "rust-firewall 0.1.0".
    Version,
}

/// The most microseconds of --spin and --coalesce.
const WAIT_US_MAX: u32 = 1000;

/// The text of --help.
pub const HELP: &str = include_str!("../../../cli/help.txt");

const BACKEND_NAMES: [(QueueKind, &str); 3] = [
    (QueueKind::Classic, "classic"),
    (QueueKind::Mnl, "mnl"),
    (QueueKind::Raw, "raw"),
];
const PROFILE_NAMES: [(OptionsProfile, &str); 2] = [
    (OptionsProfile::Fast, "fast"),
    (OptionsProfile::Paper, "paper"),
];
const GSO_NAMES: [(bool, &str); 2] = [(false, "off"), (true, "on")];
const CONNTRACK_NAMES: [(OptionsConntrack, &str); 3] = [
    (OptionsConntrack::Auto, "auto"),
    (OptionsConntrack::Attribute, "attribute"),
    (OptionsConntrack::Mark, "mark"),
];

fn name_of<T: Copy + PartialEq>(names: &[(T, &'static str)], choice: T) -> &'static str {
    names
        .iter()
        .find(|(named, _)| *named == choice)
        .map_or("", |(_, name)| name)
}

/// The name of a backend, as on the command line.
pub fn backend_name(kind: QueueKind) -> &'static str {
    name_of(&BACKEND_NAMES, kind)
}

/// The name of a profile, as on the command line.
pub fn profile_name(profile: OptionsProfile) -> &'static str {
    name_of(&PROFILE_NAMES, profile)
}

/// The name of where ct state comes from, as on the command line.
pub fn conntrack_name(conntrack: OptionsConntrack) -> &'static str {
    name_of(&CONNTRACK_NAMES, conntrack)
}

/// The first and the last queue of "N" or "N:M".
fn read_queues(value: &[u8]) -> Option<(u16, u16)> {
    let mut numbers = value.splitn(2, |byte| *byte == b':');
    let first = values::read_number(numbers.next()?, u16::MAX.into())?;
    let last = match numbers.next() {
        Some(last) => values::read_number(last, u16::MAX.into())?,
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
    let expected = "N or N:M, 0 <= N <= M <= 65535, at most 256 queues";
    (options.queue_first, options.queue_last) =
        read_queues(value).ok_or_else(|| values::fail(ArgumentsOption::Queue, value, expected))?;
    Ok(())
}

fn profile(profile: OptionsProfile) -> Options {
    let fast = Options {
        queue_first: 0,
        queue_last: 0,
        pin: false,
        backend: QueueKind::Raw,
        profile: OptionsProfile::Fast,
        copy_bytes: packet::COPY_BYTES,
        batch: 64,
        receive_buffer: 67108864,
        receive_buffer_asked: false,
        queue_length: 131072,
        gso: true,
        spin_us: 50,
        coalesce_us: 60,
        policy: None,
        default_verdict: Verdict::Accept,
        malformed_by_policy: false,
        conntrack: OptionsConntrack::Auto,
        fail_open: [false; SITUATION_COUNT],
        deadline_ms: 1000,
        stats_s: 0,
        json: false,
        metrics: None,
        events: None,
        events_rate: 1000,
        log_level: LogLevel::Info,
        control: None,
        control_mode: 0o600,
        control_owner: None,
        take_over: None,
        user: None,
        sandbox: true,
        print: false,
        explain: OptionsExplain::default(),
    };
    match profile {
        OptionsProfile::Fast => fast,
        OptionsProfile::Paper => Options {
            backend: QueueKind::Classic,
            profile: OptionsProfile::Paper,
            copy_bytes: 65535,
            batch: 1,
            receive_buffer: 0,
            queue_length: 1024,
            gso: false,
            spin_us: 0,
            coalesce_us: 0,
            deadline_ms: 0,
            ..fast
        },
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

/// What the profile paper doesn't allow.
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

/// The profile whose values options that weren't given have; a wrong name is found by check_values.
fn profile_of(values: &Arguments) -> OptionsProfile {
    match arguments::value(values, ArgumentsOption::Profile) {
        Some(b"paper") => OptionsProfile::Paper,
        _ => OptionsProfile::Fast,
    }
}

/// What has no meaning without --policy.
fn check_policy(values: &Arguments, options: &Options) -> Result<(), Failure> {
    if options.policy.is_some() {
        return Ok(());
    }
    for option in [ArgumentsOption::Malformed, ArgumentsOption::Conntrack] {
        if arguments::value(values, option).is_some() {
            return Err(values::fail_without(option, "a policy", "--policy"));
        }
    }
    Ok(())
}

/// The values of a command line without a command, in the order of the help text.
fn check_run(values: &Arguments, o: &mut Options) -> Result<(), Failure> {
    use ArgumentsOption as A;
    let number =
        |option, min, max, number: &mut u32| values::number(values, option, min, max, number);
    check_queue(values, o)?;
    o.pin = arguments::value(values, A::Pin).is_some();
    let expected = "classic, mnl or raw";
    values::choice(values, A::Backend, &BACKEND_NAMES, expected, &mut o.backend)?;
    let expected = "fast or paper";
    values::choice(values, A::Profile, &PROFILE_NAMES, expected, &mut o.profile)?;
    number(A::CopyBytes, 0, u16::MAX.into(), &mut o.copy_bytes)?;
    number(A::Batch, 1, verdict::PACKETS_MAX as u32, &mut o.batch)?;
    let most = i32::MAX as u32 / 2;
    number(A::ReceiveBuffer, 0, most, &mut o.receive_buffer)?;
    o.receive_buffer_asked = arguments::value(values, A::ReceiveBuffer).is_some();
    number(A::QueueLength, 1, u32::MAX, &mut o.queue_length)?;
    values::choice(values, A::Gso, &GSO_NAMES, "on or off", &mut o.gso)?;
    number(A::Spin, 0, WAIT_US_MAX, &mut o.spin_us)?;
    number(A::Coalesce, 0, WAIT_US_MAX, &mut o.coalesce_us)?;
    let path = arguments::value(values, A::Policy).map(values::path);
    o.policy = path.transpose()?;
    daemon::decision(values, o)?;
    let (names, expected) = (&CONNTRACK_NAMES, "auto, attribute or mark");
    values::choice(values, A::Conntrack, names, expected, &mut o.conntrack)?;
    daemon::fail(values, o)?;
    daemon::values(values, o)?;
    if o.profile == OptionsProfile::Paper {
        check_paper(values, o)?;
    }
    check_policy(values, o)?;
    daemon::alone(values)
}

/// The values of `check`.
fn check_check(values: &Arguments, o: &mut Options) -> Result<(), Failure> {
    if let [policy] = values.words.as_slice() {
        o.policy = Some(values::path(policy)?);
    }
    o.print = arguments::value(values, ArgumentsOption::Print).is_some();
    Ok(())
}

/// Parses a command line, of which the first argument is the program's name and not looked at.
pub fn parse(arguments: &[OsString]) -> Result<OptionsAction, Failure> {
    let values = arguments::parse(arguments)?;
    match values.text {
        Some(ArgumentsText::Help) => return Ok(OptionsAction::Help),
        Some(ArgumentsText::Version) => return Ok(OptionsAction::Version),
        None => {}
    }
    let mut options = profile(profile_of(&values));
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

/// Checks that the options give what the policy reads. Fails if --copy-bytes is less than that, or
/// the policy asks for ct mark and --conntrack mark has none.
pub fn require(options: &Options, requirement: &Requirement) -> Result<(), Failure> {
    let copy_bytes = requirement.copy_bytes;
    if options.copy_bytes < copy_bytes {
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

/// Makes the settings of one of the queues. requirement: of the policy, if there is one.
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
    }
}
