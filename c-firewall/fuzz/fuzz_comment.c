// SPDX-License-Identifier: GPL-2.0-or-later
// Fuzzer of comment_parse: accepted values must lie within their bounds, and a comment must be
// equal after it is written and parsed again. Input: a capture's comment without its prefix
// PCAP_COMMENT_BEGIN.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "explain/comment.h"
#include "policy/policy.h"
#include "policy/print.h"

enum { CT_STATES = 0x4f };

static void must(int condition) {
    if (!condition)
        abort();
}

/// Parses a copy of a comment in a block of exactly its size, so that a sanitizer detects reads
/// beyond its end.
static int read_comment(const uint8_t *text, size_t length, struct comment *comment) {
    uint8_t *bytes = malloc(length ? length : 1);
    int result;

    memcpy(bytes, text, length);
    result = comment_parse(bytes, length, comment);
    free(bytes);
    return result;
}

static void put_name(FILE *out, const char *key, const char *name) {
    if (*name)
        fprintf(out, " %s=", key);
    for (; *name; name++)
        fprintf(out, "%%%02x", (unsigned char)*name);
}

static void put_number(FILE *out, const char *key, bool has, uint32_t number) {
    if (has)
        fprintf(out, " %s=%" PRIu32, key, number);
}

/// Writes a parsed comment as a text, which the caller frees. Returns the text's length.
static size_t write_comment(const struct comment *comment, char **text) {
    const struct options_facts *facts = &comment->facts;
    char *states = print_value(POLICY_CT_STATE, facts->ct_state);
    size_t length;
    FILE *out = open_memstream(text, &length);

    must(out && states);
    fprintf(out, " mark=0x%" PRIx32, facts->mark);
    if (comment->has_verdict)
        fprintf(out, " verdict=%s", verdict_name(comment->verdict));
    if (facts->has_hook)
        fprintf(out, " hook=%s", policy_hook_name(facts->hook));
    put_name(out, "iif", facts->iif);
    put_name(out, "oif", facts->oif);
    put_number(out, "uid", facts->has_uid, facts->uid);
    put_number(out, "gid", facts->has_gid, facts->gid);
    put_number(out, "ctmark", facts->has_ct_mark, facts->ct_mark);
    if (facts->has_ct_state)
        fprintf(out, " ct=%s", states);
    fclose(out);
    free(states);
    return length;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct comment comment, again;
    char *text = NULL;
    size_t length;
    const int result = read_comment(data, size, &comment);

    must(result == 0 || result == -EINVAL);
    if (result < 0)
        return 0;
    must(comment.facts.hook < POLICY_HOOK_COUNT && comment.verdict < VERDICT_COUNT);
    must(memchr(comment.facts.iif, '\0', sizeof comment.facts.iif) != NULL);
    must(memchr(comment.facts.oif, '\0', sizeof comment.facts.oif) != NULL);
    must((comment.facts.ct_state & ~(uint32_t)CT_STATES) == 0);
    length = write_comment(&comment, &text);
    must(read_comment((const uint8_t *)text, length, &again) == 0);
    must(strcmp(comment.facts.iif, again.facts.iif) == 0);
    must(strcmp(comment.facts.oif, again.facts.oif) == 0);
    must(comment.facts.mark == again.facts.mark && comment.facts.uid == again.facts.uid);
    must(comment.facts.gid == again.facts.gid && comment.facts.ct_mark == again.facts.ct_mark);
    must(comment.facts.ct_state == again.facts.ct_state);
    must(comment.verdict == again.verdict && comment.facts.hook == again.facts.hook);
    free(text);
    return 0;
}
