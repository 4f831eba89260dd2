// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests policy texts for users: the files of rules/policy, and the examples of GRAMMAR.md. Both twins accept each of
//! them and print it identically; nft accepts it unless it decides by name.

mod grammar;
mod tutorial;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{ensure, Context};
use testbed::firewall::run_to_end;
use testbed::folder::Folder;
use testbed::netns::Namespace;
use testbed::place::namespace;
use testbed::twin::{root, Twin, TWINS};
use twinwall_tests::case::Case;

const POLICIES: [&str; 12] = [
    "accept-all",
    "block-list",
    "block-list.prefixes",
    "dns-guard",
    "drop-all",
    "egress-names",
    "family-filter",
    "isolate-uid",
    "monitor",
    "ssh-guard",
    "web-server",
    "workstation",
];

/// Start of the output of `check` for a policy that decides by name.
const ONLY_HERE: &str = "ok\nonly Twinwall decides: ";

/// Returns all cases of the part.
pub fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new("policies/all-are-known-and-explained", all_are_explained),
        Case::new("grammar/every-production-has-an-example", || {
            grammar::check_coverage(&grammar_text()?)
        }),
        Case::new("tutorial/what-carries-over", tutorial_carries_over),
        Case::new("grammar/the-canonical-print-is-one", print_is_canonical),
    ];
    for name in POLICIES {
        let file = folder().join(format!("{name}.nft"));
        cases.push(Case::new(format!("policies/{name}"), move || {
            accepted_by_all(&file)
        }));
    }
    // An unreadable grammar fails the cases above.
    for example in grammar::examples(&grammar_text().unwrap_or_default()) {
        let name = format!(
            "grammar/{} {} {}",
            example.line, example.production, example.text
        );
        cases.push(Case::new(name, move || check_example(&example)));
    }
    cases
}

fn folder() -> PathBuf {
    root().join("rules/policy")
}

fn grammar_text() -> anyhow::Result<String> {
    let file = folder().join("GRAMMAR.md");
    fs::read_to_string(&file).with_context(|| file.display().to_string())
}

fn all_are_explained() -> anyhow::Result<()> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder())? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "nft") {
            let text = fs::read_to_string(&path)?;
            let name = path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            ensure!(
                text.starts_with("# SPDX-License-Identifier: GPL-2.0-or-later\n# "),
                "{name} does not begin with the licence and with what it is"
            );
            let part = if name.contains('.') {
                "put your own"
            } else {
                "# To adapt: "
            };
            ensure!(text.contains(part), "{name} does not say what to change");
            names.push(name);
        }
    }
    names.sort();
    ensure!(names == POLICIES, "found {names:?}");
    Ok(())
}

/// Checks that both twins and nft accept a policy, that both twins print it identically, and that they accept the print
/// and print it unchanged. nft may refuse a policy that decides by name; then `check` of both twins must say so.
fn accepted_by_all(file: &Path) -> anyhow::Result<()> {
    let namespace = namespace()?;
    let is_taken = checked_by_nft(&namespace, file);
    for twin in TWINS {
        let said = ask(&namespace, twin, &["check"], file)?;
        let expected = match is_taken {
            Ok(()) => said == "ok",
            Err(_) => said.starts_with(ONLY_HERE),
        };
        ensure!(expected, "{} check: {said}; {is_taken:?}", twin.program());
    }
    let print = printed_alike(&namespace, file)?;
    let folder = Folder::new()?;
    let again = folder.write("print.nft", &print)?;
    copy_lists(file.parent().context("a file has a folder")?, &folder)?;
    if is_taken.is_ok() {
        checked_by_nft(&namespace, again.as_ref()).with_context(|| print.clone())?;
    }
    let second = printed_alike(&namespace, again.as_ref())?;
    ensure!(print == second, "printed\n{print}\nand then\n{second}");
    Ok(())
}

/// Copies the lists of names that policies include.
fn copy_lists(from: &Path, to: &Folder) -> anyhow::Result<()> {
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "names") {
            let name = path.file_name().context("a file has a name")?;
            fs::copy(&path, to.path().join(name))?;
        }
    }
    Ok(())
}

fn checked_by_nft(namespace: &Namespace, file: &Path) -> anyhow::Result<()> {
    let mut nft: Command = namespace.command("nft");
    // Before 1.1 nft does not search includes beside the file.
    let beside = file.parent().context("a file has a folder")?;
    nft.arg("-I").arg(beside).args(["-c", "-f"]).arg(file);
    let output = nft.output().context("nft")?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "nft -c: {words}");
    Ok(())
}

/// Runs a command of a twin on a file. Returns its output, without the last line end. Fails unless the exit code is 0
/// and stderr is empty.
fn ask(namespace: &Namespace, twin: Twin, command: &[&str], file: &Path) -> anyhow::Result<String> {
    let mut arguments = command.to_vec();
    arguments.push(file.to_str().context("a path that is text")?);
    let ended = run_to_end(namespace, &[], twin, &arguments)?;
    ensure!(
        ended.code == Some(0) && ended.stderr.is_empty(),
        "{} {}: {:?}, {}",
        twin.program(),
        arguments.join(" "),
        ended.code,
        ended.stderr
    );
    Ok(ended.lines.join("\n"))
}

fn printed_alike(namespace: &Namespace, file: &Path) -> anyhow::Result<String> {
    let rust = ask(namespace, Twin::Rust, &["check", "--print"], file)?;
    let c = ask(namespace, Twin::C, &["check", "--print"], file)?;
    ensure!(rust == c, "Rust prints\n{rust}\nand C\n{c}");
    Ok(rust + "\n")
}

fn check_example(example: &grammar::Example) -> anyhow::Result<()> {
    let folder = Folder::new()?;
    folder.write("prefixes.nft", "define prefixes = { 192.0.2.0/24 }\n")?;
    let text = example.in_context();
    let file = folder.write("example.nft", &text)?;
    accepted_by_all(file.as_ref()).with_context(|| text)
}

/// Tests that the replacements for iptables' options, in the table of docs/POLICY.md, form a valid policy.
fn tutorial_carries_over() -> anyhow::Result<()> {
    let file = root().join("docs/POLICY.md");
    let page = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let text = tutorial::policy_of_table(&page)?;
    let folder = Folder::new()?;
    let file = folder.write("table.nft", &text)?;
    accepted_by_all(file.as_ref()).with_context(|| text)
}

/// Tests that both twins print GRAMMAR.md's example of the canonical print unchanged.
fn print_is_canonical() -> anyhow::Result<()> {
    let text =
        grammar::canonical(&grammar_text()?).context("GRAMMAR.md shows no canonical print")?;
    let folder = Folder::new()?;
    let file = folder.write("canonical.nft", &text)?;
    let print = printed_alike(&namespace()?, file.as_ref())?;
    ensure!(print == text, "printed\n{print}\nand not\n{text}");
    Ok(())
}
