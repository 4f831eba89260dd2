// SPDX-License-Identifier: GPL-2.0-or-later
//! `fwctl run`: an ordinary user's commands in cages, with real servers on the other side of pasta and slirp4netns.

use twinwall_tests::case::{for_each_twin, Case};

mod adversary;
mod life;
mod reach;
mod scene;
mod uses;

pub fn cases() -> Vec<Case> {
    for_each_twin(&[adversary::ROWS, life::ROWS, reach::ROWS, uses::ROWS].concat())
}
