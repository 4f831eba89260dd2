// SPDX-License-Identifier: GPL-2.0-or-later
//! Results of a soak.

use serde::Serialize;
use testbed::ledger::Ledger;

/// Maximum growth of a process's memory after its warm-up, in KiB.
pub const GROWTH_KIB_MAX: i64 = 2048;

/// Memory of a process, from the end of its warm-up to its end.
#[derive(Clone, Debug, Serialize)]
pub struct Memory {
    pub program: &'static str,
    pub seconds: u64,
    pub first_kib: i64,
    pub last_kib: i64,
    /// Slope of the straight line through all samples.
    pub slope_kib_per_minute: f64,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    /// Twin of the first firewall.
    pub twin: &'static str,
    pub seconds: u64,
    pub received: u64,
    pub accepted: u64,
    pub dropped: u64,
    pub malformed: u64,
    pub lost: u64,
    pub unseen: u64,
    pub stalled: u64,
    pub difference: u64,
    pub ledgers: u64,
    pub reloads: u64,
    pub stalls: u64,
    pub upgrades: u64,
    pub kills: u64,
    pub scrapes: u64,
    pub connections: u64,
    pub memory: Vec<Memory>,
}

impl Memory {
    /// Returns the memory of a program, or None without samples.
    /// - samples: resident memory in KiB, one sample per second.
    pub fn of(program: &'static str, samples: &[i64]) -> Option<Memory> {
        let (first, last) = (*samples.first()?, *samples.last()?);
        Some(Memory {
            program,
            seconds: samples.len() as u64,
            first_kib: first,
            last_kib: last,
            slope_kib_per_minute: slope(samples) * 60.0,
        })
    }

    fn is_flat(&self) -> bool {
        self.last_kib - self.first_kib <= GROWTH_KIB_MAX
    }
}

/// Returns the slope of the least-squares line through the samples, in their unit per sample; 0 with fewer than two
/// samples.
fn slope(samples: &[i64]) -> f64 {
    let count = samples.len() as f64;
    let mean_time = (count - 1.0) / 2.0;
    let mean = samples.iter().sum::<i64>() as f64 / count;
    let (mut above, mut below) = (0.0, 0.0);
    for (time, sample) in samples.iter().enumerate() {
        let off = time as f64 - mean_time;
        above += off * (*sample as f64 - mean);
        below += off * off;
    }
    if below > 0.0 {
        above / below
    } else {
        0.0
    }
}

impl Figures {
    /// Adds the counts of a firewall's last ledger, which include those of the firewalls before it that were upgraded.
    pub fn add(&mut self, ledger: &Ledger) {
        self.received += ledger.received;
        self.accepted += ledger.verdict("accept");
        self.dropped += ledger.verdict("drop");
        self.malformed += ledger.malformed.values().sum::<u64>();
        self.lost += ledger.lost;
        self.unseen += ledger.kernel.unseen;
        self.stalled += ledger.stalled;
        self.difference += ledger.difference;
        self.ledgers += 1;
    }

    fn is_flat(&self) -> bool {
        self.memory.iter().all(Memory::is_flat)
    }

    pub fn is_good(&self) -> bool {
        self.difference == 0 && self.unseen == 0 && self.is_flat() && self.received > 0
    }
}

fn mark(good: bool) -> &'static str {
    if good {
        ""
    } else {
        " !"
    }
}

/// Prints a table of the figures and of the memory. `!` marks bad figures.
pub fn print(all: &[Figures]) {
    type Cell = fn(&Figures) -> String;
    let rows: [(&str, Cell); 15] = [
        ("began as", |f| f.twin.to_owned()),
        ("seconds", |f| f.seconds.to_string()),
        ("packets received", |f| f.received.to_string()),
        ("  accepted", |f| f.accepted.to_string()),
        ("  dropped", |f| f.dropped.to_string()),
        ("  malformed", |f| f.malformed.to_string()),
        ("lost (buffer, queue)", |f| f.lost.to_string()),
        ("answered by the guard", |f| f.stalled.to_string()),
        ("unaccounted for", |f| {
            let missing = f.difference + f.unseen;
            format!("{missing}{}", mark(missing == 0))
        }),
        ("reloads", |f| f.reloads.to_string()),
        ("stalls", |f| f.stalls.to_string()),
        ("upgrades", |f| f.upgrades.to_string()),
        ("kills", |f| f.kills.to_string()),
        ("scrapes", |f| f.scrapes.to_string()),
        ("TCP connections", |f| f.connections.to_string()),
    ];
    for (name, cell) in rows {
        let cells: Vec<String> = all.iter().map(|f| format!("{:>12}", cell(f))).collect();
        println!("{name:<24}{}", cells.join(""));
    }
    println!("\nmemory (VmRSS, KiB)        seconds   first    last   KiB/min");
    for memory in all.iter().flat_map(|figures| &figures.memory) {
        println!(
            "  {:<24} {:>7} {:>7} {:>7} {:>9.1}{}",
            memory.program,
            memory.seconds,
            memory.first_kib,
            memory.last_kib,
            memory.slope_kib_per_minute,
            mark(memory.is_flat())
        );
    }
}

pub fn json(all: &[Figures]) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(all)? + "\n")
}
