// SPDX-License-Identifier: GPL-2.0-or-later
// JSON objects, built member by member. If there is no memory for a member, it is left out, null or
// "".
#ifndef BASE_OBJECT_H
#define BASE_OBJECT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/// Adds a member to an object, which owns the value from now on.
void object_put(json_t *object, const char *key, json_t *value);
void object_put_number(json_t *object, const char *key, uint64_t value);
void object_put_bool(json_t *object, const char *key, bool value);

/// Returns a text as UTF-8 for a string of a JSON object, without quotes and escapes. If the text
/// is not UTF-8, question marks replace all bytes that are not ASCII.
/// - Returns a copy that the caller frees; NULL if there is no memory.
char *object_string_of(const char *text);

/// Adds a text in the form of object_string_of. NULL becomes null. A text also becomes
/// null if there is no memory for its copy.
void object_put_string(json_t *object, const char *key, const char *value);

/// Adds an allocated text in the form of object_string_of, and frees the text; NULL (no memory)
/// becomes "".
void object_put_text(json_t *object, const char *key, char *text);

/// Returns an object as one line of JSON, with a line end, which the caller frees. Frees the
/// object.
/// - Returns NULL if there is no memory.
char *object_line(json_t *object);

#endif
