// SPDX-License-Identifier: GPL-2.0-or-later
#include "load.h"

#include "interface.h"
#include "parse.h"

const struct requirement *load_requirement(const struct loaded *loaded) {
    return loaded->compiled ? compile_requirement(loaded->compiled) : NULL;
}

static int compile(struct loaded *loaded, struct failure *failure) {
    const struct compile_settings settings = {
        .interface_index = interface_index,
        .interfaces_must_exist = true,
    };
    int result = compile_policy(&loaded->policy, &settings, &loaded->compiled, failure);

    if (result < 0)
        return result;
    result = flow_make(&loaded->flow, loaded->compiled);
    if (result < 0)
        failure_set_start(failure, "calloc", -result);
    return result;
}

int load(struct loaded *loaded, struct options *options, struct failure *failure) {
    int result;

    *loaded = (struct loaded){.reject = {.raw4 = -1, .raw6 = -1, .probe = -1}};
    if (!options->policy)
        return 0;
    result = parse_file(options->policy, &loaded->policy, failure);
    if (result == 0)
        result = compile(loaded, failure);
    if (result == 0)
        result = options_require(options, load_requirement(loaded), failure);
    if (result == 0 && load_requirement(loaded)->reject)
        result = reject_open(&loaded->reject, failure);
    if (result < 0)
        load_free(loaded);
    return result;
}

void load_free(struct loaded *loaded) {
    reject_close(&loaded->reject);
    flow_free(&loaded->flow);
    compile_free(loaded->compiled);
    policy_free(&loaded->policy);
    loaded->compiled = NULL;
}
