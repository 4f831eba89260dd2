// SPDX-License-Identifier: GPL-2.0-or-later
#include "ruleset/load.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "engine/interface.h"
#include "engine/learned.h"
#include "policy/advice.h"
#include "policy/parse/parse.h"

const struct requirement *load_requirement(const struct loaded *loaded) {
    return loaded->compiled ? compile_requirement(loaded->compiled) : NULL;
}

/// Creates the state of a compiled policy: its counters begin with the values in the policy's text.
/// Returns 0 or -ENOMEM.
static int make_state(struct loaded *loaded) {
    const uint32_t counters = compile_counters(loaded->compiled);
    int result = flow_make(&loaded->flow, loaded->compiled);

    if (result < 0)
        return result;
    // Allocates one element more than needed, so that the result is not NULL for a policy without
    // counters.
    loaded->counted = calloc(counters + 1U, sizeof *loaded->counted);
    loaded->logged = calloc(compile_logs(loaded->compiled) + 1U, sizeof *loaded->logged);
    if (!loaded->counted || !loaded->logged)
        return -ENOMEM;
    for (uint32_t i = 0; i < counters; i++) {
        const struct policy_counter start = compile_counter_start(loaded->compiled, i);

        loaded->counted[i] = (struct flow_counter){.packets = start.packets, .bytes = start.bytes};
    }
    return 0;
}

static int compile(struct loaded *loaded, struct failure *failure) {
    const struct compile_settings settings = {
        .interface_index = interface_index,
        .interfaces_must_exist = true,
    };
    int result = compile_policy(&loaded->policy, &settings, &loaded->compiled, failure);

    if (result < 0)
        return result;
    result = make_state(loaded);
    if (result < 0)
        failure_set_start(failure, "calloc", -result);
    return result;
}

int load_learn(struct loaded *loaded, const struct options *options, const struct loaded *before,
               struct failure *failure) {
    struct compiled *compiled = loaded->compiled;

    if (!compiled)
        return 0;
    if (before && before->compiled)
        compiled->learned = learned_share(before->compiled->learned);
    if (compiled->learned || !load_requirement(loaded)->learns)
        return 0;
    compiled->learned = learned_make(options->learned);
    if (compiled->learned)
        return 0;
    failure_set_start(failure, "calloc", ENOMEM);
    return -ENOMEM;
}

static void inform(const char *text) { log_info("%s", text); }

static void warn(const char *text) { log_warn("%s", text); }

int load(struct loaded *loaded, const struct options *options, struct failure *failure) {
    int result;

    *loaded = (struct loaded){0};
    if (!options->policy)
        return 0;
    loaded->generation = 1;
    loaded->loaded_ms = clock_unix_ms();
    result = parse_file(options->policy, &loaded->policy, failure);
    if (result == 0)
        result = compile(loaded, failure);
    if (result == 0)
        result = options_require(options, load_requirement(loaded), failure);
    if (result < 0) {
        load_free(loaded);
        return result;
    }
    advice_report(&loaded->policy, inform);
    advice_advise(&loaded->policy, warn);
    return result;
}

void load_free(struct loaded *loaded) {
    free(loaded->counted);
    free(loaded->logged);
    flow_free(&loaded->flow);
    compile_free(loaded->compiled);
    policy_free(&loaded->policy);
    *loaded = (struct loaded){0};
}
