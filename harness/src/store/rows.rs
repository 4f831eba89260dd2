// SPDX-License-Identifier: GPL-2.0-or-later
//! The columns of the CSV files.

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::subject::original;
use crate::synthetic::SyntheticPolicy;

/// One load, as named in the rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellName {
    pub workload: String,
    pub path: String,
    pub payload_bytes: usize,
    /// Policy of the subjects that filter; None in loads without a policy.
    pub policy: Option<SyntheticPolicy>,
}

impl fmt::Display for CellName {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        // The size of delays is a factor, and the size of rings and files is in MiB.
        let (size, unit) = match self.workload.as_str() {
            "frames-delayed" => ("factor", ""),
            "frames-ring" => ("ring", " MiB"),
            "download" | "upload" => ("file", " MiB"),
            _ => ("payload", " B"),
        };
        write!(
            f,
            "{} over {}, {size} {}{unit}",
            self.workload, self.path, self.payload_bytes
        )?;
        match self.policy {
            Some(policy) => write!(f, ", {} {}", policy.size, policy.kind.counts()),
            None => Ok(()),
        }
    }
}

/// Kind of rows: the rows of one CSV file.
pub trait Row: Serialize + DeserializeOwned {
    const FILE: &'static str;
    /// Column names, as in the first line.
    const COLUMNS: &'static [&'static str];
}

/// Kind of rows that belong to a round: each round appends rows to the file.
pub trait RoundRow: Row {
    fn round(&self) -> u32;
    fn cell(&self) -> CellName;
}

macro_rules! row {
    ($(#[$doc:meta])* $name:ident in $file:literal {
        $($(#[$field_doc:meta])* $field:ident: $kind:ty,)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $kind,)*
        }

        impl Row for $name {
            const FILE: &'static str = $file;
            const COLUMNS: &'static [&'static str] = &[$(stringify!($field)),*];
        }
    };
}

row! {
    /// One measured value of one run.
    Sample in "samples.csv.gz" {
        /// Round from 1; [`super::UNTIMED`] without a round.
        round: u32,
        /// Position of the run within its round, from 1; 0 if it has none.
        position: u32,
        subject: String,
        workload: String,
        path: String,
        payload_bytes: usize,
        /// Policy of the load. The column is empty for loads without a policy, and missing in older files.
        policy: Option<SyntheticPolicy>,
        metric: String,
        unit: String,
        value: f64,
    }
}

row! {
    /// One value of the main metric in the course of a run.
    SeriesRow in "series.csv.gz" {
        round: u32,
        subject: String,
        workload: String,
        path: String,
        payload_bytes: usize,
        policy: Option<SyntheticPolicy>,
        /// Seconds since the start of the load; in slices the planned ones, the same for all slices of a round.
        second: f64,
        value: f64,
        unit: String,
    }
}

row! {
    /// One point of the distribution of latencies in a run.
    PercentileRow in "percentiles.csv.gz" {
        round: u32,
        subject: String,
        workload: String,
        path: String,
        payload_bytes: usize,
        policy: Option<SyntheticPolicy>,
        /// Percentile, 0 to 100.
        percentile: f64,
        value: f64,
        unit: String,
    }
}

row! {
    /// The median of the rounds with its interval, and the median of their ratios to the baseline where that is
    /// meaningful.
    Summary in "summary.csv" {
        subject: String,
        workload: String,
        path: String,
        payload_bytes: usize,
        policy: Option<SyntheticPolicy>,
        metric: String,
        unit: String,
        rounds: usize,
        median: f64,
        low: f64,
        high: f64,
        ratio: Option<f64>,
        ratio_low: Option<f64>,
        ratio_high: Option<f64>,
    }
}

row! {
    /// Comparison of two subjects: the ratio a / b of paired rounds, the ratio of the A/A pair, and the finding.
    PairRow in "pairs.csv" {
        workload: String,
        path: String,
        payload_bytes: usize,
        policy: Option<SyntheticPolicy>,
        metric: String,
        a: String,
        b: String,
        ratio: Option<f64>,
        low: Option<f64>,
        high: Option<f64>,
        noise_low: Option<f64>,
        noise_high: Option<f64>,
        finding: String,
    }
}

impl PairRow {
    /// Returns true if it is an A/A pair: a copy and its original.
    pub fn is_of_copies(&self) -> bool {
        original(&self.a) == Some(&self.b)
    }
}

macro_rules! cell {
    ($($name:ident),*) => {
        $(impl $name {
            pub fn cell(&self) -> CellName {
                CellName {
                    workload: self.workload.clone(),
                    path: self.path.clone(),
                    payload_bytes: self.payload_bytes,
                    policy: self.policy,
                }
            }
        })*
    };
}

cell!(Sample, SeriesRow, PercentileRow, Summary, PairRow);

macro_rules! round_row {
    ($($name:ident),*) => {
        $(impl RoundRow for $name {
            fn round(&self) -> u32 {
                self.round
            }

            fn cell(&self) -> CellName {
                $name::cell(self)
            }
        })*
    };
}

round_row!(Sample, SeriesRow, PercentileRow);
