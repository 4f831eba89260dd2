// SPDX-License-Identifier: GPL-2.0-or-later
// Decision how to wait for packets when the queue's socket is empty. Pure: computed from a clock
// and the number of messages; the worker executes it.
//
// Theory of operation: a receiver that sleeps costs the sender a wake-up for every packet or two.
// During a flood a short timed sleep lets packets gather instead, as the interrupt moderation of a
// network card does. Without a flood the next packet often follows within microseconds, so the
// worker polls the socket (spins) for up to a budget of time. The budget shrinks when spinning
// found nothing, and is restored when sleeps turn out short, as in KVM's halt polling.
#ifndef WORKER_WAIT_H
#define WORKER_WAIT_H

#include <stdbool.h>
#include <stdint.h>

enum {
    WAIT_FLOOD_PPS = 100000,   // rate of packets per second above which traffic is a flood
    WAIT_WINDOW_MESSAGES = 64, // number of messages after which the rate is computed
    WAIT_SPIN_LEAST_NS = 1000, // smallest spin budget, in nanoseconds: a smaller one becomes 0
};

/// Action of a worker before its next receive call.
enum wait_action {
    WAIT_AGAIN, // receive again at once
    // Call sched_yield, then receive again: the receiver of the traffic may need this CPU.
    WAIT_YIELD,
    WAIT_SLEEP, // sleep for wait.coalesce_ns, then receive again
    WAIT_POLL,  // sleep in poll without a timeout, then call wait_woken and receive again
};

/// State of one worker's waiting. All times are in nanoseconds of CLOCK_MONOTONIC.
struct wait {
    uint32_t batch;           // maximum number of messages of a receive call
    uint64_t spin_ns;         // maximum spin budget (--spin)
    uint64_t coalesce_ns;     // duration of the timed sleep during a flood (--coalesce)
    uint64_t budget_ns;       // current spin budget, 0..spin_ns
    uint64_t last_ns;         // time at which messages were last received
    uint64_t window_ns;       // start of the current rate window
    uint64_t window_messages; // number of messages in the current rate window
    uint64_t poll_ns;         // time at which wait_next last returned WAIT_POLL
    bool flood;    // true if the rate of the last complete window was above WAIT_FLOOD_PPS
    bool slept;    // true if WAIT_SLEEP was returned and no message has come since
    bool spinning; // true if WAIT_YIELD was returned and no message has come since
};

/// Fills in the state at the start of the loop.
/// - spin_us, coalesce_us: 0 = never spin, never use the timed sleep.
void wait_init(struct wait *wait, uint32_t batch, uint32_t spin_us, uint32_t coalesce_us,
               uint64_t now_ns);

/// Returns the next step after a receive call that yielded `messages` (0..batch). Called once those
/// messages are answered. WAIT_AGAIN if they filled the batch; otherwise the socket was empty, and
/// the step is
/// 1. WAIT_SLEEP during a flood; but a sleep that brought no message ends the flood;
/// 2. WAIT_YIELD while fewer than budget_ns have passed since the last message;
/// 3. WAIT_POLL.
enum wait_action wait_next(struct wait *wait, uint64_t now_ns, uint32_t messages);

/// Adjusts the spin budget, as soon as poll returns: restores it to spin_ns if the sleep was
/// shorter than spin_ns, halves it if the sleep was longer.
void wait_woken(struct wait *wait, uint64_t now_ns);

/// Returns the time of CLOCK_MONOTONIC in nanoseconds (from the vDSO, without a system call).
uint64_t wait_clock(void);

#endif
