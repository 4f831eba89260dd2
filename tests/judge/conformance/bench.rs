// SPDX-License-Identifier: GPL-2.0-or-later
//! The session: runs policies one after another, each with all subjects.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use testbed::cpu::bind_thread;
use testbed::twin::root;
use twinwall_judge::boundary::{packets, told};
use twinwall_judge::field::Field;
use twinwall_judge::generate::{policy, Profile};
use twinwall_judge::packet::Packet;
use twinwall_judge::random::Random;
use twinwall_judge::scan::{self, Scanned};
use twinwall_judge::style::styled;
use twinwall_judge::tree::{Hook, Policy, HOOKS};
use twinwall_judge::{keep, shrink};

use crate::cell::{Shot, Way, INTERFACES, WAYS};
use crate::compare::{differences, Difference, Tally};
use crate::deviations::{self, Deviation};
use crate::excuse::{excused, Again};
use crate::options::Options;
use crate::subject::{Subject, Told, Who, STATE_BITS};

const JUDGE: &str = "certify";
/// One in this number of random policies tests the connection state. It needs new cells, which remember no connections.
const TRACKED_EVERY: u64 = 16;
/// Beginning of the comment in a policy that explains why nft rejects the policy.
pub const NFT_NOTE: &str = "\n# nft: ";
/// Value of --copy-bytes that copies every packet whole.
const COPY_ALL: u32 = 65535;
/// Time limit for shrinking a disagreement.
pub const SHRINK: Duration = Duration::from_secs(90);

/// Number of disagreements after which the search ends: each takes time to shrink.
const DISAGREEMENTS_MAX: u64 = 10;

/// Result of running a policy with packets on all subjects.
enum Finding {
    Agreed,
    /// A subject rejects the policy. The text is its reason.
    Refused(Who, String),
    Differ(Vec<Difference>),
}

pub struct Bench {
    subjects: Vec<Subject>,
    deviations: Vec<Deviation>,
    tally: Tally,
    folder: PathBuf,
    told: Told,
    disagreements: u64,
}

/// Returns a policy with single blanks between words and joined continuation lines, for searching words.
fn with_single_blanks(text: &str) -> String {
    let joined = text.replace("\\\n", " ");
    let lines: Vec<String> = joined
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    lines.join("\n")
}

/// Returns true if a policy tests the connection state, outside comments.
pub fn is_tracked(text: &str) -> bool {
    let mut code = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default());
    code.any(|line| line.contains("ct state"))
}

/// Makes packets for a policy's hooks, on every way (path through the cell) that leads through one of the hooks. If the
/// policy tests the connection state, adds replies to some of the packets.
/// - count: number of packets for each way, without replies.
fn shots(random: &mut Random, scanned: &Scanned, count: usize) -> Vec<Shot> {
    let (groups, hooks) = (&scanned.groups, &scanned.hooks);
    let tracked = is_tracked(&scanned.text);
    let mut shots = Vec::new();
    for way in WAYS
        .into_iter()
        .filter(|way| hooks.iter().any(|hook| way.meets(*hook)))
    {
        for mut packet in packets(random, groups, count) {
            let owner = told(random, groups, Field::MetaSkuid, &INTERFACES) as u32;
            let mark = match random.percent(60) {
                true => 0,
                false => told(random, groups, Field::MetaMark, &INTERFACES) as u32,
            };
            let mut shoot = |packet: &mut Packet| {
                packet.number = shots.len() as u32 + 1;
                shots.push(Shot {
                    number: packet.number,
                    way,
                    bytes: packet.bytes(),
                    mark: if tracked { mark & !STATE_BITS } else { mark },
                    // -1 is no owner.
                    owner: if owner == u32::MAX { 0 } else { owner },
                });
            };
            shoot(&mut packet);
            if tracked && random.percent(50) {
                packet.turn_round();
                shoot(&mut packet);
            }
        }
    }
    shots
}

/// Returns the features that the policies of a run may use.
/// - tracked: the policies may test the connection state, and have only hooks where it is known.
fn profile(tracked: bool) -> Profile {
    Profile {
        hooks: match tracked {
            true => vec![Hook::Input, Hook::Forward],
            false => HOOKS.to_vec(),
        },
        ct_state: tracked,
        ct_mark: false,
        // A reject response is part of its connection, so its state would be a further difference.
        reject: !tracked,
        interfaces: &INTERFACES,
        ..Profile::full()
    }
}

/// Judges all policies that the options select. Returns true if there is no disagreement.
pub fn sit(options: &Options) -> anyhow::Result<bool> {
    // A marker frame cannot overtake a packet of the same CPU.
    bind_thread(0)?;
    let folder = root().join("build/certify");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let mut bench = Bench {
        subjects: subjects(&options.who, false)?,
        deviations: deviations::read()?,
        tally: Tally::default(),
        folder,
        told: Told::default(),
        disagreements: 0,
    };
    bench.files(options)?;
    let end = Instant::now() + Duration::from_secs(options.seconds);
    let mut part = 0;
    while Instant::now() < end && bench.disagreements < DISAGREEMENTS_MAX {
        bench.random_policy(options, part)?;
        part += 1;
    }
    println!("{}", bench.tally.text());
    for deviation in &bench.deviations {
        println!(
            "listed: {}, met by {} packets",
            deviation.name, deviation.met
        );
    }
    println!(
        "seed {}: {} disagreements",
        options.seed, bench.disagreements
    );
    Ok(bench.disagreements == 0)
}

/// Creates the subjects with their cells in parallel.
/// - tracked: true if policies may test the connection state.
fn subjects(who: &[Who], tracked: bool) -> anyhow::Result<Vec<Subject>> {
    thread::scope(|scope| {
        let makers: Vec<_> = who
            .iter()
            .map(|who| scope.spawn(|| Subject::new(*who, tracked)))
            .collect();
        makers
            .into_iter()
            .map(|maker| maker.join().expect("making a cell does not panic"))
            .collect()
    })
}

/// Returns the policy with limits that hardly refill while the packets pass, since the judge does not control the times
/// of packets.
pub fn without_refill(text: &str) -> String {
    text.replace("/second", "/hour").replace("/minute", "/hour")
}

impl Bench {
    /// Judges the files of the command line; without files, the shipped policies, those of the parser's corpus, and those
    /// saved from earlier disagreements.
    fn files(&mut self, options: &Options) -> anyhow::Result<()> {
        let mut random = Random::new(options.seed);
        for path in &options.files {
            self.file(path, &mut random, options)?;
        }
        if !options.files.is_empty() {
            return Ok(());
        }
        for kept in keep::read_all(&keep::folder(), JUDGE)? {
            let scanned = scan::file(&kept.path)?;
            let shots = kept
                .asked
                .iter()
                .zip(&kept.packets)
                .map(|(text, bytes)| Shot::parse(text, bytes));
            let shots: Option<Vec<Shot>> = shots.collect();
            let comments = || format!("the comments of {}", kept.path.display());
            let shots = shots.with_context(comments)?;
            let asked = kept.asked.first().map_or("", String::as_str);
            self.told = Told::parse(asked).with_context(comments)?;
            let finding =
                self.judge_file(&kept.path, &scanned.text, &scanned.hooks, &shots, true)?;
            self.report(&kept.path.display().to_string(), &finding);
        }
        for folder in ["rules/policy", "tests/corpus/policy"] {
            let mut paths: Vec<PathBuf> = fs::read_dir(root().join(folder))
                .map(|entries| {
                    entries
                        .filter_map(|entry| Some(entry.ok()?.path()))
                        .collect()
                })
                .unwrap_or_default();
            paths.sort();
            // In the parser's corpus, each accepted policy has its canonical print beside it.
            paths.retain(|path| {
                path.extension().is_some_and(|end| end == "nft")
                    && (folder == "rules/policy" || path.with_extension("ok").exists())
            });
            for path in paths {
                self.file(&path, &mut random, options)?;
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, random: &mut Random, options: &Options) -> anyhow::Result<()> {
        let mut scanned = scan::file(path)?;
        if scanned.text.contains("ct mark") {
            println!(
                "left out, for it asks the mark of connections: {}",
                path.display()
            );
            return Ok(());
        }
        if scanned.hooks.is_empty() {
            println!("left out, for no packet comes to it: {}", path.display());
            return Ok(());
        }
        self.told = Told {
            copy_bytes: None,
            open: random.percent(50),
        };
        let shots = shots(random, &scanned, options.packets);
        let slowed = without_refill(&scanned.text);
        let finding = if slowed == scanned.text {
            self.judge_file(path, &scanned.text, &scanned.hooks, &shots, true)?
        } else {
            scanned.text = slowed;
            self.judge(&scanned.text, &scanned.hooks, &shots, true)?
        };
        if matches!(finding, Finding::Refused(Who::Kernel, _)) && scanned.text.contains(NFT_NOTE) {
            println!("left out, for nft does not take it: {}", path.display());
            return Ok(());
        }
        self.report(&path.display().to_string(), &finding);
        if matches!(finding, Finding::Differ(_)) {
            let stem = path
                .file_stem()
                .map_or(String::new(), |stem| stem.to_string_lossy().into_owned());
            self.shrink_text(&format!("certify-{}-{stem}", options.seed), &scanned, shots)?;
        }
        Ok(())
    }

    fn report(&mut self, name: &str, finding: &Finding) {
        let words = match finding {
            Finding::Agreed => return,
            Finding::Refused(who, words) => format!("{} refuses it: {words}", who.name()),
            Finding::Differ(found) => found[0].text.clone(),
        };
        self.disagreements += 1;
        println!("{name}: {}", words.trim().replace('\n', " "));
    }

    fn random_policy(&mut self, options: &Options, part: u64) -> anyhow::Result<()> {
        let mut random = Random::split(options.seed, part);
        let tracked = part % TRACKED_EVERY == TRACKED_EVERY - 1;
        let made = policy(&mut random, &profile(tracked));
        let scanned = Scanned {
            text: made.to_string(),
            hooks: made.hooks(),
            groups: made.groups(),
        };
        let shots = shots(&mut random, &scanned, options.packets);
        self.told = Told {
            copy_bytes: random.percent(50).then_some(COPY_ALL),
            open: random.percent(50),
        };
        let text = match random.percent(50) {
            true => made.to_string(),
            false => styled(&made, &mut random),
        };
        let finding = self.judge(&text, &made.hooks(), &shots, true)?;
        let name = format!("certify-{}-{part}", options.seed);
        self.report(&name, &finding);
        match finding {
            Finding::Agreed => Ok(()),
            Finding::Refused(..) => self.keep(&name, &text, &made.hooks(), &shots[..1]),
            Finding::Differ(_) => self.shrink(&name, made, shots),
        }
    }

    fn judge(
        &mut self,
        text: &str,
        hooks: &[Hook],
        shots: &[Shot],
        counted: bool,
    ) -> anyhow::Result<Finding> {
        let path = self.folder.join("policy.nft");
        fs::write(&path, text)?;
        self.judge_file(&path, text, hooks, shots, counted)
    }

    /// Runs all subjects. Packets that behave as listed deviations expect are removed, and the other packets are run
    /// again, since counters and limits do not distinguish packets.
    /// - counted: true: adds the packets and results to the tally if the subjects agree.
    fn judge_file(
        &mut self,
        path: &Path,
        text: &str,
        hooks: &[Hook],
        shots: &[Shot],
        counted: bool,
    ) -> anyhow::Result<Finding> {
        let text = &with_single_blanks(text);
        let mut shots = shots.to_vec();
        let who: Vec<Who> = self.subjects.iter().map(|subject| subject.who).collect();
        let names: Vec<&str> = who.iter().map(|who| who.name()).collect();
        loop {
            let mut fresh;
            let subjects = match is_tracked(text) {
                true => {
                    fresh = subjects(&who, true)?;
                    &mut fresh
                }
                false => &mut self.subjects,
            };
            let mut outcomes = Vec::new();
            for subject in subjects.iter_mut() {
                match subject.run(path, hooks, &shots, self.told)? {
                    Ok(outcome) => outcomes.push(outcome),
                    Err(refused) => return Ok(Finding::Refused(subject.who, refused.0)),
                }
            }
            let found = differences(&names, &outcomes, &shots);
            if found.is_empty() {
                if counted {
                    self.tally.add(&outcomes[0], &shots);
                }
                return Ok(Finding::Agreed);
            }
            let only_counters = found.iter().all(|one| one.number.is_none());
            if only_counters {
                // The kernel does not report the position of its counters.
                let rules = outcomes.iter().map(|outcome| &outcome.counter_rules);
                let rules = rules.max_by_key(|rules| rules.len());
                let written = fs::read_to_string(path)?;
                let own = found.iter().all(|one| {
                    let rule = one.counter.and_then(|counter| rules?.get(counter));
                    rule.is_some_and(|rule| deviations::sees_own(path, &written, rule))
                });
                if deviations::counts_own(&mut self.deviations, text, own) {
                    return Ok(Finding::Agreed);
                }
            }
            let before = shots.len();
            let differ: Vec<u32> = found.iter().filter_map(|one| one.number).collect();
            let again = Again {
                path,
                policy: text,
                hooks,
                told: self.told,
            };
            let excused_of = |subjects: &mut [Subject],
                              deviations: &mut [Deviation],
                              suspected: &dyn Fn(&Shot) -> bool| {
                let of: Vec<&Shot> = shots.iter().filter(|shot| suspected(shot)).collect();
                excused(subjects, &again, deviations, &of)
            };
            let deviations = &mut self.deviations;
            let mut known =
                excused_of(subjects, deviations, &|shot| differ.contains(&shot.number))?;
            // If only counters differ, or packets are limited, any packet that matches a deviation may be the cause.
            if known.is_empty() {
                known = excused_of(subjects, deviations, &|shot| !differ.contains(&shot.number))?;
            }
            shots.retain(|shot| !known.contains(&shot.number));
            if shots.len() == before {
                return Ok(Finding::Differ(found));
            }
        }
    }

    /// Returns true if the subjects still disagree; false after the time `end`.
    fn differs(&mut self, text: &str, hooks: &[Hook], shots: &[Shot], end: Instant) -> bool {
        Instant::now() < end
            && !shots.is_empty()
            && matches!(
                self.judge(text, hooks, shots, false),
                Ok(Finding::Differ(_))
            )
    }

    /// Shrinks a disagreement and saves it.
    fn shrink(&mut self, name: &str, made: Policy, shots: Vec<Shot>) -> anyhow::Result<()> {
        let end = Instant::now() + SHRINK;
        let (text, hooks) = (made.to_string(), made.hooks());
        let shots = shrink::list(&shots, |fewer| self.differs(&text, &hooks, fewer, end));
        let small = shrink::policy(&made, |smaller| {
            self.differs(&smaller.to_string(), &smaller.hooks(), &shots, end)
        });
        let (text, hooks) = (small.to_string(), small.hooks());
        let shots = shrink::list(&shots, |fewer| self.differs(&text, &hooks, fewer, end));
        self.keep(name, &text, &hooks, &shots)
    }

    /// Shrinks a disagreement about a handwritten policy line by line, and saves it.
    fn shrink_text(
        &mut self,
        name: &str,
        scanned: &Scanned,
        shots: Vec<Shot>,
    ) -> anyhow::Result<()> {
        let end = Instant::now() + SHRINK;
        let hooks = &scanned.hooks;
        let shots = shrink::list(&shots, |fewer| {
            self.differs(&scanned.text, hooks, fewer, end)
        });
        let lines: Vec<&str> = scanned.text.split_inclusive('\n').collect();
        let lines = shrink::list(&lines, |fewer| {
            self.differs(&fewer.concat(), hooks, &shots, end)
        });
        self.keep(name, &lines.concat(), hooks, &shots)
    }

    fn keep(
        &mut self,
        name: &str,
        text: &str,
        hooks: &[Hook],
        shots: &[Shot],
    ) -> anyhow::Result<()> {
        let note = match self.judge(text, hooks, shots, false)? {
            Finding::Differ(found) => found[0].text.clone(),
            Finding::Refused(who, words) => format!("{} refuses it: {words}", who.name()),
            Finding::Agreed => "it did not happen again".to_string(),
        };
        println!(
            "  shrunk to {} packets: {}",
            shots.len(),
            note.trim().replace('\n', " ")
        );
        let asked: Vec<String> = shots
            .iter()
            .map(|shot| format!("{} {}", shot.text(), self.told.text()))
            .collect();
        let packets: Vec<Vec<u8>> = shots.iter().map(|shot| shot.bytes.clone()).collect();
        let path = keep::write(name, JUDGE, &note, &asked, text, &packets)?;
        println!("  kept as {}", path.display());
        Ok(())
    }
}

impl Told {
    /// Formats the settings of a twin, e.g. `copy 0 fail open`. `copy 0` stands for the number of bytes that the policy
    /// requires.
    fn text(self) -> String {
        let copied = self.copy_bytes.unwrap_or(0);
        let fail = if self.open { "open" } else { "closed" };
        format!("copy {copied} fail {fail}")
    }

    /// Parses the settings of a twin, which follow the words of a shot (a packet to send) in a saved line.
    fn parse(text: &str) -> Option<Told> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let ["copy", copied, "fail", fail] = *words.get(SHOT_WORDS..)? else {
            return None;
        };
        let copied: u32 = copied.parse().ok()?;
        Some(Told {
            copy_bytes: (copied != 0).then_some(copied),
            open: match fail {
                "open" => true,
                "closed" => false,
                _ => return None,
            },
        })
    }
}

/// Number of words in a saved shot's text.
const SHOT_WORDS: usize = 8;

impl Shot {
    /// Formats the packet's number, way, mark and owner for a comment in a saved policy, which `parse` reads. The judge
    /// saves the packet's bytes in a pcap file.
    pub fn text(&self) -> String {
        let (number, mark, owner) = (self.number, self.mark, self.owner);
        format!(
            "number {number} way {} mark {mark} owner {owner}",
            self.way.text()
        )
    }

    pub fn parse(text: &str, bytes: &[u8]) -> Option<Shot> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let ["number", number, "way", way, "mark", mark, "owner", owner, ..] = words[..] else {
            return None;
        };
        Some(Shot {
            number: number.parse().ok()?,
            way: Way::parse(way)?,
            bytes: bytes.to_vec(),
            mark: mark.parse().ok()?,
            owner: owner.parse().ok()?,
        })
    }
}
