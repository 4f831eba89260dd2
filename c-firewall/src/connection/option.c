// SPDX-License-Identifier: GPL-2.0-or-later
#include "connection/option.h"

enum {
    END = 0,  // kind of the TCP option that ends the list of options
    NONE = 1, // kind of the TCP option without a length: padding of one byte
};

bool option_has(const uint8_t *options, uint32_t length, uint8_t kind) {
    uint32_t at = 0;

    while (at < length && options[at] != END) {
        if (options[at] == NONE) {
            at++;
            continue;
        }
        if (length - at < 2 || options[at + 1] < 2 || options[at + 1] > length - at)
            return false;
        if (options[at] == kind)
            return true;
        at += options[at + 1];
    }
    return false;
}
