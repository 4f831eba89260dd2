// SPDX-License-Identifier: GPL-2.0-or-later
//! `split`: splits a policy with names into the kernel's text and the firewall's (docs/STAGE.md).

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{json, Value};
use stage::{Decided, LearnedSet, Options, Queue, Split, SplitRule, Undecided};

use crate::arguments::{self, Arguments, SplitQueue, SplitVerdict};
use crate::failure::{tell, Exit, Failure};
use crate::output;

fn options(asked: &arguments::Split) -> Options {
    Options {
        queue: match asked.queue {
            SplitQueue::Nft => Queue::Nft,
            SplitQueue::Iptables => Queue::Iptables,
        },
        queues: asked.queues,
        bypass: asked.bypass,
        undecided: match asked.undecided {
            SplitVerdict::Accept => Undecided::Accept,
            SplitVerdict::Drop => Undecided::Drop,
        },
        unknown_open: asked.unknown_open,
        marks: asked.marks,
        generation: asked.generation,
    }
}

/// Checks the kernel's part of a split policy with nft, without loading it.
fn check(split: &Split) -> Result<(), Failure> {
    let refuse = |why: String| Failure::new(Exit::Usage, why);
    let call = |error| {
        refuse(format!(
            "nft can't be run: {error}: install nftables, and run fwctl as root"
        ))
    };
    let mut nft = Command::new("nft");
    nft.args(["-c", "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    let mut child = nft.stderr(Stdio::piped()).spawn().map_err(call)?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(split.kernel.as_bytes()).map_err(call)?;
    }
    let done = child.wait_with_output().map_err(call)?;
    let said = String::from_utf8_lossy(&done.stderr);
    match done.status.success() {
        true => Ok(()),
        false => Err(refuse(format!(
            "nft does not take the kernel's text: {}: try the policy without its names with nft -c -f",
            said.lines().next().unwrap_or("it says nothing").trim()
        ))),
    }
}

/// Warns of other tables that take connections past the policy, into flowtables. Does nothing if the policy reads no
/// names of forwarded connections.
fn warn_of_flows(policy: &Path, split: &Split) -> Result<(), Failure> {
    if !split.is_forwarding {
        return Ok(());
    }
    // Without the policy's tables, since its text replaces them.
    let own = apply::source::read(policy).map_or_else(|_| Vec::new(), |source| source.tables);
    for flow in apply::flows::of_others(&own)? {
        tell("warning", flow.to_string());
    }
    Ok(())
}

fn write(folder: &Path, split: &Split) -> Result<(), Failure> {
    let stage = format!("{}\n", split.stage);
    let files = [
        ("kernel.nft", Some(&split.kernel)),
        ("names.nft", Some(&split.daemon)),
        ("stage", Some(&stage)),
        ("iptables.rules", split.iptables.as_ref()),
    ];
    let fail = |path: &Path, error| {
        let text = format!(
            "{}: {error}: name a folder that can be written",
            path.display()
        );
        Failure::new(Exit::Refused, text)
    };
    fs::create_dir_all(folder).map_err(|error| fail(folder, error))?;
    for (name, text) in files {
        let path = folder.join(name);
        if let Some(text) = text {
            fs::write(&path, text).map_err(|error| fail(&path, error))?;
        }
    }
    Ok(())
}

fn numbers(rule: &SplitRule) -> String {
    let numbers: Vec<String> = rule.classes.iter().map(u32::to_string).collect();
    match numbers.is_empty() {
        true => "none, since no connection can have these names".to_owned(),
        false => numbers.join(", "),
    }
}

/// Returns where a rule is decided, and why.
fn decision(rule: &SplitRule) -> String {
    match &rule.decided {
        Decided::AsWritten => "kernel, as written: it matches no name".to_owned(),
        Decided::ByLearnedSet(set) => {
            format!("kernel, as written: the firewall adds the addresses of {set}")
        }
        Decided::ByClass(fields) => format!(
            "kernel, by the firewall's class of the connection: it matches {}; classes: {}",
            fields.iter().cloned().collect::<Vec<String>>().join(", "),
            numbers(rule)
        ),
        Decided::BeforeFlowtable => "kernel, after a test, since a flowtable's packets skip the chains: no rule with names may match them, and no set learn from them".to_owned(),
        Decided::WithReset => "kernel, with another chain: both ends of a connection with known names are reset".to_owned(),
    }
}

/// Adds the explanation of each rule to `text`, under a line about its chain.
fn rules(text: &mut String, split: &Split) {
    let mut chain = "";
    for rule in &split.rules {
        if rule.chain != chain {
            chain = &rule.chain;
            let hooks = match rule.hooks.is_empty() {
                true => "no packet reaches it".to_owned(),
                false => format!("hook {}", rule.hooks.join(", ")),
            };
            let _ = writeln!(text, "rules of {chain}, {hooks}:");
        }
        let _ = writeln!(text, "  {}: {}", rule.place, rule.text);
        let _ = writeln!(text, "    decided: {}", decision(rule));
        for test in &rule.tests {
            let _ = writeln!(text, "    test: {test}");
        }
        for (hook, line) in &rule.queued {
            let _ = writeln!(text, "    queued: stage-names-{hook}: {line}");
        }
    }
}

fn explanation(split: &Split) -> String {
    let mut text = String::from("classes of connections, by what holds for their names:\n");
    for class in &split.classes {
        let holds = match class.holds.is_empty() {
            true => "nothing".to_owned(),
            false => class.holds.join(", "),
        };
        let _ = writeln!(
            text,
            "  {} (ct mark {:#010x}): {holds}",
            class.number, class.mark
        );
    }
    rules(&mut text, split);
    if !split.learned.is_empty() {
        text.push_str("sets that the firewall fills in the kernel, from answers of DNS:\n");
    }
    for set in &split.learned {
        let _ = writeln!(
            text,
            "  {} {} {}: {}",
            set.family, set.table, set.name, set.learns
        );
    }
    let _ = writeln!(
        text,
        "marks: {:#010x}; generations: {}",
        split.mask, split.generations
    );
    let _ = writeln!(
        text,
        "the firewall's options: --policy names.nft --stage {}",
        split.stage
    );
    text
}

/// Formats a split policy as a JSON object.
fn object(split: &Split) -> String {
    let class = |class: &stage::Class| json!({ "class": class.number, "mark": class.mark, "holds": class.holds });
    let queued = |rule: &SplitRule| -> Vec<Value> {
        let line = |(hook, line): &(&str, String)| json!({ "chain": format!("stage-names-{hook}"), "matches": line });
        rule.queued.iter().map(line).collect()
    };
    let rule = |rule: &SplitRule| json!({ "place": rule.place.to_string(), "chain": rule.chain, "hooks": rule.hooks, "rule": rule.text, "decided": decision(rule), "tests": rule.tests, "classes": rule.classes, "queued": queued(rule) });
    let learned = |set: &LearnedSet| json!({ "family": set.family, "table": set.table, "set": set.name, "learns": set.learns });
    let object = json!({
        "classes": split.classes.iter().map(class).collect::<Vec<_>>(),
        "rules": split.rules.iter().map(rule).collect::<Vec<_>>(),
        "learned": split.learned.iter().map(learned).collect::<Vec<_>>(),
        "mask": split.mask,
        "generations": split.generations,
        "stage": split.stage,
    });
    format!("{object}\n")
}

pub fn run(arguments: &Arguments, asked: &arguments::Split) -> Result<Exit, Failure> {
    let refuse = |why: String| Failure::new(Exit::Usage, why);
    let source = stage::file(&asked.policy)
        .map_err(|error| refuse(format!("{error}: name a policy that can be read")))?;
    let split =
        stage::split(&source, &options(asked)).map_err(|refusal| refuse(refusal.to_string()))?;
    for warning in &split.warnings {
        tell("warning", warning.to_string());
    }
    if asked.check {
        check(&split)?;
        warn_of_flows(Path::new(&asked.policy), &split)?;
    }
    if let Some(folder) = &asked.write {
        write(folder, &split)?;
        return Ok(Exit::Fine);
    }
    let text = match (asked.explain, arguments.json) {
        (true, true) => object(&split),
        (true, false) => explanation(&split),
        (false, _) => split.kernel,
    };
    let lines: Vec<&str> = text.lines().collect();
    match asked.explain && arguments.json {
        true => output::json(&lines),
        false => output::lines(&lines),
    };
    Ok(Exit::Fine)
}
