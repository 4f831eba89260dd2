// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: clock_gettime
#include "worker/wait.h"

#include <time.h>

#define NS_PER_SECOND UINT64_C(1000000000)

static uint64_t us_to_ns(uint32_t us) { return us * UINT64_C(1000); }

void wait_init(struct wait *wait, uint32_t batch, uint32_t spin_us, uint32_t coalesce_us,
               uint64_t now_ns) {
    *wait = (struct wait){
        .batch = batch,
        .spin_ns = us_to_ns(spin_us),
        .coalesce_ns = us_to_ns(coalesce_us),
        .budget_ns = us_to_ns(spin_us),
        .last_ns = now_ns,
        .window_ns = now_ns,
    };
}

static void restart_window(struct wait *wait, uint64_t now_ns) {
    wait->window_messages = 0;
    wait->window_ns = now_ns;
}

/// Counts received messages, and computes their rate when the window is complete.
static void note_messages(struct wait *wait, uint64_t now_ns, uint32_t messages) {
    if (wait->spinning)
        wait->budget_ns = wait->spin_ns;
    wait->spinning = false;
    wait->slept = false;
    wait->last_ns = now_ns;
    wait->window_messages += messages;
    if (wait->window_messages >= WAIT_WINDOW_MESSAGES) {
        wait->flood = wait->window_messages * NS_PER_SECOND >
                      (uint64_t)WAIT_FLOOD_PPS * (now_ns - wait->window_ns);
        restart_window(wait, now_ns);
    }
}

enum wait_action wait_next(struct wait *wait, uint64_t now_ns, uint32_t messages) {
    if (messages > 0)
        note_messages(wait, now_ns, messages);
    if (messages >= wait->batch)
        return WAIT_AGAIN;

    if (wait->flood && wait->slept) {
        wait->flood = false;
        wait->slept = false;
        restart_window(wait, now_ns);
    }
    if (wait->flood && wait->coalesce_ns > 0) {
        wait->slept = true;
        return WAIT_SLEEP;
    }
    if (now_ns - wait->last_ns < wait->budget_ns) {
        wait->spinning = true;
        return WAIT_YIELD;
    }
    wait->spinning = false;
    wait->poll_ns = now_ns;
    return WAIT_POLL;
}

void wait_woken(struct wait *wait, uint64_t now_ns) {
    const uint64_t slept_ns = now_ns - wait->poll_ns;

    if (slept_ns < wait->spin_ns)
        wait->budget_ns = wait->spin_ns;
    else if (slept_ns > wait->spin_ns)
        wait->budget_ns /= 2;
    if (wait->budget_ns < WAIT_SPIN_LEAST_NS)
        wait->budget_ns = 0;
}

uint64_t wait_clock(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}
