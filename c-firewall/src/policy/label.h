// SPDX-License-Identifier: GPL-2.0-or-later
// Conversion of labels with non-ASCII letters to A-labels (RFC 5890).
//
// Theory of operation: both twins have the same table of letters (spec/letter), which holds only
// letters that UTS 46 leaves unchanged, and capital letters. Nothing is normalised: a label that is
// not in Normalization Form C (UAX 15), or that has a letter outside the table, is refused. So a
// label is either stored exactly as every client sends it, or not at all, whatever version of
// Unicode the client has.
#ifndef POLICY_LABEL_H
#define POLICY_LABEL_H

#include <stddef.h>

#include "names/types.h"

#define LABEL_TOO_LONG "a label of more than 63 bytes"
#define LABEL_NAME_TOO_LONG "longer than the 253 bytes of a host's name"

enum {
    LABEL_BYTES = 63,                        // maximum length of a label (RFC 1035, section 2.3.4)
    LABEL_NAME_BYTES = NAMES_HOST_BYTES + 1, // maximum length of a name with a final dot
};

/// Converts each label of a name to an A-label if it has non-ASCII letters. Returns NULL, or the
/// cause, for the message of lexer_wrong.
/// - name: out: the name.
/// - name_length: out: its length in bytes.
const char *label_to_ascii(const char *text, size_t length, char name[static LABEL_NAME_BYTES],
                           size_t *name_length);

#endif
