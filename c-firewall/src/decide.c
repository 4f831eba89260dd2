// SPDX-License-Identifier: GPL-2.0-or-later
#include "decide.h"

enum verdict decide(const struct decide_settings *settings, enum packet_status status,
                    bool truncated) {
    if (truncated || packet_is_malformed(status))
        return settings->fail_open ? VERDICT_ACCEPT : VERDICT_DROP;
    return settings->default_verdict;
}
