// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: poll recvfrom sendto wait4 close
#include "guard/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "options/daemon.h"
#include "queue/proc.h"
#include "worker/wait.h"

#define EXECUTABLE "/proc/self/exe"

enum {
    WORD_BYTES = 16, // maximum size of "FD:NUMBER" or a number, with its NUL
    READY_MS = 5000, // maximum time until the guard is ready, in milliseconds
    GONE_MS = 1000,  // maximum time until a guard that must end is gone, in milliseconds
    STEP_MS = 5,     // time between two checks whether a killed guard is gone, in milliseconds
    NS_PER_MS = 1000000,
};

bool guard_wanted(const struct options *options) {
    return options->deadline_ms > 0 || options->fail_open[OPTIONS_CRASH];
}

/// Stores in *pid the process ID of the guard process that still holds a queue although its
/// firewall has ended. Returns false if the owner of the queue is not a guard process.
/// - number: number of the queue.
static bool find_bereaved(uint16_t number, pid_t *pid) {
    struct queue_figures figures;
    struct queue_owner owner;

    // While the firewall runs, it counts as the owner, not its guard.
    if (queue_proc_figures(number, &figures) < 0 || queue_proc_owner(figures.portid, &owner) < 0 ||
        strcmp(owner.comm, GUARD_NAME) != 0)
        return false;
    *pid = owner.pid;
    return true;
}

void guard_relieve(const struct options *options) {
    const struct timespec step = {.tv_nsec = (long)STEP_MS * NS_PER_MS};

    for (uint32_t number = options->queue_first; number <= options->queue_last; number++) {
        const uint64_t due_ns = wait_clock() + (uint64_t)GONE_MS * NS_PER_MS;
        pid_t guard;

        // A search may take longer than the limit; a guard that was found is ended in any case.
        while (find_bereaved((uint16_t)number, &guard)) {
            kill(guard, SIGKILL); // SIGKILL also ends a stopped guard
            if (wait_clock() >= due_ns)
                break;
            nanosleep(&step, NULL);
        }
    }
}

static char *mode_of(const struct options *options, enum options_situation situation) {
    return (char *)options_mode_name(options->fail_open[situation]);
}

/// Starts the guard: this program again, with one end of the socket pair as its standard input.
/// Returns 0 or -errno.
static int spawn(const struct options *options, const int *queue_fds, const uint16_t *numbers,
                 uint32_t count, int end, pid_t *pid) {
    char words[OPTION_QUEUES_MAX][WORD_BYTES], deadline[WORD_BYTES];
    char *argv[GUARD_ARGUMENTS + OPTION_QUEUES_MAX + 1] = {
        OPTIONS_PROGRAM,
        GUARD_COMMAND,
        deadline,
        mode_of(options, OPTIONS_STALL),
        mode_of(options, OPTIONS_CRASH),
        mode_of(options, OPTIONS_OVERLOAD),
        options->sandbox ? "on" : "off",
        (char *)(options->user ? options->user : ""),
        (char *)log_level_name(options->log_level),
    };
    posix_spawn_file_actions_t actions;
    int error;

    snprintf(deadline, sizeof deadline, "%u", options->deadline_ms);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, end, STDIN_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    for (uint32_t i = 0; i < count; i++) {
        snprintf(words[i], WORD_BYTES, "%d:%u", queue_fds[i], numbers[i]);
        argv[GUARD_ARGUMENTS + i] = words[i];
        // Duplicated onto itself, the descriptor stays open across exec.
        posix_spawn_file_actions_adddup2(&actions, queue_fds[i], queue_fds[i]);
    }
    error = posix_spawn(pid, EXECUTABLE, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return -error;
}

/// Waits for a message from the guard, or for the guard's end. Returns false if neither came within
/// `milliseconds`.
static bool wait_for(const struct guard *guard, int milliseconds) {
    struct pollfd readable = {.fd = guard->fd, .events = POLLIN};

    return poll(&readable, 1, milliseconds) == 1;
}

static void forget(struct guard *guard) {
    close(guard->fd);
    guard->fd = -1;
}

/// Waits for the guard's first message, at most READY_MS. Returns 0 if the guard is ready.
/// Otherwise ends the guard, and returns -errno with failure filled in.
static int await_ready(struct guard *guard, struct failure *failure) {
    struct failure told;
    ssize_t got = 0;

    if (wait_for(guard, READY_MS))
        got = recv(guard->fd, &told, sizeof told, MSG_DONTWAIT);
    if (got == 1)
        return 0;
    if (got == sizeof told)
        *failure = told;
    else
        failure_set(failure, LOG_EXIT_CALL,
                    "the guard did not start: see the system's log, or do without it (--deadline 0 "
                    "and --fail crash=closed)");
    kill(guard->pid, SIGKILL);
    waitpid(guard->pid, NULL, 0);
    forget(guard);
    return -ECHILD;
}

int guard_start(struct guard *guard, const struct options *options, const int *queue_fds,
                const uint16_t *numbers, uint32_t count, struct failure *failure) {
    int ends[2], result;

    *guard = (struct guard){.fd = -1};
    if (!guard_wanted(options))
        return 0;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) {
        result = -errno;
        failure_set_start(failure, "socketpair", -result);
        return result;
    }
    result = spawn(options, queue_fds, numbers, count, ends[1], &guard->pid);
    close(ends[1]);
    guard->fd = ends[0];
    if (result < 0) {
        failure_set_start(failure, "posix_spawn", -result);
        forget(guard);
        return result;
    }
    return await_ready(guard, failure);
}

int guard_fd(const struct guard *guard) { return guard->fd; }

bool guard_read(struct guard *guard, struct guard_note *note) {
    struct guard_note told;
    ssize_t got;

    if (guard->fd < 0)
        return false;
    got = recv(guard->fd, &told, sizeof told, MSG_DONTWAIT);
    if (got == sizeof told) {
        *note = told;
        return true;
    }
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    waitpid(guard->pid, NULL, 0);
    forget(guard);
    log_warn("the guard (pid %d) has ended: from now on a stall is waited for, and a crash left to "
             "the rules: start the firewall again",
             (int)guard->pid);
    return false;
}

/// Sends a command to the guard without waiting. A stopped guard reads it later.
/// - word: GUARD_BYE, GUARD_HOLD or GUARD_GO_ON.
static void say(const struct guard *guard, char word) {
    send(guard->fd, &word, sizeof word, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void guard_hold(const struct guard *guard, bool hold) {
    if (guard->fd >= 0)
        say(guard, hold ? GUARD_HOLD : GUARD_GO_ON);
}

void guard_end(struct guard *guard) {
    struct guard_note note;
    ssize_t got;

    if (guard->fd < 0)
        return;
    say(guard, GUARD_BYE);
    do
        got = wait_for(guard, GONE_MS) ? recv(guard->fd, &note, sizeof note, MSG_DONTWAIT) : -1;
    while (got > 0);
    if (got == 0)
        waitpid(guard->pid, NULL, 0);
    forget(guard);
}
