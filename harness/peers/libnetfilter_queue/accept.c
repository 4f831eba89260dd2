// SPDX-License-Identifier: GPL-2.0-or-later
// Accepts every packet of a queue with the callbacks of libnetfilter_queue, as in its
// documentation: accept QUEUE [tuned].

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <libnetfilter_queue/libnetfilter_queue.h>

static int accept_packet(struct nfq_q_handle *queue, struct nfgenmsg *message,
                         struct nfq_data *packet, void *data) {
    (void)message;
    (void)data;
    const struct nfqnl_msg_packet_hdr *header = nfq_get_msg_packet_hdr(packet);
    return nfq_set_verdict(queue, header != NULL ? ntohl(header->packet_id) : 0, NF_ACCEPT, 0,
                           NULL);
}

int main(int count, char **words) {
    const int tuned = count > 2 && strcmp(words[2], "tuned") == 0;
    struct nfq_handle *handle = nfq_open();
    const uint16_t number = count > 1 ? (uint16_t)strtoul(words[1], NULL, 10) : 0;
    struct nfq_q_handle *queue =
        handle != NULL ? nfq_create_queue(handle, number, accept_packet, NULL) : NULL;
    if (queue == NULL || nfq_set_mode(queue, NFQNL_COPY_PACKET, tuned ? 128 : 0xffff) < 0) {
        perror("queue");
        return 1;
    }
    if (tuned) {
        nfnl_rcvbufsiz(nfq_nfnlh(handle), 64U << 20);
        nfq_set_queue_maxlen(queue, 131072);
        nfq_set_queue_flags(queue, NFQA_CFG_F_GSO, NFQA_CFG_F_GSO);
    }
    char buffer[0x10000 + 4096] __attribute__((aligned));
    for (;;) {
        const ssize_t length = recv(nfq_fd(handle), buffer, sizeof(buffer), 0);
        if (length >= 0) {
            nfq_handle_packet(handle, buffer, (int)length);
        } else if (errno != ENOBUFS && errno != EINTR) {
            perror("recv");
            return 1;
        }
    }
}
