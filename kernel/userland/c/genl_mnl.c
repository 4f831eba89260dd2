// SPDX-License-Identifier: GPL-2.0-or-later
// Generic netlink by libmnl.
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/genetlink.h>
#include <string.h>
#include <time.h>

#include "exchange.h"
#include "genl.h"
#include "twinwall_lab.h"

#define BUFFER_BYTES 65536

static struct mnl_socket *nl;
static uint32_t sequence;
static uint8_t out[BUFFER_BYTES], in[BUFFER_BYTES];

void genl_open(void) {
    nl = mnl_socket_open2(NETLINK_GENERIC, SOCK_CLOEXEC);
    if (nl == NULL || mnl_socket_bind(nl, 0, MNL_SOCKET_AUTOPID) < 0)
        fail("mnl_socket_open");
}

void genl_close(void) { mnl_socket_close(nl); }

static struct nlmsghdr *begin(uint16_t type, uint16_t flags, uint8_t command, uint8_t version) {
    struct nlmsghdr *header = mnl_nlmsg_put_header(out);
    struct genlmsghdr *generic = mnl_nlmsg_put_extra_header(header, sizeof(*generic));

    header->nlmsg_type = type;
    header->nlmsg_flags = NLM_F_REQUEST | flags;
    header->nlmsg_seq = ++sequence;
    generic->cmd = command;
    generic->version = version;
    return header;
}

/// Receives once and passes the messages to `callback`. Returns mnl_cb_run's result: above
/// MNL_CB_STOP if more messages follow, below it after an error (errno).
static int read_once(mnl_cb_t callback, void *data) {
    ssize_t length = mnl_socket_recvfrom(nl, in, sizeof(in));

    if (length < 0)
        fail("mnl_socket_recvfrom");
    return mnl_cb_run(in, length, sequence, mnl_socket_get_portid(nl), callback, data);
}

static void transmit(const struct nlmsghdr *header) {
    if (mnl_socket_sendto(nl, header, header->nlmsg_len) < 0)
        fail("mnl_socket_sendto");
}

/// Sends a request and passes all answers to `callback`.
/// - result: out: 0 or -errno; may be NULL, then an error ends the program.
static void ask(const struct nlmsghdr *header, mnl_cb_t callback, void *data, int *result) {
    int more;

    transmit(header);
    do
        more = read_once(callback, data);
    while (more > MNL_CB_STOP);
    if (result != NULL)
        *result = more < 0 ? -errno : 0;
    else if (more < 0)
        fail("mnl_cb_run");
}

static int note_family(const struct nlattr *attribute, void *number) {
    if (mnl_attr_get_type(attribute) == CTRL_ATTR_FAMILY_ID)
        *(uint16_t *)number = mnl_attr_get_u16(attribute);
    return MNL_CB_OK;
}

static int on_family(const struct nlmsghdr *header, void *number) {
    mnl_attr_parse(header, sizeof(struct genlmsghdr), note_family, number);
    return MNL_CB_STOP;
}

uint16_t genl_family(const char *name) {
    struct nlmsghdr *header = begin(GENL_ID_CTRL, 0, CTRL_CMD_GETFAMILY, 1);
    uint16_t number = 0;

    mnl_attr_put_strz(header, CTRL_ATTR_FAMILY_NAME, name);
    ask(header, on_family, &number, NULL);
    return number;
}

static int note_data(const struct nlattr *attribute, void *length) {
    if (mnl_attr_get_type(attribute) == TWINWALL_LAB_A_DATA)
        *(size_t *)length = mnl_attr_get_payload_len(attribute);
    return MNL_CB_OK;
}

static int on_echo(const struct nlmsghdr *header, void *length) {
    mnl_attr_parse(header, sizeof(struct genlmsghdr), note_data, length);
    return MNL_CB_STOP;
}

void genl_echo(uint16_t family, const uint8_t *bytes, size_t length) {
    struct nlmsghdr *header = begin(family, 0, TWINWALL_LAB_C_ECHO, TWINWALL_LAB_VERSION);
    size_t came = 0;

    mnl_attr_put(header, TWINWALL_LAB_A_DATA, length, bytes);
    ask(header, on_echo, &came, NULL);
    if (came != length)
        fail_because("echo", "another length");
}

static int note_index(const struct nlattr *attribute, void *count) {
    if (mnl_attr_get_type(attribute) == TWINWALL_LAB_A_INDEX)
        ++*(size_t *)count;
    return MNL_CB_OK;
}

static int on_part(const struct nlmsghdr *header, void *count) {
    return mnl_attr_parse(header, sizeof(struct genlmsghdr), note_index, count);
}

static const struct nlmsghdr *begin_dump(uint16_t family, uint32_t parts) {
    struct nlmsghdr *header = begin(family, NLM_F_DUMP, TWINWALL_LAB_C_COUNT, TWINWALL_LAB_VERSION);

    mnl_attr_put_u32(header, TWINWALL_LAB_A_PARTS, parts);
    return header;
}

size_t genl_dump(uint16_t family, uint32_t parts) {
    size_t count = 0;

    ask(begin_dump(family, parts), on_part, &count, NULL);
    return count;
}

void genl_dump_begin(uint16_t family, uint32_t parts) {
    size_t count = 0;

    transmit(begin_dump(family, parts));
    if (read_once(on_part, &count) <= MNL_CB_STOP)
        fail_because("dump", "over at once");
}

/// Continues an interrupted dump. libmnl reports the interruption at the first part that is marked
/// NLM_F_DUMP_INTR, and the later parts stay unread.
void genl_dump_rest(void) {
    size_t count = 0;
    int more;

    do
        more = read_once(on_part, &count);
    while (more > MNL_CB_STOP);
    if (more == MNL_CB_STOP || errno != EINTR)
        fail_because("dump", "the interruption was not reported");
}

/// Returns the type of the attribute that was missing in a refused request; 0 if the extended ACK
/// does not name it. libmnl only sets errno, and leaves the extended ACK in the buffer.
static uint32_t missing_in_buffer(void) {
    const struct nlmsghdr *header = (const struct nlmsghdr *)in;
    const struct nlmsgerr *error = mnl_nlmsg_get_payload(header);
    size_t offset = sizeof(*error) + error->msg.nlmsg_len - sizeof(struct nlmsghdr);
    const struct nlattr *attribute;

    mnl_attr_for_each(attribute, header, offset) {
        if (mnl_attr_get_type(attribute) == NLMSGERR_ATTR_MISS_TYPE)
            return mnl_attr_get_u32(attribute);
    }
    return 0;
}

uint32_t genl_refused(uint16_t family) {
    static struct mnl_socket *told;
    int on = 1, result;

    if (told != nl && mnl_socket_setsockopt(nl, NETLINK_EXT_ACK, &on, sizeof(on)) != 0)
        fail("NETLINK_EXT_ACK");
    told = nl;
    ask(begin(family, NLM_F_ACK, TWINWALL_LAB_C_ECHO, TWINWALL_LAB_VERSION), NULL, NULL, &result);
    if (result != -EINVAL)
        fail_because("refuse", "not a refusal");
    return missing_in_buffer();
}
