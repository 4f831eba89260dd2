// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/join.h"

enum {
    // Maximum number of join points at which a mark is chosen. The mark stays unknown after later
    // ones, so that a packet needs at most 64 evaluations.
    CHOICES_MAX = 6,
};

struct frame_mark join_marks(struct join_points *points, struct frame_mark one,
                             struct frame_mark other) {
    uint32_t number;

    if (one.state == FRAME_MARK_NONE)
        return other;
    if (other.state == FRAME_MARK_NONE || (one.state == other.state && one.value == other.value))
        return one;
    if (one.state != FRAME_MARK_KNOWN || other.state != FRAME_MARK_KNOWN)
        return (struct frame_mark){.state = FRAME_MARK_UNKNOWN};
    number = points->count++;
    if (!points->is_choosing || number >= CHOICES_MAX)
        return (struct frame_mark){.state = FRAME_MARK_UNKNOWN};
    return points->choices >> number & 1 ? other : one;
}

bool join_choose_again(struct join_points *points) {
    uint32_t number = points->count < CHOICES_MAX ? points->count : CHOICES_MAX;

    points->count = 0;
    while (number > 0) {
        const uint32_t bit = 1U << --number;

        if (!(points->choices & bit)) {
            points->choices |= bit;
            return true;
        }
        points->choices &= ~bit;
    }
    return false;
}

void join_choose(struct join_points *points) {
    *points = (struct join_points){.is_choosing = true};
}
