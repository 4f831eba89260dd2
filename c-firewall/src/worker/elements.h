// SPDX-License-Identifier: GPL-2.0-or-later
// Elements of the kernel's learning sets (--stage, docs/STAGE.md). Each learned address becomes an
// element with a timeout, in a transaction of nf_tables.
//
// Theory of operation: the kernel executes a batch of messages as one transaction, within the call
// that sends the batch. Therefore the elements are in the set when elements_add returns. Kernels
// before Linux 6.12 do not change the timeout of an existing element, and a failed batch costs an
// RCU grace period (milliseconds). Therefore one batch adds the addresses of an answer, whether or
// not they are in the set, then deletes them, and adds them again with their timeout. No packet
// sees an intermediate state. An address whose element stays long enough is left out: the kernel
// reports the remaining time without a transaction. Each transaction makes a running nft command
// begin its list or load again. Therefore the number of transactions per second is limited.
#ifndef WORKER_ELEMENTS_H
#define WORKER_ELEMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "engine/compiled.h"
#include "policy/policy.h"

enum {
    // Maximum size of a batch in bytes: three messages, each with the maximum number of IPv6
    // addresses of an answer.
    ELEMENTS_BATCH_BYTES = 26 * 1024,
    // Maximum number of batches per second, each a transaction of nf_tables, for all workers
    // together.
    ELEMENTS_BATCHES_MAX = 100,
};

/// Result of adding a learned address to the kernel's set.
enum elements_result {
    ELEMENTS_ADDED,
    // The element was not added, for example because the set does not exist or is full, a right is
    // missing, or this second had too many transactions.
    ELEMENTS_FAILED,
    ELEMENTS_RESULT_COUNT
};

/// Netlink socket of a worker, through which it adds elements to the kernel's sets; -1 = none.
struct elements {
    int socket;
};

/// Writes the batch that adds elements to a set, or replaces existing elements. Has no side
/// effects.
/// - addresses: at most NAMES_ANSWER_ADDRESSES_MAX addresses without duplicates; an IPv4 address is
///   less than 2^32.
/// - Returns the number of bytes written.
size_t elements_build(const struct compile_kernel_set *set, const policy_value *addresses,
                      uint32_t count, uint64_t timeout_ms,
                      uint8_t bytes[static ELEMENTS_BATCH_BYTES]);

/// Opens a netlink socket through which elements are added to the kernel's sets. Returns 0, or
/// -errno with failure filled in and the socket -1.
int elements_open(struct elements *elements, struct failure *failure);

/// Closes the socket, if there is one.
void elements_close(struct elements *elements);

/// Returns the result in a message from the kernel: 0 for an acknowledgement, the -errno of an
/// error message, or -EPROTO for any other message.
int elements_result_of(const uint8_t *message, size_t length);

/// Returns an element's remaining time from the kernel's message, in milliseconds. Returns 0 if the
/// set has no such element, and UINT64_MAX if the element does not expire.
uint64_t elements_left_of(const uint8_t *message, size_t length);

/// Counts a transaction. Returns false, without counting it, if there were already too many
/// transactions in this second.
/// - batches: in/out: second of the last transaction, and the number of transactions in it (low 8
///   bits).
bool elements_is_in_time(uint64_t *batches, uint64_t now_ns);

/// Returns the timeout of a set element in milliseconds: the wanted time plus the margin
/// (MARGIN_PART).
uint64_t elements_timeout_of(uint64_t wanted_ms);

/// Adds addresses to the kernel's set, except those that the set keeps for at least wanted_ms more.
/// Waits while another transaction of nf_tables runs, but not for an answer: the kernel has
/// answered when the batch is sent. Returns 0 or -errno (-EBUSY if this second had too many
/// transactions).
/// - short_count: out: number of addresses that the set lacked or did not keep long enough; filled
///   in also on failure.
int elements_add(const struct elements *elements, const struct compile_kernel_set *set,
                 const policy_value *addresses, uint32_t count, uint64_t wanted_ms, uint64_t now_ns,
                 uint32_t *short_count);

#endif
