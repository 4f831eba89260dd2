// SPDX-License-Identifier: GPL-2.0-or-later
#include "explain/types.h"

bool explain_differs(const struct explain *explain) {
    return explain->has_recorded && explain->recorded != explain->outcome.verdict;
}

const char *explain_interface(void *context, uint32_t index) {
    const struct explain *explain = context;

    return indexes_name_of(&explain->indexes, index, explain->facts.iif, explain->facts.oif);
}

struct compile_place explain_counter(const struct explain *explain, uint32_t counter,
                                     struct flow_counter *figures) {
    const struct explain_engine *daemon = &explain->daemon;
    const struct policy_counter start = compile_counter_start(daemon->compiled, counter);

    *figures = (struct flow_counter){.packets = start.packets, .bytes = start.bytes};
    flow_sum(&daemon->counters, counter, figures);
    return compile_counter_at(daemon->compiled, counter);
}
