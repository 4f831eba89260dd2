// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: sendto recvfrom close
#include "worker/elements.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "names/answer.h"

enum {
    // Maximum size of a message from the kernel in bytes. The message describes one element, or has
    // the result of a batch.
    ANSWER_BYTES = 2048,
    // Maximum number of attempts to execute a batch. Before Linux 6.9 a batch fails (ENOENT) if an
    // element expires during it.
    TRIES_MAX = 4,
    IPV4_BYTES = 4,
    IPV6_BYTES = 16,
    // Maximum size of a message about elements, without the elements, in bytes: headers, two names,
    // an attribute's header.
    MESSAGE_BYTES = NLMSG_HDRLEN + sizeof(struct nfgenmsg) +
                    2UL * (NLA_HDRLEN + POLICY_NAME_BYTES) + NLA_HDRLEN,
    // Maximum size of an element in bytes: two nested attributes, an address and a timeout.
    ELEMENT_BYTES = 3 * NLA_HDRLEN + IPV6_BYTES + NLA_HDRLEN + 8,
    // Additional time of an element's timeout: a tenth of the wanted time, at most MARGIN_MAX_MS.
    // Within this time after a transaction, DNS answers with the same address and lifetime need no
    // transaction.
    MARGIN_PART = 10,
    MARGIN_MAX_MS = 60000,
    BATCHES_BITS = 8, // number of low bits of last_batches that contain the number of transactions
};

#define SECOND_NS UINT64_C(1000000000)

static_assert(2 * (NLMSG_HDRLEN + sizeof(struct nfgenmsg)) + 3UL * MESSAGE_BYTES +
                      (size_t)NAMES_ANSWER_ADDRESSES_MAX *
                          (3 * ELEMENT_BYTES - 2 * (NLA_HDRLEN + 8)) <=
                  ELEMENTS_BATCH_BYTES,
              "a batch has room for the addresses of an answer");

/// Time of the last transaction in seconds, and the number of transactions in that second (low
/// bits). Atomic.
static uint64_t last_batches;

/// Batch of netlink messages that is being written: its buffer and current length.
struct batch {
    uint8_t *bytes; // buffer with room for all messages of the batch
    size_t length;
};

/// Appends bytes to the batch. The batch's buffer has room for all its messages.
static void append(struct batch *batch, const void *bytes, size_t count) {
    memcpy(batch->bytes + batch->length, bytes, count);
    batch->length += count;
}

/// Appends the headers of a message. Returns the message's offset in the batch.
static size_t begin_message(struct batch *batch, uint32_t kind, uint32_t flags, uint8_t family,
                            uint16_t res_id) {
    const size_t begin = batch->length;
    const struct nlmsghdr header = {
        .nlmsg_type = (uint16_t)kind,
        .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags),
    };
    const struct nfgenmsg message = {
        .nfgen_family = family,
        .version = NFNETLINK_V0,
        .res_id = htons(res_id),
    };

    append(batch, &header, sizeof header);
    append(batch, &message, sizeof message);
    return begin;
}

/// Sets the length of the message that begins at the offset `begin` and ends at the batch's current
/// end.
static void end_message(struct batch *batch, size_t begin) {
    const uint32_t nlmsg_len = (uint32_t)(batch->length - begin);

    memcpy(batch->bytes + begin, &nlmsg_len, sizeof nlmsg_len);
}

/// Appends the header of an attribute. Returns the attribute's offset in the batch.
static size_t begin_attribute(struct batch *batch, uint16_t kind) {
    const size_t begin = batch->length;
    const struct nlattr header = {.nla_type = kind};

    append(batch, &header, sizeof header);
    return begin;
}

/// Sets the length of the attribute that begins at the offset `begin` and ends at the batch's
/// current end. Appends the attribute's padding.
static void end_attribute(struct batch *batch, size_t begin) {
    static const uint8_t padding[NLA_ALIGNTO];
    const size_t length = batch->length - begin;
    const uint16_t nla_len = (uint16_t)length;

    memcpy(batch->bytes + begin, &nla_len, sizeof nla_len);
    append(batch, padding, NLA_ALIGN(length) - length);
}

/// Appends an attribute with a value.
static void append_attribute(struct batch *batch, uint16_t kind, const void *value, size_t count) {
    const size_t begin = begin_attribute(batch, kind);

    append(batch, value, count);
    end_attribute(batch, begin);
}

/// Appends an attribute with a name that ends with a NUL byte.
static void append_name(struct batch *batch, uint16_t kind, const char *name) {
    const size_t begin = begin_attribute(batch, kind);

    append(batch, name, strlen(name) + 1);
    end_attribute(batch, begin);
}

/// Appends the message that begins or ends a batch.
static void append_edge(struct batch *batch, uint32_t kind) {
    const size_t begin = begin_message(batch, kind, 0, NFPROTO_UNSPEC, NFNL_SUBSYS_NFTABLES);

    end_message(batch, begin);
}

/// Returns the value of a table's family in netlink messages (NFPROTO_*).
static uint8_t nfproto_of(enum policy_family family) {
    if (family == POLICY_INET)
        return NFPROTO_INET;
    return family == POLICY_IP6 ? NFPROTO_IPV6 : NFPROTO_IPV4;
}

/// Appends an address as a set element.
/// - timeout_ms: timeout of the element; 0 = no timeout.
static void append_element(struct batch *batch, const struct compile_kernel_set *set,
                           policy_value address, uint64_t timeout_ms) {
    const size_t count = set->is_ipv6 ? IPV6_BYTES : IPV4_BYTES;
    uint8_t bytes[IPV6_BYTES], timeout[sizeof timeout_ms];
    size_t element, key;

    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)(address >> 8 * (count - 1 - i));
    for (size_t i = 0; i < sizeof timeout; i++)
        timeout[i] = (uint8_t)(timeout_ms >> 8 * (sizeof timeout - 1 - i));
    element = begin_attribute(batch, NFTA_LIST_ELEM | NLA_F_NESTED);
    key = begin_attribute(batch, NFTA_SET_ELEM_KEY | NLA_F_NESTED);
    append_attribute(batch, NFTA_DATA_VALUE, bytes, count);
    end_attribute(batch, key);
    if (timeout_ms > 0)
        append_attribute(batch, NFTA_SET_ELEM_TIMEOUT, timeout, sizeof timeout);
    end_attribute(batch, element);
}

/// Appends a message that adds, deletes or requests elements of a set.
static void append_elements(struct batch *batch, uint32_t kind, uint32_t flags,
                            const struct compile_kernel_set *set, const policy_value *addresses,
                            uint32_t count, uint64_t timeout_ms) {
    size_t begin, elements;

    begin =
        begin_message(batch, NFNL_SUBSYS_NFTABLES << 8 | kind, flags, nfproto_of(set->family), 0);
    append_name(batch, NFTA_SET_ELEM_LIST_TABLE, set->table);
    append_name(batch, NFTA_SET_ELEM_LIST_SET, set->name);
    elements = begin_attribute(batch, NFTA_SET_ELEM_LIST_ELEMENTS | NLA_F_NESTED);
    for (uint32_t i = 0; i < count; i++)
        append_element(batch, set, addresses[i], timeout_ms);
    end_attribute(batch, elements);
    end_message(batch, begin);
}

size_t elements_build(const struct compile_kernel_set *set, const policy_value *addresses,
                      uint32_t count, uint64_t timeout_ms,
                      uint8_t bytes[static ELEMENTS_BATCH_BYTES]) {
    const uint32_t added = NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK;
    struct batch batch = {.bytes = bytes};

    append_edge(&batch, NFNL_MSG_BATCH_BEGIN);
    append_elements(&batch, NFT_MSG_NEWSETELEM, NLM_F_CREATE, set, addresses, count, 0);
    append_elements(&batch, NFT_MSG_DELSETELEM, 0, set, addresses, count, 0);
    append_elements(&batch, NFT_MSG_NEWSETELEM, added, set, addresses, count, timeout_ms);
    append_edge(&batch, NFNL_MSG_BATCH_END);
    return batch.length;
}

int elements_open(struct elements *elements, struct failure *failure) {
    const struct sockaddr_nl address = {.nl_family = AF_NETLINK};
    int result = 0;

    elements->socket = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
    if (elements->socket < 0) {
        result = -errno;
        failure_set_start(failure, "socket", -result);
    } else if (bind(elements->socket, (const struct sockaddr *)&address, sizeof address) < 0) {
        result = -errno;
        failure_set_start(failure, "bind", -result);
        elements_close(elements);
    }
    return result;
}

void elements_close(struct elements *elements) {
    if (elements->socket >= 0)
        close(elements->socket);
    elements->socket = -1;
}

int elements_result_of(const uint8_t *message, size_t length) {
    struct nlmsghdr header;
    int error;

    if (length < sizeof header + sizeof error)
        return -EPROTO;
    memcpy(&header, message, sizeof header);
    memcpy(&error, message + sizeof header, sizeof error);
    return header.nlmsg_type == NLMSG_ERROR ? error : -EPROTO;
}

/// Returns the value of the first attribute of a type; NULL if there is no such attribute.
/// - length: in: length of all attributes; out: length of the value.
static const uint8_t *attribute(const uint8_t *bytes, size_t *length, uint16_t kind) {
    struct nlattr header;

    while (bytes && *length >= sizeof header) {
        size_t whole;

        memcpy(&header, bytes, sizeof header);
        if (header.nla_len < NLA_HDRLEN || header.nla_len > *length)
            return NULL;
        if ((header.nla_type & NLA_TYPE_MASK) == kind) {
            *length = header.nla_len - (size_t)NLA_HDRLEN;
            return bytes + NLA_HDRLEN;
        }
        whole = NLA_ALIGN((size_t)header.nla_len);
        if (whole > *length)
            return NULL;
        bytes += whole;
        *length -= whole;
    }
    return NULL;
}

uint64_t elements_left_of(const uint8_t *message, size_t length) {
    const size_t headers = NLMSG_HDRLEN + sizeof(struct nfgenmsg);
    const uint8_t *element, *expiration;
    uint64_t left_ms = 0;
    size_t left_length;

    if (length < headers || elements_result_of(message, length) != -EPROTO)
        return 0;
    length -= headers;
    element = attribute(message + headers, &length, NFTA_SET_ELEM_LIST_ELEMENTS);
    element = attribute(element, &length, NFTA_LIST_ELEM);
    if (!element)
        return 0;
    left_length = length;
    expiration = attribute(element, &left_length, NFTA_SET_ELEM_EXPIRATION);
    if (!expiration)
        return UINT64_MAX;
    for (size_t i = 0; i < sizeof left_ms && left_length >= sizeof left_ms; i++)
        left_ms = left_ms << 8 | expiration[i];
    return left_ms;
}

/// Sends messages to the kernel, which executes them within this call. Returns 0 or -errno.
static int execute(const struct elements *elements, const uint8_t *bytes, size_t length) {
    ssize_t sent;

    do
        sent = sendto(elements->socket, bytes, length, MSG_DONTWAIT, NULL, 0);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : 0;
}

/// Receives one message from the kernel, without blocking. Returns its length, or -errno.
static ssize_t take_message(const struct elements *elements, uint8_t bytes[static ANSWER_BYTES]) {
    ssize_t length;

    do
        length = recv(elements->socket, bytes, ANSWER_BYTES, MSG_DONTWAIT);
    while (length < 0 && errno == EINTR);
    return length < 0 ? -errno : length;
}

/// Returns the remaining time of an address in the kernel's set, in milliseconds: UINT64_MAX if it
/// does not expire, 0 if the set lacks the address or the kernel does not answer.
static uint64_t left(const struct elements *elements, const struct compile_kernel_set *set,
                     policy_value address) {
    uint8_t bytes[MESSAGE_BYTES + ELEMENT_BYTES], answer[ANSWER_BYTES];
    struct batch batch = {.bytes = bytes};
    uint64_t found = 0;
    ssize_t length;

    append_elements(&batch, NFT_MSG_GETSETELEM, 0, set, &address, 1, 0);
    if (execute(elements, bytes, batch.length) < 0)
        return 0;
    while ((length = take_message(elements, answer)) >= 0)
        found = elements_left_of(answer, (size_t)length);
    return found;
}

/// Executes a batch, and receives all answers. Returns 0, the first error, or -EPROTO if there is
/// no answer.
static int execute_batch(const struct elements *elements, const uint8_t *bytes, size_t length) {
    uint8_t answer[ANSWER_BYTES];
    bool any = false;
    int all = 0;
    ssize_t taken;

    all = execute(elements, bytes, length);
    if (all < 0)
        return all;
    while ((taken = take_message(elements, answer)) >= 0) {
        if (all == 0)
            all = elements_result_of(answer, (size_t)taken);
        any = true;
    }
    if (taken != -EAGAIN)
        return (int)taken;
    return any ? all : -EPROTO;
}

bool elements_is_in_time(uint64_t *batches, uint64_t now_ns) {
    const uint64_t second = now_ns / SECOND_NS << BATCHES_BITS;
    uint64_t last = __atomic_load_n(batches, __ATOMIC_RELAXED), next;

    do {
        next = last > second ? last : second;
        if ((next & ((1U << BATCHES_BITS) - 1)) >= ELEMENTS_BATCHES_MAX)
            return false;
    } while (!__atomic_compare_exchange_n(batches, &last, next + 1, true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    return true;
}

uint64_t elements_timeout_of(uint64_t wanted_ms) {
    const uint64_t margin_ms = wanted_ms / MARGIN_PART;

    return wanted_ms + (margin_ms < MARGIN_MAX_MS ? margin_ms : MARGIN_MAX_MS);
}

int elements_add(const struct elements *elements, const struct compile_kernel_set *set,
                 const policy_value *addresses, uint32_t count, uint64_t wanted_ms, uint64_t now_ns,
                 uint32_t *short_count) {
    uint8_t bytes[ELEMENTS_BATCH_BYTES];
    policy_value all[NAMES_ANSWER_ADDRESSES_MAX];
    uint32_t added = 0;
    int result = -ENOENT;
    size_t length;

    for (uint32_t i = 0; i < count; i++) {
        bool is_there = false;

        for (uint32_t j = 0; j < added && !is_there; j++)
            is_there = all[j] == addresses[i];
        if (!is_there && left(elements, set, addresses[i]) < wanted_ms)
            all[added++] = addresses[i];
    }
    *short_count = added;
    if (added == 0)
        return 0;
    if (!elements_is_in_time(&last_batches, now_ns))
        return -EBUSY;
    length = elements_build(set, all, added, elements_timeout_of(wanted_ms), bytes);
    for (int i = 0; i < TRIES_MAX && result == -ENOENT; i++)
        result = execute_batch(elements, bytes, length);
    return result;
}
