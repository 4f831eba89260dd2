// SPDX-License-Identifier: GPL-2.0-or-later
// From what a packet is to what happens with it. No system call, no allocation, no state.
#ifndef DECIDE_H
#define DECIDE_H

#include <stdbool.h>

#include "packet.h"
#include "verdict.h"

struct decide_settings {
    enum verdict default_verdict; // --default: VERDICT_ACCEPT or VERDICT_DROP
    bool fail_open;               // --fail open
};

/// The verdict for a packet: --default for PACKET_OK and PACKET_CUT, the --fail mode (accept if
/// open, drop if closed) for malformed and truncated ones.
/// - truncated: the netlink message did not fit its slot; status is not looked at then.
enum verdict decide(const struct decide_settings *settings, enum packet_status status,
                    bool truncated);

#endif
