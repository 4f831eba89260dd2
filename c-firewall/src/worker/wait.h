// SPDX-License-Identifier: GPL-2.0-or-later
// Choice of a worker's next action after a receive call: receive again, yield, sleep or poll. It
// has no side effects, and depends only on a clock and the number of messages. The worker executes
// the result.
//
// Theory of operation: if the receiver sleeps in poll, the sender must wake it for every packet or
// two. During a flood the worker instead sleeps for a short fixed time while packets gather, like
// the interrupt moderation of a network card. Without a flood the next packet often follows within
// microseconds. Therefore the worker first polls the socket repeatedly (spins), at most for the
// spin budget. The budget is halved after a long sleep, and restored after a short sleep, as in
// KVM's halt polling.
#ifndef WORKER_WAIT_H
#define WORKER_WAIT_H

#include <stdbool.h>
#include <stdint.h>

enum {
    WAIT_FLOOD_PPS = 100000, // rate in packets per second above which traffic counts as a flood
    // Number of messages in a rate window, after which the rate is computed.
    WAIT_WINDOW_MESSAGES = 64,
    WAIT_SPIN_LEAST_NS = 1000, // minimum spin budget in nanoseconds; a smaller budget becomes 0
};

/// Action of a worker before its next receive call.
enum wait_action {
    WAIT_AGAIN, // receive again immediately
    // Call sched_yield, then receive again: the program for which the packets are may need this
    // CPU.
    WAIT_YIELD,
    WAIT_SLEEP, // sleep for wait.coalesce_ns, then receive again
    WAIT_POLL,  // sleep in poll without a timeout, then call wait_woken and receive again
};

/// State of a worker from which its next action is chosen. All times are in nanoseconds of
/// CLOCK_MONOTONIC.
struct wait {
    uint32_t batch;           // maximum number of messages of a receive call
    uint64_t spin_ns;         // maximum spin budget (--spin), in nanoseconds
    uint64_t coalesce_ns;     // duration of the timed sleep during a flood (--coalesce)
    uint64_t budget_ns;       // current spin budget, 0..spin_ns
    uint64_t last_ns;         // time at which messages were last received
    uint64_t window_ns;       // start of the current rate window
    uint64_t window_messages; // number of messages in the current rate window
    uint64_t poll_ns;         // time at which wait_next last returned WAIT_POLL
    // True if the rate of the last complete window was above WAIT_FLOOD_PPS, until a sleep brings
    // no message.
    bool flood;
    bool slept;    // true if the last action was WAIT_SLEEP and no message has arrived since then
    bool spinning; // true if the last action was WAIT_YIELD and no message has arrived since then
};

/// Fills in the state at the start of the loop.
/// - spin_us: maximum spin budget; 0 = never spin.
/// - coalesce_us: duration of the timed sleep; 0 = never use it.
void wait_init(struct wait *wait, uint32_t batch, uint32_t spin_us, uint32_t coalesce_us,
               uint64_t now_ns);

/// Returns the next action after a receive call that returned `messages` messages (0..batch). Must
/// be called after these messages are answered. Returns WAIT_AGAIN if they filled the batch.
/// Otherwise the socket is empty, and the action is
/// 1. WAIT_SLEEP in a flood, if coalesce_ns > 0; a sleep that brought no message ends the flood;
/// 2. WAIT_YIELD while fewer than budget_ns have passed since the last message;
/// 3. WAIT_POLL.
enum wait_action wait_next(struct wait *wait, uint64_t now_ns, uint32_t messages);

/// Adjusts the spin budget. Must be called when poll returns. Restores the budget to spin_ns if the
/// sleep was shorter than spin_ns, and halves it if the sleep was longer.
void wait_woken(struct wait *wait, uint64_t now_ns);

/// Returns the time of CLOCK_MONOTONIC in nanoseconds, without a system call (vDSO).
uint64_t wait_clock(void);

#endif
