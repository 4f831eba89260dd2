// SPDX-License-Identifier: GPL-2.0-or-later
#include "explain/comment.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lines.h"
#include "policy/policy.h"
#include "test.h"
#include "vectors.h"

static void put_number(FILE *out, const char *key, bool has, uint32_t number) {
    if (has)
        fprintf(out, " %s=%" PRIu32, key, number);
    else
        fprintf(out, " %s=-", key);
}

/// Returns the metadata and the verdict in a packet's comment, in the format of the test vectors;
/// the caller frees the text.
static char *printed(const struct comment *comment) {
    const struct options_facts *facts = &comment->facts;
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);

    fprintf(out, "verdict=%s hook=%s iif=%s oif=%s mark=%" PRIu32,
            comment->has_verdict ? verdict_name(comment->verdict) : "-",
            facts->has_hook ? policy_hook_name(facts->hook) : "-", *facts->iif ? facts->iif : "-",
            *facts->oif ? facts->oif : "-", facts->mark);
    put_number(out, "uid", facts->has_uid, facts->uid);
    put_number(out, "gid", facts->has_gid, facts->gid);
    put_number(out, "ct", facts->has_ct_state, facts->ct_state);
    put_number(out, "ctmark", facts->has_ct_mark, facts->ct_mark);
    fclose(out);
    return text;
}

static void check(const char *line, const char *text, size_t length, const char *expected) {
    struct comment comment;
    // The buffer has exactly the size of the text, so that a sanitizer detects reads beyond its
    // end.
    uint8_t *bytes = malloc(length > 0 ? length : 1);
    char *said = NULL;

    memcpy(bytes, text, length);
    if (comment_parse(bytes, length, &comment) == 0)
        said = printed(&comment);
    if (strcmp(said ? said : "damaged", expected) != 0)
        fail_msg("%s: %s", line, said ? said : "damaged");
    free(said);
    free(bytes);
}

static void comments_are_those_of_the_vectors(void **state) {
    FILE *file = vectors_open("comments.txt");
    char line[LINE_BYTES], text[LINE_BYTES];
    unsigned count = 0;

    (void)state;
    while (lines_next(file, line)) {
        char *end;

        if (!*line)
            continue;
        memcpy(text, line, sizeof text);
        end = strstr(text, " -> ");
        assert_non_null(end);
        *end = '\0';
        check(line, text, lines_unescape(text), end + strlen(" -> "));
        count++;
    }
    fclose(file);
    assert_in_range(count, 40, 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comments_are_those_of_the_vectors),
    };

    return cmocka_run_group_tests_name("comment", tests, NULL, NULL);
}
