// SPDX-License-Identifier: GPL-2.0-or-later
#include "ruleset/tally.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int tally_make(struct tally *tally, const struct loaded *loaded) {
    const struct compiled *compiled = loaded->compiled;

    *tally = (struct tally){0};
    if (!compiled)
        return 0;
    // Allocates one element more than needed, so that the result is not NULL for a policy without
    // counters.
    tally->counters = calloc(compile_counters(compiled) + 1U, sizeof *tally->counters);
    tally->logged = calloc(compile_logs(compiled) + 1U, sizeof *tally->logged);
    if (!tally->counters || !tally->logged) {
        tally_free(tally);
        return -ENOMEM;
    }
    memcpy(tally->counters, loaded->counted, compile_counters(compiled) * sizeof *tally->counters);
    memcpy(tally->logged, loaded->logged, compile_logs(compiled) * sizeof *tally->logged);
    tally->policy = &loaded->policy;
    tally->compiled = compiled;
    return 0;
}

void tally_free(struct tally *tally) {
    free(tally->counters);
    free(tally->logged);
    *tally = (struct tally){0};
}

void tally_add(struct tally *tally, const struct flow_counters *counters) {
    if (!tally->compiled)
        return;
    for (uint32_t i = 0; i < compile_counters(tally->compiled); i++)
        flow_sum(counters, i, &tally->counters[i]);
    for (uint32_t i = 0; i < compile_logs(tally->compiled); i++)
        tally->logged[i] += flow_logged(counters, i);
}
