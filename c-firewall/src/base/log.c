// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: write
#include "base/log.h"

#include <assert.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum log_level current = LOG_INFO;

/// Priorities of syslog(3), as the journal expects them at the start of a line.
static const char *const priorities[] = {
    [LOG_ERROR] = "<3>", [LOG_WARNING] = "<4>", [LOG_INFO] = "<6>", [LOG_DEBUG] = "<7>"};
static_assert(sizeof priorities / sizeof *priorities == LOG_LEVEL_COUNT, "all have one");

static bool journal;

/// Returns true if stderr is the stream that JOURNAL_STREAM names, as "DEVICE:INODE"
/// (sd_journal_stream_fd(3)).
static bool is_journal(void) {
    const char *stream = getenv("JOURNAL_STREAM");
    unsigned long device, inode;
    struct stat found;

    return stream && sscanf(stream, "%lu:%lu", &device, &inode) == 2 &&
           fstat(STDERR_FILENO, &found) == 0 && found.st_dev == device && found.st_ino == inode;
}

void log_open(void) {
    int fd;

    journal = is_journal();
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

const char *log_prefix(enum log_level level) { return journal ? priorities[level] : ""; }

static void failure_format(struct failure *failure, enum log_exit code, const char *format,
                           va_list arguments) {
    failure->code = code;
    vsnprintf(failure->text, sizeof failure->text, format, arguments);
}

void failure_set(struct failure *failure, enum log_exit code, const char *format, ...) {
    va_list arguments;

    va_start(arguments, format);
    failure_format(failure, code, format, arguments);
    va_end(arguments);
}

void failure_set_start(struct failure *failure, const char *call, int error) {
    failure_set(failure, LOG_EXIT_CALL,
                "%s: %s: this is not a fault of the command line, please report it", call,
                strerror(error));
}

void failure_set_running(struct failure *failure, const char *call, int error) {
    failure_set(failure, LOG_EXIT_CALL, "%s: %s: the ledger above shows the losses", call,
                strerror(error));
}

int log_fail(const struct failure *failure) {
    fprintf(stderr, "%serror: %s\n", log_prefix(LOG_ERROR), failure->text);
    return failure->code;
}

void log_set_level(enum log_level level) { __atomic_store_n(&current, level, __ATOMIC_RELAXED); }

enum log_level log_level(void) { return __atomic_load_n(&current, __ATOMIC_RELAXED); }

const char *log_level_name(enum log_level level) { return options_log_level_name(level); }

/// Prints "LEVEL: TEXT" as one line on stderr, if the log level allows lines of the level `own`.
static void print(enum log_level own, const char *format, va_list arguments) {
    char text[LOG_TEXT_BYTES];

    if (own > log_level())
        return;
    vsnprintf(text, sizeof text, format, arguments);
    fprintf(stderr, "%s%s: %s\n", log_prefix(own), log_level_name(own), text);
}

void log_error(const char *format, ...) {
    va_list arguments;

    va_start(arguments, format);
    print(LOG_ERROR, format, arguments);
    va_end(arguments);
}

void log_warn(const char *format, ...) {
    va_list arguments;

    va_start(arguments, format);
    print(LOG_WARNING, format, arguments);
    va_end(arguments);
}

void log_info(const char *format, ...) {
    va_list arguments;

    va_start(arguments, format);
    print(LOG_INFO, format, arguments);
    va_end(arguments);
}

void log_debug(const char *format, ...) {
    va_list arguments;

    va_start(arguments, format);
    print(LOG_DEBUG, format, arguments);
    va_end(arguments);
}
