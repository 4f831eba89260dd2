// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests that fwctl imports the language, the engine and the control protocol from the Rust twin, and nothing that only
//! a daemon needs.

use std::collections::BTreeSet;
use std::env;
use std::process::Command;

use anyhow::{ensure, Context};
use serde_json::Value;
use testbed::twin::{root, Twin};
use twinwall_tests::case::Case;

pub fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "dependencies/fwctl-has-none-of-the-daemon",
            fwctl_has_none_of_the_daemon,
        ),
        Case::new("dependencies/no-daemon-serves-http", no_daemon_serves_http),
    ]
}

/// Returns a command for a program of the repository that calls cargo, run as the user who started the tests: under sudo the
/// current user lacks that user's crates.
pub fn by_user(program: &str) -> Command {
    let mut command = Command::new(program);
    if let Ok(user) = env::var("SUDO_USER") {
        command = Command::new("sudo");
        command.args(["-H", "-u", &user, program]);
    }
    command.current_dir(root());
    command
}

/// Runs cargo offline. Returns its output.
fn cargo(arguments: &[&str]) -> anyhow::Result<String> {
    let output = by_user("deps/with-rust")
        .arg("cargo")
        .args(arguments)
        .args(["--offline", "--locked"])
        .output()?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo {arguments:?}: {words}");
    Ok(String::from_utf8(output.stdout)?)
}

/// Returns strings of a JSON list: from each element, the string at a JSON pointer. With an empty pointer, the elements
/// themselves are the strings. Other values are left out.
fn strings<'a>(list: &'a Value, place: &str) -> Vec<&'a str> {
    let elements = list.as_array().into_iter().flatten();
    elements
        .filter_map(|one| one.pointer(place)?.as_str())
        .collect()
}

/// Returns the crates of which a package is built, one per line.
fn tree(package: &str) -> anyhow::Result<String> {
    let arguments = ["--edges", "normal", "--prefix", "none"];
    cargo(&[&["tree", "--package", package][..], &arguments].concat())
}

/// Returns the names of the crates of a tree.
fn names(tree: &str) -> impl Iterator<Item = &str> {
    tree.lines().filter_map(|line| line.split(' ').next())
}

/// Checks that the exporter links the crates that serve metrics, and that no firewall does.
fn no_daemon_serves_http() -> anyhow::Result<()> {
    let (exporter, firewall) = (tree("exporter")?, tree("rust-firewall")?);
    for served in ["hyper", "tokio"] {
        let is_there = |tree| names(tree).any(|name| name == served);
        ensure!(
            is_there(&exporter),
            "the exporter is built without {served}"
        );
        ensure!(!is_there(&firewall), "rust-firewall is built of {served}");
    }
    let libraries = Command::new("ldd").arg(Twin::C.binary()).output()?;
    let libraries = String::from_utf8_lossy(&libraries.stdout);
    ensure!(
        libraries.contains("libjansson") && !libraries.contains("microhttpd"),
        "c-firewall: {libraries}"
    );
    Ok(())
}

fn fwctl_has_none_of_the_daemon() -> anyhow::Result<()> {
    let workspace: Value =
        serde_json::from_str(&cargo(&["metadata", "--no-deps", "--format-version", "1"])?)?;
    let package = |name: &str| {
        let mut packages = workspace["packages"].as_array().into_iter().flatten();
        packages
            .find(|package| package["name"] == name)
            .with_context(|| format!("no package {name}"))
    };
    let (twin, fwctl) = (package("rust-firewall")?, package("fwctl")?);
    // The dependencies of fwctl and of the workspace's other crates that it uses.
    let mut own = strings(&fwctl["dependencies"], "/name");
    for crate_name in own.clone() {
        if let (true, Ok(used)) = (crate_name != "rust-firewall", package(crate_name)) {
            own.extend(strings(&used["dependencies"], "/name"));
        }
    }
    let daemon: BTreeSet<_> = strings(&twin["features"]["daemon"], "")
        .into_iter()
        .filter_map(|one| one.strip_prefix("dep:"))
        .filter(|name| !own.contains(name))
        .collect();
    for known in ["rtrb", "sd-notify"] {
        ensure!(daemon.contains(known), "{known} is not of the daemon");
    }
    let tree = tree("fwctl")?;
    let superfluous: BTreeSet<_> = names(&tree).filter(|name| daemon.contains(name)).collect();
    ensure!(
        superfluous.is_empty(),
        "fwctl depends on what only a daemon needs: {superfluous:?}"
    );
    Ok(())
}
