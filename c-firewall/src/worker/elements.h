// SPDX-License-Identifier: GPL-2.0-or-later
// Elements of the kernel's sets that learn (--stage, docs/STAGE.md): each learned address becomes
// an element with a timeout, in a transaction of nf_tables.
//
// Theory of operation: the kernel executes a batch within the call that sends it, so that an
// element is in the set when elements_add returns. Kernels before Linux 6.12 do not change the
// timeout of an element that exists; it is then deleted and added in one transaction, which no
// packet sees half done.
#ifndef WORKER_ELEMENTS_H
#define WORKER_ELEMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "engine/compiled.h"
#include "policy/policy.h"

enum {
    ELEMENTS_BATCH_BYTES = 2048, // maximum size of a batch in bytes
};

/// Result of adding an element.
enum elements_result {
    ELEMENTS_ADDED,
    // The kernel refused it: the set does not exist or is full, or a right is missing.
    ELEMENTS_FAILED,
    ELEMENTS_RESULT_COUNT
};

/// A worker's netlink socket for elements; -1 = none.
struct elements {
    int socket;
};

/// Writes the batch that adds an element to a set. Pure.
/// - address: an IPv4 address is less than 2^32.
/// - replaces: the element exists, and is deleted before; else it must not exist.
/// - Returns the number of bytes written.
size_t elements_build(const struct compile_kernel_set *set, policy_value address,
                      uint64_t timeout_ms, bool replaces,
                      uint8_t bytes[static ELEMENTS_BATCH_BYTES]);

/// Opens a socket. Returns 0, or -errno with failure filled in and the socket -1.
int elements_open(struct elements *elements, struct failure *failure);

/// Closes the socket, if there is one.
void elements_close(struct elements *elements);

/// Returns the result in a message of the kernel: -errno, 0 for an acknowledgement. -EPROTO for any
/// other message.
int elements_result_of(const uint8_t *message, size_t length);

/// Adds an address to the kernel's set, or sets the timeout of one that is in it. Does not wait for
/// the kernel's answer, which is there when the batch is sent. Returns 0 or -errno.
int elements_add(const struct elements *elements, const struct compile_kernel_set *set,
                 policy_value address, uint64_t timeout_ms);

#endif
