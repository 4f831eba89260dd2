// SPDX-License-Identifier: GPL-2.0-or-later
//! `[slices]` of an experiment.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::in_range;

/// Rounds that are made and forgotten before the first counts.
pub const WARM_UP_ROUNDS: u32 = 3;

/// How a load is cut into slices; `[slices]` of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Slices {
    /// How long the sender sends in a slice.
    #[serde(deserialize_with = "in_range::<_, 1, 10000>")]
    pub milliseconds: u32,
    /// How long it sends before that, without counting: caches and clocks forget a subject while others have their turn.
    #[serde(deserialize_with = "in_range::<_, 0, 10000>")]
    pub settle_milliseconds: u32,
    pub order: Order,
    #[serde(deserialize_with = "in_range::<_, 1, 100000>")]
    pub rounds: u32,
    /// A load ends after this time with the rounds that it has: slow subjects and busy machines make slices longer.
    #[serde(deserialize_with = "in_range::<_, 1, 3600>")]
    pub most_seconds: u32,
}

/// In which order the subjects of a round have their slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// A B C, then C B A.
    Turned,
    /// A B C, then B C A, then C A B.
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
    /// How long the sender sends in a slice.
    pub fn slice(&self) -> Duration {
        Duration::from_millis(self.milliseconds.into())
    }

    /// How long it sends before that.
    pub fn settle(&self) -> Duration {
        Duration::from_millis(self.settle_milliseconds.into())
    }

    /// How long a round takes with so many subjects, at least.
    pub fn round(&self, subjects: u32) -> Duration {
        (self.slice() + self.settle()) * subjects
    }

    /// How long a load takes with so many subjects.
    pub fn duration(&self, subjects: u32) -> Duration {
        let all = self.round(subjects) * (self.rounds + WARM_UP_ROUNDS);
        all.min(Duration::from_secs(self.most_seconds.into()))
    }
}
