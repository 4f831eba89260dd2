// SPDX-License-Identifier: GPL-2.0-or-later
#include "explain/check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/compile.h"
#include "policy/parse/parse.h"
#include "policy/print.h"

/// Prints the policy. Returns 0, or -ENOMEM with failure filled in.
static int print(const struct policy *policy, struct failure *failure) {
    char *text = print_policy(policy);

    if (!text) {
        failure_set_start(failure, "malloc", ENOMEM);
        return -ENOMEM;
    }
    fputs(text, stdout);
    free(text);
    return 0;
}

int check_run(const struct options *options) {
    const struct compile_settings settings = {0}; // interfaces are looked for when packets run
    struct policy policy = {0};
    struct compiled *compiled = NULL;
    struct failure failure;
    int result = parse_file(options->policy, &policy, &failure);

    if (result == 0)
        result = compile_policy(&policy, &settings, &compiled, &failure);
    if (result == 0 && options->print)
        result = print(&policy, &failure);
    else if (result == 0)
        puts("ok");
    compile_free(compiled);
    policy_free(&policy);
    return result < 0 ? log_fail(&failure) : LOG_EXIT_STOPPED;
}
