// SPDX-License-Identifier: GPL-2.0-or-later
// The text of a policy. What is refused has a place, and what is taken is printed as a policy that
// is equal and prints the same. Includes would read files of this machine, so a text with one is no
// input.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/parse/parse.h"
#include "policy/print.h"

static void must(int condition) {
    if (!condition)
        abort();
}

static void check_print(const struct policy *policy) {
    char *text = print_policy(policy), *second;
    struct policy again = {0};
    struct failure failure;

    must(text != NULL);
    if (parse_text("print", (const uint8_t *)text, strlen(text), &again, &failure) != 0) {
        fprintf(stderr, "%s\n%s", failure.text, text);
        abort();
    }
    must(policy_equal(policy, &again));
    second = print_policy(&again);
    must(second && strcmp(text, second) == 0);
    policy_free(&again);
    free(second);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct policy policy = {0};
    struct failure failure = {0};

    if (memmem(data, size, "include", strlen("include")))
        return -1;
    if (parse_text("t", data, size, &policy, &failure) == 0)
        check_print(&policy);
    else
        must(strncmp(failure.text, "t:", 2) == 0);
    policy_free(&policy);
    return 0;
}
