// SPDX-License-Identifier: GPL-2.0-or-later
/// \file
/// Generic netlink without a library, so that a test controls every byte.
#pragma once

#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NETLINK_BYTES (64 * 1024)

struct request {
    _Alignas(NLMSG_ALIGNTO) uint8_t bytes[NETLINK_BYTES];
};

/// Reply to a single request that is not a dump.
struct reply {
    int error;         ///< error of the NLMSG_ERROR (-errno); 0 for an ACK
    uint32_t missing;  ///< NLMSGERR_ATTR_MISS_TYPE; 0 without it
    bool acknowledged; ///< true if an NLMSG_ERROR was received
    uint16_t type;     ///< type of the answer in `answer`; 0 without one
    uint8_t command;
    uint32_t sequence;
    struct request answer;
};

/// Opens and binds a socket with extended ACKs. A receive fails after 3 s. Fails the test on an
/// error.
int netlink_open(void);
void request_begin(struct request *request, uint16_t type, uint16_t flags, uint8_t command);
void request_attribute(struct request *request, uint16_t type, const void *data, size_t length);
struct nlmsghdr *request_header(struct request *request);
/// Sends a request. Returns 0 or -errno.
int request_send(int fd, struct request *request);
/// Reads until an NLMSG_ERROR (an error or an ACK) arrives; the request must have NLM_F_ACK.
void reply_read(int fd, struct reply *reply);
/// Returns an attribute of a generic netlink message; NULL if it is missing.
const struct nlattr *attribute_of(const struct nlmsghdr *message, uint16_t type);
/// Returns the number of a family, or -errno.
/// - attribute_most: out: highest attribute type; may be NULL.
int family_of(int fd, const char *name, uint32_t *attribute_most);
