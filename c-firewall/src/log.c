// SPDX-License-Identifier: GPL-2.0-or-later
#include "log.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void log_open(void) {
    int fd;

    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

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
    failure_set(failure, LOG_EXIT_CALL, "%s: %s: the ledger above tells what was lost", call,
                strerror(error));
}

int log_fail(const struct failure *failure) {
    fprintf(stderr, "error: %s\n", failure->text);
    return failure->code;
}

void log_warn(const char *format, ...) {
    char text[LOG_TEXT_BYTES];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "warning: %s\n", text);
}
