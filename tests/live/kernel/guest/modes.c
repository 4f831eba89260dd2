// SPDX-License-Identifier: GPL-2.0-or-later
// Modes of the program besides tests. `guest --loads COUNT MODULE.ko NAME` loads and unloads a
// module many times. `guest --hold PORT` binds a UDP socket that is never read.
#include "modes.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

int loads(char **arguments) {
    int count = atoi(arguments[0]);

    for (int i = 0; i < count; i++) {
        int fd = open(arguments[1], O_RDONLY | O_CLOEXEC);

        if (fd < 0 || syscall(SYS_finit_module, fd, "", 0) ||
            syscall(SYS_delete_module, arguments[2], O_NONBLOCK)) {
            printf("FAIL loads: %s, number %d: %s\n", arguments[1], i, strerror(errno));
            return 1;
        }
        close(fd);
    }
    printf("ok loads: %s, %d times\n", arguments[2], count);
    return 0;
}

int hold_port(const char *port) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons(atoi(port))};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        return -1;
    for (;;)
        pause();
}
