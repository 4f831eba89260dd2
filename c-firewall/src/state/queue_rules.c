// SPDX-License-Identifier: GPL-2.0-or-later
#include "state/queue_rules.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "worker/wait.h"

#define EXECUTABLE "/proc/self/exe"

enum {
    OUTPUT_BYTES_MAX = 1 << 16,
    NS_PER_MS = 1000000,
};

/// Reason why a tool can't be run: it does not exist.
static const char MISSING[] = "is not there";
/// Places of fwctl, from the folder of this program.
static const char *const PLACES[] = {"fwctl", "../bin/fwctl"};

/// Returns true if only root and the owner of this program can change a file: the file itself, and
/// its path. In a sticky folder, users can't replace files of other users.
static bool is_private(const char *path, uid_t owner) {
    char part[PATH_MAX];
    struct stat data;

    snprintf(part, sizeof part, "%s", path);
    for (;;) {
        char *end = strrchr(part, '/');

        if (stat(*part ? part : "/", &data) < 0 || (data.st_uid != 0 && data.st_uid != owner))
            return false;
        if ((data.st_mode & (S_IWGRP | S_IWOTH)) &&
            !(S_ISDIR(data.st_mode) && data.st_mode & S_ISVTX))
            return false;
        if (!end)
            return true;
        *end = '\0';
    }
}

/// Finds the path of fwctl. Returns NULL, or the reason why there is none to run.
static const char *find_fwctl(char program[static PATH_MAX]) {
    char path[PATH_MAX + NAME_MAX];
    const ssize_t length = readlink(EXECUTABLE, path, PATH_MAX);
    struct stat own;

    if (length <= 0 || length == PATH_MAX || stat(EXECUTABLE, &own) < 0)
        return MISSING;
    path[length] = '\0';
    for (size_t i = 0; i < sizeof PLACES / sizeof *PLACES; i++) {
        char *name = strrchr(path, '/') + 1;

        snprintf(name, NAME_MAX, "%s", PLACES[i]);
        if (realpath(path, program))
            return is_private(program, own.st_uid) ? NULL : "can be changed by other users";
    }
    return MISSING;
}

/// Starts a tool. Returns 0 with its output readable from *fd, or -errno.
static int start_tool(const char *const *argv, pid_t *pid, int *fd) {
    posix_spawn_file_actions_t actions;
    int ends[2];
    int error;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    error = posix_spawn(pid, argv[0], &actions, NULL, (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (error != 0) {
        close(ends[0]);
        return -error;
    }
    *fd = ends[0];
    return 0;
}

/// Reads a tool's output to its end, as a string. Returns false if it is too long or too late.
static bool read_output(int fd, char text[static OUTPUT_BYTES_MAX], uint64_t due_ns) {
    size_t length = 0;

    for (;;) {
        const uint64_t now_ns = wait_clock();
        struct pollfd readable = {.fd = fd, .events = POLLIN};
        ssize_t got;

        if (now_ns >= due_ns || poll(&readable, 1, (int)((due_ns - now_ns) / NS_PER_MS) + 1) != 1)
            return false;
        got = read(fd, text + length, OUTPUT_BYTES_MAX - length);
        if (got < 0 || length + (size_t)got == OUTPUT_BYTES_MAX)
            return false;
        length += (size_t)got;
        text[length] = '\0';
        if (got == 0)
            return true;
    }
}

/// Runs a tool and stores its output. Returns NULL, or the reason if the tool fails.
static const char *run_tool(const char *const *argv, char text[static OUTPUT_BYTES_MAX],
                            uint64_t due_ns) {
    pid_t pid = -1, ended;
    int status = 0, fd = -1;
    const int started = start_tool(argv, &pid, &fd);
    bool complete;

    if (started < 0)
        return started == -ENOENT ? MISSING : "can't be started";
    complete = read_output(fd, text, due_ns);
    close(fd);
    if (!complete)
        kill(pid, SIGKILL);
    do
        ended = waitpid(pid, &status, 0);
    while (ended < 0 && errno == EINTR);
    if (!complete)
        return "did not end in time";
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? NULL : "failed";
}

int queue_rules_parse(struct queue_rules *queue_rules, const char *text) {
    json_t *root = json_loads(text, 0, NULL);
    const char *unfed, *unknown;
    int plain, bypass;
    const int unpacked = json_unpack(root, "{s:s,s:b,s:b,s:s}", "unfed", &unfed, "plain", &plain,
                                     "bypass", &bypass, "unknown", &unknown);

    if (unpacked == 0) {
        *queue_rules = (struct queue_rules){.plain = plain, .bypass = bypass};
        snprintf(queue_rules->unfed, sizeof queue_rules->unfed, "%s", unfed);
        snprintf(queue_rules->unknown, sizeof queue_rules->unknown, "%s", unknown);
    }
    json_decref(root);
    return unpacked == 0 ? 0 : -EBADMSG;
}

/// Runs fwctl. Returns NULL, or the reason if it fails.
static const char *run_fwctl(struct queue_rules *queue_rules, const char *queues) {
    const uint64_t due_ns = wait_clock() + (uint64_t)QUEUE_RULES_MS_MAX * NS_PER_MS;
    char program[PATH_MAX], text[OUTPUT_BYTES_MAX];
    const char *const argv[] = {program, "queue-rules", queues, NULL};
    const char *why = find_fwctl(program);

    if (!why)
        why = run_tool(argv, text, due_ns);
    if (!why && queue_rules_parse(queue_rules, text) < 0)
        why = "failed";
    return why;
}

void queue_rules_read(struct queue_rules *queue_rules, const struct options *options) {
    const unsigned int first = options->queue_first, last = options->queue_last;
    char queues[sizeof "65535:65535"];
    const char *why;

    snprintf(queues, sizeof queues, "%u:%u", first, last);
    why = run_fwctl(queue_rules, queues);
    if (!why)
        return;
    *queue_rules = (struct queue_rules){.plain = false};
    queues[strcspn(queues, ":")] = first == last ? '\0' : '-';
    snprintf(queue_rules->unfed, sizeof queue_rules->unfed, "%s", queues);
    snprintf(queue_rules->unknown, sizeof queue_rules->unknown, "fwctl %s", why);
}

void queue_rules_warn(const struct queue_rules *queue_rules) {
    if (*queue_rules->unfed && *queue_rules->unknown)
        log_warn(
            "it is not known whether a rule leads packets to queue %s: %s: `fwctl doctor` looks "
            "again",
            queue_rules->unfed, queue_rules->unknown);
    else if (*queue_rules->unfed)
        log_warn("no rule leads packets to queue %s: until one does the firewall sees none of them "
                 "(`fwctl doctor` names one)",
                 queue_rules->unfed);
}
