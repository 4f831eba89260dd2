// SPDX-License-Identifier: GPL-2.0-or-later
//! Rules of the kernel that send packets to this firewall's queues, and their effect while no process owns the queue.
//! They are read from nft and the iptables-save family, as child processes that may take MS_MAX together; therefore
//! this is done before any queue is open.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use serde_json::Value;

use crate::base::log;
use crate::options::Options;

pub const MS_MAX: u64 = 10_000;
/// Step by which a tool's output is read, in bytes.
const READ_STEP_BYTES: usize = 65536;
const OUTPUT_BYTES_MAX: usize = 1 << 26;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueRules {
    /// First and last queue of this firewall.
    pub first: u16,
    pub last: u16,
    /// For each queue, from the first one: true if a rule sends packets to it.
    pub reached: Vec<bool>,
    /// True if a rule has no bypass: it drops packets while no process owns the queue.
    pub plain: bool,
    /// True if a rule has a bypass: it lets packets pass while no process owns the queue.
    pub bypass: bool,
    /// True if nft lists rules that it can't express, and iptables-save can.
    pub of_iptables: bool,
    /// First tool that could not be read, with the reason: "nft is not there"; empty = all could be read.
    pub unknown: String,
}

/// Returns an empty set of rules for these queues.
pub fn begin(first: u16, last: u16) -> QueueRules {
    QueueRules {
        first,
        last,
        reached: vec![false; usize::from(last - first) + 1],
        ..QueueRules::default()
    }
}

/// Adds a rule that sends packets to these queues, if this firewall has any of them.
fn add_rule(queue_rules: &mut QueueRules, first: u64, last: u64, bypass: bool) {
    if last < u64::from(queue_rules.first) || first > u64::from(queue_rules.last) {
        return;
    }
    for (number, reached) in (u64::from(queue_rules.first)..).zip(&mut queue_rules.reached) {
        *reached |= (first..=last).contains(&number);
    }
    match bypass {
        true => queue_rules.bypass = true,
        false => queue_rules.plain = true,
    }
}

/// Stores the tool that could not be read, with the reason; the first one stays.
fn set_unknown(queue_rules: &mut QueueRules, tool: &str, why: &str) {
    if queue_rules.unknown.is_empty() {
        queue_rules.unknown = format!("{tool} {why}");
    }
}

/// Removes a word from a line; it ends at a blank outside quotes. None at the line's end.
fn take_word(at: &mut &str) -> Option<String> {
    let mut rest = at.trim_start_matches(' ').chars();
    let mut word = String::new();
    let mut quoted = false;
    while let Some(next) = rest.clone().next() {
        if next == ' ' && !quoted {
            break;
        }
        rest.next();
        // The quote stays in the word, so that a quoted word equals no keyword.
        match next {
            '\\' if quoted => word.extend(rest.next()),
            '"' => {
                quoted = !quoted;
                word.push(next);
            }
            _ => word.push(next),
        }
    }
    *at = rest.as_str();
    (!word.is_empty()).then_some(word)
}

/// Parses the queues of "N" or "N:M".
fn read_queues(word: &str) -> Option<(u64, u64)> {
    let (first, last) = word.split_once(':').unwrap_or((word, word));
    Some((first.parse().ok()?, last.parse().ok()?))
}

/// Parses a line "-A CHAIN …", and adds its rule if the target is NFQUEUE.
fn take_save_line(queue_rules: &mut QueueRules, mut at: &str) {
    let mut before = String::new();
    let (mut queues, mut queue, mut bypass) = ((0, 0), false, false);
    while let Some(word) = take_word(&mut at) {
        match before.as_str() {
            "-j" => queue = word == "NFQUEUE",
            "--queue-num" | "--queue-balance" => queues = read_queues(&word).unwrap_or(queues),
            _ => {}
        }
        bypass |= word == "--queue-bypass";
        before = word;
    }
    if queue {
        add_rule(queue_rules, queues.0, queues.1, bypass);
    }
}

/// Parses the output of iptables-save.
pub fn take_save(queue_rules: &mut QueueRules, text: &str) {
    for line in text.lines().filter(|line| line.starts_with("-A ")) {
        take_save_line(queue_rules, line);
    }
}

/// Returns true if the flags of a queue statement (a string, or an array of strings) contain bypass.
fn has_bypass(flags: &Value) -> bool {
    match flags {
        Value::String(flag) => flag == "bypass",
        Value::Array(flags) => flags.iter().any(has_bypass),
        _ => false,
    }
}

/// Parses a queue statement. If the queue is an expression, the rule may send packets to any queue.
fn take_queue(queue_rules: &mut QueueRules, queue: &Value) {
    let num = &queue["num"];
    let bypass = has_bypass(&queue["flags"]);
    let range = num["range"].as_array().map(Vec::as_slice);
    match (num, range) {
        (Value::Null, _) => add_rule(queue_rules, 0, 0, bypass),
        (Value::Number(number), _) => {
            let number = number.as_u64().unwrap_or(u64::MAX);
            add_rule(queue_rules, number, number, bypass);
        }
        (_, Some([first, last])) => {
            let number = |value: &Value| value.as_u64().unwrap_or(0);
            add_rule(queue_rules, number(first), number(last), bypass);
        }
        _ => add_rule(queue_rules, 0, u16::MAX.into(), bypass),
    }
}

/// Parses the output of `nft -j list ruleset`. Returns false if the text is no such output; queue_rules is unchanged
/// then.
pub fn take_nft(queue_rules: &mut QueueRules, text: &str) -> bool {
    let root: Value = serde_json::from_str(text).unwrap_or_default();
    let Some(items) = root["nftables"].as_array() else {
        return false;
    };
    let rules = items
        .iter()
        .filter_map(|item| item["rule"]["expr"].as_array());
    for statement in rules.flatten() {
        if let Some(queue) = statement.get("queue") {
            take_queue(queue_rules, queue);
        }
        queue_rules.of_iptables |= statement.get("xt").is_some();
    }
    true
}

fn start_tool(argv: &[&str]) -> std::io::Result<Child> {
    Command::new(argv[0])
        .args(&argv[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
}

/// Reads a tool's output to its end. None if it is too long or too late.
fn read_output(child: &mut Child, due: Instant) -> Option<String> {
    let mut output = child.stdout.take()?;
    let mut step = vec![0; READ_STEP_BYTES];
    let mut text = Vec::new();
    loop {
        let left = due.checked_duration_since(Instant::now())? + Duration::from_millis(1);
        let timeout = PollTimeout::try_from(left).ok()?;
        let readable = PollFd::new(output.as_fd(), PollFlags::POLLIN);
        if poll(&mut [readable], timeout) != Ok(1) {
            return None;
        }
        let got = output.read(&mut step).ok()?;
        if got == 0 {
            return Some(String::from_utf8_lossy(&text).into_owned());
        }
        text.extend_from_slice(step.get(..got)?);
        if text.len() > OUTPUT_BYTES_MAX {
            return None;
        }
    }
}

/// Runs a tool and returns its output. If the tool fails it returns None and stores the reason, except for a tool that
/// may be missing.
fn run_tool(
    queue_rules: &mut QueueRules,
    argv: &[&str],
    may_miss: bool,
    due: Instant,
) -> Option<String> {
    let mut child = match start_tool(argv) {
        Ok(child) => child,
        Err(error) if may_miss && error.kind() == ErrorKind::NotFound => return None,
        Err(error) => {
            set_unknown(
                queue_rules,
                argv[0],
                match error.kind() {
                    ErrorKind::NotFound => "is not there",
                    _ => "can't be started",
                },
            );
            return None;
        }
    };
    let text = read_output(&mut child, due);
    if text.is_none() {
        let _ = child.kill(); // fails if the tool has ended
    }
    let ended_well = child.wait().is_ok_and(|status| status.success());
    match (&text, ended_well) {
        (None, _) => set_unknown(queue_rules, argv[0], "did not end in time"),
        (_, false) => set_unknown(queue_rules, argv[0], "failed"),
        _ => {}
    }
    text.filter(|_| ended_well)
}

fn run_save(queue_rules: &mut QueueRules, tool: &str, may_miss: bool, due: Instant) {
    if let Some(text) = run_tool(queue_rules, &[tool], may_miss, due) {
        take_save(queue_rules, &text);
    }
}

fn run_nft(queue_rules: &mut QueueRules, due: Instant) {
    let argv = ["nft", "-j", "list", "ruleset"];
    if let Some(text) = run_tool(queue_rules, &argv, false, due) {
        if !take_nft(queue_rules, &text) {
            set_unknown(queue_rules, argv[0], "failed");
        }
    }
}

/// Returns true if a file has any text. It is used on the kernel's list of tables of the old iptables: while there are
/// none, starting the tool would load its modules.
fn has_text(path: &str) -> bool {
    File::open(path).is_ok_and(|mut file| file.read(&mut [0]).is_ok_and(|got| got == 1))
}

/// Reads the rules with all tools. Never fails: missing facts are named in queue_rules.unknown.
pub fn read(options: &Options) -> QueueRules {
    let due = Instant::now() + Duration::from_millis(MS_MAX);
    let mut queue_rules = begin(options.queue_first, options.queue_last);
    run_nft(&mut queue_rules, due);
    // If nft has listed all rules, and none is of iptables, a missing iptables has no rules either.
    let may_miss = queue_rules.unknown.is_empty() && !queue_rules.of_iptables;
    run_save(&mut queue_rules, "iptables-save", may_miss, due);
    run_save(&mut queue_rules, "ip6tables-save", may_miss, due);
    if has_text("/proc/net/ip_tables_names") {
        run_save(&mut queue_rules, "iptables-legacy-save", false, due);
    }
    if has_text("/proc/net/ip6_tables_names") {
        run_save(&mut queue_rules, "ip6tables-legacy-save", false, due);
    }
    queue_rules
}

/// Logs a warning for queues that no rule sends packets to, as far as rules could be read.
pub fn warn(queue_rules: &QueueRules) {
    let mut numbers = String::new();
    let mut first = usize::from(queue_rules.first);
    for run in queue_rules.reached.split(|&reached| reached) {
        let last = first + run.len();
        if !run.is_empty() {
            let comma = if numbers.is_empty() { "" } else { ", " };
            numbers.push_str(&format!("{comma}{first}"));
        }
        if run.len() > 1 {
            numbers.push_str(&format!("-{}", last - 1));
        }
        first = last + 1;
    }
    if numbers.is_empty() {
        return;
    }
    match queue_rules.unknown.as_str() {
        "" => log::warn(format_args!(
            "no rule leads packets to queue {numbers}: until one does the firewall sees none of \
             them (`fwctl doctor` names one)"
        )),
        unknown => log::warn(format_args!(
            "it is not known whether a rule leads packets to queue {numbers}: {unknown}: `fwctl \
             doctor` looks again"
        )),
    }
}
