// SPDX-License-Identifier: GPL-2.0-or-later
// Objects of JSON, made member by member. What there is no memory for is left out.
#ifndef BASE_OBJECT_H
#define BASE_OBJECT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/// Adds a member. Takes ownership of the value.
void object_put(json_t *object, const char *key, json_t *value);
void object_put_number(json_t *object, const char *key, uint64_t value);
void object_put_bool(json_t *object, const char *key, bool value);

/// A text for an object: if it is not UTF-8, question marks replace all that is not ASCII.
/// - Returns a copy, to be freed; NULL if there is no memory.
char *object_string_of(const char *text);

/// Adds a text in the form of object_string_of, NULL as null.
void object_put_string(json_t *object, const char *key, const char *value);

/// The same of a text that print made, which is freed; NULL (no memory) is put in as empty.
void object_put_text(json_t *object, const char *key, char *text);

/// The line of an object, with its line end; to be freed. The object is freed.
/// - Returns NULL if there is no memory.
char *object_line(json_t *object);

#endif
