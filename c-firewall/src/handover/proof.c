// SPDX-License-Identifier: GPL-2.0-or-later
#include "handover/proof.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/proof.h"
#include "handover/state.h"

#define REQUEST "{\"command\":\"proof\"}\n"

/// Sends a number as decimal text to a netlink port. Returns 0 or -errno.
static int send_number(uint32_t port, uint64_t number) {
    const struct sockaddr_nl to = {.nl_family = AF_NETLINK, .nl_pid = port};
    char text[CONTROL_PROOF_BYTES + 1];
    const int length = snprintf(text, sizeof text, "%" PRIu64, number);
    const int fd = control_proof_make_socket();
    int result = 0;

    if (fd < 0)
        return fd;
    if (sendto(fd, text, (size_t)length, 0, (const struct sockaddr *)&to, sizeof to) < 0)
        result = -errno;
    close(fd);
    return result;
}

/// Parses the netlink port and the number in the old firewall's answer to the request `proof`.
/// Returns 0, or -errno with failure filled in.
static int parse_answer(const json_t *answer, uint32_t *port, uint64_t *number,
                        struct failure *failure) {
    const json_t *told = json_object_get(answer, "port");
    const json_int_t port_told = json_integer_value(told);
    const json_t *which = json_object_get(answer, "number");

    if (json_is_false(json_object_get(answer, "ok")))
        return handover_state_fail_refused(answer, failure);
    if (port_told <= 0 || port_told > UINT32_MAX || !json_is_integer(which) ||
        json_integer_value(which) < 0)
        return handover_state_fail_stranger(failure);
    *port = (uint32_t)port_told;
    *number = (uint64_t)json_integer_value(which);
    return 0;
}

static int fail_send(int error, struct failure *failure) {
    switch (error) {
    case -EPERM:
        failure_set(failure, LOG_EXIT_CAPABILITY,
                    "taking over needs CAP_NET_ADMIN: use sudo or setcap cap_net_admin+ep");
        break;
    case -ECONNREFUSED:
        failure_set(failure, LOG_EXIT_CALL,
                    "the old firewall is in another network namespace: start this one there (ip "
                    "netns exec)");
        break;
    default:
        failure_set_start(failure, "sendto", -error);
        break;
    }
    return error;
}

int handover_proof_give(struct handover_channel *channel, struct failure *failure) {
    uint64_t number = 0;
    uint32_t port = 0;
    json_t *answer;
    char *line;
    int result = handover_channel_send(channel, REQUEST, sizeof REQUEST - 1, -1, failure);

    if (result == 0)
        result = handover_channel_line(channel, &line, failure);
    if (result != 0)
        return result;
    answer = json_loads(line, 0, NULL);
    result = parse_answer(answer, &port, &number, failure);
    json_decref(answer);
    if (result < 0)
        return result;
    result = send_number(port, number);
    return result < 0 ? fail_send(result, failure) : 0;
}
