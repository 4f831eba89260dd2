// SPDX-License-Identifier: GPL-2.0-or-later
//! The answers of the control socket, byte for byte as the vectors tell them.

use crate::support::snapshots;
use rust_firewall::base::log::LogLevel;
use rust_firewall::control;
use rust_firewall::control::process::ControlSelf;
use rust_firewall::options::PROGRAM;
use rust_firewall::state::reload::ReloadResult;

fn own() -> ControlSelf {
    ControlSelf {
        pid: 812,
        uid: 65534,
        executable: format!("/usr/sbin/{PROGRAM}"),
        arguments: ["--queue", "0:1", "--json"].map(str::to_owned).to_vec(),
    }
}

#[test]
fn says_what_the_vectors_say() {
    let reload = ReloadResult {
        generation: 3,
        rules: 12,
        kept: 9,
        added: 3,
        removed: 1,
        milliseconds: 4,
    };
    let (own, full, idle) = (own(), snapshots::full(), snapshots::idle());
    let counts = snapshots::counts();
    let error = "web.nft:6:2: found \"tcpp\", expected \\ or \x7fä";
    let answers = [
        ("error", control::answer::error(error)),
        (
            "status",
            control::answer::status(&own, &full, LogLevel::Debug, &counts),
        ),
        (
            "idle",
            control::answer::status(&own, &idle, LogLevel::Error, &counts),
        ),
        ("stats", control::answer::stats("{\"event\":\"stats\"}\n")),
        ("rules", control::answer::rules(&full)),
        ("no-rules", control::answer::rules(&idle)),
        ("reload", control::answer::reload(&reload)),
        (
            "log",
            control::answer::log(LogLevel::Warning, LogLevel::Info),
        ),
        ("proof", control::answer::proof(4712, 7)),
        ("drain", control::answer::drain(10, 4711)),
    ];
    let expected = snapshots::vector("control-answers.txt");
    let mut expected = expected.split_inclusive('\n');
    for (name, answer) in answers {
        assert_eq!(Some(format!("{name} {answer}").as_str()), expected.next());
    }
    assert_eq!(expected.next(), None);
}
