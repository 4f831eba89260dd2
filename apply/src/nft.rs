// SPDX-License-Identifier: GPL-2.0-or-later
//! The program nft, which checks and loads rule sets.

use std::path::Path;
use std::process::Output;

use crate::failure::{policy, system, Failure, Result};
use crate::program;
use crate::source::Table;

const PROGRAM: &str = "nft";
const PACKAGE: &str = "nftables";
/// Name of standard input in nft's messages.
const STDIN: &str = "/dev/stdin";
/// Family and name of the table that identifies the generation in the kernel, and the beginning of its comment, which
/// the generation's number follows.
const OWN_FAMILY: &str = "inet";
const OWN_NAME: &str = "twinwall";
const MARKER: &str = "generation ";

/// Returns the table that identifies the generation in the kernel.
pub fn own_table() -> Table {
    Table {
        family: OWN_FAMILY.to_owned(),
        name: OWN_NAME.to_owned(),
    }
}

/// Returns the nft text that creates the table that identifies a generation.
pub fn marker(number: u64) -> String {
    format!("table {OWN_FAMILY} {OWN_NAME} {{\n\tcomment \"{MARKER}{number}\"\n}}\n")
}

fn run(arguments: &[&str], input: &str) -> Result<Output> {
    program::run(PROGRAM, PACKAGE, arguments, input)
}

/// Returns nft's first error line, with a file's name instead of standard input's.
fn cause(output: &Output, file: &str) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said
        .lines()
        .find(|line| line.contains("Error"))
        .or(said.lines().next());
    line.unwrap_or("nft failed without a message")
        .replace(STDIN, file)
}

fn refused(output: &Output, file: &str, cure: &str) -> Failure {
    policy(format_args!("{}: {cure}", cause(output, file)))
}

/// Checks with nft and the kernel that a text can be loaded.
/// - file: name of the text in messages.
/// - cure: advice at the end of the error message.
pub fn check(text: &str, file: &str, cure: &str) -> Result<()> {
    let output = run(&["-c", "-f", "-"], text)?;
    match output.status.success() {
        true => Ok(()),
        false => Err(refused(&output, file, cure)),
    }
}

/// Returns true if the kernel accepts a text in a new network namespace, without this host's interfaces.
pub fn is_taken_elsewhere(text: &str) -> Result<bool> {
    let nft = program::path(PROGRAM, PACKAGE)?;
    let arguments = ["-n", &nft.to_string_lossy(), "-c", "-f", "-"];
    let output = program::run("unshare", "util-linux", &arguments, text)?;
    Ok(output.status.success())
}

/// Returns true if the kernel supports nft's statement `queue`.
pub fn has_queue() -> Result<bool> {
    let probe = "table inet twinwall-probe {\n\tchain c {\n\t\tqueue num 0\n\t}\n}\n";
    Ok(run(&["-c", "-f", "-"], probe)?.status.success())
}

/// Loads a file in one transaction. Not through standard input: nft would load a part if the writer were killed.
pub fn load(path: &Path) -> Result<()> {
    let shown = path.display().to_string();
    let output = run(&["-f", &shown], "")?;
    match output.status.success() {
        true => Ok(()),
        false => Err(system(format_args!(
            "{}: the rule set was not changed: run fwctl apply again",
            cause(&output, &shown)
        ))),
    }
}

/// Returns the text of a table in the kernel, with counters and elements. None if it does not exist.
pub fn list(table: &Table) -> Result<Option<String>> {
    listed(&["list", "table", &table.family, &table.name])
}

/// Returns the text of a table in the kernel, without the elements of sets. None if it does not exist.
pub fn outline(table: &Table) -> Result<Option<String>> {
    listed(&["-t", "list", "table", &table.family, &table.name])
}

/// Returns the text of all tables in the kernel, with the handles of rules, without the elements of sets.
pub fn outlines() -> Result<String> {
    let text = listed(&["--handle", "-t", "list", "ruleset"])?;
    Ok(text.unwrap_or_default())
}

/// Returns the text of a set in the kernel, with its elements. None if it does not exist.
pub fn set(table: &Table, name: &str) -> Result<Option<String>> {
    listed(&["list", "set", &table.family, &table.name, name])
}

fn listed(arguments: &[&str]) -> Result<Option<String>> {
    let output = run(arguments, "")?;
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(Some(String::from_utf8_lossy(&output.stdout).into_owned())),
        false if said.contains("No such file or directory") => Ok(None),
        false => Err(system(format_args!(
            "{}: run as root",
            cause(&output, "nft")
        ))),
    }
}

/// Returns all tables in the kernel, in the order of their creation.
pub fn tables() -> Result<Vec<Table>> {
    let output = run(&["list", "tables"], "")?;
    if !output.status.success() {
        return Err(system(format_args!(
            "{}: run as root",
            cause(&output, "nft")
        )));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let table_of = |line: &str| {
        let (family, name) = line.strip_prefix("table ")?.split_once(' ')?;
        let (family, name) = (family.to_owned(), name.to_owned());
        Some(Table { family, name })
    };
    Ok(text.lines().filter_map(table_of).collect())
}

/// Returns the number of a generation in nft's list of the table that identifies it. None if the table identifies no
/// generation.
pub fn generation(listed: &str) -> Option<u64> {
    listed.lines().find_map(|line| {
        let comment = line.trim().strip_prefix("comment \"")?;
        comment
            .strip_prefix(MARKER)?
            .strip_suffix('"')?
            .parse()
            .ok()
    })
}

/// Returns the number of the generation in the kernel. None if the kernel holds no generation.
pub fn loaded() -> Result<Option<u64>> {
    let listed = list(&own_table())?;
    Ok(listed.and_then(|listed| generation(&listed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_identifies_a_generation_by_its_comment() {
        assert_eq!(generation(&marker(12)), Some(12));
        let other = marker(12).replace(MARKER, "version ");
        assert_eq!(generation(&other), None);
        assert_eq!(generation("table inet twinwall {\n}\n"), None);
    }
}
