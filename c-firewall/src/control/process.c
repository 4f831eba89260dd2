// SPDX-License-Identifier: GPL-2.0-or-later
#include "control/process.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/object.h"

#define UNIX_PREFIX "unix:"

/// Words of the command line, each allocated.
struct words {
    char **all;
    int count;
};

static void free_words(struct words *words) {
    for (int i = 0; i < words->count; i++)
        free(words->all[i]);
    free(words->all);
}

/// Appends a word, which is freed with the words, or at once on failure. Returns 0 or -ENOMEM.
static int add_word(struct words *words, char *word) {
    char **all = reallocarray(words->all, (size_t)words->count + 1, sizeof *all);

    if (!all) {
        free(word);
        return -ENOMEM;
    }
    words->all = all;
    words->all[words->count++] = word;
    return 0;
}

/// Reads the words of this process's command line. Returns 0 or -ENOMEM; without words if /proc
/// can't be read.
static int read_words(struct words *words) {
    FILE *file = fopen("/proc/self/cmdline", "re");
    int result = 0;

    while (file && result == 0) {
        char *word = NULL;
        size_t capacity = 0;

        if (getdelim(&word, &capacity, '\0', file) < 0) {
            free(word);
            break;
        }
        result = add_word(words, word);
    }
    if (file)
        fclose(file);
    return result;
}

/// Returns the prefix followed by the absolute path, in UTF-8 (object_string_of). The path is
/// unchanged if the current folder is unknown. Returns NULL if there is no memory.
static char *absolute(const char *prefix, const char *path) {
    char folder[PATH_MAX];
    char *made = NULL, *text;

    if (*path == '/' || !getcwd(folder, sizeof folder))
        return asprintf(&made, "%s%s", prefix, path) < 0 ? NULL : made;
    if (asprintf(&made, "%s%s/%s", prefix, folder, path) < 0)
        return NULL;
    text = object_string_of(made);
    free(made);
    return text;
}

char *control_process_value_of(enum arguments_option option, const char *value) {
    const size_t prefix = strlen(UNIX_PREFIX);

    switch (option) {
    case OPTION_POLICY:
    case OPTION_CONTROL:
        return absolute("", value);
    case OPTION_EVENTS:
        if (strncmp(value, UNIX_PREFIX, prefix) == 0)
            return absolute(UNIX_PREFIX, value + prefix);
        return strcmp(value, "-") == 0 ? strdup(value) : absolute("", value);
    default:
        return strdup(value);
    }
}

/// Appends an option with its value. Returns 0 or -ENOMEM.
static int add(struct control_self *self, enum arguments_option option, const char *value) {
    char **at = &self->arguments[self->argument_count];

    if (asprintf(&at[0], "--%s", arguments_name(option)) < 0) {
        at[0] = NULL;
        return -ENOMEM;
    }
    self->argument_count++;
    if (*value == '\0') // the word is an option without a value
        return 0;
    at[1] = control_process_value_of(option, value);
    if (!at[1])
        return -ENOMEM;
    self->argument_count++;
    return 0;
}

/// Appends the options of the command line, except for --take-over. Returns 0 or -ENOMEM.
static int add_all(struct control_self *self, const struct arguments *arguments) {
    self->arguments = calloc((size_t)OPTION_COUNT * 2, sizeof *self->arguments);
    if (!self->arguments)
        return -ENOMEM;
    for (int i = 0; i < OPTION_COUNT; i++)
        if (i != OPTION_TAKE_OVER && arguments->values[i] &&
            add(self, (enum arguments_option)i, arguments->values[i]) < 0)
            return -ENOMEM;
    return 0;
}

int control_self_read(struct control_self *self) {
    struct control_self made = {.pid = getpid(), .uid = getuid()};
    struct words words = {.count = 0};
    struct arguments arguments = {.command = ARGUMENTS_RUN};
    struct failure failure;
    char path[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    int result = read_words(&words);

    path[length > 0 ? length : 0] = '\0';
    made.executable = strdup(path);
    if (result == 0 && !made.executable)
        result = -ENOMEM;
    if (result == 0 && words.count > 0)
        arguments_parse(words.count, words.all, &arguments,
                        &failure); // unused: main has accepted the same words
    if (result == 0)
        result = add_all(&made, &arguments);
    free_words(&words);
    if (result < 0)
        control_self_free(&made);
    *self = made;
    return result;
}

void control_self_free(struct control_self *self) {
    for (size_t i = 0; i < self->argument_count; i++)
        free(self->arguments[i]);
    free(self->arguments);
    free(self->executable);
    *self = (struct control_self){.pid = 0};
}
