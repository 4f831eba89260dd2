// SPDX-License-Identifier: GPL-2.0-or-later
#include "options/explain.h"

#include <assert.h>
#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#include "options/daemon.h"
#include "spec/symbols.h"

static_assert(OPTION_INTERFACE_BYTES_MAX == IF_NAMESIZE - 1, "one NUL");

static int check_hook(const struct values *values, struct options_explain *explain) {
    const char *value = values_get(values, OPTION_HOOK);

    if (!value)
        return 0;
    explain->has_hook = true;
    for (int hook = 0; hook < POLICY_HOOK_COUNT; hook++) {
        if (strcmp(value, policy_hook_name((enum policy_hook)hook)) == 0) {
            explain->hook = (enum policy_hook)hook;
            return 0;
        }
    }
    return values_fail(values, OPTION_HOOK);
}

static int check_interface(const struct values *values, enum arguments_option option,
                           const char **name) {
    const char *value = values_get(values, option);

    if (!value)
        return 0;
    if (*value == '\0' || strlen(value) > option_facts[option].bytes)
        return values_fail(values, option);
    *name = value;
    return 0;
}

/// Reads hexadecimal digits, and nothing else, to the end.
static bool read_hexadecimal(const char *text, uint32_t *number) {
    uint64_t read = 0;

    if (*text == '\0' || text[strspn(text, "0123456789abcdefABCDEF")] != '\0')
        return false;
    for (; *text; text++) {
        const char digit[] = {*text, '\0'};

        read = read * 16 + strtoul(digit, NULL, 16);
        if (read > UINT32_MAX)
            return false;
    }
    *number = (uint32_t)read;
    return true;
}

static int check_mark(const struct values *values, enum arguments_option option, bool *has,
                      uint32_t *mark) {
    const char *value = values_get(values, option);
    bool good;

    if (!value)
        return 0;
    if (strncmp(value, "0x", 2) == 0)
        good = read_hexadecimal(value + 2, mark);
    else
        good = values_read_number(value, value + strlen(value), option_facts[option].max, mark);
    if (!good)
        return values_fail(values, option);
    *has = true;
    return 0;
}

static int check_id(const struct values *values, enum arguments_option option, bool *has,
                    uint32_t *id) {
    *has = values_get(values, option);
    return values_number(values, option, id);
}

/// The bit of a state's name of so many bytes (POLICY_CT_STATE), 0 if there is none.
static uint32_t ct_state_of(const char *name, size_t length) {
    for (const struct symbol *state = symbols_ct_states; state->name; state++)
        if (strlen(state->name) == length && strncmp(state->name, name, length) == 0)
            return state->number;
    return 0;
}

static int check_ct_state(const struct values *values, struct options_explain *explain) {
    const char *at = values_get(values, OPTION_CT_STATE);

    if (!at)
        return 0;
    explain->has_ct_state = true;
    for (;; at++) {
        const size_t length = strcspn(at, ",");
        const uint32_t bit = ct_state_of(at, length);

        if (bit == 0)
            return values_fail(values, OPTION_CT_STATE);
        explain->ct_state |= bit;
        at += length;
        if (*at == '\0')
            return 0;
    }
}

int options_explain_values(const struct values *values, struct options *options) {
    struct options_explain *explain = &options->explain;
    bool has_mark;

    if (options_daemon_decision(values, options) < 0 ||
        options_daemon_undecided(values, options) < 0 || options_daemon_fail(values, options) < 0 ||
        check_hook(values, explain) < 0 || check_interface(values, OPTION_IIF, &explain->iif) < 0 ||
        check_interface(values, OPTION_OIF, &explain->oif) < 0 ||
        check_mark(values, OPTION_MARK, &has_mark, &explain->mark) < 0 ||
        check_id(values, OPTION_UID, &explain->has_uid, &explain->uid) < 0 ||
        check_id(values, OPTION_GID, &explain->has_gid, &explain->gid) < 0 ||
        check_ct_state(values, explain) < 0 ||
        check_mark(values, OPTION_CT_MARK, &explain->has_ct_mark, &explain->ct_mark) < 0 ||
        values_path(values, values->arguments->words[0]) < 0 ||
        values_path(values, values->arguments->words[1]) < 0)
        return -EINVAL;
    options->json = values_get(values, OPTION_JSON);
    options->policy = values->arguments->words[0];
    explain->capture = values->arguments->words[1];
    return 0;
}
