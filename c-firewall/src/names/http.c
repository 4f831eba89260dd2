// SPDX-License-Identifier: GPL-2.0-or-later
#include "names/http.h"

enum names_state names_http_begins(const uint8_t *bytes, uint32_t length) {
    (void)bytes;
    (void)length;
    return NAMES_NONE;
}

enum names_state names_http_read(const uint8_t *bytes, uint32_t length, bool whole,
                                 struct names *names) {
    (void)bytes;
    (void)length;
    (void)whole;
    *names = (struct names){.state = NAMES_UNREADABLE, .protocol = NAMES_HTTP};
    return names->state;
}
