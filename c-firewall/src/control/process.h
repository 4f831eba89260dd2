// SPDX-License-Identifier: GPL-2.0-or-later
// How this process was started, for who wants to start another one like it.
#ifndef CONTROL_PROCESS_H
#define CONTROL_PROCESS_H

#include <stddef.h>
#include <sys/types.h>

struct control_self {
    pid_t pid;
    uid_t uid;
    char *executable; // absolute; "" where the system does not tell
    size_t argument_count;
    char **arguments; // the options that were given, as --NAME and VALUE, with absolute paths
};

/// Reads it. --take-over is left out, as the next process takes over from this one.
/// - Returns 0, or -ENOMEM with *self zeroed. What /proc does not tell is left empty.
int control_self_read(struct control_self *self);

void control_self_free(struct control_self *self);

#endif
