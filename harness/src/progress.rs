// SPDX-License-Identifier: GPL-2.0-or-later
//! Shows the current run, the progress and the remaining time: a bar on a terminal, otherwise one line per run.

use std::io::{stderr, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::schedule::Amount;

/// Assumed time of a run in addition to its load: namespaces, rules, start and end of the programs.
const OVERHEAD: Duration = Duration::from_millis(300);

pub struct Progress {
    bar: Option<ProgressBar>,
    /// Planned and finished work, from which the remaining time is estimated.
    planned: Estimate,
    running: String,
}

/// Estimate of the remaining time, from the overhead of the finished steps.
struct Estimate {
    start: Instant,
    steps: u32,
    done: u32,
    load: Duration,
    load_done: Duration,
}

/// Returns the expected duration of an experiment before any measurement: its loads, and a fixed overhead per run.
pub fn expected(amount: Amount) -> Duration {
    amount.load + OVERHEAD * amount.runs
}

impl Estimate {
    fn left(&self, now: Instant) -> Duration {
        let elapsed = now - self.start;
        let overhead = match self.done {
            0 => OVERHEAD,
            done => elapsed.saturating_sub(self.load_done) / done,
        };
        self.load.saturating_sub(self.load_done) + overhead * (self.steps - self.done)
    }
}

impl Progress {
    pub fn new(amount: Amount) -> Progress {
        let steps = amount.runs;
        let bar = stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{bar:30} {pos}/{len}  {msg}");
            ProgressBar::new(steps.into()).with_style(style.expect("a constant template"))
        });
        let planned = Estimate {
            start: Instant::now(),
            steps,
            done: 0,
            load: amount.load,
            load_done: Duration::ZERO,
        };
        Progress {
            bar,
            planned,
            running: String::new(),
        }
    }

    /// Returns the remaining time in words.
    pub fn left(&self) -> String {
        in_words(self.planned.left(Instant::now()))
    }

    /// Marks the start of a run.
    pub fn begin(&mut self, what: String) {
        self.running = what;
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{}  ({} left)", self.running, self.left()));
            bar.tick();
        }
    }

    /// Marks the end of `runs` runs, whose loads were planned to last `load` in total. Prints their result if there is
    /// no bar.
    pub fn end(&mut self, runs: u32, load: Duration, result: &str) {
        self.planned.done += runs;
        self.planned.load_done += load;
        match &self.bar {
            Some(bar) => bar.inc(runs.into()),
            None => {
                let (done, steps) = (self.planned.done, self.planned.steps);
                eprintln!(
                    "{done}/{steps}  {}  {result}  ({} left)",
                    self.running,
                    self.left()
                );
            }
        }
    }

    /// Prints words on stderr, without disturbing the bar if there is one.
    pub fn say(&self, words: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{words}")),
            None => eprintln!("{words}"),
        }
    }

    pub fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Returns a duration in words, e.g. `1 h 5 min`, `2 min 10 s` or `7 s`.
pub fn in_words(duration: Duration) -> String {
    let seconds = duration.as_secs_f64().ceil() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_in_words() {
        let words = |seconds| in_words(Duration::from_secs(seconds));
        assert_eq!(
            [words(0), words(59), words(130)],
            ["0 s", "59 s", "2 min 10 s"]
        );
        assert_eq!(words(3900), "1 h 5 min");
        assert_eq!(in_words(Duration::from_millis(1200)), "2 s");
    }

    #[test]
    fn the_estimate_learns_from_the_steps_so_far() {
        let start = Instant::now();
        let seconds = Duration::from_secs;
        let mut estimate = Estimate {
            start,
            steps: 10,
            done: 0,
            load: seconds(20),
            load_done: Duration::ZERO,
        };
        assert_eq!(estimate.left(start), seconds(20) + 10 * OVERHEAD);
        // Two steps with 2 s of load each took 7 s: an overhead of 1.5 s each.
        (estimate.done, estimate.load_done) = (2, seconds(4));
        assert_eq!(
            estimate.left(start + seconds(7)),
            seconds(16) + 8 * Duration::from_millis(1500)
        );
    }
}
