// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: clock_gettime
//! What to do when the socket is empty. Pure state and decision from a clock and the number of
//! messages; the worker carries it out.
//!
//! Theory of operation: a receiver that sleeps costs the sender a wake-up for every packet or two.
//! During a flood a short timed sleep lets packets gather instead, as the interrupt moderation of a
//! network card does. Otherwise an answer often follows at once, so it pays to look again for a few
//! microseconds; the time spent so shrinks when it was in vain and comes back when sleeps turn out
//! short, as KVM's halt polling does.

use nix::time::{clock_gettime, ClockId};

/// More packets a second than this are a flood.
pub const FLOOD_PPS: u64 = 100_000;
/// The rate is taken each time that as many have come.
pub const WINDOW_MESSAGES: u64 = 64;
/// A budget halved to less than this becomes 0.
pub const SPIN_LEAST_NS: u64 = 1000;

const NS_PER_SECOND: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitAction {
    /// Look again at once.
    Again,
    /// sched_yield, then look again: the traffic's receiver may need this CPU.
    Yield,
    /// Sleep for `coalesce_ns`, then look again.
    Sleep,
    /// Sleep in poll without a timeout, then call `woken`, then look again.
    Poll,
}

/// One worker's state. All times in nanoseconds of CLOCK_MONOTONIC.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// Messages a receive call can yield.
    pub batch: u32,
    /// --spin.
    pub spin_ns: u64,
    /// --coalesce.
    pub coalesce_ns: u64,
    /// How long to spin now, 0..spin_ns.
    pub budget_ns: u64,
    /// Time of the last messages.
    pub last_ns: u64,
    /// When the running rate window began.
    pub window_ns: u64,
    /// That came in it.
    pub window_messages: u64,
    /// When `Poll` was last given.
    pub poll_ns: u64,
    /// The last whole window was above FLOOD_PPS.
    pub flood: bool,
    /// `Sleep` was given, and no message has come since.
    pub slept: bool,
    /// `Yield` was given, and no message has come since.
    pub spinning: bool,
}

fn us_to_ns(us: u32) -> u64 {
    u64::from(us) * 1000
}

/// Starts. spin_us, coalesce_us: 0 = never.
pub fn init(batch: u32, spin_us: u32, coalesce_us: u32, now_ns: u64) -> Wait {
    Wait {
        batch,
        spin_ns: us_to_ns(spin_us),
        coalesce_ns: us_to_ns(coalesce_us),
        budget_ns: us_to_ns(spin_us),
        last_ns: now_ns,
        window_ns: now_ns,
        ..Wait::default()
    }
}

fn restart_window(wait: &mut Wait, now_ns: u64) {
    wait.window_messages = 0;
    wait.window_ns = now_ns;
}

/// Counts messages, and computes their rate when there are enough.
fn note_messages(wait: &mut Wait, now_ns: u64, messages: u32) {
    if wait.spinning {
        wait.budget_ns = wait.spin_ns;
    }
    wait.spinning = false;
    wait.slept = false;
    wait.last_ns = now_ns;
    wait.window_messages += u64::from(messages);
    if wait.window_messages >= WINDOW_MESSAGES {
        let elapsed_ns = now_ns.wrapping_sub(wait.window_ns);
        wait.flood =
            wait.window_messages.wrapping_mul(NS_PER_SECOND) > FLOOD_PPS.wrapping_mul(elapsed_ns);
        restart_window(wait, now_ns);
    }
}

/// Next step after a receive call that yielded `messages` (0..batch), called when they have been
/// answered: `Again` if it filled the batch; otherwise the socket was empty after it, and
/// 1. `Sleep` during a flood, unless the sleep before brought nothing, which ends the flood;
/// 2. `Yield` while fewer than `budget_ns` have passed since the last message;
/// 3. `Poll`.
pub fn next(wait: &mut Wait, now_ns: u64, messages: u32) -> WaitAction {
    if messages > 0 {
        note_messages(wait, now_ns, messages);
    }
    if messages >= wait.batch {
        return WaitAction::Again;
    }

    if wait.flood && wait.slept {
        wait.flood = false;
        wait.slept = false;
        restart_window(wait, now_ns);
    }
    if wait.flood && wait.coalesce_ns > 0 {
        wait.slept = true;
        return WaitAction::Sleep;
    }
    if now_ns.wrapping_sub(wait.last_ns) < wait.budget_ns {
        wait.spinning = true;
        return WaitAction::Yield;
    }
    wait.spinning = false;
    wait.poll_ns = now_ns;
    WaitAction::Poll
}

/// To be told as soon as poll returns: sets the spin budget back to `spin_ns` if the sleep was
/// shorter than `spin_ns`, halves it if it was longer.
pub fn woken(wait: &mut Wait, now_ns: u64) {
    let slept_ns = now_ns.wrapping_sub(wait.poll_ns);
    if slept_ns < wait.spin_ns {
        wait.budget_ns = wait.spin_ns;
    } else if slept_ns > wait.spin_ns {
        wait.budget_ns /= 2;
    }
    if wait.budget_ns < SPIN_LEAST_NS {
        wait.budget_ns = 0;
    }
}

/// CLOCK_MONOTONIC (answered by the vDSO, without a system call), in nanoseconds.
pub fn clock() -> u64 {
    // It can't fail: this clock is in every kernel, and the memory is ours.
    let Ok(now) = clock_gettime(ClockId::CLOCK_MONOTONIC) else {
        return 0;
    };
    now.tv_sec() as u64 * NS_PER_SECOND + now.tv_nsec() as u64
}
