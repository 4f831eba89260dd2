// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs `check --print` on policies and on texts that are almost policies.

use std::fs;

use testbed::twin::root;
use twinwall_judge::generate::{policy, Profile};
use twinwall_judge::mutate::mutated;
use twinwall_judge::random::Random;
use twinwall_judge::style::styled;
use twinwall_judge::{keep, shrink};

use crate::ask::{line, name, Asker, POLICY};
use crate::Tally;

/// Number of texts for each policy that is judged with packets.
pub const PER_PART: u64 = 6;
/// Expectation for a text: it must be accepted, or either result is allowed.
#[derive(Clone, Copy, PartialEq)]
enum Meant {
    Valid,
    Any,
}

const JUDGE: &str = "check";

/// Returns the texts to mutate: the shipped policies and those of the parser's corpus.
pub fn corpus() -> anyhow::Result<Vec<String>> {
    let mut texts = Vec::new();
    for folder in ["rules/policy", "tests/corpus/policy"] {
        let Ok(entries) = fs::read_dir(root().join(folder)) else {
            continue;
        };
        let mut paths: Vec<_> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect();
        paths.sort();
        for path in paths {
            let wanted = path
                .extension()
                .is_some_and(|end| end == "nft" || end == "ok");
            match fs::read_to_string(&path) {
                // Long texts are left out: every mutation of them would take long.
                Ok(text) if wanted && text.len() < 20_000 => texts.push(text),
                _ => {}
            }
        }
    }
    Ok(texts)
}

/// Checks that both twins print the same for a text, and that they accept the printed policy and print it identically
/// again. Returns true if they accept the text, false if they refuse it; Err contains the difference.
fn judge(asker: &Asker, text: &[u8], meant: Meant) -> anyhow::Result<Result<bool, String>> {
    asker.write(POLICY, text)?;
    let said = match asker.ask(&["check", "--print", POLICY])? {
        Ok(said) => said,
        Err(difference) => return Ok(Err(difference)),
    };
    match said.code {
        Some(0) => {}
        Some(2) if meant == Meant::Any => {
            let whole = said.stdout.is_empty()
                && said.stderr.iter().filter(|byte| **byte == b'\n').count() == 1;
            return Ok(match whole {
                true => Ok(false),
                false => Err("a refusal is more or less than one line on stderr".to_string()),
            });
        }
        Some(2) => {
            return Ok(Err(format!(
                "both refuse a policy: {}",
                line(&said.stderr, 0)
            )))
        }
        _ => {
            return Ok(Err(format!(
                "both end with {:?}: {}",
                said.code,
                line(&said.stderr, 0)
            )))
        }
    }
    asker.write(POLICY, &said.stdout)?;
    Ok(match asker.ask(&["check", "--print", POLICY])? {
        Err(difference) => Err(format!("of what they print: {difference}")),
        Ok(again) if again.code != Some(0) => Err(format!(
            "both refuse what they print: {}",
            line(&again.stderr, 0)
        )),
        Ok(again) if again.stdout != said.stdout => {
            Err("what they print is printed otherwise".to_string())
        }
        Ok(_) => Ok(true),
    })
}

/// Judges a random text: a valid policy, or a mutated policy, which is random or from the corpus.
pub fn part(
    asker: &Asker,
    corpus: &[String],
    seed: u64,
    part: u64,
    tally: &mut Tally,
) -> anyhow::Result<()> {
    let mut random = Random::split(seed ^ 0x7465_7874, part);
    let (text, meant) = match random.weighted(&[2, 3, 5]) {
        1 if !corpus.is_empty() => {
            let text = random.pick(corpus).clone();
            (mutated(&text, &mut random), Meant::Any)
        }
        0 | 1 => (
            styled(&policy(&mut random, &Profile::full()), &mut random).into_bytes(),
            Meant::Valid,
        ),
        _ => {
            let made = policy(&mut random, &Profile::full());
            let text = styled(&made, &mut random);
            (mutated(&text, &mut random), Meant::Any)
        }
    };
    tally.texts += 1;
    match judge(asker, &text, meant)? {
        Ok(taken) => tally.refused += u64::from(!taken),
        Err(difference) => {
            tally.disagreements += 1;
            let name = format!("check-{seed}-{part}");
            println!("{name}: {difference}");
            shrink_text(asker, &name, &text, meant)?;
        }
    }
    Ok(())
}

/// Shrinks a text on which the twins differ. A text that both refuse wrongly is saved unchanged: every part of it would
/// be refused as well.
fn shrink_text(asker: &Asker, name: &str, text: &[u8], meant: Meant) -> anyhow::Result<()> {
    let differs = |text: &[u8]| matches!(judge(asker, text, Meant::Any), Ok(Err(_)));
    let (mut small, mut word) = (text.to_vec(), "any");
    if differs(text) {
        let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
        small = shrink::list(&lines, |lines| differs(&lines.concat())).concat();
        small = shrink::list(&small, differs);
    } else {
        word = "valid";
    }
    let meant = if word == "valid" { meant } else { Meant::Any };
    let note = judge(asker, &small, meant)?.err().unwrap_or_default();
    println!("  shrunk to {} bytes: {note}", small.len());
    // Arbitrary bytes can't follow comments, which are text.
    let path = keep::folder().join(format!("{name}.text"));
    fs::create_dir_all(keep::folder())?;
    fs::write(&path, &small)?;
    fs::write(
        path.with_extension("note"),
        format!("{JUDGE} {word}: {note}\n"),
    )?;
    println!("  kept as {}", path.display());
    Ok(())
}

/// Judges the texts saved by earlier runs.
pub fn again(asker: &Asker, tally: &mut Tally) -> anyhow::Result<()> {
    let Ok(entries) = fs::read_dir(keep::folder()) else {
        return Ok(());
    };
    let mut paths: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    paths.sort();
    for path in paths
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "text"))
    {
        let note = fs::read_to_string(path.with_extension("note"))?;
        let meant = match note.starts_with(&format!("{JUDGE} valid")) {
            true => Meant::Valid,
            false => Meant::Any,
        };
        tally.texts += 1;
        if let Err(difference) = judge(asker, &fs::read(&path)?, meant)? {
            tally.disagreements += 1;
            println!("{}: {difference}", name(&path));
        }
    }
    Ok(())
}
