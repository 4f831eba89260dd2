// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests generated policies: the limits of the language, texts that are not policies, and every refused word.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::ensure;
use serde::Deserialize;
use testbed::folder::Folder;
use testbed::twin::{root, TWINS};
use twinwall_tests::case::Case;

use super::{both_refuse, both_say, check};

const MIB: usize = 1 << 20;
const ELEMENTS_MAX: usize = 2 << 20;
const RULES_MAX: usize = 1 << 20;
const POLICY: &str = "policy.nft";

type Body = fn() -> anyhow::Result<()>;

pub fn cases() -> Vec<Case> {
    let cases: [(&str, Body); 16] = [
        ("limits/100-mib", hundred_mib),
        ("limits/32-mib-with-includes", includes_add_up),
        ("limits/no-end", without_end),
        ("limits/files-in-one-another", files_in_one_another),
        ("limits/files-in-a-ring", files_in_a_ring),
        ("limits/names-in-one-another", names_in_one_another),
        ("limits/names-that-double", names_that_double),
        ("limits/comments-again-and-again", comments_again),
        ("limits/braces-in-one-another", braces),
        ("limits/elements", elements),
        ("limits/rules", rules),
        ("limits/10000-chains", ten_thousand_chains),
        ("limits/ways-that-double", ways_that_double),
        ("limits/100000-prefixes", prefixes),
        ("files/no-file", no_file),
        ("files/cut-anywhere", cut_anywhere),
    ];
    cases
        .into_iter()
        .map(|(name, body)| Case::new(name, body))
        .collect()
}

/// Returns a folder with a policy in it.
fn with(text: impl AsRef<[u8]>) -> anyhow::Result<Folder> {
    let folder = Folder::new()?;
    folder.write(POLICY, text)?;
    Ok(folder)
}

fn refused(folder: &Folder, expected: &str) -> anyhow::Result<()> {
    both_refuse(folder.path(), POLICY, expected)
}

fn hundred_mib() -> anyhow::Result<()> {
    let folder = with(vec![b'#'; 100 * MIB])?;
    refused(
        &folder,
        "policy.nft: the policy is larger than 32 MiB with its includes",
    )?;
    folder.write(POLICY, vec![b'#'; 32 * MIB])?;
    both_say(folder.path(), &[POLICY], "ok\n")
}

fn includes_add_up() -> anyhow::Result<()> {
    let folder = with("include \"half.nft\"\ninclude \"half.nft\"\n")?;
    folder.write("half.nft", vec![b'#'; 16 * MIB])?;
    refused(
        &folder,
        "policy.nft:2:9: \"half.nft\": the policy is larger than 32 MiB with its includes",
    )
}

fn without_end() -> anyhow::Result<()> {
    let root = Path::new("/");
    both_refuse(
        root,
        "/dev/zero",
        "/dev/zero: the policy is larger than 32 MiB with its includes",
    )?;
    both_say(root, &["/dev/null"], "ok\n")
}

fn files_in_one_another() -> anyhow::Result<()> {
    let folder = with("include \"2.nft\"\n")?;
    for file in 2..=16 {
        let text = format!("include \"{}.nft\"\n", file + 1);
        folder.write(&format!("{file}.nft"), text)?;
    }
    folder.write("17.nft", "table ip t\n")?;
    refused(
        &folder,
        "16.nft:1:9: \"17.nft\": more than 16 files in one another",
    )?;
    folder.write("16.nft", "table ip t\n")?;
    both_say(folder.path(), &[POLICY], "ok\n")
}

/// Tests files that include each other. They end without a line end, so that nothing separates the end of one file from
/// the start of the next.
fn files_in_a_ring() -> anyhow::Result<()> {
    let folder = with("include \"a.nft\"")?;
    folder.write("a.nft", "include \"b.nft\"")?;
    folder.write("b.nft", "include \"a.nft\"")?;
    refused(&folder, "b.nft:1:9: \"a.nft\": this file includes itself")?;
    folder.write("b.nft", "include \"./policy.nft\"")?;
    refused(
        &folder,
        "b.nft:1:9: \"./policy.nft\": this file includes itself",
    )
}

/// Returns a policy with `count` defines, each with the value of the previous one, and a rule with the last one.
fn defines(count: usize) -> String {
    let mut text = "define d1 = 22\n".to_owned();
    for index in 2..=count {
        let _ = writeln!(text, "define d{index} = $d{}", index - 1);
    }
    text + &in_chain(&format!("tcp dport $d{count}"))
}

fn in_chain(rules: &str) -> String {
    format!("table ip t {{\nchain c {{\n{rules}\n}}\n}}\n")
}

fn names_in_one_another() -> anyhow::Result<()> {
    let folder = with(defines(65))?;
    refused(
        &folder,
        "policy.nft:2:13: \"$d1\": more than 64 $NAME in one another",
    )?;
    folder.write(POLICY, defines(64))?;
    both_say(folder.path(), &[POLICY], "ok\n")
}

fn names_that_double() -> anyhow::Result<()> {
    let mut text = "define d0 = 10.0.0.1, 10.0.0.2\n".to_owned();
    for index in 1..=60 {
        let _ = writeln!(text, "define d{index} = $d{0}, $d{0}", index - 1);
    }
    let folder = with(text + &in_chain("ip saddr { $d60 }"))?;
    for twin in TWINS {
        let said = check(twin, folder.path(), &[POLICY])?;
        ensure!(
            said.stderr.contains("more than "),
            "{}: {said:?}",
            twin.program()
        );
    }
    Ok(())
}

/// Tests that a long comment in a repeated $NAME counts as tokens, because reading it repeatedly takes long.
fn comments_again() -> anyhow::Result<()> {
    let comment = "-".repeat(10 * MIB);
    let list = "$a,\n".repeat(MIB);
    let text = format!("define a = {{ # {comment}\n22 }}\n");
    let folder = with(text + &in_chain(&format!("tcp dport {{ {list} 23 }}")))?;
    refused(
        &folder,
        "policy.nft:2:1: \"22\": more than 16777216 tokens when $NAME is replaced",
    )
}

fn braces() -> anyhow::Result<()> {
    let nested = |depth: usize| {
        let mut text = "define d1 = { 22 }\n".to_owned();
        for index in 2..=depth {
            let _ = writeln!(text, "define d{index} = {{ $d{} }}", index - 1);
        }
        text + &in_chain(&format!("tcp dport $d{depth}"))
    };
    let folder = with(nested(17))?;
    refused(
        &folder,
        "policy.nft:1:13: \"{\": more than 16 braces in one another",
    )?;
    folder.write(POLICY, nested(16))?;
    both_say(folder.path(), &[POLICY], "ok\n")
}

fn elements() -> anyhow::Result<()> {
    let text = |count: usize| {
        let list: String = (0..count).fold(String::new(), |mut list, number| {
            let _ = writeln!(list, "{number},");
            list
        });
        in_chain(&format!("meta mark {{\n{list} }}"))
    };
    let folder = with(text(ELEMENTS_MAX + 1))?;
    refused(
        &folder,
        &format!(
            "policy.nft:{}:1: \"{ELEMENTS_MAX}\": more than {ELEMENTS_MAX} elements in all sets",
            ELEMENTS_MAX + 4
        ),
    )?;
    folder.write(POLICY, text(ELEMENTS_MAX))?;
    both_say(folder.path(), &[POLICY], "ok\n")
}

fn rules() -> anyhow::Result<()> {
    let folder = with(in_chain(&"accept\n".repeat(RULES_MAX + 1)))?;
    refused(
        &folder,
        &format!(
            "policy.nft:{}:1: \"accept\": more than {RULES_MAX} rules",
            RULES_MAX + 3
        ),
    )?;
    folder.write(POLICY, in_chain(&"accept\n".repeat(RULES_MAX)))?;
    both_say(folder.path(), &[POLICY], "ok\n")
}

fn ten_thousand_chains() -> anyhow::Result<()> {
    let mut text = "table ip t {\n".to_owned();
    for index in 1..10_000 {
        let _ = writeln!(text, "chain c{index} {{\njump c{}\n}}", index + 1);
    }
    text += "chain c10000 {\n}\nchain input {\ntype filter hook input priority 0;\njump c1\n}\n}\n";
    let folder = with(&text)?;
    for twin in TWINS {
        let said = check(twin, folder.path(), &[POLICY])?;
        ensure!(
            said.code == Some(2) && said.stderr.ends_with("a way of more than 16 chains\n"),
            "{}: {said:?}",
            twin.program()
        );
    }
    let said = TWINS.map(|twin| check(twin, folder.path(), &[POLICY]).ok());
    ensure!(said[0] == said[1], "{said:?}");
    // A cycle of the same length.
    text = text.replace("chain c10000 {\n", "chain c10000 {\njump c1\n");
    folder.write(POLICY, text)?;
    let said = TWINS.map(|twin| check(twin, folder.path(), &[POLICY]).ok());
    ensure!(said[0] == said[1], "{said:?}");
    let [Some(said), _] = said else {
        anyhow::bail!("nothing was said");
    };
    ensure!(said.code == Some(2), "{said:?}");
    Ok(())
}

/// Tests fifteen chains, each with a hundred jumps to the next: there are 100^15 paths, but each chain is checked once.
fn ways_that_double() -> anyhow::Result<()> {
    let mut text = "table ip t {\n".to_owned();
    for index in 1..16 {
        let jumps = format!("jump c{}\n", index + 1).repeat(100);
        let head = "type filter hook input priority 0;\n";
        let head = if index == 1 { head } else { "" };
        let _ = writeln!(text, "chain c{index} {{\n{head}{jumps}}}");
    }
    let folder = with(text + "chain c16 {\n}\n}\n")?;
    both_say(folder.path(), &[POLICY], "ok\n")
}

fn prefixes() -> anyhow::Result<()> {
    let list = (0..100_000_u32).fold(String::new(), |mut list, number| {
        let [_, high, middle, low] = number.to_be_bytes();
        let _ = writeln!(list, "{}.{middle}.{low}.0/24,", 10 + high);
        list
    });
    let set = "set s {\ntype ipv4_addr\nflags interval\nelements = $prefixes\n}\n";
    let folder = with(format!("include \"list.nft\"\ntable ip t {{\n{set}}}\n"))?;
    folder.write("list.nft", format!("define prefixes = {{\n{list}}}\n"))?;
    both_say(folder.path(), &[POLICY], "ok\n")
}

fn no_file() -> anyhow::Result<()> {
    let folder = Folder::new()?;
    let said = "cannot read the policy";
    both_refuse(
        folder.path(),
        "none.nft",
        &format!("none.nft: {said}: No such file or directory"),
    )?;
    both_refuse(folder.path(), ".", &format!(".: {said}: Is a directory"))?;
    folder.write("a", "")?;
    both_refuse(
        folder.path(),
        "a/b",
        &format!("a/b: {said}: Not a directory"),
    )?;
    let long = "x".repeat(256);
    both_refuse(
        folder.path(),
        &long,
        &format!("{long}: {said}: File name too long"),
    )
}

/// Tests that both twins report the same for a policy truncated at every seventh byte.
fn cut_anywhere() -> anyhow::Result<()> {
    let whole = fs::read(super::folder().join("example.nft"))?;
    for end in (0..whole.len()).step_by(7) {
        let folder = with(&whole[..end])?;
        let said = TWINS.map(|twin| check(twin, folder.path(), &["--print", POLICY]).ok());
        ensure!(said[0].is_some() && said[0] == said[1], "{end}: {said:?}");
    }
    Ok(())
}

/// Returns a policy with a refused word.
/// - place: position of the word in the policy, as `at` in spec/refused.toml.
fn with_word(place: &str, word: &str) -> String {
    let in_chain = |text: &str| format!("table ip t {{\nchain c {{\n{text}\n}}\n}}\n");
    let in_set = |text: &str| format!("table ip t {{\nset s {{\n{text}\n}}\n}}\n");
    match place {
        "file" => format!("{word} table ip t\n"),
        "flush" => format!("flush {word} ip t\n"),
        "add" => format!("add table ip t\nadd {word} ip t name\n"),
        "family" => format!("table {word} t\n"),
        "table" => format!("table ip t {{\n{word} name {{\n}}\n}}\n"),
        "statement" => in_chain(word),
        "chain_type" => in_chain(&format!("type {word} hook input priority 0;")),
        "hook" => in_chain(&format!("type filter hook {word} priority 0;")),
        "set" => in_set(&format!("type mark\n{word}")),
        "set_flag" => in_set(&format!("type mark\nflags {word}")),
        "set_type" => in_set(&format!("type {word}")),
        "element" if word == "*" => in_set("type mark\nelements = { * }"),
        "element" => in_set(&format!("type mark\nelements = {{ 1 {word} 1 }}")),
        "masked" => in_chain(&format!("meta mark & 1 {word} 1")),
        "target" => in_chain(&format!("jump {word}")),
        "named" => in_chain(&format!("counter {word} \"a\"")),
        "log" => in_chain(&format!("log {word} 1")),
        "assigned" => in_chain(&format!("ct mark {word} 1")),
        group => in_chain(&format!("{} {word} 1", group.replace('_', " "))),
    }
}

pub fn words() -> anyhow::Result<()> {
    #[derive(Deserialize)]
    struct Table {
        refused: Vec<Entry>,
    }
    #[derive(Deserialize)]
    struct Entry {
        at: String,
        words: String,
    }
    let text = fs::read_to_string(root().join("spec/refused.toml"))?;
    let table: Table = toml::from_str(&text)?;
    for entry in &table.refused {
        for word in entry.words.split(' ') {
            let folder = with(with_word(&entry.at, word))?;
            let hint = format!("\"{word}\" is not supported here: ");
            for twin in TWINS {
                let said = check(twin, folder.path(), &[POLICY])?;
                ensure!(
                    said.code == Some(2) && said.stderr.contains(&hint),
                    "{}: {} {word}: {said:?}",
                    twin.program(),
                    entry.at
                );
            }
        }
    }
    Ok(())
}
