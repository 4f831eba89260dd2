// SPDX-License-Identifier: GPL-2.0-or-later
// c-firewall: the C twin of Twinwall, a userspace firewall on NFQUEUE.
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "daemon.h"
#include "explain.h"
#include "guard.h"
#include "guard_run.h"
#include "log.h"
#include "options.h"

int main(int argc, char **argv) {
    struct options options;
    struct failure failure;

    log_open();
    signal(SIGPIPE, SIG_IGN); // what no one reads any more is no reason to stop
    if (argc > 1 && strcmp(argv[1], GUARD_COMMAND) == 0)
        return guard_run(argc, argv);
    switch (options_parse(argc, argv, &options, &failure)) {
    case OPTIONS_ACTION_RUN:
        return daemon_run(&options);
    case OPTIONS_ACTION_CHECK:
        return check_run(&options);
    case OPTIONS_ACTION_EXPLAIN:
        return explain_run(&options);
    case OPTIONS_ACTION_HELP:
        fputs(options_help, stdout);
        return LOG_EXIT_STOPPED;
    case OPTIONS_ACTION_VERSION:
        puts(OPTIONS_PROGRAM " " OPTIONS_VERSION);
        return LOG_EXIT_STOPPED;
    default:
        return log_fail(&failure);
    }
}
