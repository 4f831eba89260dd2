// SPDX-License-Identifier: GPL-2.0-or-later
//! The bar on stderr, where that is a terminal.

use std::fmt::Write;
use std::io::{stderr, stdout, IsTerminal};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::counts::Sum;
use crate::state::State;

/// It fits into a line of a narrow terminal; what does not fit is cut off behind.
const TEMPLATE: &str = "{bar:12} {human_pos}/{human_len} {rate}/s {eta} left {wide_msg}";

pub struct Progress {
    bar: Option<ProgressBar>,
    /// Results go to a terminal, too: most likely the same.
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

    /// Does what writes results, so that none ends up in the bar's line.
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
