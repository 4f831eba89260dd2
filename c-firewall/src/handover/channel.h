// SPDX-License-Identifier: GPL-2.0-or-later
// Lines and descriptors over a Unix stream socket, until a deadline.
#ifndef HANDOVER_CHANNEL_H
#define HANDOVER_CHANNEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/log.h"

// The variable that names a connection to the old firewall: who has started this one made it in
// this very process, as somebody who may connect.
#define HANDOVER_GIVEN "TWINWALL_TAKE_OVER_FD"

enum {
    HANDOVER_LINE_BYTES = 256 * 1024, // of a line with its end
    HANDOVER_FDS_MAX = 320,           // that may wait for their lines
};

/// A connection. handover_channel_close frees it.
struct handover_channel {
    int fd;            // -1 = closed
    const char *whose; // "old", "new": who is at the other end, for messages
    uint64_t due_ns;   // of wait_clock, when nobody waits any more
    char *bytes;       // received
    size_t room, filled;
    size_t begin; // of what is not taken yet
    int fds[HANDOVER_FDS_MAX];
    uint32_t fd_count;
};

/// The connection that HANDOVER_GIVEN names, if it is one; it is the caller's then. -1 = none. To
/// be called once.
int handover_channel_inherited(void);

/// Makes a channel of a connected socket, which belongs to it from now on.
void handover_channel_open(struct handover_channel *channel, int fd, const char *whose,
                           uint32_t timeout_ms);

/// Has everybody wait for so long from now on.
void handover_channel_extend(struct handover_channel *channel, uint32_t timeout_ms);

/// Has everybody wait until then, by wait_clock.
void handover_channel_until(struct handover_channel *channel, uint64_t due_ns);

/// Sends all of it, the first byte with a descriptor.
/// - fd: -1 = none.
/// - Returns 0, or -errno with failure filled in.
int handover_channel_send(struct handover_channel *channel, const char *bytes, size_t length,
                          int fd, struct failure *failure);

/// Receives a line.
/// - line: without its end, NUL-terminated; valid until the next call.
/// - Returns 0, or -errno with failure filled in.
int handover_channel_line(struct handover_channel *channel, char **line, struct failure *failure);

/// Receives what is there. Does not wait; past the deadline it fails.
/// - line: as of handover_channel_line; NULL: none is whole yet.
/// - Returns 0, or -errno with failure filled in.
int handover_channel_line_if_any(struct handover_channel *channel, char **line,
                                 struct failure *failure);

/// The first descriptor that was received and not claimed; it is the caller's then. -1 = none.
int handover_channel_claim(struct handover_channel *channel);

/// Closes the connection and what was not claimed. Closed it can be given as well.
void handover_channel_close(struct handover_channel *channel);

#endif
