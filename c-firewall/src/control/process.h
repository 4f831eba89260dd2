// SPDX-License-Identifier: GPL-2.0-or-later
// Executable and options of this process, for a client that starts another process like it.
#ifndef CONTROL_PROCESS_H
#define CONTROL_PROCESS_H

#include <stddef.h>
#include <sys/types.h>

#include "options/arguments.h"

/// Identity of this process in the answer to `status`.
struct control_self {
    pid_t pid;
    uid_t uid;
    char *executable; // absolute path of the executable; "" if the system does not report it
    size_t argument_count;
    // Options of the command line except --take-over, as --NAME and VALUE, with absolute paths.
    char **arguments;
};

/// Returns an option's value for another process, in UTF-8: relative paths become absolute. Must be
/// called before the sandbox, which does not allow getcwd.
/// - Returns a copy that the caller frees; NULL if there is no memory.
char *control_process_value_of(enum arguments_option option, const char *value);

/// Fills in the identity of this process. The arguments omit --take-over, because the next process
/// takes over from this process.
/// - Returns 0, or -ENOMEM with *self zeroed. Values that /proc does not show are empty.
int control_self_read(struct control_self *self);

void control_self_free(struct control_self *self);

#endif
