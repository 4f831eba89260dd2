// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: rt_sigtimedwait
#include "daemon.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "log.h"
#include "reload.h"
#include "report.h"
#include "state.h"
#include "tally.h"
#include "wait.h"

#define NS_PER_SECOND UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)

/// All that runs.
struct daemon {
    struct options *options;
    struct state state;
    int signals;           // signalfd
    uint64_t stats_due_ns; // of the next ledger; UINT64_MAX = never
    bool stopped;          // the end has come
};

/// Blocks the signals that the main thread reads, in all threads started later, and opens what it
/// reads them from. Returns 0, or -errno with failure filled in.
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

static void print_ledgers(struct daemon *daemon, enum report_reason reason) {
    struct workers *workers = &daemon->state.workers;
    struct tally tally;

    workers_ledgers(workers);
    state_tally(&daemon->state, &tally); // without memory it is that of no policy
    report_print(report_ledger(daemon->options, reason, report_time(), workers->ledgers,
                               workers->count, &tally));
    tally_free(&tally);
}

static void reload_policy(struct daemon *daemon) {
    struct reload_result result;
    struct failure failure;

    reload(&daemon->state, &result, &failure); // says itself what came of it
}

static void take_signal(struct daemon *daemon, uint32_t signal) {
    switch (signal) {
    case SIGHUP:
        reload_policy(daemon);
        break;
    case SIGUSR1:
        print_ledgers(daemon, REPORT_SIGNAL);
        break;
    case SIGINT:
    case SIGTERM:
        daemon->stopped = true;
        break;
    }
}

static void read_signals(struct daemon *daemon) {
    struct signalfd_siginfo signal;

    while (!daemon->stopped &&
           read(daemon->signals, &signal, sizeof signal) == (ssize_t)sizeof signal)
        take_signal(daemon, signal.ssi_signo);
}

/// Milliseconds until a time, as poll takes them: -1 = for ever; never too short.
static int timeout_until(uint64_t due_ns) {
    const uint64_t now_ns = wait_clock();
    uint64_t left_ms;

    if (due_ns == UINT64_MAX)
        return -1;
    left_ms = due_ns > now_ns ? (due_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS : 0;
    return left_ms < INT_MAX ? (int)left_ms : INT_MAX;
}

/// Prints the ledger that is due, if one is.
static void keep_interval(struct daemon *daemon) {
    if (wait_clock() < daemon->stats_due_ns)
        return;
    print_ledgers(daemon, REPORT_INTERVAL);
    daemon->stats_due_ns += daemon->options->stats_s * NS_PER_SECOND;
}

/// Does what it is told until it is told to stop.
static void supervise(struct daemon *daemon) {
    const uint64_t interval_ns = daemon->options->stats_s * NS_PER_SECOND;

    daemon->stats_due_ns = interval_ns > 0 ? wait_clock() + interval_ns : UINT64_MAX;
    while (!daemon->stopped) {
        struct pollfd sources[] = {{.fd = daemon->signals, .events = POLLIN}};

        poll(sources, 1, timeout_until(daemon->stats_due_ns));
        read_signals(daemon);
        keep_interval(daemon);
    }
}

/// Prints the last ledgers and says what is wrong, if anything. Returns the exit code.
static int finish(struct daemon *daemon, const struct worker *failed) {
    const struct workers *workers = &daemon->state.workers;
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

/// Starts all. Returns 0, or -errno with failure filled in and all freed.
static int start(struct daemon *daemon, struct failure *failure) {
    int result = open_signals(daemon, failure);

    if (result < 0)
        return result;
    result = state_start(&daemon->state, daemon->options, failure);
    if (result < 0)
        close(daemon->signals);
    return result;
}

int daemon_run(struct options *options) {
    struct daemon daemon = {.options = options};
    struct state *const state = &daemon.state;
    struct failure failure;
    int code;

    prctl(PR_SET_TIMERSLACK, 1UL); // nanosecond: the coalescing sleep is short; threads inherit it
    log_set_level(options->log_level);
    if (start(&daemon, &failure) < 0)
        return log_fail(&failure);
    report_print(report_start(options, load_requirement(state->loaded),
                              state->workers.all[0].settings.receive_buffer, report_time()));
    supervise(&daemon);
    code = finish(&daemon, workers_stop(&state->workers));
    state_free(state);
    close(daemon.signals);
    return code;
}
