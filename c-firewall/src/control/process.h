// SPDX-License-Identifier: GPL-2.0-or-later
// Executable and options of this process, for a client that starts another process like it.
#ifndef CONTROL_PROCESS_H
#define CONTROL_PROCESS_H

#include <stddef.h>
#include <sys/types.h>

/// Identity of this process in the answer to `status`.
struct control_self {
    pid_t pid;
    uid_t uid;
    char *executable; // absolute path of the executable; "" if the system does not report it
    size_t argument_count;
    char **arguments; // options of the command line, as --NAME and VALUE, with absolute paths
};

/// Fills in the identity of this process. The arguments omit --take-over, because the next process
/// takes over from this process.
/// - Returns 0, or -ENOMEM with *self zeroed. Values that /proc does not show are empty.
int control_self_read(struct control_self *self);

void control_self_free(struct control_self *self);

#endif
