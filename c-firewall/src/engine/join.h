// SPDX-License-Identifier: GPL-2.0-or-later
// Join points: places where ways of a packet continue as one way.
//
// Theory of operation: if the ways have different marks, the mark is unknown after the join point.
// A rule that reads it may then hold for every value, also for values that no way has, and accept a
// packet that no way accepts. So a packet that would pass is evaluated again with one of both marks
// at each join point, for each choice of marks.
#ifndef ENGINE_JOIN_H
#define ENGINE_JOIN_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/frame.h"

/// Join points of ways with different marks in an evaluation of a packet.
struct join_points {
    uint32_t count; // number of join points until now
    // True if a mark is chosen at each join point: the evaluation has no effects and is not
    // recorded.
    bool is_choosing;
    uint32_t choices; // bit n is set if the second mark is chosen at join point n
};

/// Returns the mark where two ways meet.
struct frame_mark join_marks(struct join_points *points, struct frame_mark one,
                             struct frame_mark other);

/// Begins the next evaluation with other choices. Returns false if all choices were made.
bool join_choose_again(struct join_points *points);

/// Begins the first evaluation with choices.
void join_choose(struct join_points *points);

#endif
