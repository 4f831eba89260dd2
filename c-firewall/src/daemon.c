// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>

#include "load.h"
#include "log.h"
#include "report.h"
#include "tally.h"
#include "wait.h"
#include "worker.h"

#define NS_PER_SECOND UINT64_C(1000000000)

/// Blocks the signals that the main thread waits for, in all threads started later.
static void block_signals(sigset_t *signals) {
    sigemptyset(signals);
    sigaddset(signals, SIGINT);
    sigaddset(signals, SIGTERM);
    sigaddset(signals, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, signals, NULL);
}

/// All that runs.
struct daemon {
    struct options *options;
    struct loaded loaded;
    struct tally tally;
    struct workers workers;
};

static void print_ledgers(struct daemon *daemon, enum report_reason reason) {
    struct workers *workers = &daemon->workers;

    workers_ledgers(workers, reason != REPORT_EXIT);
    tally_begin(&daemon->tally);
    for (uint32_t i = 0; i < workers->count; i++)
        tally_add(&daemon->tally, &workers->all[i].ask.counters);
    report_print(report_ledger(daemon->options, reason, report_time(), workers->ledgers,
                               workers->count, &daemon->tally));
}

/// Prints ledgers until a signal says to stop.
static void supervise(struct daemon *daemon, const sigset_t *signals) {
    const uint64_t interval_ns = daemon->options->stats_s * NS_PER_SECOND;
    uint64_t due_ns = wait_clock() + interval_ns;
    int signal = 0;

    while (signal != SIGINT && signal != SIGTERM) {
        const uint64_t now_ns = wait_clock();
        const uint64_t left_ns = due_ns > now_ns ? due_ns - now_ns : 0;
        const struct timespec left = {(time_t)(left_ns / NS_PER_SECOND),
                                      (long)(left_ns % NS_PER_SECOND)};

        signal = sigtimedwait(signals, NULL, interval_ns > 0 ? &left : NULL);
        if (signal == SIGUSR1)
            print_ledgers(daemon, REPORT_SIGNAL);
        if (signal < 0 && errno == EAGAIN) {
            print_ledgers(daemon, REPORT_INTERVAL);
            due_ns += interval_ns;
        }
    }
}

/// Prints the last ledgers and says what is wrong, if anything. Returns the exit code.
static int finish(struct daemon *daemon, const struct worker *failed) {
    const struct workers *workers = &daemon->workers;
    struct failure failure;
    uint64_t difference = 0;

    print_ledgers(daemon, REPORT_EXIT);
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

/// Loads the policy and starts the workers. Returns 0, or -errno with failure filled in and all
/// freed.
static int start(struct daemon *daemon, struct failure *failure) {
    int result = load(&daemon->loaded, daemon->options, failure);

    if (result < 0)
        return result;
    result = tally_make(&daemon->tally, &daemon->loaded.policy, daemon->loaded.compiled);
    if (result < 0)
        failure_set_start(failure, "calloc", -result);
    else
        result = workers_start(&daemon->workers, daemon->options, &daemon->loaded, failure);
    if (result < 0) {
        tally_free(&daemon->tally);
        load_free(&daemon->loaded);
    }
    return result;
}

int daemon_run(struct options *options) {
    struct daemon daemon = {.options = options};
    const struct queue_settings *first;
    struct failure failure;
    sigset_t signals;
    int code;

    block_signals(&signals);
    prctl(PR_SET_TIMERSLACK, 1UL); // nanosecond: the coalescing sleep is short; threads inherit it
    if (start(&daemon, &failure) < 0)
        return log_fail(&failure);
    first = &daemon.workers.all[0].settings;
    options->gso = first->gso;
    report_print(report_start(options, load_requirement(&daemon.loaded), first->receive_buffer,
                              report_time()));
    supervise(&daemon, &signals);
    code = finish(&daemon, workers_stop(&daemon.workers));
    workers_free(&daemon.workers);
    tally_free(&daemon.tally);
    load_free(&daemon.loaded);
    return code;
}
