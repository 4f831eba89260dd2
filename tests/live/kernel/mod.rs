// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of the lab's kernel modules in a virtual machine: what they do, their resistance to abuse, and whether the
//! tests detect deliberate flaws. The programs of the machine are in `guest/`.

mod drops;
mod faults;
mod instructions;
mod lab;
pub mod machine;

use anyhow::ensure;
use testbed::twin::root;
use twinwall_tests::case::{for_each_twin, Case};

use machine::{build, flaws, Machine, SUITES};

/// Flaws that stop the kernel or prevent unloading the module: each is tested in a separate machine.
const FATAL: [&str; 5] = [
    "echo_dump_lock",
    "message_source_writable",
    "message_killed_queued",
    "message_port_uncounted",
    "message_flush_releases",
];

/// Each flaw, with the prefix of the tests that must detect it. Other tests are not run with the flaw.
const NOTICED_BY: [(&str, &str); 25] = [
    ("echo_maxattr", "echo_names_its_last_attribute"),
    ("echo_leak", "echo_keeps_no_memory"),
    ("echo_errno", "echo_gives_back"),
    ("echo_dump_lock", "echo_dump_left_unread"),
    ("echo_sequence", "echo_gives_back"),
    ("echo_log", "echo_says_nothing"),
    ("message_source_writable", "message_constant_source"),
    ("message_killed_queued", "message_caller_killed_in_queue"),
    ("message_port_uncounted", "message_to_a_server_gone"),
    ("message_stray_byte", "message_ports"),
    ("message_forged_answer", "message_answer_needs_its_token"),
    ("message_flush_releases", "message_dup_and_close"),
    ("message_clean_pages", "message_answer_into_a_file"),
    ("message_bytes_unlimited", "message_over_its_limits"),
    ("message_queue_unlimited", "message_queue_is_bounded"),
    ("message_memlock_ignored", "message_pays_for_memory"),
    ("message_deadline_ignored", "message_deadlines_hold"),
    ("message_death_untold", "message_server_ends"),
    ("message_always_ready", "message_poll_tells"),
    ("message_unknown_sleeps", "message_unknown_requests"),
    ("message_pid_global", "message_pids_in_namespaces"),
    ("twinring_pins_kept", "twinring_keeps_no_memory"),
    ("twinring_no_dax", "twinring_census"),
    ("twinring_drops_uncounted", "twinring_drops"),
    ("twinring_status_unchecked", "twinring_drops"),
];

/// Fuzzed modules, each with the seed and the number of steps. `make fuzz` fuzzes for longer.
const FUZZ: [(&str, &str); 2] = [("echo", "1 5000"), ("message", "1 200")];

/// Modules with flaws that the fuzzers must detect too, which shows that a fuzzer can fail; and the arguments of
/// `guest`.
const NOTICED_BY_FUZZERS: [(&str, &str); 2] = [
    ("flaws/echo_errno.ko", "--fuzz echo 3 500"),
    ("flaws/message_death_untold.ko", "--fuzz message 3 100"),
];

/// Returns all test cases of this folder, which is one part of the tests.
pub fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new("flaws-are-known", flaws_are_known),
        Case::new("faults", faults::libraries_take_faults_as_expected),
        Case::new("instructions", instructions::no_exchange_takes_more),
        Case::new("binder", lab::binder_carries_every_operation),
        Case::new("loads", loads),
        Case::new("flaws", flaws_that_go_on),
        Case::new("fuzz", fuzzers_find_nothing),
        Case::new("fuzz-notices", fuzzers_notice_flaws),
    ];
    for suite in SUITES {
        let name = suite.to_owned();
        cases.push(Case::new(name, move || module_passes(suite)));
    }
    for flaw in FATAL {
        let name = format!("flaw-{flaw}");
        cases.push(Case::new(name, move || {
            build()?;
            is_noticed(&[flaw])
        }));
    }
    cases.extend(for_each_twin(&[("drops", drops::every_drop_is_told)]));
    cases
}

/// Checks that all tests of a module pass, and that the kernel reports nothing.
fn module_passes(suite: &str) -> anyhow::Result<()> {
    build()?;
    let module = format!("modules/twinwall_{suite}.ko");
    let prefix = format!("{suite}_");
    let run = Machine::new().run(&[(&module, &prefix)])?;
    ensure!(run.passed(), "{}", run.findings());
    Ok(())
}

fn loads() -> anyhow::Result<()> {
    build()?;
    let modules = SUITES.map(|suite| format!("modules/twinwall_{suite}.ko"));
    let run = Machine::new().load_often(&modules)?;
    ensure!(run.passed(), "{}", run.findings());
    Ok(())
}

/// Checks that the fuzzers find no error: with the seeds that once failed, which are in the names of the files in
/// tests/corpus/crashes, and with those of FUZZ.
fn fuzzers_find_nothing() -> anyhow::Result<()> {
    build()?;
    let mut steps: Vec<(String, String)> = Vec::new();
    for entry in std::fs::read_dir(root().join("tests/corpus/crashes"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let words: Vec<&str> = name.split('-').collect();
        if let ["kernel", module, seed, count] = words[..] {
            steps.push((module.to_owned(), format!("{seed} {count}")));
        }
    }
    steps.extend(FUZZ.map(|(module, words)| (module.to_owned(), words.to_owned())));
    let named = steps.iter().map(|(module, words)| {
        let file = format!("modules/twinwall_{module}.ko");
        (file, format!("--fuzz {module} {words}"))
    });
    let named: Vec<(String, String)> = named.collect();
    let runs: Vec<(&str, &str)> = named.iter().map(|run| (&*run.0, &*run.1)).collect();
    let run = Machine::new().run(&runs)?;
    ensure!(run.passed(), "{}", run.findings());
    Ok(())
}

fn fuzzers_notice_flaws() -> anyhow::Result<()> {
    build()?;
    let run = Machine::fragile().run(&NOTICED_BY_FUZZERS)?;
    let missed = run.modules_without_findings();
    ensure!(missed.is_empty(), "not noticed: {}", missed.join(", "));
    Ok(())
}

/// Checks that NOTICED_BY has all flaws that the sources have, so that all are tested.
fn flaws_are_known() -> anyhow::Result<()> {
    let mut built = flaws()?;
    let mut named: Vec<String> = NOTICED_BY.iter().map(|row| row.0.to_owned()).collect();
    built.sort();
    named.sort();
    ensure!(built == named, "flaw.h: {built:?}, the table: {named:?}");
    Ok(())
}

fn flaws_that_go_on() -> anyhow::Result<()> {
    build()?;
    let others = NOTICED_BY.iter().map(|row| row.0);
    let others: Vec<&str> = others.filter(|flaw| !FATAL.contains(flaw)).collect();
    is_noticed(&others)
}

/// Checks that each module with a flaw fails its test, or that the kernel reports an error or stops.
fn is_noticed(flaws: &[&str]) -> anyhow::Result<()> {
    let test_of = |flaw| NOTICED_BY.iter().find(|row| row.0 == flaw).map(|row| row.1);
    let files: Vec<String> = flaws
        .iter()
        .map(|flaw| format!("flaws/{flaw}.ko"))
        .collect();
    let tests = flaws.iter().filter_map(|flaw| test_of(*flaw));
    let runs: Vec<(&str, &str)> = files.iter().map(String::as_str).zip(tests).collect();
    let run = Machine::fragile().run(&runs)?;
    let missed = run.modules_without_findings();
    ensure!(missed.is_empty(), "not noticed: {}", missed.join(", "));
    Ok(())
}
