// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp-guard: poll recvfrom recvmmsg sendto
#include "guard/run.h"

#include <errno.h>
#include <linux/netfilter.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "guard/guard.h"
#include "guard/watch.h"
#include "options/daemon.h"
#include "privilege/privilege.h"
#include "queue/frame.h"
#include "queue/proc.h"
#include "queue/queue.h"
#include "queue/raw.h"
#include "worker/wait.h"

enum {
    BATCH = 64,      // maximum number of messages per receive call
    SLOT_BYTES = 64, // number of bytes that are received of a message: enough for its ID
    NS_PER_MS = 1000000,
};

/// A queue that the guard watches.
struct watched {
    struct queue queue;
    struct guard_watch watch;
    // Message about answered packets that was not sent to the firewall yet; its `packets` is 0 if
    // there is no such message.
    struct guard_note untold;
    bool unsaid; // true if a stall has begun that is not logged yet
};

struct guarding {
    uint32_t deadline_ms; // deadline in milliseconds; 0 = only crashes are detected
    // True if the queues' counters in /proc can be read; without them stalls are not detected.
    bool figures;
    bool stall_open;
    bool crash_open;
    // True if the guard must check whether the first message in each queue's socket stays the same
    // (--fail overload=open, see guard_watch).
    bool peeks;
    bool sandbox;
    const char *user; // user to change to; NULL = the default
    pid_t firewall;
    uint32_t count;
    struct watched *all;
};

static struct verdict_batch batch;

/// Sends a verdict for all packets of a queue up to an ID.
/// - accept: true to accept, false to drop them.
static int send_verdict(struct queue *queue, uint32_t id, bool accept) {
    batch.count = 1;
    batch.sent = 0;
    batch.runs[0] = (struct verdict_run){
        .kernel = accept ? NF_ACCEPT : NF_DROP,
        .last_id = id,
        .count = 2, // more than one, so that a batch verdict is sent
    };
    return queue_verdict(queue, &batch);
}

/// Stores in *id the packet ID of the first message in a queue's socket, without removing the
/// message. Returns id, or NULL if there is no message with an ID.
static const uint32_t *peek(const struct queue *queue, uint32_t *id) {
    uint8_t bytes[SLOT_BYTES];
    struct queue_packet packet;
    const ssize_t got = recv(queue_fd(queue), bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);

    if (got < 0 || queue_truncated(bytes, (size_t)got, &packet) != QUEUE_PARSED_PACKET)
        return NULL;
    *id = packet.id;
    return id;
}

/// Sends a note to the firewall and clears it; does nothing if its `packets` is 0. A note that
/// can't be sent now stays, and is sent at the next reading of the counters.
static void tell(struct guard_note *note) {
    if (note->packets > 0 && send(STDIN_FILENO, note, sizeof *note, MSG_DONTWAIT) > 0)
        *note = (struct guard_note){.queue = note->queue};
}

/// Sends the verdict of --fail stall for all packets of a queue up to the ID `id`. Adds the number
/// of packets that the guard answered to the note for the firewall.
/// - before: the queue's counters before the verdict.
static void settle(const struct guarding *guarding, struct watched *watched,
                   const struct queue_figures *before, uint32_t id) {
    const uint16_t number = watched->queue.settings.number;
    struct queue_figures after;
    bool begins;

    if (send_verdict(&watched->queue, id, guarding->stall_open) < 0 ||
        queue_proc_figures(number, &after) < 0)
        return;
    watched->untold.packets += guard_watch_settled(&watched->watch, before, &after, &begins);
    watched->untold.begins = watched->untold.begins || begins;
    watched->unsaid = watched->unsaid || begins;
    watched->untold.id = id;
}

/// Logs the start of a stall if it is not logged yet, because the firewall may never log again. If
/// stderr is full, the start is logged at the next reading of the counters.
/// - accept: true if the guard accepts the waiting packets, false if it drops them.
static void say(struct watched *watched, uint32_t deadline_ms, bool accept) {
    struct pollfd writable = {.fd = STDERR_FILENO, .events = POLLOUT};

    if (!watched->unsaid || poll(&writable, 1, 0) != 1)
        return;
    watched->unsaid = false;
    log_warn(
        "queue %u: no packet got its verdict for %u ms: the guard has begun to %s waiting packets",
        watched->queue.settings.number, deadline_ms, accept ? "accept" : "drop");
}

static void look(const struct guarding *guarding) {
    for (uint32_t i = 0; i < guarding->count; i++) {
        struct watched *watched = &guarding->all[i];
        struct queue_figures figures;
        uint32_t head, id;
        const uint32_t *first = guarding->peeks ? peek(&watched->queue, &head) : NULL;

        if (queue_proc_figures(watched->queue.settings.number, &figures) == 0 &&
            guard_watch_look(&watched->watch, &figures, first, &id))
            settle(guarding, watched, &figures, id);
        tell(&watched->untold);
        say(watched, guarding->deadline_ms, guarding->stall_open);
    }
}

static void forget(const struct guarding *guarding) {
    for (uint32_t i = 0; i < guarding->count; i++)
        guard_watch_forget(&guarding->all[i].watch);
}

/// Waits for a command of the firewall until due_ns (wait_clock); UINT64_MAX = without a time
/// limit. Returns the command, -1 if the socket was closed, or 0 if due_ns has passed.
static int listen_until(uint64_t due_ns) {
    struct pollfd firewall = {.fd = STDIN_FILENO, .events = POLLIN};
    char word;

    for (;;) {
        const uint64_t now_ns = wait_clock();
        int left_ms = -1;

        if (due_ns != UINT64_MAX)
            left_ms = due_ns > now_ns ? (int)((due_ns - now_ns) / NS_PER_MS) + 1 : 0;
        switch (poll(&firewall, 1, left_ms)) {
        case 0:
            return 0;
        case 1:
            return recv(STDIN_FILENO, &word, sizeof word, MSG_DONTWAIT) > 0 ? word : -1;
        default:
            break; // a signal interrupted the call
        }
    }
}

/// Watches the queues until the firewall sends BYE or closes the socket pair. Returns false if the
/// firewall crashed: it has closed the socket pair without BYE, after its first GO_ON.
static bool watch(const struct guarding *guarding) {
    const uint64_t step_ns = (uint64_t)guarding->deadline_ms * NS_PER_MS / GUARD_WATCH_LOOKS;
    const bool looks = step_ns > 0 && guarding->figures;
    bool held = true, began = false;
    uint64_t due_ns = wait_clock() + step_ns;

    for (;;) {
        const int word = listen_until(looks && !held ? due_ns : UINT64_MAX);
        const uint64_t now_ns = wait_clock();

        if (word == GUARD_BYE || word < 0)
            return word == GUARD_BYE || !began;
        // Earlier looks are no longer valid: packets may have been answered in between.
        if (word != 0 || now_ns > due_ns + step_ns * GUARD_WATCH_LOOKS)
            forget(guarding);
        if (word == 0) {
            look(guarding);
        } else {
            held = word == GUARD_HOLD;
            began = began || !held;
        }
        due_ns = now_ns + step_ns;
    }
}

/// Accepts all waiting packets, including those that the firewall had received.
static void accept_waiting(struct queue *queue) {
    struct queue_figures figures;

    if (queue_proc_figures(queue->settings.number, &figures) == 0)
        send_verdict(queue, figures.offered, true);
}

/// Returns the ID of the last received packet that has an ID; NULL if no packet has an ID.
static const uint32_t *last_id(const struct queue *queue, const struct queue_received *received) {
    for (uint32_t i = received->packets; i > 0; i--)
        if (!queue->packets[i - 1].nameless)
            return &queue->packets[i - 1].id;
    return NULL;
}

/// Receives and accepts the packets in a queue's socket.
static void accept_received(struct queue *queue) {
    struct queue_received received;

    while (queue_receive(queue, &received) == 0 && received.messages + received.overruns > 0) {
        const uint32_t *last = last_id(queue, &received);

        if (last)
            send_verdict(queue, *last, true);
        if (received.nameless > 0)
            accept_waiting(queue);
    }
}

/// Accepts all packets of the queues, waiting and new, until a signal ends the process.
static void accept_all(const struct guarding *guarding) {
    struct pollfd *sockets = calloc(guarding->count, sizeof *sockets);
    sigset_t terminated;

    if (!sockets)
        return;
    sigemptyset(&terminated);
    sigaddset(&terminated, SIGTERM);
    for (uint32_t i = 0; i < guarding->count; i++) {
        if (guarding->figures)
            accept_waiting(&guarding->all[i].queue);
        sockets[i] = (struct pollfd){.fd = queue_fd(&guarding->all[i].queue), .events = POLLIN};
    }
    log_warn("the firewall (pid %d) ended without being told to: with --fail crash=open its guard "
             "accepts everything: start it again, or end the guard by SIGTERM to pid %d",
             (int)guarding->firewall, (int)getpid());
    sigprocmask(SIG_UNBLOCK, &terminated, NULL);
    while (poll(sockets, guarding->count, -1) > 0 || errno == EINTR)
        for (uint32_t i = 0; i < guarding->count; i++)
            if (sockets[i].revents)
                accept_received(&guarding->all[i].queue);
    free(sockets);
}

static int unexpected(const char *word, struct failure *failure) {
    failure_set(failure, LOG_EXIT_USAGE, "unexpected argument \"%s\": see --help", word);
    return -EINVAL;
}

/// Parses the argument "FD:NUMBER", and adopts the queue's socket. Returns 0, or -errno with
/// failure filled in.
static int parse_queue(struct watched *watched, const char *word, struct failure *failure) {
    struct queue_settings settings = {.kind = QUEUE_RAW, .batch = BATCH, .slot_bytes = SLOT_BYTES};
    int fd, result;

    if (sscanf(word, "%d:%hu", &fd, &settings.number) != 2)
        return unexpected(word, failure);
    result = queue_prepare(&watched->queue, &settings, failure);
    if (result < 0)
        return result;
    result = queue_raw.adopt(&watched->queue, fd);
    if (result < 0)
        failure_set_start(failure, "getsockname", -result);
    watched->untold.queue = settings.number;
    return result;
}

/// Sets the log level by its name.
static void set_level(const char *name) {
    for (int level = 0; level < LOG_LEVEL_COUNT; level++)
        if (strcmp(name, log_level_name((enum log_level)level)) == 0)
            log_set_level((enum log_level)level);
}

/// Parses the arguments that guard_start passes. Returns 0, or -errno with failure filled in.
static int parse_arguments(int argc, char **argv, struct guarding *guarding,
                           struct failure *failure) {
    int result = 0;

    if (argc <= GUARD_ARGUMENTS)
        return unexpected(GUARD_COMMAND, failure);
    set_level(argv[8]);
    *guarding = (struct guarding){
        .deadline_ms = (uint32_t)strtoul(argv[2], NULL, 10),
        .stall_open = strcmp(argv[3], options_mode_name(true)) == 0,
        .crash_open = strcmp(argv[4], options_mode_name(true)) == 0,
        .peeks = strcmp(argv[5], options_mode_name(true)) == 0,
        .sandbox = strcmp(argv[6], "on") == 0,
        .user = *argv[7] ? argv[7] : NULL,
        .firewall = getppid(),
        .count = (uint32_t)(argc - GUARD_ARGUMENTS),
    };
    guarding->all = calloc(guarding->count, sizeof *guarding->all);
    if (!guarding->all) {
        failure_set_start(failure, "calloc", ENOMEM);
        return -ENOMEM;
    }
    for (uint32_t i = 0; result == 0 && i < guarding->count; i++)
        result = parse_queue(&guarding->all[i], argv[GUARD_ARGUMENTS + i], failure);
    return result;
}

/// Blocks all signals except SIGSYS, sets the process's name, and gives up its rights. Returns 0,
/// or -errno with failure filled in.
static int settle_down(struct guarding *guarding, struct failure *failure) {
    sigset_t signals;

    sigfillset(&signals);
    sigdelset(&signals, SIGSYS);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    prctl(PR_SET_NAME, GUARD_NAME);
    guarding->figures = queue_proc_open() == 0;
    return privilege_drop_guard(guarding->user, guarding->sandbox, failure);
}

/// Sends the failure to the firewall that has started the guard. If a user has started it, prints
/// the failure. Returns the exit code.
static int give_up(const struct failure *failure) {
    if (send(STDIN_FILENO, failure, sizeof *failure, 0) < 0)
        return log_fail(failure);
    return failure->code;
}

int guard_run(int argc, char **argv) {
    static const char ready = GUARD_READY;
    struct guarding guarding = {0};
    struct failure failure;

    if (parse_arguments(argc, argv, &guarding, &failure) < 0 ||
        settle_down(&guarding, &failure) < 0) {
        free(guarding.all);
        return give_up(&failure);
    }
    send(STDIN_FILENO, &ready, sizeof ready, 0);
    if (!watch(&guarding) && guarding.crash_open)
        accept_all(&guarding);
    free(guarding.all);
    return LOG_EXIT_STOPPED;
}
