// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/object.h"

#include <stdlib.h>
#include <string.h>

void object_put(json_t *object, const char *key, json_t *value) {
    json_object_set_new(object, key, value);
}

void object_put_number(json_t *object, const char *key, uint64_t value) {
    object_put(object, key, json_integer((json_int_t)value));
}

void object_put_bool(json_t *object, const char *key, bool value) {
    object_put(object, key, json_boolean(value));
}

char *object_string_of(const char *text) {
    json_t *string = json_string(text); // json_string accepts only UTF-8
    char *copy = strdup(text);

    for (char *at = copy; at && *at && !string; at++)
        if ((unsigned char)*at > 0x7f)
            *at = '?';
    json_decref(string);
    return copy;
}

void object_put_string(json_t *object, const char *key, const char *value) {
    char *text = value ? object_string_of(value) : NULL;

    object_put(object, key, text ? json_string(text) : json_null());
    free(text);
}

void object_put_text(json_t *object, const char *key, char *text) {
    object_put_string(object, key, text ? text : "");
    free(text);
}

char *object_line(json_t *object) {
    const size_t length = json_dumpb(object, NULL, 0, JSON_COMPACT | JSON_PRESERVE_ORDER);
    char *line = length > 0 ? malloc(length + 2) : NULL;

    if (line) {
        json_dumpb(object, line, length, JSON_COMPACT | JSON_PRESERVE_ORDER);
        memcpy(line + length, "\n", 2);
    }
    json_decref(object);
    return line;
}
