// SPDX-License-Identifier: GPL-2.0-or-later
// What to do when the socket is empty. Pure state and decision from a clock and the number of
// messages; the worker carries it out.
//
// Theory of operation: a receiver that sleeps costs the sender a wake-up for every packet or two.
// During a flood a short timed sleep lets packets gather instead, as the interrupt moderation of a
// network card does. Otherwise an answer often follows at once, so it pays to look again for a few
// microseconds; the time spent so shrinks when it was in vain and comes back when sleeps turn out
// short, as KVM's halt polling does.
#ifndef WORKER_WAIT_H
#define WORKER_WAIT_H

#include <stdbool.h>
#include <stdint.h>

enum {
    WAIT_FLOOD_PPS = 100000,   // more packets a second than this are a flood
    WAIT_WINDOW_MESSAGES = 64, // the rate is taken each time that as many have come
    WAIT_SPIN_LEAST_NS = 1000, // a budget halved to less than this becomes 0
};

enum wait_action {
    WAIT_AGAIN, // look again at once
    WAIT_YIELD, // sched_yield, then look again: the traffic's receiver may need this CPU
    WAIT_SLEEP, // sleep for wait.coalesce_ns, then look again
    WAIT_POLL,  // sleep in poll without a timeout, then call wait_woken, then look again
};

/// One worker's state. All times in nanoseconds of CLOCK_MONOTONIC.
struct wait {
    uint32_t batch;           // messages a receive call can yield
    uint64_t spin_ns;         // --spin
    uint64_t coalesce_ns;     // --coalesce
    uint64_t budget_ns;       // how long to spin now, 0..spin_ns
    uint64_t last_ns;         // when wait_next was last told of messages
    uint64_t window_ns;       // when the running rate window began
    uint64_t window_messages; // that came in it
    uint64_t poll_ns;         // when WAIT_POLL was last given
    bool flood;               // the last whole window was above WAIT_FLOOD_PPS
    bool slept;               // WAIT_SLEEP was given, and no message has come since
    bool spinning;            // WAIT_YIELD was given, and no message has come since
};

/// Starts.
/// - spin_us, coalesce_us: 0 = never.
void wait_init(struct wait *wait, uint32_t batch, uint32_t spin_us, uint32_t coalesce_us,
               uint64_t now_ns);

/// Next step after a receive call that yielded `messages` (0..batch), called when they have been
/// answered. Filling the batch means WAIT_AGAIN. Otherwise the socket was empty after it, and it
/// means
/// 1. WAIT_SLEEP during a flood, unless the sleep before brought nothing, which ends the flood;
/// 2. WAIT_YIELD while fewer than budget_ns have passed since the last message;
/// 3. WAIT_POLL.
enum wait_action wait_next(struct wait *wait, uint64_t now_ns, uint32_t messages);

/// To be told as soon as poll returns: sets the spin budget back to spin_ns if the sleep was
/// shorter than spin_ns, halves it if it was longer.
void wait_woken(struct wait *wait, uint64_t now_ns);

/// CLOCK_MONOTONIC (answered by the vDSO, without a system call), in nanoseconds.
uint64_t wait_clock(void);

#endif
