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

enum {
    // Maximum number of batches for one element: it may expire, or be added, between two of them.
    TRIES_MAX = 4,
    IPV4_BYTES = 4,
    IPV6_BYTES = 16,
    // Maximum size of a message about an element: headers; two names; three nested attributes,
    // an address and a timeout.
    ELEMENT_BYTES = NLMSG_HDRLEN + sizeof(struct nfgenmsg) + 2 * (NLA_HDRLEN + POLICY_NAME_BYTES) +
                    3 * NLA_HDRLEN + NLA_HDRLEN + IPV6_BYTES + NLA_HDRLEN + 8,
};

static_assert(2 * (NLMSG_HDRLEN + sizeof(struct nfgenmsg)) + 2 * ELEMENT_BYTES <=
                  ELEMENTS_BATCH_BYTES,
              "a batch has room for two messages about an element");

/// Batch that is being written: its buffer and current length.
struct batch {
    uint8_t *bytes; // ELEMENTS_BATCH_BYTES
    size_t length;
};

/// Appends bytes. The buffer has room for all of a batch.
static void append(struct batch *batch, const void *bytes, size_t count) {
    memcpy(batch->bytes + batch->length, bytes, count);
    batch->length += count;
}

/// Begins a message. Returns its place.
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

/// Sets the length of the message at a place.
static void end_message(struct batch *batch, size_t begin) {
    const uint32_t nlmsg_len = (uint32_t)(batch->length - begin);

    memcpy(batch->bytes + begin, &nlmsg_len, sizeof nlmsg_len);
}

/// Begins an attribute. Returns its place.
static size_t begin_attribute(struct batch *batch, uint16_t kind) {
    const size_t begin = batch->length;
    const struct nlattr attribute = {.nla_type = kind};

    append(batch, &attribute, sizeof attribute);
    return begin;
}

/// Sets the length of the attribute at a place, and pads it.
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

/// Appends an attribute with a name, which ends with a 0.
static void append_name(struct batch *batch, uint16_t kind, const char *name) {
    const size_t begin = begin_attribute(batch, kind);

    append(batch, name, strlen(name) + 1);
    end_attribute(batch, begin);
}

/// Appends the message that begins or ends the batch.
static void append_edge(struct batch *batch, uint32_t kind) {
    const size_t begin = begin_message(batch, kind, 0, NFPROTO_UNSPEC, NFNL_SUBSYS_NFTABLES);

    end_message(batch, begin);
}

/// Returns the family of a table in netlink's messages.
static uint8_t nfproto_of(enum policy_family family) {
    if (family == POLICY_INET)
        return NFPROTO_INET;
    return family == POLICY_IP6 ? NFPROTO_IPV6 : NFPROTO_IPV4;
}

/// Appends a message about an element of a set.
/// - timeout_ms: 0 = the message has none.
static void append_element(struct batch *batch, uint32_t kind, uint32_t flags,
                           const struct compile_kernel_set *set, policy_value address,
                           uint64_t timeout_ms) {
    const size_t count = set->is_ipv6 ? IPV6_BYTES : IPV4_BYTES;
    uint8_t bytes[IPV6_BYTES], timeout[sizeof timeout_ms];
    size_t begin, elements, element, key;

    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)(address >> 8 * (count - 1 - i));
    for (size_t i = 0; i < sizeof timeout; i++)
        timeout[i] = (uint8_t)(timeout_ms >> 8 * (sizeof timeout - 1 - i));
    begin =
        begin_message(batch, NFNL_SUBSYS_NFTABLES << 8 | kind, flags, nfproto_of(set->family), 0);
    append_name(batch, NFTA_SET_ELEM_LIST_TABLE, set->table);
    append_name(batch, NFTA_SET_ELEM_LIST_SET, set->name);
    elements = begin_attribute(batch, NFTA_SET_ELEM_LIST_ELEMENTS | NLA_F_NESTED);
    element = begin_attribute(batch, NFTA_LIST_ELEM | NLA_F_NESTED);
    key = begin_attribute(batch, NFTA_SET_ELEM_KEY | NLA_F_NESTED);
    append_attribute(batch, NFTA_DATA_VALUE, bytes, count);
    end_attribute(batch, key);
    if (timeout_ms > 0)
        append_attribute(batch, NFTA_SET_ELEM_TIMEOUT, timeout, sizeof timeout);
    end_attribute(batch, element);
    end_attribute(batch, elements);
    end_message(batch, begin);
}

size_t elements_build(const struct compile_kernel_set *set, policy_value address,
                      uint64_t timeout_ms, bool replaces,
                      uint8_t bytes[static ELEMENTS_BATCH_BYTES]) {
    struct batch batch = {.bytes = bytes};

    append_edge(&batch, NFNL_MSG_BATCH_BEGIN);
    if (replaces)
        append_element(&batch, NFT_MSG_DELSETELEM, 0, set, address, 0);
    append_element(&batch, NFT_MSG_NEWSETELEM, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, set, address,
                   timeout_ms);
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

/// Receives the kernel's results of a batch. Returns the first error, or -EPROTO if there is none
/// and no acknowledgement, or 0.
static int take_results(const struct elements *elements) {
    uint8_t bytes[ELEMENTS_BATCH_BYTES];
    bool any = false;
    int all = 0;

    for (;;) {
        const ssize_t length = recv(elements->socket, bytes, sizeof bytes, MSG_DONTWAIT);

        if (length < 0 && errno == EINTR)
            continue;
        if (length < 0 && errno == EAGAIN)
            return any ? all : -EPROTO;
        if (length < 0)
            return -errno;
        if (all == 0)
            all = elements_result_of(bytes, (size_t)length);
        any = true;
    }
}

/// Sends a batch, which the kernel executes within the call, and returns its result: 0 or -errno.
static int execute(const struct elements *elements, const uint8_t *bytes, size_t length) {
    ssize_t sent;

    do
        sent = sendto(elements->socket, bytes, length, MSG_DONTWAIT, NULL, 0);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : take_results(elements);
}

int elements_add(const struct elements *elements, const struct compile_kernel_set *set,
                 policy_value address, uint64_t timeout_ms) {
    uint8_t bytes[ELEMENTS_BATCH_BYTES];
    bool replaces = false;

    for (int i = 0; i < TRIES_MAX; i++) {
        const size_t length = elements_build(set, address, timeout_ms, replaces, bytes);
        const int result = execute(elements, bytes, length);

        if (result == -EEXIST && !replaces)
            replaces = true;
        else if (result == -ENOENT && replaces) // it has expired meanwhile
            replaces = false;
        else
            return result;
    }
    return -EBUSY;
}
