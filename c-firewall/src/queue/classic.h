// SPDX-License-Identifier: GPL-2.0-or-later
// Backend `classic`: the callback API of libnetfilter_queue, as in the published experiment.
// queue_socket receives the messages from nfq_fd. Each message is passed to nfq_handle_packet,
// whose callback fills in the packet before the call returns. Verdicts are sent by nfq_set_verdict,
// nfq_set_verdict2, nfq_set_verdict_batch or nfq_set_verdict_batch2, one call (sendmsg) per run.
// Verdicts for gaps, and verdicts with packets that the kernel gets back, are sent by sendto.
#ifndef QUEUE_CLASSIC_H
#define QUEUE_CLASSIC_H

#include "queue/types.h"

extern const struct queue_backend queue_classic;

#endif
