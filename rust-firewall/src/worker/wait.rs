// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: clock_gettime
//! Choice of a worker's next action after a receive call: receive again, yield, sleep or poll. It has no side effects,
//! and depends only on a clock and the number of messages. The worker executes the result.
//!
//! Theory of operation: if the receiver sleeps in poll, the sender must wake it for every packet or two. During a flood
//! the worker instead sleeps for a short fixed time while packets gather, like the interrupt moderation of a network
//! card. Without a flood the next packet often follows within microseconds. Therefore the worker first polls the socket
//! repeatedly (spins), at most for the spin budget. The budget is halved after a long sleep, and restored after a short
//! sleep, as in KVM's halt polling.

use nix::time::{clock_gettime, ClockId};

/// Rate in packets per second above which traffic counts as a flood.
pub const FLOOD_PPS: u64 = 100_000;
/// Number of messages in a rate window, after which the rate is computed.
pub const WINDOW_MESSAGES: u64 = 64;
/// Minimum spin budget in nanoseconds; a smaller budget becomes 0.
pub const SPIN_LEAST_NS: u64 = 1000;

const NS_PER_SECOND: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
/// Action of a worker before its next receive call.
pub enum WaitAction {
    /// Receive again immediately.
    Again,
    /// Call sched_yield, then receive again: the program for which the packets are may need this CPU.
    Yield,
    /// Sleep for `coalesce_ns`, then receive again.
    Sleep,
    /// Sleep in poll without a timeout, then call `woken` and receive again.
    Poll,
}

/// State of a worker from which its next action is chosen. All times are in nanoseconds of CLOCK_MONOTONIC.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// Maximum number of messages of a receive call.
    pub batch: u32,
    /// Maximum spin budget (--spin), in nanoseconds.
    pub spin_ns: u64,
    /// Duration of the timed sleep during a flood (--coalesce).
    pub coalesce_ns: u64,
    /// Current spin budget, 0..spin_ns.
    pub budget_ns: u64,
    /// Time at which messages were last received.
    pub last_ns: u64,
    /// Start of the current rate window.
    pub window_ns: u64,
    /// Number of messages in the current rate window.
    pub window_messages: u64,
    /// Time at which `next` last returned `Poll`.
    pub poll_ns: u64,
    /// True if the rate of the last complete window was above FLOOD_PPS, until a sleep brings no message.
    pub flood: bool,
    /// True if the last action was `Sleep` and no message has arrived since then.
    pub slept: bool,
    /// True if the last action was `Yield` and no message has arrived since then.
    pub spinning: bool,
}

fn us_to_ns(us: u32) -> u64 {
    u64::from(us) * 1000
}

/// Returns the state at the start of the loop.
/// - spin_us: maximum spin budget; 0 = never spin.
/// - coalesce_us: duration of the timed sleep; 0 = never use it.
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

/// Counts received messages, and computes their rate when the window is complete.
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

/// Returns the next action after a receive call that returned `messages` messages (0..batch). Must be called after
/// these messages are answered. Returns `Again` if they filled the batch. Otherwise the socket is empty, and the action
/// is
/// 1. `Sleep` in a flood, if `coalesce_ns` > 0; a sleep that brought no message ends the flood;
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

/// Adjusts the spin budget. Must be called when poll returns. Restores the budget to spin_ns if the sleep was shorter
/// than spin_ns, and halves it if the sleep was longer.
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

/// Returns the time of CLOCK_MONOTONIC in nanoseconds, without a system call (vDSO).
pub fn clock() -> u64 {
    // It can't fail: this clock is in every kernel, and the memory is ours.
    let Ok(now) = clock_gettime(ClockId::CLOCK_MONOTONIC) else {
        return 0;
    };
    now.tv_sec() as u64 * NS_PER_SECOND + now.tv_nsec() as u64
}
