// SPDX-License-Identifier: GPL-2.0-or-later
#include "state/report_counters.h"

#include <inttypes.h>
#include <string.h>

#include "base/object.h"

/// Returns the counter with an index in the table of counters.
static uint64_t count_of(const struct stats *stats, size_t word) {
    return ((const uint64_t *)stats)[word];
}

void report_counters_print(FILE *out, const struct stats *stats, enum counter_text text) {
    const char *separator = "";

    for (size_t i = 0; i < STATS_WORDS; i++) {
        if (counter_words[i].text != text)
            continue;
        fputs(separator, out);
        for (const char *at = counter_words[i].key; *at; at++)
            fputc(*at == '_' ? ' ' : *at, out);
        fprintf(out, " %" PRIu64, count_of(stats, i));
        separator = ", ";
    }
}

void report_counters_print_malformed(FILE *out, const struct stats *stats) {
    const char *separator = "";

    fprintf(out, "  malformed: ");
    for (size_t i = 0; i < STATS_WORDS; i++) {
        const struct counter_word *word = &counter_words[i];

        if (!word->shown || strcmp(word->key, "malformed") != 0 || count_of(stats, i) == 0)
            continue;
        fprintf(out, "%s%s %" PRIu64, separator, word->value, count_of(stats, i));
        separator = ", ";
    }
    fprintf(out, "%s\n", *separator ? "" : "none");
}

void report_counters_put(json_t *object, const struct stats *stats) {
    for (size_t i = 0; i < STATS_WORDS; i++) {
        const struct counter_word *word = &counter_words[i];

        if (!word->value) {
            object_put_number(object, word->key, count_of(stats, i));
            continue;
        }
        if (!json_object_get(object, word->key))
            object_put(object, word->key, json_object());
        if (word->shown)
            object_put_number(json_object_get(object, word->key), word->value, count_of(stats, i));
    }
}
