// SPDX-License-Identifier: GPL-2.0-or-later
// c-firewall: the C twin of Twinwall, a userspace firewall on NFQUEUE.
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <time.h>

#include "log.h"
#include "options.h"
#include "report.h"
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
    signal(SIGPIPE, SIG_IGN); // a report that no one reads any more is no reason to stop
}

static void print_ledgers(struct workers *workers, const struct options *options,
                          enum report_reason reason) {
    workers_ledgers(workers, reason != REPORT_EXIT);
    report_print(report_ledger(options, reason, report_time(), workers->ledgers, workers->count));
}

/// Prints ledgers until a signal says to stop.
static void supervise(struct workers *workers, const struct options *options,
                      const sigset_t *signals) {
    const uint64_t interval_ns = options->stats_s * NS_PER_SECOND;
    uint64_t due_ns = wait_clock() + interval_ns;
    int signal = 0;

    while (signal != SIGINT && signal != SIGTERM) {
        const uint64_t now_ns = wait_clock();
        const uint64_t left_ns = due_ns > now_ns ? due_ns - now_ns : 0;
        const struct timespec left = {(time_t)(left_ns / NS_PER_SECOND),
                                      (long)(left_ns % NS_PER_SECOND)};

        signal = sigtimedwait(signals, NULL, interval_ns > 0 ? &left : NULL);
        if (signal == SIGUSR1)
            print_ledgers(workers, options, REPORT_SIGNAL);
        if (signal < 0 && errno == EAGAIN) {
            print_ledgers(workers, options, REPORT_INTERVAL);
            due_ns += interval_ns;
        }
    }
}

/// Prints the last ledgers and says what is wrong, if anything. Returns the exit code.
static int finish(struct workers *workers, const struct options *options,
                  const struct worker *failed) {
    struct failure failure;
    uint64_t difference = 0;

    print_ledgers(workers, options, REPORT_EXIT);
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

/// Filters until a signal says to stop. Returns the exit code.
static int run(struct options *options, const sigset_t *signals) {
    struct workers workers;
    struct failure failure;
    int code;

    if (workers_start(&workers, options, &failure) < 0)
        return log_fail(&failure);
    options->gso = workers.all[0].settings.gso;
    report_print(report_start(options, workers.all[0].settings.receive_buffer, report_time()));
    supervise(&workers, options, signals);
    code = finish(&workers, options, workers_stop(&workers));
    workers_free(&workers);
    return code;
}

int main(int argc, char **argv) {
    struct options options;
    struct failure failure;
    sigset_t signals;

    log_open();
    switch (options_parse(argc, argv, &options, &failure)) {
    case OPTIONS_ACTION_RUN:
        block_signals(&signals);
        prctl(PR_SET_TIMERSLACK,
              1UL); // nanosecond: the coalescing sleep is short; threads inherit it
        return run(&options, &signals);
    case OPTIONS_ACTION_CHECK:
    case OPTIONS_ACTION_EXPLAIN:
    case OPTIONS_ACTION_HELP:
        fputs(options_help, stdout);
        return LOG_EXIT_STOPPED;
    case OPTIONS_ACTION_VERSION:
        puts(OPTIONS_PROGRAM " " OPTIONS_VERSION);
        return LOG_EXIT_STOPPED;
    default:
        return log_fail(&failure);
    }
}
