// SPDX-License-Identifier: GPL-2.0-or-later
//! The bar on stderr, where that is a terminal.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::counts::Sum;
use crate::state::State;

pub struct Progress(Option<ProgressBar>);

impl Progress {
    pub fn new(targets: u64, quiet: bool) -> Progress {
        if quiet || !std::io::stderr().is_terminal() {
            return Progress(None);
        }
        let bar =
            ProgressBar::with_draw_target(Some(targets), ProgressDrawTarget::stderr_with_hz(10));
        let style = ProgressStyle::with_template(
            "{wide_bar} {human_pos}/{human_len}  {per_sec}  {msg}  {eta} left",
        );
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Progress(Some(bar))
    }

    pub fn show(&self, sum: &Sum) {
        let Some(bar) = &self.0 else { return };
        bar.set_position(sum.done());
        bar.set_message(format!(
            "open {} closed {} filtered {} error {}",
            sum.state(State::Open),
            sum.state(State::Closed),
            sum.state(State::Filtered),
            sum.state(State::Error)
        ));
    }

    pub fn end(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
