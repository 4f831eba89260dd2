// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: openat pread64 close
// seccomp-guard: pread64
#include "queue/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PATH_BYTES = 64,         // maximum size of "/proc/PID/fd/FD"
    LINE_BYTES = 256,        // maximum size of a line of a read file; the longest has about 100
    READ_STEP_BYTES = 65536, // number of bytes that are read from a file by one call
};

/// Copies the next line of a text to `line`, cut to LINE_BYTES. Returns false at the text's end.
/// - text: in/out: unread rest of the text.
static bool take_line(const char **text, char line[static LINE_BYTES]) {
    const size_t length = strcspn(*text, "\n");

    if (**text == '\0')
        return false;
    snprintf(line, LINE_BYTES, "%.*s", (int)length, *text);
    *text += length + ((*text)[length] == '\n');
    return true;
}

int queue_proc_parse_figures(const char *text, uint16_t number, struct queue_figures *figures) {
    char line[LINE_BYTES];

    while (take_line(&text, line)) {
        struct queue_figures read;
        uint32_t queue;

        // columns: queue, portid, waiting, copy mode, copy range, queue full, user drop, id
        // sequence
        if (sscanf(line, "%" SCNu32 "%" SCNu32 "%" SCNu32 "%*u %*u %" SCNu32 "%" SCNu32 "%" SCNu32,
                   &queue, &read.portid, &read.waiting, &read.queue_full, &read.user_drop,
                   &read.offered) == 6 &&
            queue == number) {
            *figures = read;
            return 0;
        }
    }
    return -ENOENT;
}

int queue_proc_parse_inode(const char *text, uint32_t portid, uint64_t *inode) {
    char line[LINE_BYTES];

    while (take_line(&text, line)) {
        uint32_t protocol, read_portid;
        uint64_t read;

        // columns: sk, protocol, portid, groups, rmem, wmem, dump, locks, drops, inode
        if (sscanf(line, "%*s %" SCNu32 "%" SCNu32 "%*s %*s %*s %*s %*s %*s %" SCNu64, &protocol,
                   &read_portid, &read) == 3 &&
            protocol == NETLINK_NETFILTER && read_portid == portid) {
            *inode = read;
            return 0;
        }
    }
    return -ENOENT;
}

bool queue_proc_is_socket(const char *link, uint64_t inode) {
    char wanted[PATH_BYTES];

    snprintf(wanted, sizeof wanted, "socket:[%" PRIu64 "]", inode);
    return strcmp(link, wanted) == 0;
}

/// Descriptor of QUEUE_PROC_QUEUES that queue_proc_open opened; -1 = none.
static int queues_fd = -1;

/// Reads a whole file as a string that the caller frees. Returns NULL with errno set if it fails.
static char *read_all(int fd) {
    char *text = NULL;
    size_t length = 0;
    ssize_t got = 1;
    int error;

    while (got > 0) {
        char *grown = realloc(text, length + READ_STEP_BYTES + 1);

        if (!grown)
            goto cleanup;
        text = grown;
        // pread, because other threads may read the file as well.
        got = pread(fd, text + length, READ_STEP_BYTES, (off_t)length);
        if (got < 0)
            goto cleanup;
        length += (size_t)got;
    }
    text[length] = '\0';
    return text;

cleanup:
    error = errno;
    free(text);
    errno = error;
    return NULL;
}

static char *read_text(const char *path) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *text;
    int error;

    if (fd < 0)
        return NULL;
    text = read_all(fd);
    error = errno;
    close(fd);
    errno = error;
    return text;
}

/// Returns true if a descriptor refers to the file QUEUE_PROC_QUEUES.
static bool is_queues(int fd) {
    const char *own = strrchr(QUEUE_PROC_QUEUES, '/');
    char link[PATH_BYTES], name[PATH_MAX];
    const char *last;
    ssize_t length;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, name, sizeof name - 1);
    if (length < 0)
        return false;
    name[length] = '\0';
    last = strrchr(name, '/');
    return strncmp(name, "/proc/", strlen("/proc/")) == 0 && last && strcmp(last, own) == 0;
}

/// Returns a duplicate of the inherited descriptor in the environment variable QUEUE_PROC_GIVEN; -1
/// if there is none, or if it is not the file QUEUE_PROC_QUEUES.
static int open_inherited(void) {
    const char *granted = getenv(QUEUE_PROC_GIVEN);
    char *end = NULL;
    const long number = granted ? strtol(granted, &end, 10) : -1;
    const int own = number >= 0 && number <= INT_MAX && end != granted && *end == '\0'
                        ? fcntl((int)number, F_DUPFD_CLOEXEC, 0)
                        : -1;

    if (own >= 0 && !is_queues(own)) {
        close(own);
        return -1;
    }
    return own;
}

int queue_proc_open(void) {
    if (queues_fd < 0)
        queues_fd = open_inherited();
    if (queues_fd < 0)
        queues_fd = open(QUEUE_PROC_QUEUES, O_RDONLY | O_CLOEXEC);
    return queues_fd < 0 ? -errno : 0;
}

int queue_proc_figures(uint16_t number, struct queue_figures *figures) {
    char *text = queues_fd < 0 ? read_text(QUEUE_PROC_QUEUES) : read_all(queues_fd);
    int result;

    if (!text)
        return -errno;
    result = queue_proc_parse_figures(text, number, figures);
    free(text);
    return result;
}

/// Returns true if a process has the socket with an inode open; false also if the process's
/// descriptors can't be read.
static bool process_has_socket(const char *pid, uint64_t inode) {
    char path[PATH_BYTES];
    const struct dirent *entry;
    bool found = false;
    DIR *directory;

    snprintf(path, sizeof path, "/proc/%.16s/fd", pid);
    directory = opendir(path);
    if (!directory)
        return false;
    while (!found && (entry = readdir(directory))) {
        char link[PATH_BYTES];
        const ssize_t length = readlinkat(dirfd(directory), entry->d_name, link, sizeof link - 1);

        if (length < 0)
            continue;
        link[length] = '\0';
        found = queue_proc_is_socket(link, inode);
    }
    closedir(directory);
    return found;
}

static void read_comm(const char *pid, char comm[static QUEUE_PROC_COMM_BYTES]) {
    char path[PATH_BYTES];
    char *text;

    snprintf(path, sizeof path, "/proc/%.16s/comm", pid);
    text = read_text(path);
    if (!text) {
        snprintf(comm, QUEUE_PROC_COMM_BYTES, "?");
        return;
    }
    text[strcspn(text, "\n")] = '\0';
    snprintf(comm, QUEUE_PROC_COMM_BYTES, "%s", text);
    for (char *at = comm; *at; at++)
        if (*at < ' ' || *at > '~')
            *at = '?';
    free(text);
}

/// Finds the process that has the socket with an inode open. Prefers any other process to the
/// guard. Returns 0, -ENOENT or the -errno of reading.
static int find_process(uint64_t inode, struct queue_owner *owner) {
    const struct dirent *entry;
    int result = -ENOENT;
    DIR *processes = opendir("/proc");

    if (!processes)
        return -errno;
    while ((result < 0 || strcmp(owner->comm, QUEUE_PROC_GUARD) == 0) &&
           (entry = readdir(processes))) {
        if (strspn(entry->d_name, "0123456789") != strlen(entry->d_name) ||
            !process_has_socket(entry->d_name, inode))
            continue;
        owner->pid = (pid_t)strtol(entry->d_name, NULL, 10);
        read_comm(entry->d_name, owner->comm);
        result = 0;
    }
    closedir(processes);
    return result;
}

int queue_proc_owner(uint32_t portid, struct queue_owner *owner) {
    char *text = read_text(QUEUE_PROC_NETLINK);
    uint64_t inode;
    int result;

    if (!text)
        return -errno;
    result = queue_proc_parse_inode(text, portid, &inode);
    free(text);
    return result < 0 ? result : find_process(inode, owner);
}
