// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/meetings.h"

enum {
    // Maximum number of meetings at which a mark is chosen. The mark stays unknown after later
    // ones, so that a packet needs at most 64 evaluations.
    CHOICES_MAX = 6,
};

struct frame_mark meetings_join(struct meetings *meetings, struct frame_mark one,
                                struct frame_mark other) {
    uint32_t number;

    if (one.state == FRAME_MARK_NONE)
        return other;
    if (other.state == FRAME_MARK_NONE || (one.state == other.state && one.value == other.value))
        return one;
    if (one.state != FRAME_MARK_KNOWN || other.state != FRAME_MARK_KNOWN)
        return (struct frame_mark){.state = FRAME_MARK_UNKNOWN};
    number = meetings->count++;
    if (!meetings->is_choosing || number >= CHOICES_MAX)
        return (struct frame_mark){.state = FRAME_MARK_UNKNOWN};
    return meetings->choices >> number & 1 ? other : one;
}

bool meetings_choose_again(struct meetings *meetings) {
    uint32_t number = meetings->count < CHOICES_MAX ? meetings->count : CHOICES_MAX;

    meetings->count = 0;
    while (number > 0) {
        const uint32_t bit = 1U << --number;

        if (!(meetings->choices & bit)) {
            meetings->choices |= bit;
            return true;
        }
        meetings->choices &= ~bit;
    }
    return false;
}

void meetings_choose(struct meetings *meetings) {
    *meetings = (struct meetings){.is_choosing = true};
}
