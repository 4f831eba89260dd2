// SPDX-License-Identifier: GPL-2.0-or-later
//! Progress bar on stderr, if that is a terminal.

use std::fmt::Write;
use std::io::{stderr, stdout, IsTerminal};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::counts::Sum;
use crate::state::State;

/// Form of the bar, which fits into a line of a narrow terminal; the excess is cut off at the end.
const TEMPLATE: &str = "{bar:12} {human_pos}/{human_len} {rate}/s {eta} left {wide_msg}";

pub struct Progress {
    bar: Option<ProgressBar>,
    /// True if the results go to a terminal, too, probably to the bar's: the bar is then hidden while they are written.
    shares: bool,
}

impl Progress {
    pub fn new(targets: u64, quiet: bool) -> Progress {
        if quiet || !stderr().is_terminal() {
            return Progress {
                bar: None,
                shares: false,
            };
        }
        let bar =
            ProgressBar::with_draw_target(Some(targets), ProgressDrawTarget::stderr_with_hz(10));
        let rate = |state: &ProgressState, to: &mut dyn Write| {
            let _ = write!(to, "{:.0}", state.per_sec());
        };
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style.with_key("rate", rate));
        }
        Progress {
            bar: Some(bar),
            shares: stdout().is_terminal(),
        }
    }

    pub fn show(&self, sum: &Sum) {
        let Some(bar) = &self.bar else { return };
        bar.set_position(sum.done());
        bar.set_message(format!(
            "open {} closed {} filtered {} error {}",
            sum.state(State::Open),
            sum.state(State::Closed),
            sum.state(State::Filtered),
            sum.state(State::Error)
        ));
    }

    /// Runs `write`, which writes results, with the bar hidden if both share a terminal.
    pub fn aside<T>(&self, write: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) if self.shares => bar.suspend(write),
            _ => write(),
        }
    }

    pub fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
