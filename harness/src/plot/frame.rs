// SPDX-License-Identifier: GPL-2.0-or-later
//! The frame of a figure: title, workload, machine, legend.

use super::font;
use super::palette::{Dash, Look, Rgb, FAINT};
use super::scene::{Scene, Text};
use crate::experiment::ExperimentKind;
use crate::metadata::Metadata;
use crate::store::CellName;
use crate::table::number;

/// Space between the edge of a figure and its contents.
pub const MARGIN: f64 = 16.0;
/// Distance of a figure's content from the top.
pub const TOP: f64 = 76.0;
/// Height of the lines at the bottom of a figure: a note of one line, and a line with machine and commit.
pub const BOTTOM: f64 = 50.0;
/// Height of each further line of a note.
pub const NOTE_LINE: f64 = 17.0;
const TITLE_SIZE: f64 = 19.0;
const SUBTITLE_SIZE: f64 = 13.0;
const NOTE_SIZE: f64 = 11.5;
const NAME_SIZE: f64 = 13.5;
const DETAIL_SIZE: f64 = 12.0;
/// Factor on the width of a legend's text, which is measured in Noto Sans. A viewer without Noto Sans uses another
/// font; the widest likely one is DejaVu Sans.
const WIDER_FONTS: f64 = 1.14;
/// Length of a line sample in a legend.
const SAMPLE: f64 = 34.0;
/// Number of hexadecimal digits of a commit that a figure shows.
const COMMIT_DIGITS: usize = 10;

/// Returns an empty figure with its title, description, reading note (one or several lines) and machine.
pub fn scene(
    (width, height): (f64, f64),
    title: &str,
    subtitle: &str,
    note: &str,
    metadata: &Metadata,
) -> Scene {
    let mut scene = Scene::new(width, height);
    let room = width - 2.0 * MARGIN;
    let fit = |text: &str, size, bold| fitting(text, room, size, bold);
    let title = fit(title, TITLE_SIZE, true);
    scene.text(Text::new(title, (MARGIN, 25.0), TITLE_SIZE).bold());
    let subtitle = fit(subtitle, SUBTITLE_SIZE, false);
    scene.text(Text::new(subtitle, (MARGIN, 49.0), SUBTITLE_SIZE).colour(FAINT));
    let machine = machine(metadata);
    let notes = note.lines().chain([machine.as_str()]);
    for (line, text) in notes.rev().enumerate() {
        let text = fit(text, NOTE_SIZE, false);
        let y = height - 15.0 - NOTE_LINE * line as f64;
        scene.text(Text::new(text, (MARGIN, y), NOTE_SIZE).colour(FAINT));
    }
    scene
}

/// Returns a figure's subtitle: the load and its payload sizes, its runner, and its rounds or slices.
/// - sizes: payload bytes of all loads in the figure.
pub fn subtitle(metadata: &Metadata, cell: &CellName, sizes: &[usize]) -> String {
    let bytes: Vec<String> = sizes.iter().map(|bytes| bytes.to_string()).collect();
    let bytes = bytes.join(", ");
    let load = match cell.path.as_str() {
        "vm" => format!("{} in a virtual machine", cell.workload),
        "host" => format!("{} on the host", cell.workload),
        path => format!("{} over {path}", cell.workload),
    };
    let size = match cell.workload.as_str() {
        _ if metadata.kind == ExperimentKind::Scan => None,
        "tcp-stream" | "hello-stream" => Some(format!("writes of {bytes} bytes")),
        "tcp-latency" => Some(format!("messages of {bytes} bytes")),
        "udp-flood" => Some(format!("payload of {bytes} bytes")),
        _ => None,
    };
    let mut runners = metadata.runners.iter();
    let runner = runners.find(|used| used.workload == cell.workload);
    let runner = runner.map(|used| format!("runner {}", used.runner));
    let parts = [Some(load), size, runner, rounds(metadata, cell)];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Returns the number and duration of a load's runs, or the duration of its slices (of scans only the number). None in
/// the virtual machine, where loads are not timed and have their own rounds: the intervals show their number.
fn rounds(metadata: &Metadata, cell: &CellName) -> Option<String> {
    if cell.path == "vm" {
        return None;
    }
    if let Some(slices) = metadata.slices_of(&cell.workload) {
        return Some(format!("slices of {} ms", slices.milliseconds));
    }
    let rounds = counted(metadata.rounds_done as usize, "round");
    match metadata.kind {
        ExperimentKind::Scan => Some(rounds),
        _ => Some(format!("{rounds} of {} s", metadata.seconds)),
    }
}

/// Returns a count with its noun, e.g. `1 round` or `2 rounds`.
pub fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

fn machine(metadata: &Metadata) -> String {
    let (machine, source) = (&metadata.machine, &metadata.source);
    let commit: String = source.commit.chars().take(COMMIT_DIGITS).collect();
    let changes = if source.dirty { " with changes" } else { "" };
    let day = metadata.started.split('T').next().unwrap_or_default();
    format!(
        "{} ({}), Linux {}; commit {commit}{changes}; {day}",
        machine.cpu_model,
        counted(machine.cpus, "CPU"),
        machine.kernel
    )
}

/// Returns a note wrapped to a figure's width, broken between words.
pub fn wrapped(note: &str, width: f64) -> String {
    let room = width - 2.0 * MARGIN;
    let mut lines: Vec<String> = Vec::new();
    for whole in note.lines() {
        let mut line = String::new();
        for word in whole.split(' ') {
            let longer = [&line, word].join(" ");
            if line.is_empty() {
                line = word.into();
            } else if font::width(&longer, NOTE_SIZE, false) <= room {
                line = longer;
            } else {
                lines.push(std::mem::replace(&mut line, word.into()));
            }
        }
        lines.push(line);
    }
    lines.join("\n")
}

/// Returns the text, truncated to a width if necessary.
fn fitting(text: &str, room: f64, size: f64, bold: bool) -> String {
    if font::width(text, size, bold) <= room {
        return text.into();
    }
    let mut kept: Vec<char> = text.chars().collect();
    loop {
        kept.pop();
        let cut: String = kept.iter().collect::<String>().trim_end().to_string() + "…";
        if kept.is_empty() || font::width(&cut, size, bold) <= room {
            return cut;
        }
    }
}

/// A legend entry: marker and line, a name, and a detail in small print below.
pub struct Entry {
    pub name: String,
    pub detail: String,
    pub colour: Rgb,
    pub dash: Dash,
    /// Marker and colour; None for an entry without a marker.
    pub look: Option<Look>,
}

impl Entry {
    pub fn subject(name: &str, detail: String, look: Look) -> Entry {
        Entry {
            name: name.into(),
            detail,
            colour: look.colour,
            dash: look.dash,
            look: Some(look),
        }
    }
}

const ENTRY_HEIGHT: f64 = 38.0;
const PLAIN_ENTRY_HEIGHT: f64 = 24.0;

fn entry_height(entry: &Entry) -> f64 {
    match entry.detail.is_empty() {
        true => PLAIN_ENTRY_HEIGHT,
        false => ENTRY_HEIGHT,
    }
}

pub fn legend_width(entries: &[Entry]) -> f64 {
    let width = |entry: &Entry| {
        let name = font::width(&entry.name, NAME_SIZE, false);
        name.max(font::width(&entry.detail, DETAIL_SIZE, false))
    };
    SAMPLE + 10.0 + WIDER_FONTS * entries.iter().map(width).fold(0.0, f64::max)
}

pub fn legend_height(entries: &[Entry]) -> f64 {
    entries.iter().map(entry_height).sum()
}

/// Draws a legend with its top left corner at (`left`, `top`).
pub fn draw_legend(scene: &mut Scene, (left, top): (f64, f64), entries: &[Entry]) {
    let mut y = top;
    for entry in entries {
        let line = y + 10.0;
        scene.path(
            &[(left, line), (left + SAMPLE, line)],
            2.2,
            entry.colour,
            entry.dash,
        );
        if let Some(look) = &entry.look {
            scene.marker((left + SAMPLE / 2.0, line), 5.0, look);
        }
        let x = left + SAMPLE + 10.0;
        scene.text(Text::new(&entry.name, (x, line), NAME_SIZE));
        let detail = Text::new(&entry.detail, (x, line + 17.0), DETAIL_SIZE);
        scene.text(detail.colour(FAINT));
        y += entry_height(entry);
    }
}

/// Draws legend entries side by side, without markers and details. `y` is the middle of the row.
pub fn draw_legend_row(scene: &mut Scene, (left, y): (f64, f64), entries: &[&Entry]) {
    let mut x = left;
    for entry in entries {
        scene.path(&[(x, y), (x + SAMPLE, y)], 1.8, entry.colour, entry.dash);
        let text = Text::new(&entry.name, (x + SAMPLE + 8.0, y), DETAIL_SIZE);
        x = text.bounds().2 + 26.0;
        scene.text(text);
    }
}

/// Returns the title of a metric, as plots show it.
pub fn metric_title(metric: &str) -> &str {
    match metric {
        "throughput" => "throughput",
        "delivered_rate" => "delivered",
        "connections" => "connections",
        "queries" => "queries",
        "rate" => "requests",
        "p50" => "median latency",
        "p99" => "99th percentile of latency",
        "p999" => "99.9th percentile of latency",
        "lost_percent" => "lost",
        "queue_drops" => "dropped by the queue",
        "wall" => "time from start to end",
        "cpu" => "CPU time of the scanner",
        "cpu_per_packet" => "CPU time of the firewall",
        "cpu_share" => "CPU time of the program",
        "queued" => "packets queued",
        "rss" => "memory of the firewall",
        "syscalls_per_packet" => "system calls of the firewall",
        "touch" => "CPU time of a neighbour's random touch",
        "model_tlb_misses" => "TLB misses, modelled",
        "model_kernel_tlb_misses" => "TLB misses of the kernel, modelled",
        "tlb_misses_user" => "TLB misses of programs",
        "tlb_misses_kernel" => "TLB misses of the kernel",
        "program_entries" => "page-table entries of the program",
        "kernel_entries" => "page-table entries of the kernel",
        "kernel_part" => "the kernel's part",
        "reader_part" => "the reader's part",
        other => other,
    }
}

pub fn unit_title<'a>(metric: &str, unit: &'a str) -> &'a str {
    match (metric, unit) {
        ("cpu_per_packet", "us") => "µs a packet",
        ("cpu_share", _) => "% of a CPU",
        ("queued", _) => "a connection",
        ("syscalls_per_packet", _) => "a packet",
        (_, "us") => "µs",
        _ => unit,
    }
}

/// Returns a metric's title with its unit, e.g. `throughput (Gbit/s)`.
pub fn axis_title(metric: &str, unit: &str) -> String {
    format!("{} ({})", metric_title(metric), unit_title(metric, unit))
}

/// Returns a short title such as `CPU, µs/packet`, for narrow places.
pub fn short_title(metric: &str, unit: &str) -> String {
    match metric {
        "cpu_per_packet" => "CPU, µs/packet".into(),
        "p50" | "p99" | "p999" => format!("{metric}, {}", unit_title(metric, unit)),
        _ => format!("{}, {}", metric_title(metric), unit_title(metric, unit)),
    }
}

/// Returns a value with its unit, e.g. `12.3 Gbit/s`.
pub fn with_unit(value: f64, metric: &str, unit: &str) -> String {
    format!("{} {}", number(value), unit_title(metric, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_broken_between_words() {
        let note = "A sentence of some words.\nAnother one, which is longer than the figure.";
        let width = 2.0 * MARGIN + font::width("A sentence of some words.", NOTE_SIZE, false);
        let wrapped = wrapped(note, width);
        let lines: Vec<&str> = wrapped.lines().collect();
        assert_eq!(lines[0], "A sentence of some words.");
        assert!(lines.len() > 2, "{lines:?}");
        let room = width - 2.0 * MARGIN;
        let fits = |line: &&str| fitting(line, room, NOTE_SIZE, false) == **line;
        assert!(lines.iter().all(fits), "{lines:?}");
        assert_eq!(lines[1..].join(" "), note.lines().nth(1).unwrap());
    }
}
