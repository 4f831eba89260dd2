// SPDX-License-Identifier: GPL-2.0-or-later
// Messages on stderr, one per line, and the end of a program that can't start or continue: one line
// "error: CAUSE: CURE", and an exit code. Nothing here is called on the packet path, where events
// are counted instead.
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "spec/exit.h"
#include "spec/option.h"

enum {
    // Maximum size of the text of a failure, or of a log line, with its final NUL; a longer text is
    // cut.
    LOG_TEXT_BYTES = 512,
};

/// Reason why the program can't start or continue, or why a reload, an upgrade or a request failed.
struct failure {
    enum log_exit code;
    char text[LOG_TEXT_BYTES]; // text "CAUSE: CURE", without "error: " and without a line end
};

/// Opens /dev/null for closed standard files, so that no socket gets their numbers and is printed
/// to (the Rust runtime does this for the Rust twin). Checks whether stderr belongs to the journal:
/// then lines begin with their priority (sd-daemon(3)). Must be called before any other function of
/// this file.
void log_open(void);

/// Returns the prefix of a line by its level: "<3>" etc. for the journal, otherwise "".
const char *log_prefix(enum log_level level);

/// Fills in a failure from a printf format.
void failure_set(struct failure *failure, enum log_exit code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/// Fills in the failure of a call at the start or in a reload, for which there is no specific exit
/// code (exit code 1).
/// - call: name of the call as in the manual.
/// - error: positive errno.
void failure_set_start(struct failure *failure, const char *call, int error);

/// Fills in the failure of a call while packets are filtered (exit code 1). Its text refers to the
/// ledger, which is printed before the program ends.
/// - call: name of the call as in the manual.
/// - error: positive errno.
void failure_set_running(struct failure *failure, const char *call, int error);

/// Prints "error: TEXT" as one line on stderr.
/// - Returns the failure's exit code.
int log_fail(const struct failure *failure);

/// Prints "error: TEXT" (the next functions: "warning: TEXT", "info: TEXT", "debug: TEXT") as one
/// line on stderr, from a printf format, if the log level allows it. Any thread may call these
/// functions.
void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));

/// Sets the log level, initially LOG_INFO. Any thread may call it.
void log_set_level(enum log_level level);

/// Returns the log level.
enum log_level log_level(void);

/// Returns the name of a level, as on the command line.
const char *log_level_name(enum log_level level);

#endif
