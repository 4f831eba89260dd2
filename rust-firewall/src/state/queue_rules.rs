// SPDX-License-Identifier: GPL-2.0-or-later
//! Which rules of the kernel lead packets to our queues, and what they do while no one owns the
//! queue. Asks nft and the iptables-save family, as child processes that may take MS_MAX together;
//! so it is done before any queue is open.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use serde_json::Value;

use crate::base::log;
use crate::options::Options;

pub const MS_MAX: u64 = 3000;
/// By which a tool's output is read.
const READ_STEP_BYTES: usize = 65536;
const OUTPUT_BYTES_MAX: usize = 1 << 26;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueRules {
    /// Our queues.
    pub first: u16,
    pub last: u16,
    /// By queue, from the first: a rule leads packets there.
    pub reached: Vec<bool>,
    /// Some rule has no bypass: without an owner it drops.
    pub plain: bool,
    /// Some rule has one: without an owner packets pass it.
    pub bypass: bool,
    /// nft lists rules whose words iptables-save has.
    pub of_iptables: bool,
    /// Tools that could not be asked: "nft is not there"; empty = none.
    pub unknown: String,
}

/// Begins with no rules, for our queues.
pub fn begin(first: u16, last: u16) -> QueueRules {
    QueueRules {
        first,
        last,
        reached: vec![false; usize::from(last - first) + 1],
        ..QueueRules::default()
    }
}

/// Notes that a rule leads packets to queues.
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

/// Notes what could not be asked; the first is kept.
fn set_unknown(queue_rules: &mut QueueRules, tool: &str, why: &str) {
    if queue_rules.unknown.is_empty() {
        queue_rules.unknown = format!("{tool} {why}");
    }
}

/// Removes a word from a line. It ends at a blank; what stands in quotes is one word. None at the
/// line's end.
fn take_word(at: &mut &str) -> Option<String> {
    let mut rest = at.trim_start_matches(' ').chars();
    let mut word = String::new();
    let mut quoted = false;
    while let Some(next) = rest.clone().next() {
        if next == ' ' && !quoted {
            break;
        }
        rest.next();
        // A quote stays, so that a quoted word equals none that we look for.
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

/// The queues of "N" or "N:M".
fn read_queues(word: &str) -> Option<(u64, u64)> {
    let (first, last) = word.split_once(':').unwrap_or((word, word));
    Some((first.parse().ok()?, last.parse().ok()?))
}

/// Parses the rule of a line "-A CHAIN …", if its target is NFQUEUE.
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

/// Parses the rules in the output of iptables-save.
pub fn take_save(queue_rules: &mut QueueRules, text: &str) {
    for line in text.lines().filter(|line| line.starts_with("-A ")) {
        take_save_line(queue_rules, line);
    }
}

/// Whether the flags of a queue statement, a string or an array of them, have the bypass.
fn has_bypass(flags: &Value) -> bool {
    match flags {
        Value::String(flag) => flag == "bypass",
        Value::Array(flags) => flags.iter().any(has_bypass),
        _ => false,
    }
}

/// Parses a queue statement. An expression may lead to any queue.
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

/// Parses the rules in the output of `nft -j list ruleset`. False for a text that is not such
/// output; queue_rules is untouched then.
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

/// Reads a tool's output to its end. None if there is too much of it, or it comes too late.
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

/// Output of a tool; none if it could not be asked, which is noted, but for a tool that may be
/// missing.
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
        let _ = child.kill(); // it may have ended meanwhile
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

/// Whether a file has any text. It is the kernel's list of tables of the old iptables: asking the
/// tool while there are none would load its modules.
fn has_text(path: &str) -> bool {
    File::open(path).is_ok_and(|mut file| file.read(&mut [0]).is_ok_and(|got| got == 1))
}

/// Asks all tools. Never fails: what can't be known is told in queue_rules.unknown.
pub fn read(options: &Options) -> QueueRules {
    let due = Instant::now() + Duration::from_millis(MS_MAX);
    let mut queue_rules = begin(options.queue_first, options.queue_last);
    run_nft(&mut queue_rules, due);
    // Where nft has told of all rules, and none is iptables', a missing iptables has none either.
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

/// Warns of our queues that no rule leads to, or none as far as could be asked.
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
