// SPDX-License-Identifier: GPL-2.0-or-later
//! Rate limit of questions (connection attempts or SYNs): a virtual clock that each question advances (generic cell
//! rate algorithm).

/// Maximum unused time that counts after a pause: the questions that were allowed in this time may be sent at once.
const BURST_NS: u64 = 5_000_000;

#[derive(Clone, Debug)]
pub struct Rate {
    /// Time between two questions (connection attempts or SYNs); 0 means no limit.
    interval_ns: u64,
    /// Time at which the next question (connection attempt or SYN) is allowed.
    next_ns: u64,
}

impl Rate {
    /// Creates a limit.
    /// - per_second: questions (connection attempts or SYNs) per second; 0 means no limit.
    pub fn new(per_second: f64, now_ns: u64) -> Rate {
        let interval = if per_second > 0.0 {
            1e9 / per_second
        } else {
            0.0
        };
        Rate {
            interval_ns: interval as u64,
            next_ns: now_ns,
        }
    }

    pub fn allowed(&mut self, now_ns: u64) -> u64 {
        if self.interval_ns == 0 {
            return u64::MAX;
        }
        self.next_ns = self.next_ns.max(now_ns.saturating_sub(BURST_NS));
        match now_ns.checked_sub(self.next_ns) {
            Some(ahead) => ahead / self.interval_ns + 1,
            None => 0,
        }
    }

    pub fn take(&mut self, questions: u64) {
        self.next_ns += self.interval_ns * questions;
    }

    /// Returns the time at which the next question is allowed; None without a limit.
    pub fn next_ns(&self) -> Option<u64> {
        (self.interval_ns != 0).then_some(self.next_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_as_many_as_were_allowed() {
        for step_ns in [10_000, 1_000_000, 3_000_000] {
            let mut rate = Rate::new(5000.0, 0);
            let (mut sent, mut now) = (0, 0);
            while now < 1_000_000_000 {
                let allowed = rate.allowed(now);
                rate.take(allowed);
                sent += allowed;
                now += step_ns;
            }
            assert!(
                (4980..=5010).contains(&sent),
                "{sent} by steps of {step_ns}"
            );
        }
    }

    #[test]
    fn a_pause_is_not_made_up_for() {
        let mut rate = Rate::new(1000.0, 0);
        rate.take(1);
        assert_eq!(rate.allowed(10_000_000_000), 6);
        assert_eq!(Rate::new(0.0, 0).allowed(5), u64::MAX);
    }
}
