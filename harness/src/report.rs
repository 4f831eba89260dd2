// SPDX-License-Identifier: GPL-2.0-or-later
//! A result for people: the table and the findings on the terminal, and with more detail in report.md.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::advice::advice;
use crate::experiment::{ExperimentKind, Figure};
use crate::experiment::{Order, Slices};
use crate::growth::Growth;
use crate::html::Page;
use crate::results::Results;
use crate::statistics::interval_in_words;
use crate::store::{CellName, Summary};
use crate::summary::main_metric;
use crate::table::{absent, aligned, number, Table};

/// Metrics of programs, with the titles of their columns. A table has a column if the metric was measured.
const FURTHER: [(&str, &str); 3] = [
    ("syscalls_per_packet", "calls/packet"),
    ("cpu_share", "CPU %"),
    ("queued", "queued/connection"),
];

/// A result and its drawn figures.
pub struct Report {
    results: Results,
    /// Names of the figures in the folder.
    figures: Vec<String>,
}

impl Report {
    /// Makes a report of the results, with the figures that exist in the folder.
    pub fn new(results: Results, folder: &Path) -> Result<Report> {
        let figures = drawn(folder, &results.metadata.figures)?;
        Ok(Report { results, figures })
    }

    /// Returns the report for the terminal.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n", self.results.metadata.title);
        for table in self.tables() {
            let _ = writeln!(text, "\n{}", table.title);
            text.push_str(&aligned(&table.head, &table.rows));
            for line in &table.copies {
                let _ = writeln!(text, "  {line}");
            }
        }
        let _ = writeln!(text, "\n{}", self.ratios());
        for (about, lines) in self.findings_and_claims() {
            let _ = writeln!(text, "\n{about}");
            let width = lines
                .iter()
                .map(|line| line.0.chars().count())
                .max()
                .unwrap_or(0);
            for (asked, words) in lines {
                let _ = writeln!(text, "  {asked:<width$}  {words}");
            }
        }
        let notes = self.notes();
        if !notes.is_empty() {
            let _ = write!(text, "\n{}\n", notes.join("\n"));
        }
        text
    }

    /// Returns the text of report.md.
    pub fn markdown(&self) -> String {
        let metadata = &self.results.metadata;
        let mut text = format!("# {}\n\n{}\n\n", metadata.title, metadata.question);
        let _ = write!(text, "{}\n\n| | |\n|---|---|\n", self.how());
        for (name, value) in self.facts() {
            let _ = writeln!(text, "| {name} | {value} |");
        }
        for table in self.tables() {
            let _ = write!(text, "\n## {}\n\n", table.title);
            let _ = writeln!(text, "| {} |", table.head.join(" | "));
            let _ = writeln!(text, "|---|{}", "--:|".repeat(table.head.len() - 1));
            for row in &table.rows {
                let _ = writeln!(text, "| {} |", row.join(" | "));
            }
            for line in &table.copies {
                let _ = write!(text, "\n{line}\n");
            }
        }
        text.push('\n');
        if !self.results.claims.is_empty() {
            text.push_str("## Claims\n\n");
            for (asked, words) in &self.results.claims {
                let _ = writeln!(text, "- {asked}: {words}");
            }
            text.push('\n');
        }
        let findings = self.findings();
        if !findings.is_empty() {
            text.push_str("## Findings\n\n");
        }
        for (cell, lines) in findings {
            let _ = writeln!(text, "{cell}:\n");
            for (asked, words) in lines {
                let _ = writeln!(text, "- {asked}: {words}");
            }
            text.push('\n');
        }
        self.write_figures(&mut text);
        let notes = self.notes();
        if !notes.is_empty() {
            text.push_str("## Notes\n\n");
            for note in notes {
                let _ = writeln!(text, "- {note}");
            }
        }
        text
    }

    /// Returns the text of report.html. Fails if a figure of the folder can't be read.
    pub fn html(&self, folder: &Path) -> Result<String> {
        let figure = |name: &String| {
            let file = folder.join(format!("{name}.svg"));
            let svg = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
            Ok((self.title_of(name).to_string(), svg))
        };
        let figures: Result<Vec<_>> = self.figures.iter().map(figure).collect();
        let page = Page {
            metadata: &self.results.metadata,
            how: self.how(),
            figures: figures?,
            tables: self.tables(),
            findings: self.findings_and_claims(),
            notes: self.notes(),
            facts: self.facts(),
        };
        Ok(page.html())
    }

    /// Returns the findings by load, then the claims.
    fn findings_and_claims(&self) -> Vec<(String, Vec<(String, String)>)> {
        let claims = Some(("claims".to_string(), self.results.claims.clone()));
        let claims = claims.filter(|(_, claims)| !claims.is_empty());
        let findings = self.findings().into_iter();
        let findings = findings.map(|(cell, lines)| (cell.to_string(), lines));
        findings.chain(claims).collect()
    }

    fn title_of<'a>(&'a self, name: &'a String) -> &'a String {
        let mut asked = self.results.metadata.figures.iter();
        let asked = asked.find(|figure| figure.name == *name);
        asked.map_or(name, |figure| &figure.title)
    }

    /// Returns true if a load ran in the virtual machine that counts instructions.
    fn has_virtual_machine(&self) -> bool {
        let mut summaries = self.results.summaries.iter();
        summaries.any(|summary| summary.cell().path == "vm")
    }

    fn how(&self) -> String {
        let metadata = &self.results.metadata;
        let place = match metadata.kind {
            ExperimentKind::Exchange if metadata.subjects.iter().all(|name| name.starts_with("way-")) => {
                "network namespaces"
            }
            ExperimentKind::Exchange if !self.has_virtual_machine() => {
                "this machine, both ends on one processor"
            }
            ExperimentKind::Exchange => {
                "this machine (time, on one processor) and in a virtual one that counts instructions"
            }
            ExperimentKind::Capture => {
                "network namespaces, the sender on the first CPU, the reader on the last; what a TLB would miss is \
                 modelled, not measured"
            }
            ExperimentKind::Traffic if metadata.host => "the machine's own loopback",
            ExperimentKind::Traffic | ExperimentKind::Scan => "network namespaces",
        };
        let mut text = format!("Measured in {place}. ");
        if let Some(slices) = &metadata.slices {
            let _ = write!(text, "{} ", in_slices(slices));
        }
        if metadata.rounds > 0 {
            let _ = write!(
                text,
                "Other loads run in interleaved rounds of {} s after a warm-up of {} s: {} of {} rounds were made. ",
                metadata.seconds, metadata.warmup_seconds, metadata.rounds_done, metadata.rounds
            );
        }
        let _ = write!(
            text,
            "Each value is the median of the rounds with its interval. {}",
            self.ratios()
        );
        text
    }

    /// Returns facts about the run as (name, value): machine, commit, start, end, and versions of tools.
    fn facts(&self) -> Vec<(String, String)> {
        let metadata = &self.results.metadata;
        let (machine, source) = (&metadata.machine, &metadata.source);
        let dirty = if source.dirty { ", with changes" } else { "" };
        let cpu = format!("{} ({} CPUs)", machine.cpu_model, machine.cpus);
        let rows = [
            ("Processor", cpu),
            ("Kernel", machine.kernel.clone()),
            ("Governor", machine.governor.clone()),
            ("Commit", format!("{}{dirty}", source.commit)),
            ("Started", metadata.started.clone()),
            (
                "Ended",
                metadata.ended.clone().unwrap_or("interrupted".into()),
            ),
        ];
        let rows = rows.map(|(name, value)| (name.to_string(), value));
        let tools = metadata.tools.clone().into_iter();
        rows.into_iter().chain(tools).collect()
    }

    /// Returns a note for the report's reader that explains the ratios and the A/A lines of the tables.
    fn ratios(&self) -> String {
        let baseline = &self.results.metadata.baseline;
        format!(
            "× {baseline}: the median of the ratios to {baseline}, each of two values of the same round. A/A: two copies of \
             one program; a smaller difference than theirs means nothing."
        )
    }

    fn cells(&self) -> Vec<CellName> {
        let mut cells: Vec<CellName> = Vec::new();
        for summary in &self.results.summaries {
            let cell = summary.cell();
            if !cells.contains(&cell) {
                cells.push(cell);
            }
        }
        cells
    }

    fn tables(&self) -> Vec<Table> {
        let cells = self.cells();
        let (single, growths) = Growth::divide(&cells);
        let tables = single.into_iter().map(|cell| self.table(cell));
        let subjects = &self.results.metadata.subjects;
        let growths = growths.iter().flat_map(|growth| {
            growth.tables(subjects, &self.results.summaries, &self.results.pairs)
        });
        tables.chain(growths).collect()
    }

    fn table(&self, cell: CellName) -> Table {
        let find = |subject: &str, metric: &str| {
            self.results
                .summaries
                .iter()
                .find(|s| s.subject == subject && s.metric == metric && s.cell() == cell)
        };
        let metric = main_metric(&cell.workload);
        let latency = cell.workload == "tcp-latency";
        let subjects = &self.results.metadata.subjects;
        let further: Vec<(&str, &str)> = FURTHER
            .into_iter()
            .filter(|(metric, _)| subjects.iter().any(|s| find(s, metric).is_some()))
            .collect();
        let mut head = vec!["subject".to_string(), metric.to_string()];
        let ratio_head = format!("× {}", self.results.metadata.baseline);
        head.extend([self.interval_head(&cell, metric), ratio_head]);
        head.extend(latency.then(|| "p99 us".to_string()));
        head.extend(["lost", "CPU us/packet"].map(String::from));
        head.extend(further.iter().map(|(_, title)| title.to_string()));
        let row = |subject: &String| {
            let main = find(subject, metric).filter(|main| main.rounds > 0);
            let median = |metric| find(subject, metric).map(|summary| number(summary.median));
            let mut row = vec![
                subject.clone(),
                main.map_or(absent(), |m| format!("{} {}", number(m.median), m.unit)),
                main.map_or(absent(), |m| {
                    format!("{} to {}", number(m.low), number(m.high))
                }),
                main.and_then(|m| m.ratio)
                    .map_or(absent(), |ratio| format!("{ratio:.3}")),
            ];
            row.extend(latency.then(|| median("p99").unwrap_or(absent())));
            let lost = ["lost_percent", "queue_drops", "filtered"];
            let lost = lost.into_iter().find_map(|metric| find(subject, metric));
            row.push(lost.map_or(absent(), |l| format!("{} {}", number(l.median), l.unit)));
            row.push(median("cpu_per_packet").unwrap_or(absent()));
            let further = further.iter();
            row.extend(further.map(|(metric, _)| median(metric).unwrap_or(absent())));
            row
        };
        let there = |subject: &&String| find(subject, metric).is_some();
        let rows = subjects.iter().filter(there).map(row).collect();
        Table {
            title: cell.to_string(),
            head,
            rows,
            copies: self.copies(&cell),
        }
    }

    /// Describes each A/A pair under a load: the difference between two copies of one program.
    fn copies(&self, cell: &CellName) -> Vec<String> {
        let mut lines: Vec<(String, Vec<String>)> = Vec::new();
        for pair in self.results.pairs.iter().filter(|pair| pair.is_of_copies()) {
            let (Some(ratio), Some(low), Some(high)) = (pair.ratio, pair.low, pair.high) else {
                continue;
            };
            if pair.cell() != *cell {
                continue;
            }
            let name = format!("A/A, {} / {}", pair.a, pair.b);
            let words = format!("{} {ratio:.3} ({low:.3} to {high:.3})", pair.metric);
            match lines.iter_mut().find(|(other, _)| *other == name) {
                Some((_, metrics)) => metrics.push(words),
                None => lines.push((name, vec![words])),
            }
        }
        let joined = lines.into_iter();
        joined
            .map(|(name, metrics)| format!("{name}: {}", metrics.join(", ")))
            .collect()
    }

    /// Returns the coverage of a load's intervals in words ([`interval_in_words`]), for the subject with the fewest
    /// rounds.
    fn interval_head(&self, cell: &CellName, metric: &str) -> String {
        let of_it = |row: &&Summary| row.metric == metric && row.rounds > 0 && row.cell() == *cell;
        let rounds = self.results.summaries.iter().filter(of_it);
        let least = rounds.map(|row| row.rounds).min().unwrap_or(0);
        interval_in_words(least)
    }

    /// Returns (metric and pair of subjects, finding in words) by load. Loads with several sizes of a policy are
    /// omitted: their tables have the ratios.
    fn findings(&self) -> Vec<(CellName, Vec<(String, String)>)> {
        let mut findings: Vec<(CellName, Vec<(String, String)>)> = Vec::new();
        let (single, _) = Growth::divide(&self.cells());
        for pair in &self.results.pairs {
            let cell = pair.cell();
            if !single.contains(&cell) {
                continue;
            }
            let asked = format!("{}, {} / {}", pair.metric, pair.a, pair.b);
            let line = (asked, pair.finding.clone());
            match findings.last_mut() {
                Some((last, lines)) if *last == cell => lines.push(line),
                _ => findings.push((cell, vec![line])),
            }
        }
        findings
    }

    /// Returns runner notes, incidents and advice.
    fn notes(&self) -> Vec<String> {
        let metadata = &self.results.metadata;
        let runners = metadata.runners.iter().filter_map(|used| {
            let note = used.note.as_ref()?;
            Some(format!("note: {}: {note}", used.workload))
        });
        let incidents = metadata
            .incidents
            .iter()
            .map(|what| format!("incident: {what}"));
        runners
            .chain(incidents)
            .chain(advice(&self.results))
            .collect()
    }

    fn write_figures(&self, text: &mut String) {
        if self.figures.is_empty() {
            return;
        }
        text.push_str("## Figures\n\n");
        for name in &self.figures {
            let title = self.title_of(name);
            let _ = writeln!(text, "![{title}]({name}.svg)\n");
        }
    }
}

fn in_slices(slices: &Slices) -> String {
    let Slices {
        milliseconds,
        settle_milliseconds,
        order,
        rounds,
        most_seconds,
    } = slices;
    let order = match order {
        Order::Turned => "is turned round",
        Order::Rotated => "moves on by one",
    };
    format!(
        "The embedded generator measures in slices: all subjects run at the same time, and one sender switches between \
         them. A slice sends for {milliseconds} ms, after {settle_milliseconds} ms that do not count. A round is one slice of each \
         subject; the order {order} from round to round. A load has {rounds} rounds, or as many as fit into {most_seconds} s."
    )
}

/// Returns the names of the drawn figures: those of the experiment in its order, then further ones.
fn drawn(folder: &Path, asked: &[Figure]) -> Result<Vec<String>> {
    let files = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let svg = |path: PathBuf| {
        let ours = path.extension()? == "svg";
        ours.then(|| path.file_stem()?.to_str().map(str::to_string))?
    };
    let mut names: Vec<String> = files
        .flatten()
        .filter_map(|file| svg(file.path()))
        .collect();
    let place = |name: &String| asked.iter().position(|figure| figure.name == *name);
    names.sort_by_key(|name| (place(name).unwrap_or(asked.len()), name.clone()));
    Ok(names)
}
