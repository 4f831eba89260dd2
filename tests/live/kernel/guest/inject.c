// SPDX-License-Identifier: GPL-2.0-or-later
#include "inject.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "guest.h"

#define FAULTS_MOST 500

/// Makes the nth allocation or copy of this task from now on fail; 0 = none fails. Returns false if
/// the kernel can't do that.
static bool arm(int fd, int nth) {
    char text[16];
    int length = snprintf(text, sizeof(text), "%d", nth);

    /* The fault to be removed may occur in this write. */
    for (int i = 0; i < 10; i++)
        if (write(fd, text, length) == length)
            return true;
    return false;
}

void with_faults(void (*run)(void), void (*check)(void)) {
    int fd = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);

    if (fd < 0)
        return;
    for (int nth = 1; nth < FAULTS_MOST; nth++) {
        char left[16] = "";

        CHECK(arm(fd, nth));
        run();
        /* 0: it has occurred. It may also occur in this read. */
        bool met = pread(fd, left, sizeof(left) - 1, 0) <= 0 || atoi(left) == 0;
        CHECK(arm(fd, 0));
        check();
        if (!met)
            return;
    }
    guest_fail(__FILE__, __LINE__, "more than %d faults", FAULTS_MOST);
}
