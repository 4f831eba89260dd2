// SPDX-License-Identifier: GPL-2.0-or-later
//! `certify --split`: sends the same packets through a twin with the whole policy, and through the kernel with the
//! split policy: rules for the kernel, and a policy for a twin that reads names (crate `stage`). The way, the marks
//! outside the stage's mask, the responses and the counters of each packet must be equal, except as deviations.txt
//! says.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use testbed::twin::{root, TWINS};
use twinwall_judge::random::Random;
use twinwall_judge::scan::{self, Scanned};
use twinwall_judge::{keep, names, shrink};

use crate::bench::{without_refill, SHRINK};
use crate::cell::Shot;
use crate::compare::{differences, fate, Tally};
use crate::deviations as of_kernel;
use crate::options::Options;

use deviations::Deviation;
use sequence::{acts, Act};
use side::{Case, Kind, Report, Side, IPTABLES, KERNEL, NAMES};

mod alone;
mod deviations;
mod excused;
mod policies;
mod sequence;
mod side;
mod uncounted;

const JUDGE: &str = "certify-split";
/// Number of the corpus's policies to which names are added.
const FROM_CORPUS: usize = 10;
/// Number of disagreements after which the search ends.
const DISAGREEMENTS_MAX: u64 = 5;
/// The kernel's error for a path of more than 16 chains. Unknown names are tried in one more chain.
const TOO_DEEP: &str = "Too many links";
/// Number of connections on each way (path through the cell), for each ten single packets.
const CONNECTIONS: usize = 3;

/// Result of comparing the whole policy with the split policy for some packets.
enum Finding {
    Agreed,
    /// The splitter refuses the policy, or the kernel refuses its depth ([`TOO_DEEP`]). The text is the reason.
    NotSplit(String),
    /// nft or a twin does not load its part, which counts as a disagreement. The text is the reason.
    Refused(String),
    Wrong(String),
}

struct Sitting {
    sides: Vec<Side>,
    queue: stage::Queue,
    own: Vec<Deviation>,
    of_kernel: Vec<of_kernel::Deviation>,
    folder: PathBuf,
    tally: Tally,
    /// Reasons why policies were not split, each with the number of policies.
    refused: BTreeMap<String, u64>,
    disagreements: u64,
}

/// Creates the sides with their cells in parallel.
fn sides() -> anyhow::Result<Vec<Side>> {
    let all = [Kind::Whole, Kind::Split].map(|kind| TWINS.map(|twin| (kind, twin)));
    thread::scope(|scope| {
        let start = |(kind, twin)| scope.spawn(move || Side::new(kind, twin));
        let makers: Vec<_> = all.into_iter().flatten().map(start).collect();
        let made = makers.into_iter();
        made.map(|maker| maker.join().expect("making a cell does not panic"))
            .collect()
    })
}

/// Judges all policies that the options select. Returns true if there is no disagreement.
pub fn sit(options: &Options) -> anyhow::Result<bool> {
    // Several judges may run at the same time.
    let folder = root().join(format!("build/certify-split/{}", std::process::id()));
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let mut sitting = Sitting {
        sides: sides()?,
        queue: options.queue,
        own: deviations::read()?,
        of_kernel: of_kernel::read()?,
        folder,
        tally: Tally::default(),
        refused: BTreeMap::new(),
        disagreements: 0,
    };
    sitting.written(options)?;
    let end = Instant::now() + Duration::from_secs(options.seconds);
    let mut part = 0;
    while Instant::now() < end && sitting.disagreements < DISAGREEMENTS_MAX {
        sitting.random(options, part)?;
        part += 1;
    }
    sitting.tell(options);
    fs::remove_dir_all(&sitting.folder)?;
    Ok(sitting.disagreements == 0)
}

/// Reads a policy. Removes its comments, which must not change what is sent and what is expected.
fn scanned(path: &Path) -> anyhow::Result<Scanned> {
    let mut scanned = scan::file(path)?;
    scanned.text = names::without_comments(&scanned.text);
    Ok(scanned)
}

/// Returns the part of a reason before `: `, without digits, so that equal reasons of different policies are counted
/// together.
fn without_numbers(reason: &str) -> String {
    let words = reason.split(": ").next().unwrap_or(reason);
    words.chars().filter(|one| !one.is_ascii_digit()).collect()
}

impl Sitting {
    fn tell(&self, options: &Options) {
        println!("{}", self.tally.text());
        for (reason, count) in &self.refused {
            println!("not split, {count} policies: {reason}");
        }
        let own = self.own.iter().map(|one| (one.name, one.met));
        let kernels = self
            .of_kernel
            .iter()
            .map(|one| (one.name.as_str(), one.met));
        for (name, met) in own.chain(kernels).filter(|(_, met)| *met > 0) {
            println!("listed: {name}, met by {met} packets");
        }
        println!(
            "seed {}: {} disagreements",
            options.seed, self.disagreements
        );
    }

    /// Judges the files of the command line. Without files, judges saved policies, shipped policies with their own
    /// names, and policies of shipped files and of the corpus with names added.
    fn written(&mut self, options: &Options) -> anyhow::Result<()> {
        let mut random = Random::new(options.seed);
        for path in &options.files {
            self.file(path, &mut random, options)?;
        }
        if !options.files.is_empty() {
            return Ok(());
        }
        self.kept()?;
        let mut shipped = policies::of_folder(policies::SHIPPED)?;
        shipped.extend(policies::of_folder(policies::HOSTS)?);
        for path in &shipped {
            self.file(path, &mut random, options)?;
        }
        let corpus = policies::of_folder(policies::CORPUS)?;
        let picked: Vec<&PathBuf> = (0..FROM_CORPUS).map(|_| random.pick(&corpus)).collect();
        for path in shipped.iter().chain(picked) {
            if let Some(text) = policies::with_names(&scanned(path)?.text, &mut random) {
                let name = format!("{} with names", path.display());
                self.text(&name, &text, &mut random, options)?;
            }
        }
        Ok(())
    }

    fn kept(&mut self) -> anyhow::Result<()> {
        for kept in keep::read_all(&keep::folder(), JUDGE)? {
            let scanned = scanned(&kept.path)?;
            let asked = kept.asked.iter().zip(&kept.packets);
            let acts: Option<Vec<Act>> = asked.map(|(text, bytes)| parse(text, bytes)).collect();
            let acts = acts.with_context(|| format!("the comments of {}", kept.path.display()))?;
            let finding = self.judge(&kept.path, &scanned, &acts)?;
            self.report(&kept.path.display().to_string(), &finding);
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, random: &mut Random, options: &Options) -> anyhow::Result<()> {
        let scanned = scanned(path)?;
        if !policies::has_names(&scanned.text) || scanned.hooks.is_empty() {
            return Ok(());
        }
        // Only a policy that reads no files can be shrunk.
        if !scanned.text.contains("file \"") {
            return self.text(&path.display().to_string(), &scanned.text, random, options);
        }
        let acts = sequence(random, &scanned, options);
        let finding = self.judge(path, &scanned, &acts)?;
        self.report(&path.display().to_string(), &finding);
        Ok(())
    }

    fn text(
        &mut self,
        name: &str,
        text: &str,
        random: &mut Random,
        options: &Options,
    ) -> anyhow::Result<()> {
        let text = without_refill(text);
        let mut scanned = scan::scan(&text);
        scanned.text = text;
        if scanned.hooks.is_empty() {
            return Ok(());
        }
        let acts = sequence(random, &scanned, options);
        let finding = self.judge_text(&scanned, &acts)?;
        self.report(name, &finding);
        if matches!(finding, Finding::Wrong(_)) {
            let stem = name
                .rsplit('/')
                .next()
                .unwrap_or(name)
                .replace([' ', '.'], "-");
            self.shrink_text(&format!("{JUDGE}-{}-{stem}", options.seed), &scanned, &acts)?;
        }
        Ok(())
    }

    fn random(&mut self, options: &Options, part: u64) -> anyhow::Result<()> {
        let mut random = Random::split(options.seed, part);
        let made = policies::random(&mut random);
        let scan = |made: &twinwall_judge::tree::Policy| Scanned {
            text: without_refill(&made.to_string()),
            hooks: made.hooks(),
            groups: made.groups(),
        };
        let scanned = scan(&made);
        let acts = sequence(&mut random, &scanned, options);
        let finding = self.judge_text(&scanned, &acts)?;
        let name = format!("{JUDGE}-{}-{part}", options.seed);
        self.report(&name, &finding);
        if let Finding::Wrong(_) = finding {
            let end = Instant::now() + SHRINK;
            let acts = shrink::list(&acts, |fewer| self.is_wrong(&scanned, fewer, end));
            let small = shrink::policy(&made, |smaller| self.is_wrong(&scan(smaller), &acts, end));
            let acts = shrink::list(&acts, |fewer| self.is_wrong(&scan(&small), fewer, end));
            self.keep(&name, &scan(&small), &acts)?;
        }
        Ok(())
    }

    fn report(&mut self, name: &str, finding: &Finding) {
        match finding {
            Finding::Agreed => {}
            Finding::NotSplit(reason) => *self.refused.entry(reason.clone()).or_default() += 1,
            Finding::Refused(words) | Finding::Wrong(words) => {
                self.disagreements += 1;
                println!("{name}: {}", words.trim().replace('\n', " "));
            }
        }
    }

    fn judge_text(&mut self, scanned: &Scanned, acts: &[Act]) -> anyhow::Result<Finding> {
        let path = self.folder.join("policy.nft");
        fs::write(&path, &scanned.text)?;
        self.judge(&path, scanned, acts)
    }

    /// Splits a policy into files in the folder `parts`. Returns the stage's mask (the bits of marks that the split
    /// policy uses), or the reason of the refusal.
    fn split(&self, policy: &Path) -> anyhow::Result<Result<u32, String>> {
        let options = stage::Options {
            queue: self.queue,
            ..stage::Options::default()
        };
        let source = stage::file(policy.to_str().context("a path that is no text")?)?;
        let split = match stage::split(&source, &options) {
            Ok(split) => split,
            Err(refusal) => return Ok(Err(without_numbers(&refusal.reason))),
        };
        let parts = self.folder.join("parts");
        fs::create_dir_all(&parts)?;
        let iptables = split.iptables.unwrap_or_default();
        for (name, text) in [
            (KERNEL, split.kernel),
            (NAMES, split.daemon),
            (IPTABLES, iptables),
        ] {
            fs::write(parts.join(name), text).with_context(|| name.to_owned())?;
        }
        Ok(Ok(split.mask))
    }

    /// Runs all sides in parallel. The inner error is the refusal of a side, after the side's name.
    fn run(&mut self, case: &Case, shots: &[Shot]) -> anyhow::Result<Result<Vec<Report>, String>> {
        let reports: Vec<_> = thread::scope(|scope| {
            let start = |side| scope.spawn(move || Side::run(side, case, shots));
            let running: Vec<_> = self.sides.iter_mut().map(start).collect();
            let done = running.into_iter();
            done.map(|run| run.join().expect("a run does not panic"))
                .collect()
        });
        let mut all = Vec::new();
        for (side, report) in self.sides.iter().zip(reports) {
            match report? {
                Ok(report) => all.push(report),
                Err(refused) => {
                    return Ok(Err(format!("{} refuses it: {}", side.name(), refused.0)))
                }
            }
        }
        Ok(Ok(all))
    }

    /// Compares the whole policy with the split policy. Repeats the runs, each time without the packets that deviations
    /// remove, until they remove no packet.
    fn judge(&mut self, policy: &Path, scanned: &Scanned, acts: &[Act]) -> anyhow::Result<Finding> {
        let mask = match self.split(policy)? {
            Ok(mask) => mask,
            Err(refusal) => return Ok(Finding::NotSplit(refusal)),
        };
        let parts = self.folder.join("parts");
        let case = Case {
            policy,
            text: &scanned.text,
            hooks: &scanned.hooks,
            parts: &parts,
            mask,
            unknown: side::DEFAULT,
        };
        let names: Vec<&'static str> = self.sides.iter().map(Side::name).collect();
        let mut acts = acts.to_vec();
        for act in &mut acts {
            act.shot.mark &= !mask;
        }
        loop {
            let shots: Vec<Shot> = acts.iter().map(|act| act.shot.clone()).collect();
            let reports = match self.run(&case, &shots)? {
                Ok(reports) => reports,
                Err(refused) if refused.contains(TOO_DEEP) => {
                    return Ok(Finding::NotSplit(TOO_DEEP.to_owned()))
                }
                Err(refused) => return Ok(Finding::Refused(refused)),
            };
            let outcomes: Vec<_> = reports.iter().map(|one| one.outcome.clone()).collect();
            let found = differences(&names, &outcomes, &shots);
            let excused = self.excuse(&case, &acts, &reports, &found)?;
            let is_doubtful = |act: &&Act| excused.alone.contains_key(&act.shot.number);
            for act in acts.iter().filter(is_doubtful) {
                let after = excused.alone[&act.shot.number];
                let answers = fate(&outcomes[2], act.shot.number).answers;
                let wrong = match after.without() {
                    Some(is_rule) => self.without(&case, &until(&acts, act), is_rule)?,
                    None => self.alone(&case, &act.shot, after, &answers)?,
                };
                if let Some(wrong) = wrong {
                    return Ok(Finding::Wrong(wrong));
                }
            }
            if excused.left_out.is_empty() {
                if let Some(wrong) = excused.wrong {
                    tell_ledgers(&names, &reports);
                    return Ok(Finding::Wrong(wrong));
                }
                self.tally.add(&outcomes[0], &shots);
                return Ok(Finding::Agreed);
            }
            acts.retain(|act| !excused.left_out.contains(&act.shot.number));
        }
    }

    /// Returns true if there still is a disagreement; false after the time `end`.
    fn is_wrong(&mut self, scanned: &Scanned, acts: &[Act], end: Instant) -> bool {
        Instant::now() < end
            && !acts.is_empty()
            && matches!(self.judge_text(scanned, acts), Ok(Finding::Wrong(_)))
    }

    /// Shrinks a disagreement about a written policy, line by line, and saves it.
    fn shrink_text(&mut self, name: &str, scanned: &Scanned, acts: &[Act]) -> anyhow::Result<()> {
        let end = Instant::now() + SHRINK;
        let acts = shrink::list(acts, |fewer| self.is_wrong(scanned, fewer, end));
        let with = |lines: &[&str]| Scanned {
            text: lines.concat(),
            hooks: scanned.hooks.clone(),
            groups: Vec::new(),
        };
        let lines: Vec<&str> = scanned.text.split_inclusive('\n').collect();
        let lines = shrink::list(&lines, |fewer| self.is_wrong(&with(fewer), &acts, end));
        self.keep(name, &with(&lines), &acts)
    }

    fn keep(&mut self, name: &str, scanned: &Scanned, acts: &[Act]) -> anyhow::Result<()> {
        let note = match self.judge_text(scanned, acts)? {
            Finding::Wrong(words) => words,
            _ => "it did not happen again".to_owned(),
        };
        let note = note.trim().replace('\n', " ");
        let asked: Vec<String> = acts.iter().map(text).collect();
        let packets: Vec<Vec<u8>> = acts.iter().map(|act| act.shot.bytes.clone()).collect();
        let path = keep::write(name, JUDGE, &note, &asked, &scanned.text, &packets)?;
        println!("  shrunk to {} packets: {note}", acts.len());
        println!("  kept as {}", path.display());
        Ok(())
    }
}

/// Prints the ledgers of all sides if the two twins with the whole policy, or the two with the split policy, have
/// different outcomes.
fn tell_ledgers(names: &[&str], reports: &[Report]) {
    let differ = |pair: &[Report]| pair[0].outcome != pair[1].outcome;
    if reports.chunks_exact(2).any(differ) {
        for (name, report) in names.iter().zip(reports) {
            println!("  ledger of {name}: {}", report.ledger);
        }
    }
}

/// Returns the earlier packets of a packet's connection, followed by the packet.
fn until(acts: &[Act], last: &Act) -> Vec<Shot> {
    let is_earlier = |act: &&Act| {
        act.shot.number < last.shot.number
            && act.connection.is_some()
            && act.connection == last.connection
    };
    let earlier = acts.iter().filter(is_earlier);
    earlier.chain([last]).map(|act| act.shot.clone()).collect()
}

fn sequence(random: &mut Random, scanned: &Scanned, options: &Options) -> Vec<Act> {
    let singles = options.packets / 5;
    acts(random, scanned, (singles, singles * CONNECTIONS / 10), 0)
}

/// Formats a packet for a comment in a saved policy, which `parse` reads: number, way, mark, owner and connection. The
/// packet's bytes are in the pcap file.
fn text(act: &Act) -> String {
    let connection = act.connection.map_or(0, |number| number + 1);
    format!("{} connection {connection}", act.shot.text())
}

fn parse(text: &str, bytes: &[u8]) -> Option<Act> {
    let (_, connection) = text.rsplit_once(" connection ")?;
    let connection: u32 = connection.parse().ok()?;
    Some(Act {
        shot: Shot::parse(text, bytes)?,
        connection: connection.checked_sub(1),
    })
}
