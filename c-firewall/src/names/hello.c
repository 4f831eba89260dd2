// SPDX-License-Identifier: GPL-2.0-or-later
#include "names/hello.h"

enum names_state names_hello_read(const uint8_t *handshake, uint32_t length,
                                  enum names_protocol protocol, struct names *names) {
    (void)handshake;
    (void)length;
    *names = (struct names){.state = NAMES_UNREADABLE, .protocol = protocol};
    return names->state;
}
