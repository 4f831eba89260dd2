// SPDX-License-Identifier: GPL-2.0-or-later
#include "dbus.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exchange.h"

const char *const dbus_operations[] = {"Add", "Subtract", "Multiply", "Divide"};

/// Configuration of a bus for a single user, without service activation.
static const char configuration[] =
    "<!DOCTYPE busconfig PUBLIC \"-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN\" "
    "\"http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd\">"
    "<busconfig><type>session</type><listen>unix:tmpdir=/tmp</listen><auth>EXTERNAL</auth>"
    "<policy context=\"default\"><allow send_destination=\"*\" eavesdrop=\"true\"/>"
    "<allow eavesdrop=\"true\"/><allow own=\"*\"/></policy></busconfig>";

static pid_t daemon_pid;

const char *dbus_daemon_start(void) {
    static char address[256];
    char option[64];
    int file = memfd_create("bus.conf", 0), told[2];
    ssize_t length;

    if (file < 0 || pipe(told) != 0 ||
        write(file, configuration, sizeof(configuration) - 1) != sizeof(configuration) - 1)
        fail("bus.conf");
    daemon_pid = fork();
    if (daemon_pid < 0)
        fail("fork");
    if (daemon_pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(told[1], STDOUT_FILENO);
        snprintf(option, sizeof(option), "--config-file=/proc/self/fd/%d", file);
        execlp("dbus-daemon", "dbus-daemon", option, "--nofork", "--nopidfile", "--print-address=1",
               NULL);
        fail("dbus-daemon");
    }
    close(told[1]);
    close(file);
    length = read(told[0], address, sizeof(address) - 1);
    if (length <= 0)
        fail_because("dbus-daemon", "tells no address");
    address[strcspn(address, "\n")] = '\0';
    exchange_peer(daemon_pid);
    return address;
}

void dbus_daemon_end(void) {
    kill(daemon_pid, SIGTERM);
    waitpid(daemon_pid, NULL, 0);
}
