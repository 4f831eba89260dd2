// SPDX-License-Identifier: GPL-2.0-or-later
// Channel of an upgrade: lines and descriptors over a Unix stream socket, with a deadline.
#ifndef HANDOVER_CHANNEL_H
#define HANDOVER_CHANNEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/log.h"

// Environment variable with the number of an inherited descriptor: a socket that is connected to
// the old firewall. fwctl has connected it in this process, and has then started this program by
// exec.
#define HANDOVER_GIVEN "TWINWALL_TAKE_OVER_FD"

enum {
    // Length in bytes up to which a line with its end is always accepted; a longer line may fail.
    HANDOVER_LINE_BYTES = 256 * 1024,
    // Maximum number of received descriptors that handover_channel_claim has not returned yet.
    HANDOVER_FDS_MAX = 320,
};

/// A connection to the other firewall of an upgrade (the old or the new one).
/// handover_channel_close frees it.
struct handover_channel {
    int fd;            // descriptor of the socket; -1 = closed
    const char *whose; // name of the firewall at the other end in messages: "old" or "new"
    uint64_t due_ns;   // deadline for sending and receiving (wait_clock)
    char *bytes;       // receive buffer; its first `filled` bytes are received
    size_t room, filled;
    size_t begin; // offset of the first unread byte in `bytes`
    int fds[HANDOVER_FDS_MAX];
    uint32_t fd_count;
};

/// Returns the inherited connection to the old firewall, from the environment variable
/// HANDOVER_GIVEN; the caller owns it from now on. Returns -1 if the variable is not set or names
/// no socket. Must be called only once.
int handover_channel_inherited(void);

/// Creates a channel from a connected socket, which the channel owns from now on.
/// - whose: name of the firewall at the other end in messages: "old" or "new".
/// - timeout_ms: time until the deadline, in milliseconds.
void handover_channel_open(struct handover_channel *channel, int fd, const char *whose,
                           uint32_t timeout_ms);

/// Sets the deadline to `timeout_ms` milliseconds from now.
void handover_channel_extend(struct handover_channel *channel, uint32_t timeout_ms);

/// Sets the deadline (wait_clock).
void handover_channel_until(struct handover_channel *channel, uint64_t due_ns);

/// Sends all bytes. Sends a descriptor, if there is one, with the first byte.
/// - fd: -1 = none.
/// - Returns 0, or -errno with failure filled in.
int handover_channel_send(struct handover_channel *channel, const char *bytes, size_t length,
                          int fd, struct failure *failure);

/// Waits for a line, at most until the deadline.
/// - line: out: the line without its line end, NUL-terminated; valid until the next call.
/// - Returns 0, or -errno with failure filled in.
int handover_channel_line(struct handover_channel *channel, char **line, struct failure *failure);

/// Waits for a line like handover_channel_line. If it times out, the other end can't send any more:
/// its handover_channel_send fails. So the line is either received or not sent.
/// - line: out: as in handover_channel_line.
/// - Returns 0, or -errno with failure filled in.
int handover_channel_last_line(struct handover_channel *channel, char **line,
                               struct failure *failure);

/// Receives available bytes without blocking. Without a complete line, fails after the deadline.
/// - line: out: as in handover_channel_line; NULL if no line is complete.
/// - Returns 0, or -errno with failure filled in.
int handover_channel_line_if_any(struct handover_channel *channel, char **line,
                                 struct failure *failure);

/// Returns the first received descriptor that was not claimed yet, which the caller owns from now
/// on; -1 = none.
int handover_channel_claim(struct handover_channel *channel);

/// Closes the connection and the descriptors that were not claimed. A closed channel is allowed.
void handover_channel_close(struct handover_channel *channel);

#endif
