// SPDX-License-Identifier: GPL-2.0-or-later
// Fuzzer of parse_text. The message about a refused text must begin with its file's name. An
// accepted policy must be equal after it is printed and parsed again, and print the same text.
// Input: the text of a policy. Texts with an include are rejected, because they would read files of
// this machine.
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
