// SPDX-License-Identifier: GPL-2.0-or-later
// Generic netlink by libnl and libnl-genl. Built twice: with the library's automatic ACK (its
// default) and, with NO_ACK, without.
#include <errno.h>
#include <linux/genetlink.h>
#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>
#include <netlink/netlink.h>

#include "exchange.h"
#include "genl.h"
#include "twinwall_lab.h"

static struct nl_sock *nl;

void genl_open(void) {
    nl = nl_socket_alloc();
    if (nl == NULL || genl_connect(nl) != 0)
        fail_because("genl_connect", "failed");
#ifdef NO_ACK
    nl_socket_disable_auto_ack(nl);
#endif
}

void genl_close(void) { nl_socket_free(nl); }

static struct nl_msg *begin(uint16_t family, int flags, uint8_t command, uint8_t version,
                            size_t room) {
    struct nl_msg *message = nlmsg_alloc_size(NLMSG_HDRLEN + GENL_HDRLEN + room + 64);

    if (message == NULL ||
        genlmsg_put(message, NL_AUTO_PORT, NL_AUTO_SEQ, family, 0, flags, command, version) == NULL)
        fail_because("genlmsg_put", "no memory");
    return message;
}

/// Sends and frees a request. Passes each valid answer to `callback`. Returns 0 or libnl's negative
/// error; ends the program if the request can't be sent.
static int ask(struct nl_msg *message, nl_recvmsg_msg_cb_t callback, void *data) {
    int error;

    nl_socket_modify_cb(nl, NL_CB_VALID, NL_CB_CUSTOM, callback, data);
    error = nl_send_auto(nl, message);
    nlmsg_free(message);
    if (error < 0)
        fail_because("nl_send_auto", nl_geterror(error));
    error = nl_recvmsgs_default(nl);
#ifndef NO_ACK
    /* The ACK is a separate message after the answer. */
    if (error == 0)
        error = nl_wait_for_ack(nl);
#endif
    return error;
}

static void expect(int error) {
    if (error < 0)
        fail_because("nl_recvmsgs", nl_geterror(error));
}

static int on_family(struct nl_msg *message, void *number) {
    struct nlattr *attributes[CTRL_ATTR_MAX + 1];

    if (genlmsg_parse(nlmsg_hdr(message), 0, attributes, CTRL_ATTR_MAX, NULL) == 0 &&
        attributes[CTRL_ATTR_FAMILY_ID])
        *(uint16_t *)number = nla_get_u16(attributes[CTRL_ATTR_FAMILY_ID]);
    return NL_OK;
}

uint16_t genl_family(const char *name) {
    struct nl_msg *message = begin(GENL_ID_CTRL, 0, CTRL_CMD_GETFAMILY, 1, 64);
    uint16_t number = 0;

    nla_put_string(message, CTRL_ATTR_FAMILY_NAME, name);
    expect(ask(message, on_family, &number));
    return number;
}

static int on_echo(struct nl_msg *message, void *length) {
    struct nlattr *attributes[TWINWALL_LAB_A_MOST + 1];

    if (genlmsg_parse(nlmsg_hdr(message), 0, attributes, TWINWALL_LAB_A_MOST, NULL) == 0 &&
        attributes[TWINWALL_LAB_A_DATA])
        *(size_t *)length = nla_len(attributes[TWINWALL_LAB_A_DATA]);
    return NL_OK;
}

void genl_echo(uint16_t family, const uint8_t *bytes, size_t length) {
    struct nl_msg *message = begin(family, 0, TWINWALL_LAB_C_ECHO, TWINWALL_LAB_VERSION, length);
    size_t came = 0;

    if (nla_put(message, TWINWALL_LAB_A_DATA, length, bytes) != 0)
        fail_because("nla_put", "no room");
    expect(ask(message, on_echo, &came));
    if (came != length)
        fail_because("echo", "another length");
}

static int on_part(struct nl_msg *message, void *count) {
    struct nlattr *attributes[TWINWALL_LAB_A_MOST + 1];

    if (genlmsg_parse(nlmsg_hdr(message), 0, attributes, TWINWALL_LAB_A_MOST, NULL) == 0 &&
        attributes[TWINWALL_LAB_A_INDEX])
        ++*(size_t *)count;
    return NL_OK;
}

static void ask_parts(uint16_t family, uint32_t parts) {
    struct nl_msg *message =
        begin(family, NLM_F_DUMP, TWINWALL_LAB_C_COUNT, TWINWALL_LAB_VERSION, sizeof(parts));

    nla_put_u32(message, TWINWALL_LAB_A_PARTS, parts);
    int error = nl_send_auto(nl, message);
    nlmsg_free(message);
    if (error < 0)
        fail_because("nl_send_auto", nl_geterror(error));
}

/// Passes the parts of a dump to `callback` until NLMSG_DONE, or until `callback` stops. A dump has
/// no ACK. Returns 0 or libnl's negative error.
static int read_parts(nl_recvmsg_msg_cb_t callback, size_t *count) {
    nl_socket_modify_cb(nl, NL_CB_VALID, NL_CB_CUSTOM, callback, count);
    return nl_recvmsgs_default(nl);
}

size_t genl_dump(uint16_t family, uint32_t parts) {
    size_t count = 0;

    ask_parts(family, parts);
    expect(read_parts(on_part, &count));
    return count;
}

/// Counts the first part of a dump, and stops; libnl discards the rest of the received data.
static int on_first_part(struct nl_msg *message, void *count) {
    on_part(message, count);
    return NL_STOP;
}

void genl_dump_begin(uint16_t family, uint32_t parts) {
    size_t count = 0;

    ask_parts(family, parts);
    expect(read_parts(on_first_part, &count));
    if (count != 1)
        fail_because("dump", "no part");
}

/// Continues an interrupted dump. libnl reads to the dump's end before it reports the interruption.
void genl_dump_rest(void) {
    size_t count = 0;

    if (read_parts(on_part, &count) != -NLE_DUMP_INTR)
        fail_because("dump", "the interruption was not reported");
}

static int on_refusal(struct sockaddr_nl *address, struct nlmsgerr *error, void *missing) {
    const struct nlmsghdr *header = (const struct nlmsghdr *)((const char *)error - NLMSG_HDRLEN);
    int offset = sizeof(*error) + error->msg.nlmsg_len - NLMSG_HDRLEN;
    struct nlattr *first = (struct nlattr *)((char *)error + offset);
    struct nlattr *attribute =
        nla_find(first, header->nlmsg_len - NLMSG_HDRLEN - offset, NLMSGERR_ATTR_MISS_TYPE);

    (void)address;
    if (error->error == -EINVAL && attribute != NULL)
        *(uint32_t *)missing = nla_get_u32(attribute);
    return NL_STOP;
}

uint32_t genl_refused(uint16_t family) {
    static struct nl_sock *told;
    uint32_t missing = 0;
    int on = 1;

    if (told != nl &&
        setsockopt(nl_socket_get_fd(nl), SOL_NETLINK, NETLINK_EXT_ACK, &on, sizeof(on)) != 0)
        fail("NETLINK_EXT_ACK");
    told = nl;
    struct nl_msg *message = begin(family, NLM_F_ACK, TWINWALL_LAB_C_ECHO, TWINWALL_LAB_VERSION, 0);
    nl_socket_modify_err_cb(nl, NL_CB_CUSTOM, on_refusal, &missing);
    int error = nl_send_auto(nl, message);
    nlmsg_free(message);
    if (error >= 0)
        error = nl_recvmsgs_default(nl);
    /* libnl returns its own error for the message at which the callback stopped. */
    if (error != -NLE_INVAL)
        expect(error);
    return missing;
}
