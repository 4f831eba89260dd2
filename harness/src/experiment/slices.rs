// SPDX-License-Identifier: GPL-2.0-or-later
//! Section `[slices]` of an experiment.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::in_range;

/// Number of rounds of slices that are discarded before the first counted round.
pub const WARM_UP_ROUNDS: u32 = 3;

/// Section `[slices]` of an experiment: division of a load into slices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Slices {
    /// Duration of the counted part of a slice, in which the sender sends. It follows `settle_milliseconds`.
    #[serde(deserialize_with = "in_range::<_, 1, 10000>")]
    pub milliseconds: u32,
    /// Time that the sender sends before the counted part of a slice. In this time the CPU's caches and clock frequency
    /// adapt to the subject again, after the slices of other subjects.
    #[serde(deserialize_with = "in_range::<_, 0, 10000>")]
    pub settle_milliseconds: u32,
    pub order: Order,
    #[serde(deserialize_with = "in_range::<_, 1, 100000>")]
    pub rounds: u32,
    /// Time limit of a load. The load ends after the first complete counted round that exceeds this limit.
    #[serde(deserialize_with = "in_range::<_, 1, 3600>")]
    pub most_seconds: u32,
}

/// Order of the subjects' slices in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Order A B C in one round, C B A in the next.
    Turned,
    /// Order A B C in the first round, B C A in the second, C A B in the third.
    Rotated,
}

impl Default for Slices {
    fn default() -> Slices {
        Slices {
            milliseconds: 50,
            settle_milliseconds: 5,
            order: Order::Turned,
            rounds: 120,
            most_seconds: 60,
        }
    }
}

impl Slices {
    /// Returns the counted time that the sender sends in a slice.
    pub fn slice(&self) -> Duration {
        Duration::from_millis(self.milliseconds.into())
    }

    /// Returns the time that the sender sends before the counted part of a slice.
    pub fn settle(&self) -> Duration {
        Duration::from_millis(self.settle_milliseconds.into())
    }

    /// Returns the minimum duration of a round with this number of subjects.
    pub fn round(&self, subjects: u32) -> Duration {
        (self.slice() + self.settle()) * subjects
    }

    /// Returns the planned duration of a load with this number of subjects, warm-up included and at most
    /// `most_seconds`.
    pub fn duration(&self, subjects: u32) -> Duration {
        let all = self.round(subjects) * (self.rounds + WARM_UP_ROUNDS);
        all.min(Duration::from_secs(self.most_seconds.into()))
    }
}
