// SPDX-License-Identifier: GPL-2.0-or-later
//! The answers of the control socket, byte for byte as the vectors tell them.

#[path = "snapshots/mod.rs"]
mod snapshots;

use rust_firewall::control_answer;
use rust_firewall::control_self::ControlSelf;
use rust_firewall::log::LogLevel;
use rust_firewall::options::PROGRAM;
use rust_firewall::reload::ReloadResult;

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
        ("error", control_answer::error(error)),
        (
            "status",
            control_answer::status(&own, &full, LogLevel::Debug, &counts),
        ),
        (
            "idle",
            control_answer::status(&own, &idle, LogLevel::Error, &counts),
        ),
        ("stats", control_answer::stats("{\"event\":\"stats\"}\n")),
        ("rules", control_answer::rules(&full)),
        ("no-rules", control_answer::rules(&idle)),
        ("reload", control_answer::reload(&reload)),
        (
            "log",
            control_answer::log(LogLevel::Warning, LogLevel::Info),
        ),
        ("drain", control_answer::drain(10, 4711)),
    ];
    let expected = snapshots::vector("control-answers.txt");
    let mut expected = expected.split_inclusive('\n');
    for (name, answer) in answers {
        assert_eq!(Some(format!("{name} {answer}").as_str()), expected.next());
    }
    assert_eq!(expected.next(), None);
}
