// SPDX-License-Identifier: GPL-2.0-or-later
// Backend over the callback API of libnetfilter_queue, as the published experiment used it.
// Messages are received by queue_socket on nfq_fd, each given to nfq_handle_packet, whose callback
// fills the packet in before the call returns. Verdicts: nfq_set_verdict(2) or
// nfq_set_verdict_batch(2), a call (sendmsg) a run.
#ifndef QUEUE_CLASSIC_H
#define QUEUE_CLASSIC_H

#include "queue/types.h"

extern const struct queue_backend queue_classic;

#endif
