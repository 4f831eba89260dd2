// SPDX-License-Identifier: GPL-2.0-or-later
// What the program says on stderr, a line at a time. How it ends when it cannot start or go on: one
// line "error: CAUSE: CURE" and an exit code of its own. Nothing of this is called on the packet
// path; there things are counted.
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "spec/exit.h"
#include "spec/option.h"

enum {
    LOG_TEXT_BYTES = 512, // of a failure's text with its final NUL; longer ones are cut
};

/// Why the program cannot start or go on.
struct failure {
    enum log_exit code;
    char text[LOG_TEXT_BYTES]; // "CAUSE: CURE", without "error: " and without a line end
};

/// Opens /dev/null for closed standard files, so that no socket becomes one of them
/// and is printed into (the Rust runtime does this for the Rust twin). Checks whether stderr is the
/// journal's: then lines begin with their priority (sd-daemon(3)). To be called first.
void log_open(void);

/// Prefix of a line by its level: "<3>" and so on where the journal reads, else nothing.
const char *log_prefix(enum log_level level);

/// Fills in a failure from a printf format.
void failure_set(struct failure *failure, enum log_exit code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/// A call failed at start for none of the reasons that have a code of their own (exit code 1).
/// - call: its name as in the manual.
/// - error: the positive errno.
void failure_set_start(struct failure *failure, const char *call, int error);

/// A call failed while packets were running (exit code 1); the ledger is printed before this.
/// - call: its name as in the manual.
/// - error: the positive errno.
void failure_set_running(struct failure *failure, const char *call, int error);

/// Prints "error: TEXT" as one line on stderr.
/// - Returns the failure's exit code.
int log_fail(const struct failure *failure);

/// Print "error: TEXT", "warning: TEXT", "info: TEXT", "debug: TEXT" as one line on stderr, from a
/// printf format, if the level lets them. Any thread may.
void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));

/// Sets the level, LOG_INFO at first. Any thread may.
void log_set_level(enum log_level level);

/// The level.
enum log_level log_level(void);

/// The name of a level, as on the command line.
const char *log_level_name(enum log_level level);

#endif
