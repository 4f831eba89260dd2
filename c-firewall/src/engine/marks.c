// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/marks.h"

mark_set marks_one(struct mark_values *values, uint32_t value) {
    for (uint32_t i = 0; i < values->count; i++)
        if (values->values[i] == value)
            return UINT64_C(1) << i;
    if (values->count == MARKS_VALUES_MAX)
        return MARKS_ANY;
    values->values[values->count++] = value;
    return UINT64_C(1) << (values->count - 1);
}

mark_set marks_all(struct mark_values *values, const uint32_t *several, uint32_t count) {
    mark_set all = MARKS_NONE;

    for (uint32_t i = 0; i < count; i++)
        all |= marks_one(values, several[i]);
    return all;
}

bool marks_value(const struct mark_values *values, mark_set set, uint32_t *value) {
    if (set == MARKS_NONE || set == MARKS_ANY || set != marks_first(set))
        return false;
    *value = values->values[__builtin_ctzll(set)];
    return true;
}

mark_set marks_changed(struct mark_values *values, mark_set set, uint32_t keep, uint32_t toggle) {
    mark_set left = set, changed = MARKS_NONE;

    while (left != MARKS_NONE) {
        const mark_set mark = marks_first(left);
        uint32_t value = 0;

        left &= ~mark;
        if (marks_value(values, mark, &value) || keep == 0)
            changed |= marks_one(values, (value & keep) ^ toggle);
        else
            changed |= MARKS_ANY;
    }
    return changed;
}
