// SPDX-License-Identifier: GPL-2.0-or-later
//! The sitting: policies one after another, all subjects on each.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{bail, Context};
use twinwall_tests::judge::boundary::{packets, told};
use twinwall_tests::judge::field::Field;
use twinwall_tests::judge::generate::{policy, Profile};
use twinwall_tests::judge::random::Random;
use twinwall_tests::judge::tree::{Group, Hook, Policy};
use twinwall_tests::judge::{keep, shrink};
use twinwall_tests::twin::root;

use crate::cell::{Shot, Way, INTERFACES, OWNERS, WAYS};
use crate::compare::{differences, Difference, Tally};
use crate::deviations::{self, Deviation};
use crate::options::Options;
use crate::subject::{Subject, Who};

/// Longer, a disagreement is not made smaller.
const SHRINK: Duration = Duration::from_secs(90);

/// What came of a policy with packets.
enum Finding {
    Agreed,
    /// Somebody does not load it, and says why.
    Refused(Who, String),
    Differ(Vec<Difference>),
}

pub struct Bench {
    subjects: Vec<Subject>,
    deviations: Vec<Deviation>,
    tally: Tally,
    folder: PathBuf,
    disagreements: u64,
}

/// Packets for a policy's hooks: by every way that meets one of them.
fn shots(random: &mut Random, groups: &[Group], hooks: &[Hook], count: usize) -> Vec<Shot> {
    let mut shots = Vec::new();
    for way in WAYS.into_iter().filter(|way| hooks.iter().any(|hook| way.meets(*hook))) {
        for mut packet in packets(random, groups, count) {
            packet.number = shots.len() as u32 + 1;
            let owner = told(random, groups, Field::MetaSkuid, &INTERFACES) as u32;
            shots.push(Shot {
                number: packet.number,
                way,
                bytes: packet.bytes(),
                mark: match random.percent(60) {
                    true => 0,
                    false => told(random, groups, Field::MetaMark, &INTERFACES) as u32,
                },
                owner: if OWNERS.contains(&owner) { owner } else { *random.pick(&OWNERS) },
            });
        }
    }
    shots
}

/// What a run may have: connection tracking is not loaded in the cells, for it would put fragments together.
fn profile() -> Profile {
    Profile {
        ct_state: false,
        ct_mark: false,
        interfaces: &INTERFACES,
        ..Profile::full()
    }
}

/// Judges all that the options say; true if nothing disagrees.
pub fn sit(options: &Options) -> anyhow::Result<bool> {
    let folder = root().join("build/certify");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let mut bench = Bench {
        subjects: options.who.iter().map(|who| Subject::new(*who)).collect::<Result<_, _>>()?,
        deviations: deviations::read()?,
        tally: Tally::default(),
        folder,
        disagreements: 0,
    };
    let end = Instant::now() + Duration::from_secs(options.seconds);
    let mut part = 0;
    while Instant::now() < end {
        bench.random_policy(options, part)?;
        part += 1;
    }
    println!("{}", bench.tally.text());
    for deviation in &bench.deviations {
        println!("listed: {}, met by {} packets", deviation.name, deviation.met);
    }
    println!("seed {}: {} disagreements", options.seed, bench.disagreements);
    Ok(bench.disagreements == 0)
}

impl Bench {
    fn random_policy(&mut self, options: &Options, part: u64) -> anyhow::Result<()> {
        let mut random = Random::split(options.seed, part);
        let made = policy(&mut random, &profile());
        let shots = shots(&mut random, &made.groups(), &made.hooks(), options.packets);
        match self.judge(&made, &shots, true)? {
            Finding::Agreed => Ok(()),
            Finding::Refused(who, words) => {
                bail!("seed {} part {part}: {} refuses a policy: {words}", options.seed, who.name())
            }
            Finding::Differ(found) => {
                self.disagreements += 1;
                let name = format!("certify-{}-{part}", options.seed);
                println!("{name}: {}", found[0].text);
                self.shrink(&name, made, shots)
            }
        }
    }

    fn judge(&mut self, policy: &Policy, shots: &[Shot], counted: bool) -> anyhow::Result<Finding> {
        let path = self.folder.join("policy.nft");
        let text = policy.to_string();
        fs::write(&path, &text)?;
        self.judge_file(&path, &text, &policy.hooks(), shots, counted)
    }

    /// Runs all subjects. Packets that meet listed deviations are taken out, and the rest is run again, since
    /// counters and limits do not tell packets apart.
    fn judge_file(
        &mut self,
        path: &Path,
        text: &str,
        hooks: &[Hook],
        shots: &[Shot],
        counted: bool,
    ) -> anyhow::Result<Finding> {
        let mut shots = shots.to_vec();
        loop {
            let mut outcomes = Vec::new();
            for subject in &mut self.subjects {
                match subject.run(path, hooks, &shots)? {
                    Ok(outcome) => outcomes.push(outcome),
                    Err(refused) => return Ok(Finding::Refused(subject.who, refused.0)),
                }
            }
            let who: Vec<Who> = self.subjects.iter().map(|subject| subject.who).collect();
            let found = differences(&who, &outcomes, &shots);
            if found.is_empty() {
                if counted {
                    self.tally.add(&outcomes[0], &shots);
                }
                return Ok(Finding::Agreed);
            }
            let before = shots.len();
            let differ: Vec<u32> = found.iter().filter_map(|one| one.number).collect();
            shots.retain(|shot| {
                !differ.contains(&shot.number) || !deviations::is_listed(&mut self.deviations, text, shot)
            });
            if shots.len() == before {
                return Ok(Finding::Differ(found));
            }
        }
    }

    /// Makes a disagreement small and keeps it.
    fn shrink(&mut self, name: &str, made: Policy, shots: Vec<Shot>) -> anyhow::Result<()> {
        let end = Instant::now() + SHRINK;
        let mut differs = |policy: &Policy, shots: &[Shot]| {
            let in_time = Instant::now() < end;
            in_time && matches!(self.judge(policy, shots, false), Ok(Finding::Differ(_)))
        };
        let mut shots = shrink::list(&shots, |fewer| !fewer.is_empty() && differs(&made, fewer));
        let small = shrink::policy(&made, |smaller| differs(smaller, &shots));
        shots = shrink::list(&shots, |fewer| !fewer.is_empty() && differs(&small, fewer));
        let note = match self.judge(&small, &shots, false)? {
            Finding::Differ(found) => found[0].text.clone(),
            _ => "it did not happen again".to_string(),
        };
        println!("  shrunk to {} packets: {note}", shots.len());
        let asked: Vec<String> = shots.iter().map(Shot::text).collect();
        let packets: Vec<Vec<u8>> = shots.iter().map(|shot| shot.bytes.clone()).collect();
        let path = keep::write(name, "certify", &note, &asked, &small.to_string(), &packets)?;
        println!("  kept as {}", path.display());
        Ok(())
    }
}

impl Shot {
    /// All but the bytes, which stand in a pcap file.
    fn text(&self) -> String {
        format!("number {} way {} mark {} owner {}", self.number, self.way.text(), self.mark, self.owner)
    }

    fn parse(text: &str, bytes: &[u8]) -> Option<Shot> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let ["number", number, "way", way, "mark", mark, "owner", owner] = words[..] else {
            return None;
        };
        Some(Shot {
            number: number.parse().ok()?,
            way: WAYS.into_iter().find(|one: &Way| one.text() == way)?,
            bytes: bytes.to_vec(),
            mark: mark.parse().ok()?,
            owner: owner.parse().ok()?,
        })
    }
}
