// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: sendmsg recvfrom close
#include "queue/classic.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libnfnetlink/libnfnetlink.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_queue.h>
// Included after the kernel's header, which has more attributes than the copy in the library's
// header.
#include <libnetfilter_queue/libnetfilter_queue.h>
#include <stdlib.h>
#include <string.h>

#include "queue/attribute.h"
#include "queue/frame.h"
#include "queue/raw.h"

enum {
    CALLBACK_FAIL = -1, // result of the callback that makes nfq_handle_packet fail
    // Result of the callback that makes nfq_handle_packet succeed. It also ends nfnl_catch, by
    // which the library waits for an acknowledgement.
    CALLBACK_STOP = 0,
    // Size of the library's receive buffer on the stack, in bytes. The library may receive a packet
    // in it while it waits for the acknowledgement of QUEUE_MODE. The kernel copies at most 65531
    // bytes of a packet.
    CATCH_BYTES = 65536 + QUEUE_OVERHEAD_BYTES + QUEUE_CONNTRACK_BYTES,
};

/// Stores a message in the first slot, as if it had been received there: it arrived while the
/// library waited for an acknowledgement. nfnl_process has checked that the library's buffer holds
/// the whole message.
static void keep_pending(struct queue *queue, const struct nfgenmsg *message) {
    const uint8_t *bytes = (const uint8_t *)message - NLMSG_HDRLEN;
    struct nlmsghdr header;

    memcpy(&header, bytes, sizeof header);
    queue_socket_keep(&queue->socket, bytes, header.nlmsg_len);
    queue->pending = 1;
}

/// Callback of the library. Stores the fields of a message in queue->filling; classic_parse adds
/// the fields for which the library has no function. If a message arrives during configuration,
/// stores the whole message in the first slot instead.
static int on_packet(struct nfq_q_handle *handle, struct nfgenmsg *message, struct nfq_data *data,
                     void *context) {
    struct queue *queue = context;
    struct queue_packet *packet = queue->filling;
    const struct nfqnl_msg_packet_hdr *packet_hdr;
    unsigned char *payload;
    int payload_bytes;

    (void)handle;
    if (!packet) {
        keep_pending(queue, message);
        return CALLBACK_STOP;
    }
    packet_hdr = nfq_get_msg_packet_hdr(data);
    if (!packet_hdr)
        // The NFQA_PACKET_HDR has a flag bit in its type that the library does not know and the
        // kernel never sets.
        return CALLBACK_FAIL;
    *packet = (struct queue_packet){
        .id = ntohl(packet_hdr->packet_id),
        .ethertype = ntohs(packet_hdr->hw_protocol),
        .hook = packet_hdr->hook,
        .mark = nfq_get_nfmark(data),
        .indev = nfq_get_indev(data),
        .outdev = nfq_get_outdev(data),
        .uid = QUEUE_UNKNOWN,
        .gid = QUEUE_UNKNOWN,
        .ct_info = QUEUE_UNKNOWN,
        .skb_info = nfq_get_skbinfo(data),
    };
    nfq_get_uid(data, &packet->uid);
    nfq_get_gid(data, &packet->gid);
    payload_bytes = nfq_get_payload(data, &payload);
    if (payload_bytes >= 0) {
        packet->payload = payload;
        packet->payload_bytes = (uint32_t)payload_bytes;
    }
    return CALLBACK_STOP;
}

static int classic_parse(struct queue *queue, const uint8_t *bytes, size_t received,
                         struct queue_packet *packet) {
    const int framed = queue_frame(bytes, received, packet);
    struct queue_extras extras;
    struct nlmsghdr header;
    int result;

    if (framed != QUEUE_PARSED_PACKET || packet->truncated)
        return framed;
    if (queue_check_attributes(bytes, &extras) < 0)
        return QUEUE_PARSED_MALFORMED;
    memcpy(&header, bytes, sizeof header);
    queue->filling = packet;
    result = nfq_handle_packet(queue->library, (char *)bytes, (int)header.nlmsg_len);
    queue->filling = NULL;
    if (result < 0)
        return QUEUE_PARSED_MALFORMED; // no callback for this queue number, or CALLBACK_FAIL
    packet->original_bytes = extras.cap_len < 0 ? packet->payload_bytes : (uint32_t)extras.cap_len;
    packet->ct_info = extras.ct_info;
    packet->has_ct_mark = extras.has_ct_mark;
    packet->ct_mark = extras.ct_mark;
    return QUEUE_PARSED_PACKET;
}

static int classic_open(struct queue *queue) {
    struct nfq_handle *handle = nfq_open();

    if (!handle)
        return -errno;
    queue->library = handle; // classic_close closes it
    queue->socket.fd = nfq_fd(handle);
    queue->portid = nfnl_portid(nfq_nfnlh(handle));
    nfnl_set_rcv_buffer_size(nfq_nfnlh(handle), CATCH_BYTES);
    return 0;
}

static int bind_queue(struct queue *queue) {
    queue->library_queue =
        nfq_create_queue(queue->library, queue->settings.number, on_packet, queue);
    return queue->library_queue ? 0 : -1;
}

static int set_mode(struct queue *queue) {
    const uint32_t copy_bytes = queue->settings.copy_bytes;
    const int result = nfq_set_mode(
        queue->library_queue, copy_bytes > 0 ? NFQNL_COPY_PACKET : NFQNL_COPY_META, copy_bytes);

    if (result < 0 && errno == ENOBUFS) {
        // An overrun is no failure, as in queue_await_ack: only packets can have filled the buffer,
        // so the kernel has executed the request.
        queue->pending_overruns++;
        return 0;
    }
    return result;
}

/// Executes a configuration request by the library's functions, which wait for the acknowledgement.
static int classic_request(struct queue *queue, enum queue_request request) {
    int result = 0;

    switch (request) {
    case QUEUE_BIND:
        result = bind_queue(queue);
        break;
    case QUEUE_LENGTH:
        result = nfq_set_queue_maxlen(queue->library_queue, queue->settings.queue_length);
        break;
    case QUEUE_FLAGS:
        result = nfq_set_queue_flags(queue->library_queue, QUEUE_FLAGS_ALL, queue->flags);
        break;
    case QUEUE_MODE:
        result = set_mode(queue);
        break;
    case QUEUE_UNBIND:
        result = nfq_destroy_queue(queue->library_queue);
        queue->library_queue = NULL;
        break;
    }
    if (result >= 0)
        return 0;
    return errno == EAGAIN ? -ETIMEDOUT : -errno;
}

/// Sends the verdict of a run. Returns -1 with the errno of sendmsg on failure.
static int send_run(struct nfq_q_handle *handle, const struct verdict_run *run) {
    if (run->count > 1)
        return run->has_mark ? nfq_set_verdict_batch2(handle, run->last_id, run->kernel, run->mark)
                             : nfq_set_verdict_batch(handle, run->last_id, run->kernel);
    return run->has_mark ? nfq_set_verdict2(handle, run->last_id, run->kernel, run->mark, 0, NULL)
                         : nfq_set_verdict(handle, run->last_id, run->kernel, 0, NULL);
}

/// Sends the verdict of the first run. A gap's verdict is sent without the library, which can't set
/// its sequence number. Returns the number of runs that were sent, or -errno.
static int classic_verdict(struct queue *queue, const struct verdict_run *runs, size_t count) {
    int result;

    (void)count;
    if (runs->gap)
        return queue_raw_verdict(queue, runs, 1);
    do
        result = send_run(queue->library_queue, runs);
    while (result < 0 && errno == EINTR);
    return result < 0 ? -errno : 1;
}

static void classic_close(struct queue *queue) {
    if (queue->library)
        nfq_close(queue->library);
    // The handle of a queue that stays bound is only freed, because nfq_destroy_queue would unbind
    // the queue.
    free(queue->library_queue);
}

const struct queue_backend queue_classic = {
    .verdict_call = "sendmsg",
    .open = classic_open,
    .adopt = NULL, // nfq_open and nfnl_open can only create new sockets
    .request = classic_request,
    .parse = classic_parse,
    .verdict = classic_verdict,
    .close = classic_close,
};
