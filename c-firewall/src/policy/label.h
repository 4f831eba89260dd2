// SPDX-License-Identifier: GPL-2.0-or-later
// Labels with other letters than ASCII's, made into A-labels (RFC 5890).
//
// Theory of operation: both twins read the letters from one table (spec/letter), which has those
// alone that UTS 46 keeps as they are, and capitals. Nothing is normalised: a label that is not in
// form C (UAX 15), or that the table doesn't have whole, is refused. So a label is kept as every
// client sends it, or not at all, whatever version of Unicode the client has.
#ifndef POLICY_LABEL_H
#define POLICY_LABEL_H

#include <stddef.h>

#include "names/types.h"

#define LABEL_TOO_LONG "a label of more than 63 bytes"
#define LABEL_NAME_TOO_LONG "longer than the 253 bytes of a host's name"

enum {
    LABEL_BYTES = 63,                        // of a label (RFC 1035, section 2.3.4)
    LABEL_NAME_BYTES = NAMES_HOST_BYTES + 1, // a name with the dot at its end
};

/// A name's labels, each as an A-label if it has other letters than ASCII's. Returns NULL, or the
/// cause, for lexer_wrong.
const char *label_to_ascii(const char *text, size_t length, char name[static LABEL_NAME_BYTES],
                           size_t *name_length);

#endif
