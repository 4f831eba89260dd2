// SPDX-License-Identifier: GPL-2.0-or-later
#include "worker/stage.h"

uint32_t stage_settled(uint32_t mask) { return mask & ~(mask >> 1); }

uint32_t stage_unreadable(uint32_t mask) { return mask & ~stage_settled(mask); }

uint32_t stage_undecided(uint32_t mask) { return mask; }

bool stage_teaches(uint32_t mask, uint32_t packet_mark) {
    return mask != 0 && (packet_mark & mask) == (stage_settled(mask) | (mask & -mask));
}

/// Sets the outcome to accept, with the class in the mask's bits of the packet's mark. The mark's
/// other bits stay.
static void mark(uint32_t mask, const struct decide_input *input, uint32_t class,
                 struct decide_outcome *outcome) {
    outcome->verdict = VERDICT_ACCEPT;
    outcome->mark_set = true;
    outcome->mark = (input->mark & ~mask) | (class & mask);
}

void stage_tell(uint32_t mask, const struct decide_input *input, bool is_final,
                const uint32_t *before, struct decide_outcome *outcome) {
    const enum names_state state = input->names ? input->names->state : NAMES_NONE;
    // The outcome can be accept although a name is unknown: then all paths through the policy
    // accept.
    const bool is_by_rules = outcome->undecided || outcome->verdict == VERDICT_ACCEPT;

    if (is_by_rules && state == NAMES_UNREADABLE) {
        mark(mask, input, stage_unreadable(mask), outcome);
    } else if (is_by_rules && state == NAMES_UNDECIDED) {
        mark(mask, input, stage_undecided(mask), outcome);
    } else if (outcome->verdict == VERDICT_ACCEPT && outcome->mark_set) {
        const uint32_t class = outcome->mark & stage_unreadable(mask);
        const uint32_t last = is_final ? stage_settled(mask) : 0;

        mark(mask, input, class | last, outcome);
    }
    if (outcome->verdict == VERDICT_ACCEPT && before && *before != outcome->mark)
        mark(mask, input, stage_unreadable(mask), outcome);
}

bool stage_is_refused(uint32_t mask, const struct decide_outcome *outcome) {
    return mask != 0 && outcome->verdict == VERDICT_REJECT;
}

void stage_pass(uint32_t mask, const struct decide_input *input, struct decide_outcome *outcome) {
    mark(mask, input, 0, outcome);
}

void stage_withhold(uint32_t mask, bool is_settled, struct decide_outcome *outcome) {
    if (!is_settled)
        outcome->mark &= ~mask;
}
