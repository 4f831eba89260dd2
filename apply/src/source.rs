// SPDX-License-Identifier: GPL-2.0-or-later
//! Text of a policy with its includes, and the tables that its commands name. Commands are parsed at the outermost
//! level only; nft parses the content of braces.

use std::fmt;
use std::fs;
use std::iter::Peekable;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::failure::{at, policy, Result};
use crate::nft;

const FAMILIES: [&str; 6] = ["ip", "ip6", "inet", "arp", "bridge", "netdev"];
/// Kinds of objects that a command may name after its verb (`add`, `delete`, …). The family, which may be missing, and
/// the name of the object's table follow.
const IN_A_TABLE: [&str; 17] = [
    "table",
    "chain",
    "rule",
    "set",
    "map",
    "element",
    "flowtable",
    "counter",
    "counters",
    "quota",
    "quotas",
    "limit",
    "limits",
    "ct",
    "synproxy",
    "secmark",
    "vmap",
];

/// Table of nf_tables, by its family and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Table {
    pub family: String,
    pub name: String,
}

impl fmt::Display for Table {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        write!(to, "{} {}", self.family, self.name)
    }
}

/// Policy, read from its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Absolute path of the policy's file.
    pub file: PathBuf,
    /// Text of the policy, with its included files inserted.
    pub text: stage::Source,
    /// Tables that the text names, sorted, without duplicates.
    pub tables: Vec<Table>,
}

impl Source {
    /// Returns the SHA-256 of the policy's text, in hexadecimal.
    pub fn digest(&self) -> String {
        digest(self.text.text.as_bytes())
    }
}

/// Returns the SHA-256 of bytes in hexadecimal.
pub fn digest(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// nft command at the outermost level of a text: its words outside of braces, and its byte offset in the text.
#[derive(Debug, Default)]
pub struct Command {
    pub at: usize,
    pub words: Vec<String>,
    /// Byte range of the text inside the command's first pair of braces; None if the command has no braces.
    pub inner: Option<Range<usize>>,
}

/// Splits a text into the commands at its outermost level. Their words exclude comments and the content of braces.
pub fn commands(text: &str) -> Vec<Command> {
    let (mut found, mut command, mut word) = (Vec::new(), Command::default(), String::new());
    let mut depth = 0_usize;
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        let is_end = depth == 0 && matches!(letter, '\n' | ';');
        let ends_word = depth > 0 || letter.is_whitespace() || matches!(letter, '{' | '#' | ';');
        if ends_word && !word.is_empty() {
            command.words.push(std::mem::take(&mut word));
        }
        if is_end && !command.words.is_empty() {
            found.push(std::mem::take(&mut command));
        }
        match letter {
            '{' => {
                depth += 1;
                command.inner.get_or_insert(at + 1..text.len());
            }
            '}' => {
                depth = depth.saturating_sub(1);
                let open = command
                    .inner
                    .as_mut()
                    .filter(|inner| inner.end == text.len());
                if let Some(inner) = open.filter(|_| depth == 0) {
                    inner.end = at;
                }
            }
            '#' => while letters.next_if(|(_, next)| *next != '\n').is_some() {},
            '\\' if letters.next_if(|(_, next)| *next == '\n').is_some() => {}
            '"' => {
                let mut quoted = String::from('"');
                for (_, inner) in letters.by_ref() {
                    quoted.push(inner);
                    if inner == '"' {
                        break;
                    }
                }
                if depth == 0 {
                    word.push_str(&quoted);
                }
            }
            _ if depth == 0 && !letter.is_whitespace() && letter != ';' => {
                if command.words.is_empty() && word.is_empty() {
                    command.at = at;
                }
                word.push(letter);
            }
            _ => {}
        }
    }
    command.words.extend((!word.is_empty()).then_some(word));
    found.extend((!command.words.is_empty()).then_some(command));
    found
}

/// Parses the table at the start of words, and consumes it: a family (ip by default), and a name. Returns None if there
/// is no name.
pub fn named_table<'a>(words: &mut Peekable<impl Iterator<Item = &'a str>>) -> Option<Table> {
    let family = words.next_if(|word| FAMILIES.contains(word));
    Some(Table {
        family: family.unwrap_or("ip").to_owned(),
        name: words.next()?.to_owned(),
    })
}

/// Returns the table of a command; None for a definition (`define` etc.). Fails for other verbs (`list`), for unknown
/// objects, and for a command without a table, such as `flush ruleset`.
fn table_of(text: &stage::Source, command: &Command) -> Result<Option<Table>> {
    let mut words = command.words.iter().map(String::as_str).peekable();
    let refuse = |cause: &str, cure: &str| {
        policy(format_args!("{}: {cause}: {cure}", text.place(command.at)))
    };
    match words.peek() {
        Some(&"define" | &"redefine" | &"undefine") => return Ok(None),
        Some(&"add" | &"create" | &"insert" | &"delete" | &"destroy" | &"flush" | &"replace") => {
            words.next();
        }
        Some(&"table") => {}
        other => {
            let cause = format!(
                "\"{}\" is no command that builds a table",
                other.unwrap_or(&"")
            );
            return Err(refuse(
                &cause,
                "write tables, as nft list ruleset prints them",
            ));
        }
    }
    let object = words.next().unwrap_or_default();
    if object == "ruleset" {
        return Err(refuse(
            "flush ruleset removes the tables of other programs too",
            "remove the line, since fwctl apply replaces the policy's own tables",
        ));
    }
    if !IN_A_TABLE.contains(&object) {
        let cause = format!("\"{object}\" is no object of a table");
        return Err(refuse(
            &cause,
            "write tables, as nft list ruleset prints them",
        ));
    }
    if object == "ct" {
        words.next();
    }
    let table = named_table(&mut words);
    table.map(Some).ok_or_else(|| {
        refuse(
            "the command names no table",
            "name the family and the table",
        )
    })
}

/// Finds the tables that the commands of a policy's text name. Fails if `table_of` refuses a command, or if the text
/// names no table.
/// - file: absolute path of the policy.
pub fn parse(file: PathBuf, text: stage::Source) -> Result<Source> {
    let mut tables = Vec::new();
    for command in commands(&text.text) {
        tables.extend(table_of(&text, &command)?);
    }
    tables.sort();
    tables.dedup();
    if tables.is_empty() {
        let shown = file.display();
        return Err(policy(format_args!(
            "{shown}: it names no table: write at least one"
        )));
    }
    Ok(Source { file, text, tables })
}

/// Fails if a policy names the table that identifies the generation in the kernel: the kernel would keep the comment of
/// the policy's table, so that the generation could be neither confirmed nor reverted.
pub fn refuse_own(source: &Source) -> Result<()> {
    let (own, text) = (nft::own_table(), &source.text);
    if !source.tables.contains(&own) {
        return Ok(());
    }
    for command in commands(&text.text) {
        if table_of(text, &command)?.is_some_and(|table| table == own) {
            return Err(policy(format_args!(
                "{}: fwctl apply itself makes table {own}, which identifies the generation: remove the command",
                text.place(command.at)
            )));
        }
    }
    Ok(())
}

/// Reads a policy with its included files.
pub fn read(path: &Path) -> Result<Source> {
    read_checked(path, &|_| Ok(()))
}

/// Reads a policy like [`read`]. Calls `check` with the path of each file, and of each folder that an `include`
/// searches, before reading it. Fails if `check` fails, or if the policy is refused by [`refuse_own`].
pub fn read_checked(path: &Path, check: stage::Check) -> Result<Source> {
    let file = fs::canonicalize(path).map_err(at(path))?;
    let text = stage::checked_file(&file.to_string_lossy(), check);
    let text =
        text.map_err(|error| policy(format_args!("{error}: name a policy that can be read")))?;
    let source = parse(file, text)?;
    refuse_own(&source)?;
    Ok(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(text: &str) -> std::result::Result<Vec<String>, String> {
        let source = parse(PathBuf::from("p.nft"), stage::text("p.nft", text).unwrap());
        let names = |source: Source| source.tables.iter().map(Table::to_string).collect();
        source.map(names).map_err(|failure| failure.text)
    }

    #[test]
    fn tables_are_found_at_the_outermost_level() {
        for (text, expected) in [
            (
                "table inet filter {\n chain a { comment \"table ip x {\" }\n}",
                vec!["inet filter"],
            ),
            ("table nat{\n}", vec!["ip nat"]),
            (
                "add table ip6 a; delete table ip6 a\ntable ip6 a { } # table ip b",
                vec!["ip6 a"],
            ),
            (
                "define x = { 1, 2 }\nadd rule inet f c accept\ntable netdev d {\n}",
                vec!["inet f", "netdev d"],
            ),
            ("add \\\n table bridge b", vec!["bridge b"]),
            (
                "add ct helper inet h x { type \"ftp\" protocol tcp; }",
                vec!["inet h"],
            ),
        ] {
            assert_eq!(tables(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn other_commands_are_refused_with_their_line() {
        for (text, place) in [
            ("table ip a {\n}\n\nflush ruleset", "p.nft:4: flush ruleset"),
            ("list ruleset", "p.nft:1: \"list\""),
            ("# a\nadd monster ip a", "p.nft:2: \"monster\""),
            ("add table", "p.nft:1: the command names no table"),
            ("# nothing", "p.nft: it names no table"),
        ] {
            let text = tables(text).unwrap_err();
            assert!(text.starts_with(place), "{text}");
        }
    }

    #[test]
    fn the_table_of_the_generation_is_refused_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.nft");
        for (text, line) in [
            ("table ip a {\n}\ntable inet twinwall {\n}\n", 3),
            ("\ndelete table inet twinwall\n", 2),
        ] {
            fs::write(&path, text).unwrap();
            let said = read(&path).unwrap_err().text;
            let words = format!("p.nft:{line}: fwctl apply itself makes table inet twinwall");
            assert!(said.contains(&words), "{said}");
        }
        fs::write(&path, "table ip twinwall {\n}\n").unwrap();
        assert!(read(&path).is_ok());
    }

    #[test]
    fn includes_stand_in_their_places() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("p.nft"), "include \"parts/*.nft\"\ninclude \"b\"\n").unwrap();
        fs::create_dir(path("parts")).unwrap();
        fs::write(path("parts/2.nft"), "table ip two { }").unwrap();
        fs::write(path("parts/1.nft"), "table ip one { }").unwrap();
        fs::write(path("b"), "table ip b { }\n").unwrap();
        let source = read(&path("p.nft")).unwrap();
        assert_eq!(
            source.text.text,
            "table ip one { }\ntable ip two { }\ntable ip b { }\n"
        );
        fs::write(path("b"), "include \"b\"\n").unwrap();
        assert!(read(&path("p.nft")).unwrap_err().text.contains("nested"));
        fs::remove_file(path("b")).unwrap();
        assert!(read(&path("p.nft"))
            .unwrap_err()
            .text
            .contains("No such file"));
    }
}
