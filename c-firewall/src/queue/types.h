// SPDX-License-Identifier: GPL-2.0-or-later
// What a queue is made of: settings, packets, and what a backend is.
#ifndef QUEUE_TYPES_H
#define QUEUE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "packet/verdict.h"
#include "queue/socket.h"
#include "spec/option.h"

enum {
    QUEUE_CONNTRACK_BYTES = 1024, // room for NFQA_CT, if it is asked for
    QUEUE_MESSAGE_BYTES = 20,     // nlmsghdr and nfgenmsg, with which every message begins
    QUEUE_REQUEST_BYTES = 64,     // room for a configuration request
    QUEUE_VERDICT_BYTES = 40,     // of a verdict message with a mark
    QUEUE_FLAGS_ALL = 15,         // NFQA_CFG_F_*: all that are ever asked for
    QUEUE_GAP_SEQUENCE = 1,       // nlmsg_seq of a verdict on a gap; that of others is 0
    QUEUE_PAUSE_NS = 1000000,     // the pause when the kernel has no room for verdicts
    QUEUE_TRIES_MAX = 1000, // number of attempts at sending them, where a caller waits for the end
};

#define QUEUE_UNKNOWN UINT32_MAX // a uid, gid or ct_info that the kernel didn't tell

struct queue_settings {
    uint16_t number;
    enum queue_kind kind;
    uint32_t copy_bytes;          // of a packet to copy; 0 = metadata only
    uint32_t batch;               // messages a receive call can yield, 1..VERDICT_PACKETS_MAX
    uint64_t slot_bytes;          // of the arena, see queue_socket_slot_bytes
    uint32_t receive_buffer;      // bytes; 0 = the kernel's default
    bool receive_buffer_required; // a smaller one is a failure, not a warning
    uint32_t queue_length;        // packets
    bool gso;                     // NFQA_CFG_F_GSO
    bool fail_open;               // NFQA_CFG_F_FAIL_OPEN
    bool uid_gid;                 // NFQA_CFG_F_UID_GID
    bool conntrack;               // NFQA_CFG_F_CONNTRACK, or the queue is not opened
    bool names;                   // its packets are followed for the names that clients show
};

/// Packet as described by the kernel. payload is borrowed from the arena until the next
/// queue_receive.
struct queue_packet {
    uint32_t id;        // counts up by one with each packet offered to the queue, and wraps
    uint16_t ethertype; // host order
    uint8_t hook;       // NF_INET_*
    bool truncated;     // the message did not fit its slot: only id, ethertype and hook are known
    bool spoiled;       // the message can't be read: no more is known either
    bool nameless;      // with spoiled: not even the id
    uint32_t mark;      // 0 = none
    uint32_t indev;     // interface index; 0 = none
    uint32_t outdev;    // interface index; 0 = none
    uint32_t uid;       // of the socket that sent it; QUEUE_UNKNOWN
    uint32_t gid;       // QUEUE_UNKNOWN
    uint32_t ct_info;   // enum ip_conntrack_info; QUEUE_UNKNOWN
    bool has_ct_mark;   // the packet belongs to a connection, and ct_mark is its mark
    uint32_t ct_mark;   // 0 = none
    uint32_t skb_info;  // NFQA_SKB_* bits
    const uint8_t *payload;  // from the IP header on; NULL without a payload
    uint32_t payload_bytes;  // that can be read at payload
    uint32_t original_bytes; // of the packet in the kernel; never a bound
};

/// Kind of a message. Negative: the kernel refused a verdict, -errno (-ENOENT: it has no such
/// id).
enum queue_parsed {
    QUEUE_PARSED_PACKET,
    QUEUE_PARSED_IGNORED,   // neither a packet nor an error, or an acknowledgement
    QUEUE_PARSED_MALFORMED, // it can't be read
};

/// Result of a receive call. All zero: the socket is empty.
struct queue_received {
    uint32_t messages;  // all of them
    uint32_t packets;   // in queue.packets
    uint32_t ids;       // of these, those with an id
    uint32_t malformed; // messages that can't be read: a packet if they are known to tell of one
    uint32_t nameless;  // of these, those without an id
    uint32_t ignored;   // messages that tell nothing
    uint32_t vacant;    // gaps in which the kernel had no packet
    uint32_t refused;   // verdicts that the kernel refused
    uint32_t overruns;  // 1 if the call reported lost packets (ENOBUFS)
};

/// Configuration requests, each acknowledged by the kernel except QUEUE_UNBIND, whose
/// acknowledgement would have to be looked for behind all packets that wait in the socket.
enum queue_request {
    QUEUE_BIND,   // NFQA_CFG_CMD: NFQNL_CFG_CMD_BIND
    QUEUE_LENGTH, // NFQA_CFG_QUEUE_MAXLEN: settings.queue_length
    QUEUE_FLAGS,  // NFQA_CFG_FLAGS: queue.flags, and NFQA_CFG_MASK: QUEUE_FLAGS_ALL
    QUEUE_MODE,   // NFQA_CFG_PARAMS: settings.copy_bytes, NFQNL_COPY_PACKET or, for 0,
                  // NFQNL_COPY_META
    QUEUE_UNBIND, // NFQA_CFG_CMD: NFQNL_CFG_CMD_UNBIND
};

struct queue;

/// What a backend is. Each function gives 0 or -errno.
struct queue_backend {
    const char *verdict_call;         // the name of the system call that sends verdicts
    int (*open)(struct queue *queue); // makes and binds the netlink socket, sets queue.socket.fd
    int (*adopt)(struct queue *queue,
                 int fd); // takes a bound one, if it does not fail; NULL = can't
    int (*request)(struct queue *queue,
                   enum queue_request request); // sends, and waits for the answer
    int (*parse)(struct queue *queue, const uint8_t *bytes, size_t received,
                 struct queue_packet *packet);
    // sends some runs at least, in order; gives how many, or -errno if none
    int (*verdict)(struct queue *queue, const struct verdict_run *runs, size_t count);
    void (*close)(struct queue *queue); // closes the socket; also after a failed open
};

/// A queue. Zeroed it can be given to queue_close.
struct queue {
    struct queue_settings settings;
    const struct queue_backend *backend;
    struct queue_socket socket;
    uint32_t portid;              // netlink port of the socket
    uint32_t flags;               // NFQA_CFG_F_* that are asked for
    uint32_t receive_buffer;      // bytes that the kernel gives
    uint32_t pending;             // messages in the arena that came while configuring
    uint32_t pending_overruns;    // ENOBUFS met while configuring
    bool bound;                   // the kernel knows us as the owner, by a socket of our own
    bool handed;                  // another process may configure it, see queue_resume
    bool refresh;                 // the packets that wait may have fewer bytes than we ask for
    struct queue_packet *packets; // settings.batch of them
    size_t verdicts_max;          // runs that there is room for in verdicts
    size_t verdicts_most;         // runs that the kernel takes in one message
    uint8_t *verdicts;            // QUEUE_VERDICT_BYTES a run
    const char *failed_call;      // the call that made queue_receive or queue_verdict fail
    void *library;                // struct mnl_socket or struct nfq_handle
    struct queue_packet *filling; // classic: by the callback; NULL while configuring
    void *library_queue;          // struct nfq_q_handle
};

#endif
