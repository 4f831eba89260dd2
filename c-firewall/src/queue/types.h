// SPDX-License-Identifier: GPL-2.0-or-later
// Types of a queue: settings, packets, and the functions of a backend.
#ifndef QUEUE_TYPES_H
#define QUEUE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "packet/verdict.h"
#include "queue/socket.h"
#include "spec/option.h"

enum {
    // Size of the space for NFQA_CT in a slot of the arena, in bytes; only slots of queues that
    // request NFQA_CT have it.
    QUEUE_CONNTRACK_BYTES = 1024,
    // Size of nlmsghdr and nfgenmsg, with which every message begins, in bytes.
    QUEUE_MESSAGE_BYTES = 20,
    QUEUE_REQUEST_BYTES = 64, // size of the buffer for a configuration request, in bytes
    QUEUE_VERDICT_BYTES = 40, // size of a verdict message with a mark, in bytes
    // Maximum length in bytes of a packet that the kernel can get back in a netlink attribute.
    QUEUE_RESTATED_PAYLOAD_MAX = 65531,
    // Size of a verdict message with a mark and the longest packet, in bytes.
    QUEUE_RESTATED_BYTES = QUEUE_VERDICT_BYTES + 65536,
    QUEUE_FLAGS_ALL = 15, // all flags that the firewall may request (NFQA_CFG_F_*)
    // nlmsg_seq of a verdict for a gap (IDs without a readable message); other verdicts have 0.
    QUEUE_GAP_SEQUENCE = 1,
    // Duration of a pause before the next attempt to send verdicts or to bind a queue, in
    // nanoseconds.
    QUEUE_PAUSE_NS = 1000000,
    // Maximum number of attempts to send verdicts, for callers that pause and try again.
    QUEUE_TRIES_MAX = 1000,
};

#define QUEUE_UNKNOWN UINT32_MAX // value of a uid, gid or ct_info that the kernel did not report

struct queue_settings {
    uint16_t number;
    enum queue_kind kind;
    uint32_t copy_bytes;     // maximum number of copied bytes of a packet; 0 = metadata only
    uint32_t batch;          // maximum number of messages per receive call, 1..VERDICT_PACKETS_MAX
    uint64_t slot_bytes;     // size of a receive slot in bytes (queue_socket_slot_bytes)
    uint32_t receive_buffer; // size of the receive buffer in bytes; 0 = the kernel's default
    bool receive_buffer_required; // true if a smaller receive buffer is a failure, not a warning
    uint32_t queue_length;        // maximum length of the queue in packets
    // True if the kernel may queue GSO packets, which are larger than a segment (NFQA_CFG_F_GSO).
    bool gso;
    // True if the kernel accepts packets when the queue or its socket is full
    // (NFQA_CFG_F_FAIL_OPEN).
    bool fail_open;
    // True if the kernel reports the user and group of a packet's sender (NFQA_CFG_F_UID_GID).
    bool uid_gid;
    // True if the kernel must report a packet's conntrack entry (NFQA_CFG_F_CONNTRACK). If it
    // can't, opening fails.
    bool conntrack;
    // True if the first policy reads names. Otherwise a reloaded policy may not read names.
    bool names;
};

/// Packet as the kernel describes it. payload points into the arena and is valid until the next
/// queue_receive.
struct queue_packet {
    // ID of the packet. The kernel increments it by one for each packet offered to the queue; it
    // wraps.
    uint32_t id;
    uint16_t ethertype; // EtherType in host order
    uint8_t hook;       // hook of netfilter (NF_INET_*)
    // True if the message did not fit into its receive slot: only id, ethertype and hook are known.
    bool truncated;
    bool spoiled;     // true if the message is malformed: at most id, ethertype and hook are known
    bool nameless;    // true if even the packet's ID is unknown; `spoiled` is then true
    uint32_t mark;    // mark of the packet; 0 = none
    uint32_t indev;   // index of the interface at which the packet arrived; 0 = none
    uint32_t outdev;  // index of the interface by which the packet leaves; 0 = none
    uint32_t uid;     // user ID of the socket that sent the packet, or QUEUE_UNKNOWN
    uint32_t gid;     // group ID of the socket that sent the packet, or QUEUE_UNKNOWN
    uint32_t ct_info; // state of the connection (enum ip_conntrack_info), or QUEUE_UNKNOWN
    // True if the kernel reported the packet's conntrack connection (NFQA_CT); ct_mark is then that
    // connection's mark.
    bool has_ct_mark;
    uint32_t ct_mark;       // mark of the conntrack connection; 0 = none
    uint32_t skb_info;      // bits about the packet's checksum and GSO (NFQA_SKB_*)
    const uint8_t *payload; // copied bytes from the IP header on; NULL without a payload
    uint32_t payload_bytes; // number of copied bytes at payload
    // Length of the packet in the kernel in bytes; it may exceed the copied bytes.
    uint32_t original_bytes;
};

/// Kind of a received netlink message: packet, ignored or malformed. A negative value is a refusal:
/// the -errno with which the kernel refused a request (-ENOENT for a verdict: the kernel has no
/// packet with this ID).
enum queue_parsed {
    QUEUE_PARSED_PACKET,
    QUEUE_PARSED_IGNORED,   // acknowledgement, or a message that is neither a packet nor an error
    QUEUE_PARSED_MALFORMED, // malformed message
};

/// Counts of a receive call. All except `overruns` are zero if the socket was empty.
struct queue_received {
    uint32_t messages; // number of all messages that the call received
    uint32_t packets;  // number of packets in queue.packets
    uint32_t ids;      // number of packets in queue.packets that have a readable ID
    // Number of malformed messages. A malformed message also counts as a packet if its type is
    // NFQNL_MSG_PACKET.
    uint32_t malformed;
    uint32_t nameless; // number of malformed messages without a readable packet ID
    // Number of acknowledgements, and of messages that are neither packets nor errors.
    uint32_t ignored;
    uint32_t vacant; // number of gap verdicts for which the kernel had no packet
    // Number of verdicts and requests that the kernel refused, without those in vacant.
    uint32_t refused;
    // Number of times that the kernel reported lost packets (ENOBUFS): in this call, and for the
    // first call also during configuration.
    uint32_t overruns;
};

/// Configuration requests to the kernel. The backends wait until the kernel has executed the
/// request. Only for QUEUE_UNBIND, `mnl` and `raw` don't wait, because the acknowledgement would
/// come after all packets that wait in the socket.
enum queue_request {
    QUEUE_BIND,   // NFQA_CFG_CMD: NFQNL_CFG_CMD_BIND
    QUEUE_LENGTH, // NFQA_CFG_QUEUE_MAXLEN: settings.queue_length
    QUEUE_FLAGS,  // NFQA_CFG_FLAGS: queue.flags; NFQA_CFG_MASK: QUEUE_FLAGS_ALL
    // NFQA_CFG_PARAMS: settings.copy_bytes with NFQNL_COPY_PACKET, or 0 with NFQNL_COPY_META.
    QUEUE_MODE,
    QUEUE_UNBIND, // NFQA_CFG_CMD: NFQNL_CFG_CMD_UNBIND
};

struct queue;

/// Functions of a backend. Unless stated otherwise they return 0 or -errno.
struct queue_backend {
    const char *verdict_call; // name of the system call that sends verdicts
    // Creates and binds the netlink socket, and sets queue.socket.fd.
    int (*open)(struct queue *queue);
    // Makes the queue use and own a bound netlink socket; on failure the caller still owns the
    // socket. NULL if the backend can't.
    int (*adopt)(struct queue *queue, int fd);
    // Sends a configuration request, and waits until the kernel has executed it (mnl and raw:
    // except for QUEUE_UNBIND).
    int (*request)(struct queue *queue, enum queue_request request);
    // Parses a received message. Returns a value of enum queue_parsed.
    int (*parse)(struct queue *queue, const uint8_t *bytes, size_t received,
                 struct queue_packet *packet);
    // Sends at least one run, in order. Returns the number of sent runs, or -errno if no run was
    // sent.
    int (*verdict)(struct queue *queue, const struct verdict_run *runs, size_t count);
    // Closes the socket. Also called after a failed open.
    void (*close)(struct queue *queue);
};

/// Queue with its backend, socket and buffers. A zeroed queue may be passed to queue_close.
struct queue {
    struct queue_settings settings;
    const struct queue_backend *backend;
    struct queue_socket socket;
    uint32_t portid;         // netlink port of the socket
    uint32_t flags;          // requested flags (NFQA_CFG_F_*)
    uint32_t receive_buffer; // size of the receive buffer that the kernel gives, in bytes
    uint32_t pending; // number of messages in the receive slots that arrived during configuration
    uint32_t pending_overruns; // number of overruns (ENOBUFS) during configuration
    // True if queue_close must unbind the queue: this process bound it, or adopted it and called
    // queue_confirm.
    bool bound;
    bool handed;  // true if another process may have configured the queue; see queue_resume
    bool refresh; // true if waiting packets may lack data that the settings request
    // Packets of the last receive call; there is room for settings.batch packets.
    struct queue_packet *packets;
    size_t verdicts_max;  // maximum number of runs for which verdicts has room
    size_t verdicts_most; // maximum number of runs in one datagram; decreases after EMSGSIZE
    // Buffer for verdict messages: QUEUE_VERDICT_BYTES per run, and QUEUE_RESTATED_BYTES for
    // packets that the kernel gets back.
    uint8_t *verdicts;
    // Name of the system call that made queue_receive, queue_verdict or queue_resume fail.
    const char *failed_call;
    void *library; // library's handle: struct mnl_socket or struct nfq_handle
    // Packet that the classic backend's callback fills in; NULL during configuration.
    struct queue_packet *filling;
    void *library_queue; // library's queue (struct nfq_q_handle)
};

#endif
