// SPDX-License-Identifier: GPL-2.0-or-later
//! The program nft, which judges and loads rule sets.

use std::path::Path;
use std::process::Output;

use crate::failure::{policy, system, Failure, Result};
use crate::program;
use crate::source::Table;

const PROGRAM: &str = "nft";
const PACKAGE: &str = "nftables";
/// Name of standard input in nft's messages.
const STDIN: &str = "/dev/stdin";
/// The table whose comment names the generation that the kernel holds.
const OWN_FAMILY: &str = "inet";
const OWN_NAME: &str = "twinwall";
const MARKER: &str = "generation ";

/// The table of our own.
pub fn own_table() -> Table {
    Table {
        family: OWN_FAMILY.to_owned(),
        name: OWN_NAME.to_owned(),
    }
}

/// The text that makes our own table with the number of its generation.
pub fn marker(number: u64) -> String {
    format!("table {OWN_FAMILY} {OWN_NAME} {{\n\tcomment \"{MARKER}{number}\"\n}}\n")
}

fn run(arguments: &[&str], input: &str) -> Result<Output> {
    program::run(PROGRAM, PACKAGE, arguments, input)
}

/// The first line that nft said of an error, with a file's name in place of its standard input's.
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

/// Asks nft and the kernel whether a text could be loaded. file: its name in messages.
pub fn check(text: &str, file: &str, cure: &str) -> Result<()> {
    let output = run(&["-c", "-f", "-"], text)?;
    match output.status.success() {
        true => Ok(()),
        false => Err(refused(&output, file, cure)),
    }
}

/// Asks the kernel in a network namespace of its own, without interfaces, whether a text could be loaded.
pub fn is_taken_elsewhere(text: &str) -> Result<bool> {
    let nft = program::path(PROGRAM, PACKAGE)?;
    let arguments = ["-n", &nft.to_string_lossy(), "-c", "-f", "-"];
    let output = program::run("unshare", "util-linux", &arguments, text)?;
    Ok(output.status.success())
}

/// Whether the kernel has nft's statement `queue`.
pub fn has_queue() -> Result<bool> {
    let probe = "table inet twinwall-probe {\n\tchain c {\n\t\tqueue num 0\n\t}\n}\n";
    Ok(run(&["-c", "-f", "-"], probe)?.status.success())
}

/// Loads a file in one transaction: all of it or nothing. Not standard input: a writer that is killed would leave a part.
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

/// The text of a table as the kernel holds it, with counters and elements. None if there is none.
pub fn list(table: &Table) -> Result<Option<String>> {
    listed(&["list", "table", &table.family, &table.name])
}

/// The same without the elements of sets.
pub fn outline(table: &Table) -> Result<Option<String>> {
    listed(&["-t", "list", "table", &table.family, &table.name])
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

/// Every table that the kernel holds, in the order in which they were made.
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

/// The number of the generation that the kernel holds. None if it holds none.
pub fn loaded() -> Result<Option<u64>> {
    let text = list(&own_table())?.unwrap_or_default();
    let mut lines = text.lines().filter_map(|line| {
        let comment = line.trim().strip_prefix("comment \"")?;
        comment
            .strip_prefix(MARKER)?
            .strip_suffix('"')?
            .parse()
            .ok()
    });
    Ok(lines.next())
}
