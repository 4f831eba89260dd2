// SPDX-License-Identifier: GPL-2.0-or-later
#include "options/explain.h"

#include <assert.h>
#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#include "options/daemon.h"
#include "policy/parse/source.h"
#include "spec/symbols.h"

static_assert(OPTION_INTERFACE_BYTES_MAX == IF_NAMESIZE - 1, "one NUL");

bool options_explain_parse_hook(const char *text, enum policy_hook *hook) {
    for (int known = 0; known < POLICY_HOOK_COUNT; known++) {
        if (strcmp(text, policy_hook_name((enum policy_hook)known)) == 0) {
            *hook = (enum policy_hook)known;
            return true;
        }
    }
    return false;
}

static int check_hook(const struct values *values, struct options_facts *facts) {
    const char *value = values_get(values, OPTION_HOOK);

    if (!value)
        return 0;
    facts->has_hook = options_explain_parse_hook(value, &facts->hook);
    return facts->has_hook ? 0 : values_fail(values, OPTION_HOOK);
}

bool options_explain_parse_interface(const char *text,
                                     char name[static OPTION_INTERFACE_BYTES_MAX + 1]) {
    const size_t length = strlen(text);

    if (length == 0 || length > OPTION_INTERFACE_BYTES_MAX ||
        source_check((const uint8_t *)text, length) < length)
        return false;
    memcpy(name, text, length + 1);
    return true;
}

static int check_interface(const struct values *values, enum arguments_option option,
                           char name[static OPTION_INTERFACE_BYTES_MAX + 1]) {
    const char *value = values_get(values, option);

    return !value || options_explain_parse_interface(value, name) ? 0 : values_fail(values, option);
}

static int check_mark(const struct values *values, enum arguments_option option, bool *has,
                      uint32_t *mark) {
    const char *value = values_get(values, option);

    if (!value)
        return 0;
    *has = values_parse_mark(value, mark);
    return *has ? 0 : values_fail(values, option);
}

bool options_explain_parse_id(const char *text, uint32_t *id) {
    return values_parse_number(text, text + strlen(text), option_facts[OPTION_UID].max, id);
}

static int check_id(const struct values *values, enum arguments_option option, bool *has,
                    uint32_t *id) {
    *has = values_get(values, option);
    return values_number(values, option, id);
}

/// Returns the bit of the connection state (POLICY_CT_STATE) with a name of `length` bytes; 0 for
/// other texts.
static uint32_t ct_state_of(const char *name, size_t length) {
    for (const struct symbol *state = symbols_ct_states; state->name; state++)
        if (strlen(state->name) == length && strncmp(state->name, name, length) == 0)
            return state->number;
    return 0;
}

bool options_explain_parse_ct_state(const char *text, uint32_t *state) {
    uint32_t read = 0;

    for (;; text++) {
        const size_t length = strcspn(text, ",");
        const uint32_t bit = ct_state_of(text, length);

        if (bit == 0)
            return false;
        read |= bit;
        text += length;
        if (*text == '\0')
            break;
    }
    *state = read;
    return true;
}

static int check_ct_state(const struct values *values, struct options_facts *facts) {
    const char *value = values_get(values, OPTION_CT_STATE);

    if (!value)
        return 0;
    facts->has_ct_state = options_explain_parse_ct_state(value, &facts->ct_state);
    return facts->has_ct_state ? 0 : values_fail(values, OPTION_CT_STATE);
}

int options_explain_values(const struct values *values, struct options *options) {
    struct options_facts *facts = &options->explain.facts;
    bool has_mark;

    if (options_daemon_decision(values, options) < 0 ||
        options_daemon_undecided(values, options) < 0 || options_daemon_fail(values, options) < 0 ||
        check_hook(values, facts) < 0 || check_interface(values, OPTION_IIF, facts->iif) < 0 ||
        check_interface(values, OPTION_OIF, facts->oif) < 0 ||
        check_mark(values, OPTION_MARK, &has_mark, &facts->mark) < 0 ||
        check_id(values, OPTION_UID, &facts->has_uid, &facts->uid) < 0 ||
        check_id(values, OPTION_GID, &facts->has_gid, &facts->gid) < 0 ||
        check_ct_state(values, facts) < 0 ||
        check_mark(values, OPTION_CT_MARK, &facts->has_ct_mark, &facts->ct_mark) < 0 ||
        values_path(values, values->arguments->words[0]) < 0 ||
        values_path(values, values->arguments->words[1]) < 0)
        return -EINVAL;
    options->json = values_get(values, OPTION_JSON);
    options->policy = values->arguments->words[0];
    options->explain.expect = values_get(values, OPTION_EXPECT);
    options->explain.capture = values->arguments->words[1];
    return 0;
}
