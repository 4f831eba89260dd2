// SPDX-License-Identifier: GPL-2.0-or-later
//! A result for people: the table and the verdicts on the terminal, the same and more in report.md.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::advice::advice;
use crate::experiment::Figure;
use crate::growth::{self, Growth};
use crate::metadata::Metadata;
use crate::store::{CellName, PairRow, Sample, Store, Summary};
use crate::summary::{compare, main_metric, summarize};

/// A whole result, read from its folder.
pub struct Report {
    pub metadata: Metadata,
    pub summaries: Vec<Summary>,
    pub pairs: Vec<PairRow>,
    /// What was claimed, and what came of it.
    pub claims: Vec<(String, String)>,
    /// The names of the figures in the folder.
    figures: Vec<String>,
}

/// One load, or several that differ in their policy's size, with the rows of its table.
pub struct Table {
    pub title: String,
    pub head: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Report {
    /// Works out summary.csv and pairs.csv anew from the samples of a folder.
    pub fn make(folder: &Path) -> Result<Report> {
        let metadata = Metadata::read(folder)?;
        let store = Store::open(folder);
        let samples: Vec<Sample> = store.read()?;
        let summaries = summarize(&samples, &metadata.baseline);
        let pairs = compare(&samples, &metadata.compare, &metadata.subjects);
        store.rewrite(&summaries)?;
        store.rewrite(&pairs)?;
        let claims = growth::claims(&samples, &metadata.claims);
        let figures = drawn(folder, &metadata.figures)?;
        Ok(Report {
            metadata,
            summaries,
            pairs,
            claims,
            figures,
        })
    }

    /// For the terminal.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n", self.metadata.title);
        for table in self.tables() {
            let _ = writeln!(text, "\n{}", table.title);
            text.push_str(&aligned(&table.head, &table.rows));
        }
        let claims = Some(("claims".to_string(), self.claims.clone()));
        let claims = claims.filter(|(_, claims)| !claims.is_empty());
        let verdicts = self.verdicts().into_iter();
        let verdicts = verdicts.map(|(cell, lines)| (cell.to_string(), lines));
        for (about, lines) in verdicts.chain(claims) {
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

    /// For report.md.
    pub fn markdown(&self) -> String {
        let metadata = &self.metadata;
        let mut text = format!("# {}\n\n{}\n\n", metadata.title, metadata.question);
        text.push_str(&self.how());
        for table in self.tables() {
            let _ = write!(text, "\n## {}\n\n", table.title);
            let _ = writeln!(text, "| {} |", table.head.join(" | "));
            let _ = writeln!(text, "|---|{}", "--:|".repeat(table.head.len() - 1));
            for row in &table.rows {
                let _ = writeln!(text, "| {} |", row.join(" | "));
            }
        }
        text.push('\n');
        if !self.claims.is_empty() {
            text.push_str("## Claims\n\n");
            for (asked, words) in &self.claims {
                let _ = writeln!(text, "- {asked}: {words}");
            }
            text.push('\n');
        }
        let verdicts = self.verdicts();
        if !verdicts.is_empty() {
            text.push_str("## Verdicts\n\n");
        }
        for (cell, lines) in verdicts {
            let _ = writeln!(text, "{cell}:\n");
            for (asked, words) in lines {
                let _ = writeln!(text, "- {asked}: {words}");
            }
            text.push('\n');
        }
        self.write_figures(&mut text);
        let notes = self.notes();
        if !notes.is_empty() {
            text.push_str("## To be kept in mind\n\n");
            for note in notes {
                let _ = writeln!(text, "- {note}");
            }
        }
        text
    }

    fn how(&self) -> String {
        let metadata = &self.metadata;
        let (machine, source) = (&metadata.machine, &metadata.source);
        let place = if metadata.host {
            "the machine's own loopback"
        } else {
            "network namespaces"
        };
        let dirty = if source.dirty { ", with changes" } else { "" };
        let mut text = format!(
            "Measured in {} of {} interleaved rounds of {} s a load, in {place}, after a warm-up of {} s. \
             Each value is the median of the rounds with its 95 % bootstrap interval; \
             a ratio is that to `{}` in the same rounds.\n\n",
            metadata.rounds_done,
            metadata.rounds,
            metadata.seconds,
            metadata.warmup_seconds,
            metadata.baseline
        );
        let rows = [
            (
                "Processor",
                format!("{} ({} CPUs)", machine.cpu_model, machine.cpus),
            ),
            ("Kernel", machine.kernel.clone()),
            ("Governor", machine.governor.clone()),
            ("Commit", format!("{}{dirty}", source.commit)),
            ("Started", metadata.started.clone()),
            (
                "Ended",
                metadata.ended.clone().unwrap_or("interrupted".into()),
            ),
        ];
        let tools = metadata
            .tools
            .iter()
            .map(|(name, version)| (name.as_str(), version.clone()));
        text.push_str("| | |\n|---|---|\n");
        for (name, value) in rows.into_iter().chain(tools) {
            let _ = writeln!(text, "| {name} | {value} |");
        }
        text
    }

    fn tables(&self) -> Vec<Table> {
        let mut cells: Vec<CellName> = Vec::new();
        for summary in &self.summaries {
            let cell = summary.cell();
            if !cells.contains(&cell) {
                cells.push(cell);
            }
        }
        let (growing, single): (Vec<_>, Vec<_>) =
            cells.into_iter().partition(|cell| cell.policy.is_some());
        let tables = single.into_iter().map(|cell| self.table(cell));
        let growths = Growth::of(&growing);
        let subjects = &self.metadata.subjects;
        let growths = growths
            .iter()
            .flat_map(|growth| growth.tables(subjects, &self.summaries, &self.pairs));
        tables.chain(growths).collect()
    }

    fn table(&self, cell: CellName) -> Table {
        let find = |subject: &str, metric: &str| {
            self.summaries
                .iter()
                .find(|s| s.subject == subject && s.metric == metric && s.cell() == cell)
        };
        let metric = main_metric(&cell.workload);
        let latency = cell.workload == "tcp-latency";
        let counted = self
            .metadata
            .subjects
            .iter()
            .any(|s| find(s, "syscalls_per_packet").is_some());
        let mut head = vec!["subject".to_string(), metric.to_string()];
        let ratio_head = format!("to {}", self.metadata.baseline);
        head.extend(["95 % interval", &ratio_head].map(String::from));
        head.extend(latency.then(|| "p99 us".to_string()));
        head.extend(["lost", "CPU us/packet"].map(String::from));
        head.extend(counted.then(|| "calls/packet".to_string()));
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
            row.extend(counted.then(|| median("syscalls_per_packet").unwrap_or(absent())));
            row
        };
        let there = |subject: &&String| find(subject, metric).is_some();
        let rows = self
            .metadata
            .subjects
            .iter()
            .filter(there)
            .map(row)
            .collect();
        Table {
            title: cell.to_string(),
            head,
            rows,
        }
    }

    /// By load: what was asked, and the answer. Those of growing policies stand in their tables.
    fn verdicts(&self) -> Vec<(CellName, Vec<(String, String)>)> {
        let mut verdicts: Vec<(CellName, Vec<(String, String)>)> = Vec::new();
        for pair in self.pairs.iter().filter(|pair| pair.policy.is_none()) {
            let cell = pair.cell();
            let asked = format!("{}, {} / {}", pair.metric, pair.a, pair.b);
            let line = (asked, pair.verdict.clone());
            match verdicts.last_mut() {
                Some((last, lines)) if *last == cell => lines.push(line),
                _ => verdicts.push((cell, vec![line])),
            }
        }
        verdicts
    }

    /// Runner notes, incidents and advice.
    fn notes(&self) -> Vec<String> {
        let metadata = &self.metadata;
        let runners = metadata.runners.iter().filter_map(|used| {
            let note = used.note.as_ref()?;
            Some(format!("note: {}: {note}", used.workload))
        });
        let incidents = metadata
            .incidents
            .iter()
            .map(|what| format!("incident: {what}"));
        runners.chain(incidents).chain(advice(self)).collect()
    }

    fn write_figures(&self, text: &mut String) {
        if self.figures.is_empty() {
            return;
        }
        text.push_str("## Figures\n\n");
        for name in &self.figures {
            let asked = self
                .metadata
                .figures
                .iter()
                .find(|figure| figure.name == *name);
            let title = asked.map_or(name, |figure| &figure.title);
            let _ = writeln!(text, "![{title}]({name}.svg)\n");
        }
    }
}

/// The names of the figures that were drawn: those that were asked for in their order, then others.
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

pub fn absent() -> String {
    "-".into()
}

/// Three or four digits that matter.
pub fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// The first column to the left, the others to the right.
pub fn aligned(head: &[String], rows: &[Vec<String>]) -> String {
    let lines: Vec<&[String]> = std::iter::once(head)
        .chain(rows.iter().map(|r| r.as_slice()))
        .collect();
    let width = |column: usize| {
        lines
            .iter()
            .map(|line| line[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let _ = write!(text, "  {:<1$}", line[0], widths[0]);
        for (cell, width) in line[1..].iter().zip(&widths[1..]) {
            let _ = write!(text, "  {cell:>width$}");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_the_digits_that_matter() {
        let texts = [0.0, 0.1234, 1.234, 12.34, 1234.5].map(number);
        assert_eq!(texts, ["0", "0.123", "1.23", "12.3", "1234"]);
    }

    #[test]
    fn columns_are_aligned() {
        let row = |cells: [&str; 2]| cells.map(String::from).to_vec();
        let text = aligned(
            &row(["subject", "x"]),
            &[row(["a", "10"]), row(["±b", "7"])],
        );
        assert_eq!(text, "  subject   x\n  a        10\n  ±b        7\n");
    }
}
