// SPDX-License-Identifier: GPL-2.0-or-later
// Elements of the kernel's sets that learn (--stage, docs/STAGE.md): each learned address becomes
// an element with a timeout, in a transaction of nf_tables.
//
// Theory of operation: the kernel executes a batch within the call that sends it, so that the
// elements are in the set when elements_add returns. Kernels before Linux 6.12 do not change the
// timeout of an element that exists, and a batch that fails costs a grace period of RCU
// (milliseconds): so one batch adds the addresses of an answer whether they are there or not,
// deletes them, and adds them with their timeout; no packet sees it half done. What stays long
// enough is left as it is: the kernel says how long, without a transaction. Each transaction makes
// nft begin its list or load again, so their number in a second is limited.
#ifndef WORKER_ELEMENTS_H
#define WORKER_ELEMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "engine/compiled.h"
#include "policy/policy.h"

enum {
    // Maximum size of a batch in bytes: three messages with as many IPv6 addresses as an answer
    // has.
    ELEMENTS_BATCH_BYTES = 26 * 1024,
    ELEMENTS_BATCHES_MAX = 100, // maximum number of transactions in a second, of all workers
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

/// Writes the batch that adds elements to a set, or replaces those that are there. Pure.
/// - addresses: each once, at most NAMES_ANSWER_ADDRESSES_MAX; an IPv4 address is less than 2^32.
/// - Returns the number of bytes written.
size_t elements_build(const struct compile_kernel_set *set, const policy_value *addresses,
                      uint32_t count, uint64_t timeout_ms,
                      uint8_t bytes[static ELEMENTS_BATCH_BYTES]);

/// Opens a socket. Returns 0, or -errno with failure filled in and the socket -1.
int elements_open(struct elements *elements, struct failure *failure);

/// Closes the socket, if there is one.
void elements_close(struct elements *elements);

/// Returns the result in a message of the kernel: -errno, 0 for an acknowledgement. -EPROTO for any
/// other message.
int elements_result_of(const uint8_t *message, size_t length);

/// Returns the remaining time in the kernel's message about an element, in milliseconds: 0 if there
/// is no such element, UINT64_MAX if it does not expire.
uint64_t elements_left_of(const uint8_t *message, size_t length);

/// Counts a transaction. Returns false if there were too many in this second.
/// - batches: the second of the last one, and their number.
bool elements_is_in_time(uint64_t *batches, uint64_t now_ns);

/// Returns the timeout for what must stay for some time.
uint64_t elements_timeout_of(uint64_t wanted_ms);

/// Adds the addresses to the kernel's set that would not stay in it for some time. Does not wait
/// for the kernel's answer, which is there when the batch is sent. Returns 0 or -errno, and their
/// number in *short_count.
int elements_add(const struct elements *elements, const struct compile_kernel_set *set,
                 const policy_value *addresses, uint32_t count, uint64_t wanted_ms, uint64_t now_ns,
                 uint32_t *short_count);

#endif
