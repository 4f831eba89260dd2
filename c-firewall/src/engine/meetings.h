// SPDX-License-Identifier: GPL-2.0-or-later
// Meetings: places where ways of a packet continue as one way.
//
// Theory of operation: if the ways have different marks, the mark is unknown after the meeting, and
// a rule that reads it may hold for each value, also for values that no way has. A packet that is
// accepted only thereby is accepted on no way. So its evaluation is repeated with one of both marks
// at each meeting, for each choice.
#ifndef ENGINE_MEETINGS_H
#define ENGINE_MEETINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/frame.h"

/// Meetings of ways with different marks in an evaluation of a packet.
struct meetings {
    uint32_t count; // number of meetings until now
    // True if a mark is chosen at each meeting: the evaluation has no effects and is not recorded.
    bool is_choosing;
    uint32_t choices; // bit n is set if the second mark is chosen at meeting n
};

/// Returns the mark where two ways meet.
struct frame_mark meetings_join(struct meetings *meetings, struct frame_mark one,
                                struct frame_mark other);

/// Begins the next evaluation with other choices. Returns false if all choices were made.
bool meetings_choose_again(struct meetings *meetings);

/// Begins the first evaluation with choices.
void meetings_choose(struct meetings *meetings);

#endif
