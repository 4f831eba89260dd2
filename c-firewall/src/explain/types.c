// SPDX-License-Identifier: GPL-2.0-or-later
#include "explain/types.h"

const char *explain_interface(void *context, uint32_t index) {
    const struct options_explain *given = &((const struct explain *)context)->options.explain;

    if (index == EXPLAIN_INDEX_IIF)
        return given->iif;
    return index == EXPLAIN_INDEX_OIF ? given->oif : "";
}

struct compile_place explain_counter(const struct explain *explain, uint32_t counter,
                                     struct flow_counter *figures) {
    const struct explain_engine *daemon = &explain->daemon;
    const struct policy_counter start = compile_counter_start(daemon->compiled, counter);

    *figures = (struct flow_counter){.packets = start.packets, .bytes = start.bytes};
    flow_sum(&daemon->counters, counter, figures);
    return compile_counter_at(daemon->compiled, counter);
}
