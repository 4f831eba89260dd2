// SPDX-License-Identifier: GPL-2.0-or-later
#include "options/arguments.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
    KEY_BASE = 256, // keys of argp from this value on have no short form
    KEY_HELP = 'h',
    KEY_VERSION = 'V',
};

const char *arguments_name(enum arguments_option option) { return option_facts[option].name; }

const char *arguments_quote(const char *text, char quoted[static ARGUMENTS_QUOTED_BYTES]) {
    char *at = quoted;

    for (size_t i = 0; i < ARGUMENTS_QUOTE_BYTES && text[i]; i++) {
        const unsigned char byte = (unsigned char)text[i];

        if (byte < 0x20 || byte > 0x7e || byte == '"' || byte == '\\')
            at += sprintf(at, "\\x%02x", byte);
        else
            *at++ = (char)byte;
    }
    sprintf(at, "%s",
            strnlen(text, ARGUMENTS_QUOTE_BYTES + 1) > ARGUMENTS_QUOTE_BYTES ? "..." : "");
    return quoted;
}

/// State of the parser of the command line.
struct taking {
    struct arguments arguments;
    // Options of the command, --help, --version, and the entry that ends the table.
    struct argp_option table[OPTION_COUNT + 3];
    uint32_t words;
    const char *unexpected; // first superfluous word
    int taken;              // number of accepted arguments, with the program's name
};

static void make_table(struct taking *taking) {
    struct argp_option *at = taking->table;

    for (int i = 0; i < OPTION_COUNT; i++)
        if (option_facts[i].commands & 1 << taking->arguments.command)
            *at++ = (struct argp_option){
                .name = option_facts[i].name,
                .key = KEY_BASE + i,
                .arg = option_facts[i].has_value ? "VALUE" : NULL,
            };
    *at++ = (struct argp_option){.name = "help", .key = KEY_HELP};
    *at = (struct argp_option){.name = "version", .key = KEY_VERSION};
}

/// Finds the long option that the first `length` bytes of `name` select: by its whole name, or by a
/// prefix that no other option of the command has. Returns NULL if there is no such option.
static const struct argp_option *find_option(const struct argp_option *table, const char *name,
                                             size_t length) {
    const struct argp_option *found = NULL;

    for (const struct argp_option *option = table; option->name; option++) {
        if (strncmp(option->name, name, length) != 0)
            continue;
        if (strlen(option->name) == length)
            return option;
        if (found)
            return NULL;
        found = option;
    }
    return found;
}

/// Fills in the failure for an argument that argp refused.
static void fail_structure(const struct argp_option *table, const char *token,
                           struct failure *failure) {
    const bool is_long = strncmp(token, "--", 2) == 0;
    const size_t length = is_long ? strcspn(token, "=") : strnlen(token, 2);
    const struct argp_option *option = is_long ? find_option(table, token + 2, length - 2) : NULL;
    char named[ARGUMENTS_QUOTE_BYTES + 2];
    char quoted[ARGUMENTS_QUOTED_BYTES];

    if (option && option->arg) {
        failure_set(failure, LOG_EXIT_USAGE, "option --%s needs a value: see --help", option->name);
    } else if (option) {
        failure_set(failure, LOG_EXIT_USAGE, "option --%s takes no value: see --help",
                    option->name);
    } else {
        snprintf(named, sizeof named, "%.*s", (int)length, token);
        for (int i = 0; i < OPTION_GONE_COUNT; i++)
            if (strcmp(named, option_gone[i].name) == 0) {
                failure_set(failure, LOG_EXIT_USAGE, "there is no option %s any more: %s", named,
                            option_gone[i].instead);
                return;
            }
        failure_set(failure, LOG_EXIT_USAGE, "unknown or ambiguous option %s: see --help",
                    arguments_quote(named, quoted));
    }
}

static void fail_unexpected(const char *word, struct failure *failure) {
    char quoted[ARGUMENTS_QUOTED_BYTES];

    failure_set(failure, LOG_EXIT_USAGE, "unexpected argument \"%s\": see --help",
                arguments_quote(word, quoted));
}

/// Stores a word. Without a command, a word ends parsing at once: it is an unknown command.
static error_t take_word(struct taking *taking, const char *word) {
    if (taking->words < command_facts[taking->arguments.command].words)
        taking->arguments.words[taking->words++] = word;
    else if (!taking->unexpected)
        taking->unexpected = word;
    return taking->unexpected && taking->arguments.command == ARGUMENTS_RUN ? EINVAL : 0;
}

/// Parser function of argp, called for each option and word, in order.
static error_t take_argument(int key, char *value, struct argp_state *state) {
    struct taking *taking = state->input;

    if (key >= KEY_BASE && key < KEY_BASE + OPTION_COUNT) {
        taking->arguments.values[key - KEY_BASE] = value ? value : "";
        taking->taken = state->next;
        return 0;
    }
    switch (key) {
    case KEY_HELP:
        taking->arguments.text = ARGUMENTS_HELP;
        return ECANCELED; // ignores the later arguments
    case KEY_VERSION:
        taking->arguments.text = ARGUMENTS_VERSION;
        return ECANCELED;
    case ARGP_KEY_ARG:
        taking->taken = state->next;
        return take_word(taking, value);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static enum arguments_command command_of(int argc, char **argv) {
    for (int i = ARGUMENTS_CHECK; argc > 1 && i < ARGUMENTS_COMMAND_COUNT; i++)
        if (strcmp(argv[1], command_facts[i].name) == 0)
            return (enum arguments_command)i;
    return ARGUMENTS_RUN;
}

int arguments_parse(int argc, char **argv, struct arguments *arguments, struct failure *failure) {
    struct taking taking = {.arguments.command = command_of(argc, argv), .taken = 1};
    const struct argp argp = {.options = taking.table, .parser = take_argument};
    const unsigned int flags = ARGP_NO_ERRS | ARGP_NO_HELP | ARGP_NO_EXIT | ARGP_IN_ORDER;
    const int skipped = taking.arguments.command == ARGUMENTS_RUN ? 0 : 1;
    const struct command_facts *command = &command_facts[taking.arguments.command];
    error_t error;

    make_table(&taking);
    error = argp_parse(&argp, argc - skipped, argv + skipped, flags, NULL, &taking);
    if (taking.arguments.text == ARGUMENTS_NO_TEXT) {
        if (taking.unexpected && (error == 0 || taking.arguments.command == ARGUMENTS_RUN)) {
            fail_unexpected(taking.unexpected, failure);
            return -EINVAL;
        }
        if (error != 0) {
            fail_structure(taking.table, argv[skipped + taking.taken], failure);
            return -EINVAL;
        }
        if (taking.words < command->words) {
            failure_set(failure, LOG_EXIT_USAGE, "%s needs %s: see --help", command->name,
                        command->needs);
            return -EINVAL;
        }
    }
    *arguments = taking.arguments;
    return 0;
}
