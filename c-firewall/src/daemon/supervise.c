// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: poll read close
#include "daemon/supervise.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/counts.h"
#include "base/log.h"
#include "base/output.h"
#include "handover/give.h"
#include "privilege/notify.h"
#include "queue/proc.h"
#include "ruleset/tally.h"
#include "state/reload.h"
#include "worker/tracked.h"
#include "worker/wait.h"

#define NS_PER_SECOND UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)
#define DRAIN_LOOK_NS (10 * NS_PER_MS) // time between checks for waiting packets during a drain
#define OVERLOAD_LOOK_NS NS_PER_SECOND // time between checks for lost packets
#define TRACKED_LOOK_NS NS_PER_SECOND // time between checks whether packets have a connection state
#define NEVER UINT64_MAX

enum {
    OWN_FDS = 3, // number of polled descriptors besides those of the control socket
    STATUS_BYTES = PATH_MAX + 128, // maximum size of a status line for systemd with its final NUL
};

/// Times of the main loop's next checks (wait_clock; NEVER = none), and the state of these checks.
struct times {
    uint64_t stats_ns;
    uint64_t overload_ns;
    uint64_t tracked_ns;
    struct tracked_watch tracked;
    uint32_t lost[OPTION_QUEUES_MAX]; // number of lost packets of each queue at the last check
};

void supervise_print_ledgers(struct daemon *daemon, enum report_reason reason) {
    struct workers *workers = &daemon->state.workers;
    struct tally tally;

    workers_ledgers(workers);
    state_tally(&daemon->state, &tally); // without memory the tally is empty, as without a policy
    output_print(report_ledger(daemon->options, reason, clock_unix_ms(), workers->ledgers,
                               workers->count, &tally));
    tally_free(&tally);
}

static int act_snapshot(void *context, bool with_rules, struct snapshot *snapshot) {
    struct daemon *daemon = context;

    return snapshot_take(&daemon->state, with_rules, snapshot);
}

static char *act_stats(void *context) {
    struct daemon *daemon = context;
    struct workers *workers = &daemon->state.workers;
    struct options options = *daemon->options;
    struct tally tally;
    char *report;

    options.json = true;
    workers_ledgers(workers);
    if (state_tally(&daemon->state, &tally) < 0)
        return NULL;
    report = report_ledger(&options, REPORT_CONTROL, clock_unix_ms(), workers->ledgers,
                           workers->count, &tally);
    tally_free(&tally);
    return report;
}

static int act_connections(void *context, uint64_t from, bool undecided, struct listing *listing) {
    struct daemon *daemon = context;

    return workers_list(&daemon->state.workers, from, undecided, listing);
}

/// Fills in the failure of a request that must wait until an upgrade is over. Returns -EBUSY.
/// - cure: verb for the client's action after the upgrade, such as "reload".
static int fail_giving(const char *cure, struct failure *failure) {
    failure_set(failure, LOG_EXIT_USAGE,
                "another firewall is about to take over: %s when that is done or has failed", cure);
    return -EBUSY;
}

void supervise_tell_ready(const struct state *state) {
    const struct loaded *loaded = state->loaded;
    const char *failed = *state->reload_error ? "; the last reload failed" : "";
    char status[STATUS_BYTES];

    if (loaded->compiled)
        snprintf(status, sizeof status, "generation %u of %s, rules: %u%s", loaded->generation,
                 state->options->policy, loaded->compiled->rule_count, failed);
    else
        snprintf(status, sizeof status, "no policy: --default decides%s", failed);
    notify_ready(status);
}

static int act_reload(void *context, struct reload_result *result, struct failure *failure) {
    struct daemon *daemon = context;
    int reloaded;

    if (daemon->giving) {
        reloaded = fail_giving("reload", failure);
        reload_refuse(&daemon->state, failure);
        return reloaded;
    }
    notify_reloading();
    reloaded = reload(&daemon->state, result, failure);
    supervise_tell_ready(&daemon->state);
    return reloaded;
}

static void act_drain(void *context, uint32_t seconds) {
    struct daemon *daemon = context;

    daemon->drain_end_ns = wait_clock() + seconds * NS_PER_SECOND;
}

static int backend_of(const char *name, enum queue_kind *kind) {
    for (int i = 0; i < QUEUE_KIND_COUNT; i++)
        if (strcmp(name, options_backend_name((enum queue_kind)i)) == 0) {
            *kind = (enum queue_kind)i;
            return 0;
        }
    return -EINVAL;
}

static int act_upgrade(void *context, int client_fd, const char *backend, struct failure *failure) {
    struct daemon *daemon = context;
    enum queue_kind kind;

    if (backend_of(backend, &kind) < 0) {
        failure_set(failure, LOG_EXIT_USAGE, "there is no backend of this name: say raw or mnl");
        return -EINVAL;
    }
    if (daemon->giving)
        return fail_giving("try again", failure);
    return handover_give_prepare(&daemon->state, daemon->values, client_fd, kind, &daemon->giving,
                                 failure);
}

static int act_tail(void *context, int client_fd, uint32_t verdicts, bool packets) {
    struct daemon *daemon = context;

    return events_tail(daemon->events, client_fd, verdicts, packets);
}

struct control_actions supervise_actions(struct daemon *daemon) {
    return (struct control_actions){
        .context = daemon,
        .snapshot = act_snapshot,
        .stats = act_stats,
        .connections = act_connections,
        .reload = act_reload,
        .drain = act_drain,
        .upgrade = act_upgrade,
        .tail = act_tail,
    };
}

/// Hands the queues over to a new firewall that is ready, and stops this firewall. If that fails,
/// this firewall continues.
static void give(struct daemon *daemon) {
    struct handover_giving *const giving = daemon->giving;
    const int listener = daemon->control ? control_listener(daemon->control) : -1;
    struct ucred peer = {0};
    socklen_t length = sizeof peer;

    daemon->giving = NULL;
    getsockopt(handover_give_fd(giving), SOL_SOCKET, SO_PEERCRED, &peer, &length);
    guard_hold(&daemon->guard, true);
    daemon->handed_over = handover_give_commit(&daemon->state, giving, listener);
    if (!daemon->handed_over) {
        guard_hold(&daemon->guard, false);
        return;
    }
    notify_main_pid(peer.pid);
    daemon->stopped = true;
}

/// Continues the hand-over to a new firewall, if one has begun.
static void keep_giving(struct daemon *daemon) {
    const int listener = daemon->control ? control_listener(daemon->control) : -1;
    int fds[HANDOVER_FD_COUNT] = {[HANDOVER_CONTROL] = listener};
    struct failure failure;
    bool ready;
    int result;

    if (!daemon->giving)
        return;
    fds[HANDOVER_EVENTS] = events_fd(daemon->events);
    result = handover_give_go_on(&daemon->state, daemon->giving, fds, &ready, &failure);
    if (fds[HANDOVER_EVENTS] >= 0)
        close(fds[HANDOVER_EVENTS]);
    if (result < 0) {
        handover_give_end(daemon->giving);
        daemon->giving = NULL;
        handover_give_stay(&failure, listener);
    } else if (ready) {
        give(daemon);
    }
}

static void handle_signal(struct daemon *daemon, uint32_t signal) {
    struct reload_result result;
    struct failure failure;

    switch (signal) {
    case SIGHUP:
        act_reload(daemon, &result, &failure); // reload logs the outcome
        break;
    case SIGUSR1:
        supervise_print_ledgers(daemon, REPORT_SIGNAL);
        break;
    case SIGUSR2:
        events_rotate(daemon->events);
        break;
    default: // SIGINT or SIGTERM
        daemon->stopped = true;
        break;
    }
}

static void read_signals(struct daemon *daemon) {
    struct signalfd_siginfo signal;

    while (!daemon->stopped &&
           read(daemon->signals, &signal, sizeof signal) == (ssize_t)sizeof signal)
        handle_signal(daemon, signal.ssi_signo);
}

static void handle_note(struct daemon *daemon, const struct guard_note *note) {
    const struct events_facts facts = {.figures = {note->queue, note->packets}};
    const struct state *state = &daemon->state;
    const uint32_t index = note->queue - (uint32_t)state->options->queue_first;

    worker_stalled(&daemon->state.workers.all[index], note->packets, note->id);
    counts_add(COUNT_STALLED_PACKETS, note->packets);
    if (!note->begins)
        return;
    counts_add(COUNT_STALLS, 1);
    events_tell(daemon->events, EVENTS_STALL, &facts);
}

static void read_guard(struct daemon *daemon) {
    const bool was_there = guard_fd(&daemon->guard) >= 0;
    struct state *state = &daemon->state;
    struct guard_note note;

    while (guard_read(&daemon->guard, &note))
        handle_note(daemon, &note);
    if (was_there && guard_fd(&daemon->guard) < 0) {
        state_lock(state);
        state->contract = state->unguarded;
        state->guard_ended = true;
        state_unlock(state);
    }
}

/// Returns the number of packets of a queue that the kernel has lost; `before` if the kernel's
/// counters can't be read.
static uint32_t lost_of(const struct worker *worker, uint32_t before) {
    struct queue_figures figures;

    if (queue_proc_figures(worker->settings.number, &figures) < 0)
        return before;
    return figures.queue_full + figures.user_drop;
}

/// Reports an event for each queue that has lost packets since the last check.
static void look_for_overload(struct daemon *daemon, struct times *times) {
    const struct workers *workers = &daemon->state.workers;

    for (uint32_t i = 0; i < workers->count; i++) {
        const struct worker *worker = &workers->all[i];
        const uint32_t lost = lost_of(worker, times->lost[i]);
        const uint32_t more = lost - times->lost[i];
        const struct events_facts facts = {.figures = {worker->settings.number, more}};

        times->lost[i] = lost;
        if (more > 0)
            events_tell(daemon->events, EVENTS_OVERLOAD, &facts);
    }
}

/// Returns true if the current policy needs the connection state.
static bool asks_ct_state(const struct loaded *loaded) {
    return loaded->compiled && load_requirement(loaded)->conntrack_state;
}

static void warn_untracked(const struct daemon *daemon) {
    if (daemon->options->conntrack == OPTIONS_CONNTRACK_MARK)
        log_warn("the policy asks for ct state, and no packet has one: no rule puts it into marks: "
                 "rules/load conntrack-host");
    else
        log_warn("the policy asks for ct state, and no packet has one: the kernel tracks no "
                 "connections until a rule of its own asks for them: "
                 "iptables -I INPUT -m conntrack --ctstate NEW, or \"ct state new counter\" in a "
                 "rule of nft");
}

/// Checks whether packets have the connection state (conntrack) that the policy needs, and sets the
/// time of the next check (NEVER once a packet has had the state). Logs a warning when the result
/// becomes TRACKED_MISSING.
static void look_for_tracked(struct daemon *daemon, struct times *times, uint64_t now_ns) {
    struct state *state = &daemon->state;
    const struct workers *workers = &state->workers;
    const enum tracked before = state->tracked;
    const bool asks = asks_ct_state(state->loaded);
    uint64_t decided = 0, without = 0;
    enum tracked now;

    for (uint32_t i = 0; i < workers->count; i++)
        decided += stats_decided(&workers->all[i].stats);
    for (uint32_t i = 0; i < workers->count; i++)
        without += stats_get(&workers->all[i].stats.without_ct_state);
    now = tracked_look(&times->tracked, state->loaded->generation, asks, decided, without);
    times->tracked_ns = asks && now != TRACKED_SEEN ? now_ns + TRACKED_LOOK_NS : NEVER;
    state_lock(state);
    state->tracked = now;
    state_unlock(state);
    if (now == TRACKED_MISSING && before != TRACKED_MISSING)
        warn_untracked(daemon);
}

static bool anything_waits(const struct workers *workers) {
    for (uint32_t i = 0; i < workers->count; i++) {
        struct queue_figures figures;

        if (queue_proc_figures(workers->all[i].settings.number, &figures) == 0 &&
            figures.waiting > 0)
            return true;
    }
    return false;
}

/// Executes the checks whose time has come. Stops the firewall if a drain is over.
static void keep_times(struct daemon *daemon, struct times *times) {
    const uint64_t now_ns = wait_clock();

    if (now_ns >= times->stats_ns) {
        supervise_print_ledgers(daemon, REPORT_INTERVAL);
        times->stats_ns += daemon->options->stats_s * NS_PER_SECOND;
    }
    if (now_ns >= times->overload_ns) {
        look_for_overload(daemon, times);
        times->overload_ns = now_ns + OVERLOAD_LOOK_NS;
    }
    if (now_ns >= times->tracked_ns ||
        times->tracked.generation != daemon->state.loaded->generation)
        look_for_tracked(daemon, times, now_ns);
    if (daemon->drain_end_ns != NEVER &&
        (now_ns >= daemon->drain_end_ns || !anything_waits(&daemon->state.workers)))
        daemon->stopped = true;
}

static uint64_t min(uint64_t a, uint64_t b) { return a < b ? a : b; }

/// Returns poll's timeout: the time until the next check or deadline, rounded up to milliseconds;
/// -1 = no limit.
static int timeout_of(const struct daemon *daemon, const struct times *times) {
    const uint64_t now_ns = wait_clock();
    const int control_ms = daemon->control ? control_timeout(daemon->control) : -1;
    uint64_t due_ns = min(times->stats_ns, min(times->overload_ns, times->tracked_ns));
    uint64_t left_ms;

    if (daemon->drain_end_ns != NEVER)
        due_ns = min(due_ns, now_ns + DRAIN_LOOK_NS);
    if (control_ms >= 0)
        due_ns = min(due_ns, now_ns + (uint64_t)control_ms * NS_PER_MS);
    if (daemon->giving)
        due_ns = min(due_ns, handover_give_due_ns(daemon->giving));
    if (due_ns == NEVER)
        return -1;
    left_ms = due_ns > now_ns ? (due_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS : 0;
    return left_ms < INT_MAX ? (int)left_ms : INT_MAX;
}

static struct times begin_times(const struct daemon *daemon) {
    const uint64_t now_ns = wait_clock();
    const struct options *options = daemon->options;
    const struct workers *workers = &daemon->state.workers;
    struct times times = {
        .stats_ns = options->stats_s > 0 ? now_ns + options->stats_s * NS_PER_SECOND : NEVER,
        .overload_ns = options->events ? now_ns + OVERLOAD_LOOK_NS : NEVER,
        .tracked_ns = now_ns,
    };

    // Queues of an old firewall may have lost packets before.
    for (uint32_t i = 0; i < workers->count; i++)
        times.lost[i] = lost_of(&workers->all[i], 0);
    return times;
}

void supervise(struct daemon *daemon) {
    struct times times = begin_times(daemon);

    while (!daemon->stopped) {
        // Descriptors of -1 are ignored.
        struct pollfd sources[OWN_FDS + CONTROL_FDS_MAX] = {
            {.fd = daemon->signals, .events = POLLIN},
            {.fd = guard_fd(&daemon->guard), .events = POLLIN},
            {.fd = daemon->giving ? handover_give_fd(daemon->giving) : -1, .events = POLLIN},
        };
        const size_t clients =
            daemon->control ? control_poll(daemon->control, &sources[OWN_FDS]) : 0;

        poll(sources, OWN_FDS + clients, timeout_of(daemon, &times));
        // The ledger that a signal requests counts the packets that the guard has answered.
        read_guard(daemon);
        read_signals(daemon);
        if (daemon->control && !daemon->stopped)
            control_serve(daemon->control, &sources[OWN_FDS], clients);
        if (!daemon->stopped)
            keep_giving(daemon);
        if (!daemon->stopped)
            keep_times(daemon, &times);
    }
    if (!daemon->giving)
        return;
    handover_give_end(daemon->giving);
    daemon->giving = NULL;
    counts_add(COUNT_UPGRADES_FAILED, 1);
    log_warn("upgrade: this firewall was told to end: start the new one without --take-over");
}
