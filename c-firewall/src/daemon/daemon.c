// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: close
#include "daemon/daemon.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/output.h"
#include "daemon/supervise.h"
#include "daemon/types.h"
#include "handover/take.h"
#include "privilege/notify.h"
#include "privilege/privilege.h"
#include "queue/proc.h"
#include "state/contract.h"
#include "state/queue_rules.h"
#include "state/report.h"
#include "state/reverse_path.h"

/// Blocks the signals that the main thread reads, in this thread and in all threads started later.
/// Opens the descriptor to read the signals from (signalfd). Returns 0, or -errno with failure
/// filled in.
static int open_signals(struct daemon *daemon, struct failure *failure) {
    sigset_t signals;

    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    sigaddset(&signals, SIGUSR1);
    sigaddset(&signals, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    daemon->signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (daemon->signals < 0) {
        const int error = errno;

        failure_set_start(failure, "signalfd", error);
        return -error;
    }
    return 0;
}

/// Returns a descriptor that the old firewall has sent (for --events or --control), which the
/// caller owns from now on; -1 = none.
static int inherit(struct handover *taken, enum handover_fd which) {
    const int fd = taken ? taken->fds[which] : -1;

    if (taken)
        taken->fds[which] = -1;
    return fd;
}

/// Opens the destination of events with the rights of the user that the firewall will become.
/// Returns 0, or -errno with failure filled in.
static int open_events(struct daemon *daemon, struct handover *taken, struct failure *failure) {
    struct privilege_lowered lowered;
    int result = privilege_lower(daemon->options, &lowered, failure);

    if (result < 0)
        return result;
    result =
        events_open(&daemon->events, daemon->options, inherit(taken, HANDOVER_EVENTS), failure);
    privilege_raise(&lowered);
    return result;
}

static int open_control(struct daemon *daemon, struct handover *taken, struct failure *failure) {
    const struct control_actions actions = supervise_actions(daemon);
    struct options *options = daemon->options;

    if (!options->control)
        return 0;
    return control_open(&daemon->control, options, inherit(taken, HANDOVER_CONTROL), &actions,
                        failure);
}

static int start_guard(struct daemon *daemon, struct failure *failure) {
    const struct workers *workers = &daemon->state.workers;
    int fds[OPTION_QUEUES_MAX];
    uint16_t numbers[OPTION_QUEUES_MAX];

    for (uint32_t i = 0; i < workers->count; i++) {
        fds[i] = queue_fd(&workers->all[i].queue);
        numbers[i] = workers->all[i].settings.number;
    }
    return guard_start(&daemon->guard, daemon->options, fds, numbers, workers->count, failure);
}

/// Creates two failure contracts (tables of the effect of each failure): for the time while the
/// guard runs, and for the time after its end.
static void make_contract(struct daemon *daemon, const struct queue_rules *queue_rules) {
    const struct worker *first = &daemon->state.workers.all[0];
    struct queue_figures figures;
    struct contract_facts facts = {
        .receive_buffer = first->settings.receive_buffer,
        .figures = queue_proc_figures(first->settings.number, &figures) == 0,
        .guard = true,
    };

    contract_make(daemon->options, queue_rules, &facts, &daemon->state.contract);
    facts.guard = false;
    contract_make(daemon->options, queue_rules, &facts, &daemon->state.unguarded);
}

/// Pairs the policy's rules with those of the old firewall's policy, whose counters, limits and
/// quotas they inherit. Sets the policy's generation to the number after that of the old policy.
/// Returns 0, or -errno with failure filled in.
static int prepare(struct state *state, struct handover *taken, struct failure *failure) {
    if (state->loaded->compiled && taken->generation < UINT32_MAX)
        state->loaded->generation = taken->generation + 1;
    return handover_take_prepare(taken, state->loaded, failure);
}

/// Opens queues, sockets and events, starts the guard, and gives up the rights that are no longer
/// needed. Returns 0, or -errno with failure filled in.
static int open_all(struct daemon *daemon, struct handover *taken,
                    const struct queue_rules *queue_rules, struct failure *failure) {
    struct state *state = &daemon->state;
    int result = open_events(daemon, taken, failure);

    state->events = daemon->events;
    if (result == 0)
        result = open_control(daemon, taken, failure);
    if (result == 0 && handover_values(daemon->options, daemon->values) < 0) {
        failure_set_start(failure, "malloc", ENOMEM);
        result = -ENOMEM;
    }
    if (result == 0 && taken)
        result = prepare(state, taken, failure);
    if (result == 0)
        result = state_open(state, taken ? taken->queues : NULL, failure);
    if (result < 0)
        return result;
    // Only root may open the kernel's file with the queues' figures. On failure, ledgers show that
    // these figures are missing.
    (void)queue_proc_open();
    make_contract(daemon, queue_rules);
    result = start_guard(daemon, failure);
    return result < 0 ? result : privilege_drop(daemon->options, state->loaded, failure);
}

/// Starts the threads of events, workers and watchdog. In an upgrade, they replace those of the old
/// firewall. Returns 0, or -errno with failure filled in.
static int start_threads(struct daemon *daemon, struct handover *taken, struct failure *failure) {
    struct state *state = &daemon->state;
    int result = events_start(daemon->events, failure);

    if (result == 0 && taken)
        result = handover_take_commit(taken, state, failure);
    if (result == 0)
        result = workers_start(&state->workers, failure);
    if (result == 0 && taken)
        result = handover_take_running(taken, state, failure);
    if (result == 0)
        result = watchdog_start(&daemon->watchdog, &state->workers, failure);
    if (result == 0 && taken)
        result = handover_taken(taken, failure);
    return result;
}

/// Starts the firewall, or takes over from a running firewall (--take-over). Returns 0, or -errno
/// with failure filled in.
static int start(struct daemon *daemon, struct failure *failure) {
    struct options *options = daemon->options;
    struct handover handover;
    struct handover *taken = NULL;
    struct queue_rules queue_rules;
    int result = privilege_check(options, failure);

    if (result == 0)
        result = open_signals(daemon, failure);
    if (result == 0)
        result = state_load(&daemon->state, options, failure);
    if (result < 0)
        return result;
    if (options->policy && requirement_reads_names(load_requirement(daemon->state.loaded)))
        reverse_path_warn();
    queue_rules_read(&queue_rules, options);
    handover_init(&handover);
    if (options->take_over) {
        taken = &handover;
        result = handover_take(options, taken, failure);
    } else {
        guard_relieve(options);
    }
    if (result == 0) {
        daemon->handed_over = taken;
        result = open_all(daemon, taken, &queue_rules, failure);
    }
    if (result == 0)
        result = start_threads(daemon, taken, failure);
    if (result == 0) {
        daemon->handed_over = false;
        workers_confirm(&daemon->state.workers);
        guard_hold(&daemon->guard, false);
        queue_rules_warn(&queue_rules);
    }
    handover_free(&handover);
    return result;
}

/// Stops the workers and ends the other threads, the guard and the control socket. Returns the
/// first worker, in the order of the queues, that failed; NULL if no worker failed.
static const struct worker *stop(struct daemon *daemon) {
    const struct worker *failed;

    watchdog_stop(&daemon->watchdog);
    failed = workers_stop(&daemon->state.workers);
    if (daemon->started)
        events_tell(daemon->events, EVENTS_STOPPED, NULL);
    if (daemon->events)
        events_stop(daemon->events);
    guard_end(&daemon->guard);
    control_close(daemon->control, !daemon->handed_over);
    return failed;
}

static void free_all(struct daemon *daemon) {
    handover_give_end(daemon->giving);
    state_free(&daemon->state);
    events_close(daemon->events);
    for (int i = 0; i < HANDOVER_FD_COUNT; i++)
        free(daemon->values[i]);
    if (daemon->signals >= 0)
        close(daemon->signals);
}

/// Prints the last ledgers, and logs unaccounted packets and a failed worker. Returns the exit
/// code.
static int finish(struct daemon *daemon, const struct worker *failed) {
    const struct workers *workers = &daemon->state.workers;
    struct failure failure;
    uint64_t difference = 0;

    supervise_print_ledgers(daemon, REPORT_EXIT);
    for (uint32_t i = 0; i < workers->count; i++)
        difference += workers->ledgers[i].difference;
    if (difference > 0)
        log_warn("the ledger does not reconcile: %" PRIu64 " packets are unaccounted for",
                 difference);
    if (!failed)
        return LOG_EXIT_STOPPED;
    failure_set_running(&failure, failed->failed_call, failed->error);
    return log_fail(&failure);
}

static void print_start(const struct state *state) {
    output_print(report_start(state->options, load_requirement(state->loaded),
                              state->workers.all[0].settings.receive_buffer, &state->contract,
                              clock_unix_ms()));
}

int daemon_run(struct options *options) {
    struct daemon daemon = {
        .options = options, .guard = {.fd = -1}, .signals = -1, .drain_end_ns = UINT64_MAX};
    const struct state *state = &daemon.state;
    struct failure failure;
    int code;

    // Sets the timer slack to one nanosecond, because the coalescing sleep is short; threads
    // inherit it.
    prctl(PR_SET_TIMERSLACK, 1UL);
    // A program that was executed by a descriptor, as in an upgrade, can have the descriptor's
    // number as its name.
    prctl(PR_SET_NAME, OPTIONS_PROGRAM);
    log_set_level(options->log_level);
    if (start(&daemon, &failure) != 0) {
        stop(&daemon);
        free_all(&daemon);
        return log_fail(&failure);
    }
    print_start(state);
    events_tell(daemon.events, options->take_over ? EVENTS_UPGRADE : EVENTS_STARTED, NULL);
    daemon.started = true;
    supervise_tell_ready(state);
    supervise(&daemon);
    if (!daemon.handed_over)
        notify_stopping();
    code = finish(&daemon, stop(&daemon));
    free_all(&daemon);
    return code;
}
