// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: clock_nanosleep
#include "queue/queue.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_queue.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "queue/classic.h"
#include "queue/frame.h"
#include "queue/mnl.h"
#include "queue/proc.h"
#include "queue/raw.h"
#include "queue/restate.h"

static_assert((NFQA_CFG_F_FAIL_OPEN | NFQA_CFG_F_CONNTRACK | NFQA_CFG_F_GSO | NFQA_CFG_F_UID_GID) ==
                  QUEUE_FLAGS_ALL,
              "what queue_probe and queue_open ask for");

enum {
    // Maximum number of attempts to bind a queue that the kernel still keeps after a crash, with a
    // pause of 1 ms after each attempt: about 2 seconds.
    BIND_TRIES = 2000,
};

static const struct queue_backend *const backends[] = {
    [QUEUE_CLASSIC] = &queue_classic,
    [QUEUE_MNL] = &queue_mnl,
    [QUEUE_RAW] = &queue_raw,
};
static_assert(sizeof backends / sizeof *backends == QUEUE_KIND_COUNT, "every kind has a backend");

static const char *const request_names[] = {
    [QUEUE_BIND] = "NFQNL_CFG_CMD_BIND",     [QUEUE_LENGTH] = "NFQA_CFG_QUEUE_MAXLEN",
    [QUEUE_FLAGS] = "NFQA_CFG_FLAGS",        [QUEUE_MODE] = "NFQA_CFG_PARAMS",
    [QUEUE_UNBIND] = "NFQNL_CFG_CMD_UNBIND",
};

static void fail_owned(const struct queue *queue, uint32_t portid, struct failure *failure) {
    struct queue_owner owner;

    if (queue_proc_owner(portid, &owner) == 0)
        failure_set(failure, LOG_EXIT_OWNED,
                    "queue %u is owned by pid %d (%s): stop it or choose another with --queue",
                    queue->settings.number, (int)owner.pid, owner.comm);
    else
        failure_set(failure, LOG_EXIT_OWNED,
                    "queue %u is owned by another process (netlink port %u): "
                    "stop it or choose another with --queue",
                    queue->settings.number, portid);
}

/// Fills in the failure to allocate a queue's buffers, of which the arena is the largest. The paper
/// profile requests 4 GiB of address space.
static void fail_arena(const struct queue_settings *settings, int error, struct failure *failure) {
    failure_set(failure, LOG_EXIT_CALL,
                "%" PRIu64 " bytes to receive packets into: %s: allow the process more memory "
                "(ulimit -v, LimitAS= of the unit), or ask for less with --profile fast, "
                "--copy-bytes or --batch",
                settings->slot_bytes * settings->batch, strerror(error));
}

static void fail_no_nfqueue(struct failure *failure) {
    failure_set(failure, LOG_EXIT_KERNEL,
                "this kernel has no NFQUEUE: use a kernel with CONFIG_NETFILTER_NETLINK_QUEUE, "
                "or load the module nfnetlink_queue");
}

static void fail_capability(struct failure *failure) {
    failure_set(failure, LOG_EXIT_CAPABILITY,
                "CAP_NET_ADMIN is missing: run as root or with sudo, "
                "or give the program the capability (setcap cap_net_admin+ep)");
}

/// Fills in the failure for an errno of the request to bind a queue. EPERM means that a capability
/// is missing or that another process owns the queue.
static void fail_bind(const struct queue *queue, int error, struct failure *failure) {
    struct queue_figures figures;
    const bool listed = queue_proc_figures(queue->settings.number, &figures) == 0;

    if ((error == EPERM || error == EBUSY) && listed && figures.portid != queue->portid)
        fail_owned(queue, figures.portid, failure);
    else if (error == EPERM)
        fail_capability(failure);
    else if (error == EINVAL || error == EOPNOTSUPP)
        fail_no_nfqueue(failure);
    else
        failure_set_start(failure, request_names[QUEUE_BIND], error);
}

/// Frees the buffers of a closed queue.
static void free_buffers(struct queue *queue) {
    queue_socket_free(&queue->socket);
    free(queue->packets);
    free(queue->verdicts);
    *queue = (struct queue){.socket.fd = -1};
}

int queue_prepare(struct queue *queue, const struct queue_settings *settings,
                  struct failure *failure) {
    int result;

    *queue = (struct queue){
        .settings = *settings,
        .backend = backends[settings->kind],
        .socket.fd = -1,
        // Number of runs of a batch: a gap before each packet, each packet, and a gap after the
        // last packet.
        .verdicts_max = 2 * (size_t)settings->batch + 1,
        .verdicts_most = 2 * (size_t)settings->batch + 1,
    };
    result = queue_socket_init(&queue->socket, settings->batch, settings->slot_bytes);
    queue->packets = calloc(settings->batch, sizeof *queue->packets);
    queue->verdicts = calloc(1, queue->verdicts_max * QUEUE_VERDICT_BYTES + QUEUE_RESTATED_BYTES);
    if (result < 0 || !queue->packets || !queue->verdicts) {
        fail_arena(settings, ENOMEM, failure);
        free_buffers(queue);
        return -ENOMEM;
    }
    return 0;
}

static int open_socket(struct queue *queue, struct failure *failure) {
    int result = queue->backend->open(queue);

    if (result == -EPROTONOSUPPORT || result == -EAFNOSUPPORT) {
        fail_no_nfqueue(failure);
        return result;
    }
    if (result < 0) {
        failure_set_start(failure, "socket", -result);
        return result;
    }
    result = queue_socket_bound_wait(&queue->socket);
    if (result < 0)
        failure_set_start(failure, "setsockopt(SO_RCVTIMEO)", -result);
    return result;
}

/// Returns true if a queue that could not be bound may soon be free, because no visible process
/// except the guard has its socket. After a crash the kernel keeps the queue until the guard, the
/// last process with the socket, has ended completely.
static bool is_leaving(const struct queue *queue, int error) {
    struct queue_figures figures;
    struct queue_owner owner;

    if (error != EPERM && error != EBUSY)
        return false;
    return queue_proc_figures(queue->settings.number, &figures) < 0 ||
           queue_proc_owner(figures.portid, &owner) < 0 ||
           strcmp(owner.comm, QUEUE_PROC_GUARD) == 0;
}

static int bind_queue(struct queue *queue, struct failure *failure) {
    int result = queue->backend->request(queue, QUEUE_BIND);

    for (int tries = 1; result < 0 && tries < BIND_TRIES && is_leaving(queue, -result); tries++) {
        queue_pause();
        result = queue->backend->request(queue, QUEUE_BIND);
    }
    if (result < 0)
        fail_bind(queue, -result, failure);
    else
        queue->bound = true;
    return result;
}

int queue_set_buffer(struct queue *queue, struct failure *failure) {
    const struct queue_settings *settings = &queue->settings;
    const int result =
        queue_socket_set_buffer(&queue->socket, settings->receive_buffer, &queue->receive_buffer);

    if (result < 0) {
        failure_set_start(failure, "setsockopt(SO_RCVBUF)", -result);
        return result;
    }
    if (queue->receive_buffer >= settings->receive_buffer)
        return 0;
    if (settings->receive_buffer_required) {
        failure_set(failure, LOG_EXIT_BUFFER,
                    "the kernel gives a receive buffer of %u bytes where --receive-buffer asks "
                    "for %u: raise net.core.rmem_max or ask for less",
                    queue->receive_buffer, settings->receive_buffer);
        return -ENOBUFS;
    }
    log_warn("the receive buffer is %u of %u bytes: raise net.core.rmem_max, "
             "or losses come earlier",
             queue->receive_buffer, settings->receive_buffer);
    return 0;
}

static int must_request(struct queue *queue, enum queue_request request, struct failure *failure) {
    const int result = queue->backend->request(queue, request);

    if (result < 0)
        failure_set_start(failure, request_names[request], -result);
    return result;
}

/// Requests flags of the queue (NFQA_CFG_F_*). If this process does not own the queue, only checks
/// that the kernel supports the flags: the kernel examines the flags before the owner.
static int request_flags(struct queue *queue, uint32_t flags) {
    int result;

    queue->flags = flags;
    if (flags == 0)
        return 0;
    result = queue->backend->request(queue, QUEUE_FLAGS);
    return !queue->bound && (result == -EPERM || result == -ENODEV) ? 0 : result;
}

/// Requests the conntrack attribute (if settings.conntrack is set) in a separate request, so that a
/// refusal has only one possible reason.
static int set_conntrack(struct queue *queue, struct failure *failure) {
    int result;

    if (!queue->settings.conntrack)
        return 0;
    result = request_flags(queue, NFQA_CFG_F_CONNTRACK);
    if (result == -EOPNOTSUPP || result == -EINVAL || result == -EAGAIN)
        failure_set(failure, LOG_EXIT_KERNEL,
                    "the policy uses ct, and this kernel gives no connection tracking with a "
                    "packet: load nf_conntrack_netlink, or have the state put into marks (load "
                    "conntrack-input, of rules/ or /usr/share/twinwall) and start with --conntrack "
                    "mark");
    else if (result < 0)
        failure_set_start(failure, request_names[QUEUE_FLAGS], -result);
    return result;
}

static int set_flags(struct queue *queue, struct failure *failure) {
    const uint32_t fail_open = queue->settings.fail_open ? NFQA_CFG_F_FAIL_OPEN : 0;
    const uint32_t uid_gid = queue->settings.uid_gid ? NFQA_CFG_F_UID_GID : 0;
    const uint32_t gso = queue->settings.gso ? NFQA_CFG_F_GSO : 0;
    int result = set_conntrack(queue, failure);

    if (result < 0)
        return result;
    result = request_flags(queue, queue->flags | fail_open | uid_gid | gso);
    if ((result == -EOPNOTSUPP || result == -EINVAL) && gso) {
        log_warn("this kernel does not take GSO packets: the queue gets segments");
        result = request_flags(queue, queue->flags & ~gso);
    }
    if (result < 0)
        failure_set_start(failure, request_names[QUEUE_FLAGS], -result);
    return result;
}

int queue_probe(const struct queue_settings *settings, uint32_t *flags, struct failure *failure) {
    struct queue_settings own = *settings;
    struct queue probe;
    int result;

    own.kind = QUEUE_RAW;
    own.batch = 1;
    result = queue_prepare(&probe, &own, failure);
    if (result == 0)
        result = open_socket(&probe, failure);
    if (result == 0) {
        // The kernel does not have all these flags, so it refuses the request for every queue. But
        // it checks the capability first.
        probe.flags = UINT32_MAX;
        result = probe.backend->request(&probe, QUEUE_FLAGS);
        probe.flags = 0;
        if (result == -EPERM)
            fail_capability(failure);
        else
            result = set_flags(&probe, failure);
    }
    if (result == 0)
        *flags = probe.flags;
    queue_close(&probe);
    return result;
}

int queue_open(struct queue *queue, const struct queue_settings *settings,
               struct failure *failure) {
    int result = queue_prepare(queue, settings, failure);

    if (result == 0)
        result = open_socket(queue, failure);
    if (result == 0)
        result = bind_queue(queue, failure);
    if (result == 0)
        result = queue_set_buffer(queue, failure);
    if (result == 0)
        result = must_request(queue, QUEUE_LENGTH, failure);
    if (result == 0)
        result = set_flags(queue, failure);
    if (result == 0)
        result = must_request(queue, QUEUE_MODE, failure);
    if (result < 0)
        queue_close(queue);
    return result;
}

/// Parses the readable parts of a malformed message and counts it. If the message contains a
/// packet, adds the packet to the queue's packets, with its ID if that is readable.
static void take_spoiled(const struct queue_message *message, struct queue_packet *packet,
                         struct queue_received *received) {
    const int parsed = queue_truncated(message->bytes, message->received, packet);
    const bool nameless = parsed != QUEUE_PARSED_PACKET;

    received->malformed++;
    received->nameless += nameless;
    if (message->received < QUEUE_MESSAGE_BYTES || !queue_tells_of_packet(message->bytes))
        return;
    if (nameless)
        *packet = (struct queue_packet){.nameless = true};
    packet->truncated = false;
    packet->spoiled = true;
    received->packets++;
    received->ids += !nameless;
}

/// Parses a received message and counts it.
/// - index: slot of the message.
static void take_message(struct queue *queue, uint32_t index, struct queue_received *received) {
    const struct queue_message message = queue_socket_message(&queue->socket, index);
    struct queue_packet *packet = &queue->packets[received->packets];
    int parsed;

    received->messages++;
    if (queue_is_vacant(message.bytes, message.received)) {
        received->vacant++;
        return;
    }
    parsed = message.truncated
                 ? queue_truncated(message.bytes, message.received, packet)
                 : queue->backend->parse(queue, message.bytes, message.received, packet);
    if (parsed == QUEUE_PARSED_PACKET) {
        received->packets++;
        received->ids++;
    } else if (parsed == QUEUE_PARSED_MALFORMED) {
        take_spoiled(&message, packet, received);
    } else if (parsed < 0) {
        received->refused++;
    } else {
        received->ignored++;
    }
}

/// Returns the number of messages in the receive slots, or -errno. In the first call these are the
/// messages that arrived during configuration, if any, otherwise newly received messages.
static int next_messages(struct queue *queue) {
    const int pending = (int)queue->pending;

    queue->pending = 0;
    return pending > 0 ? pending : queue_socket_receive(&queue->socket, false);
}

int queue_receive(struct queue *queue, struct queue_received *received) {
    struct queue_received got = {.overruns = queue->pending_overruns};
    int count = next_messages(queue);

    if (count == -ENOBUFS) {
        got.overruns++;
        count = 0;
    }
    if (count < 0) {
        queue->failed_call = queue_socket_receive_call(&queue->socket);
        return count;
    }
    queue->pending_overruns = 0;
    for (uint32_t i = 0; i < (uint32_t)count; i++)
        take_message(queue, i, &got);
    *received = got;
    return 0;
}

bool queue_is_transient(int result) {
    return result == -ENOBUFS || result == -EAGAIN || result == -ENOMEM || result == -EINTR;
}

/// Sends as many unsent runs as fit into one datagram to the kernel, whose size
/// net.core.wmem_default limits; with the classic backend one run, unless a packet goes back to the
/// kernel. If the datagram is too long, sends nothing: sets verdicts_most to half the number of its
/// runs, or changes its single run to a drop if its packet goes back. Returns 0 or -errno.
static int send_runs(struct queue *queue, struct verdict_batch *batch) {
    const struct verdict_run *runs = &batch->runs[batch->sent];
    const size_t count = verdict_batch_rest(batch, queue->verdicts_most);
    const int result = queue_restate_is_among(runs, count)
                           ? queue_restate_verdict(queue, runs, count)
                           : queue->backend->verdict(queue, runs, count);

    if (result == -EMSGSIZE && count > 1) {
        queue->verdicts_most = count / 2;
        return 0;
    }
    if (result == -EMSGSIZE && runs->is_restated) {
        verdict_batch_withhold(batch);
        return 0;
    }
    if (result > 0)
        batch->sent += (size_t)result;
    return result < 0 ? result : 0;
}

/// Returns the name of the system call that sends the next unsent runs. The backend classic sends
/// most verdicts by its library (sendmsg), but the verdicts for gaps, and packets that go back to
/// the kernel, by sendto.
static const char *verdict_call(const struct queue *queue, const struct verdict_batch *batch) {
    const struct verdict_run *runs = &batch->runs[batch->sent];
    const size_t count = verdict_batch_rest(batch, queue->verdicts_most);
    const bool is_raw = queue_restate_is_among(runs, count) || runs->gap;

    return is_raw ? queue_raw.verdict_call : queue->backend->verdict_call;
}

int queue_verdict(struct queue *queue, struct verdict_batch *batch) {
    int result = 0;

    while (result == 0 && verdict_batch_unsent(batch))
        result = send_runs(queue, batch);
    if (result < 0)
        queue->failed_call = verdict_call(queue, batch);
    return result;
}

void queue_pause(void) {
    const struct timespec pause = {.tv_nsec = QUEUE_PAUSE_NS};

    clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

int queue_fd(const struct queue *queue) { return queue->socket.fd; }

void queue_close(struct queue *queue) {
    if (!queue->backend)
        return;
    if (queue->bound)
        queue->backend->request(queue, QUEUE_UNBIND);
    queue->backend->close(queue);
    free_buffers(queue);
}
