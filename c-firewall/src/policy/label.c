// SPDX-License-Identifier: GPL-2.0-or-later
#include "policy/label.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "spec/letter.h"

#define NO_LETTER UINT32_MAX
#define UNKNOWN                                                                                    \
    "names can't be written with this character here: write the name as in DNS, \"xn--...\""

// Parameters of Punycode (RFC 3492, section 5).
enum {
    BASE = 36,
    LEAST = 1,
    MOST = 26,
    SKEW = 38,
    DAMP = 700,
    BIAS = 72,
    FIRST = 128,
};

/// Letters of a label, as Unicode code points.
struct letters {
    size_t count;
    uint32_t items[LABEL_BYTES];
};

/// An A-label.
struct label {
    size_t length;
    char bytes[LABEL_BYTES];
};

/// Returns the small letter for a capital letter; other characters unchanged.
static uint32_t small(uint32_t letter) {
    size_t low = 0, high = LETTER_CAPITALS_COUNT;

    if (letter >= 'A' && letter <= 'Z')
        return letter + 32;
    while (low < high) {
        const size_t middle = (low + high) / 2;

        if (letter_capitals[middle].first <= letter)
            low = middle + 1;
        else
            high = middle;
    }
    if (low > 0) {
        const struct letter_capitals *some = &letter_capitals[low - 1];

        if (letter <= some->last && (letter - some->first) % some->step == 0)
            return letter + (uint32_t)some->offset;
    }
    return letter;
}

/// Returns the canonical combining class of an ASCII character or a letter of the table; -1 for
/// others.
static int class_of(uint32_t letter) {
    size_t low = 0, high = LETTER_RUN_COUNT;

    if (letter < FIRST)
        return 0;
    while (low < high) {
        const size_t middle = (low + high) / 2;

        if (letter_runs[middle].first <= letter)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || letter > letter_runs[low - 1].last)
        return -1;
    return letter_runs[low - 1].class;
}

/// Returns true if Normalization Form C replaces these two adjacent characters by a single letter.
static bool is_pair(uint32_t first, uint32_t second) {
    for (size_t i = 0; i < LETTER_PAIR_COUNT; i++)
        if (letter_pairs[i].second == second && letter_pairs[i].first == first)
            return true;
    return false;
}

/// Consumes and returns the UTF-8 character at the start of a text; returns NO_LETTER if there is
/// none.
static uint32_t decode_letter(const uint8_t **text, const uint8_t *end) {
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    const uint8_t first = *(*text)++;
    const int more = first < 0xc0 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
    uint32_t letter = more == 0 ? first : first & (0x3fU >> more);

    if (first >= 0x80 && (more == 0 || first >= 0xf8))
        return NO_LETTER;
    for (int i = 0; i < more; i++) {
        if (*text == end || (**text & 0xc0) != 0x80)
            return NO_LETTER;
        letter = letter << 6 | (*(*text)++ & 0x3f);
    }
    return letter >= least[more] ? letter : NO_LETTER;
}

/// Stores the letters of a label, as small letters. Returns NULL, or the error text if a letter is
/// not allowed, or if there are too many.
static const char *decode_letters(const char *text, size_t length, struct letters *letters) {
    const uint8_t *at = (const uint8_t *)text, *end = at + length;
    uint32_t before = 0;
    int before_class = 0;

    letters->count = 0;
    while (at < end) {
        const uint32_t letter = small(decode_letter(&at, end));
        const int class = class_of(letter);

        if (class < 0 || (class > 0 && class < before_class) || is_pair(before, letter))
            return UNKNOWN;
        if (letters->count == LABEL_BYTES)
            return LABEL_TOO_LONG;
        letters->items[letters->count++] = letter;
        before = letter;
        before_class = class;
    }
    return NULL;
}

/// Returns the bias after a delta (RFC 3492, section 6.1).
static uint32_t adapt(uint32_t delta, uint32_t count, bool is_first) {
    uint32_t bias = 0;

    delta = is_first ? delta / DAMP : delta / 2;
    delta += delta / count;
    while (delta > (BASE - LEAST) * MOST / 2) {
        delta /= BASE - LEAST;
        bias += BASE;
    }
    return bias + (BASE - LEAST + 1) * delta / (delta + SKEW);
}

/// Appends a character to a label. Returns false if there is no room.
static bool append_byte(struct label *label, char byte) {
    if (label->length == LABEL_BYTES)
        return false;
    label->bytes[label->length++] = byte;
    return true;
}

/// Appends a digit of Punycode to a label. Returns false if there is no room.
static bool append_digit(struct label *label, uint32_t digit) {
    return append_byte(label, (char)(digit < 26 ? 'a' + digit : '0' + digit - 26));
}

/// Appends a delta to a label, as digits of Punycode (RFC 3492, section 3.3). Returns false if
/// there is no room.
static bool append_delta(struct label *label, uint32_t delta, uint32_t bias) {
    for (uint32_t k = BASE;; k += BASE) {
        const uint32_t threshold = k < bias + LEAST ? LEAST : k > bias + MOST ? MOST : k - bias;
        uint32_t rest;

        if (delta < threshold)
            return append_digit(label, delta);
        rest = delta - threshold;
        if (!append_digit(label, threshold + rest % (BASE - threshold)))
            return false;
        delta = rest / (BASE - threshold);
    }
}

/// Returns the smallest letter that is not smaller than `from`.
static uint32_t least_from(const struct letters *letters, uint32_t from) {
    uint32_t least = UINT32_MAX;

    for (size_t i = 0; i < letters->count; i++)
        if (letters->items[i] >= from && letters->items[i] < least)
            least = letters->items[i];
    return least;
}

/// Appends letters to a label as Punycode (RFC 3492, section 6.3). Returns false if there is no
/// room.
static bool encode(const struct letters *letters, struct label *label) {
    uint32_t done = 0, basic, delta = 0, bias = BIAS, next = FIRST;

    for (size_t i = 0; i < letters->count; i++) {
        if (letters->items[i] >= FIRST)
            continue;
        if (!append_byte(label, (char)letters->items[i]))
            return false;
        done++;
    }
    basic = done;
    if (basic > 0 && !append_byte(label, '-'))
        return false;
    while (done < letters->count) {
        const uint32_t least = least_from(letters, next);

        delta += (least - next) * (done + 1);
        next = least;
        for (size_t i = 0; i < letters->count; i++) {
            if (letters->items[i] < next)
                delta++;
            if (letters->items[i] != next)
                continue;
            if (!append_delta(label, delta, bias))
                return false;
            bias = adapt(delta, done + 1, done == basic);
            delta = 0;
            done++;
        }
        delta++;
        next++;
    }
    return true;
}

static bool is_ascii(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] >= 0x80)
            return false;
    return true;
}

/// Appends bytes to a name. Returns false if there is no room.
static bool append(char name[static LABEL_NAME_BYTES], size_t *name_length, const char *bytes,
                   size_t length) {
    if (length > LABEL_NAME_BYTES - *name_length)
        return false;
    memcpy(name + *name_length, bytes, length);
    *name_length += length;
    return true;
}

const char *label_to_ascii(const char *text, size_t length, char name[static LABEL_NAME_BYTES],
                           size_t *name_length) {
    const char *end = text + length, *part = text;

    *name_length = 0;
    for (;;) {
        struct label label = {.length = 4, .bytes = "xn--"};
        const char *dot = memchr(part, '.', (size_t)(end - part));
        const size_t part_length = (size_t)((dot ? dot : end) - part);

        if (part > text && !append(name, name_length, ".", 1))
            return LABEL_NAME_TOO_LONG;
        if (is_ascii(part, part_length)) {
            if (!append(name, name_length, part, part_length))
                return LABEL_NAME_TOO_LONG;
        } else {
            struct letters letters;
            const char *cause = decode_letters(part, part_length, &letters);

            if (cause)
                return cause;
            if (!encode(&letters, &label))
                return LABEL_TOO_LONG;
            if (!append(name, name_length, label.bytes, label.length))
                return LABEL_NAME_TOO_LONG;
        }
        if (!dot)
            return NULL;
        part = dot + 1;
    }
}
