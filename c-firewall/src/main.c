// SPDX-License-Identifier: GPL-2.0-or-later
// c-firewall: the C twin of Twinwall, a userspace firewall on NFQUEUE.
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "daemon/daemon.h"
#include "explain/check.h"
#include "explain/explain.h"
#include "guard/guard.h"
#include "guard/run.h"
#include "options/options.h"
#include "privilege/privilege.h"

/// Executes an action that needs no rights: check, explain, --help or --version. Returns the exit
/// code.
static int run_without_rights(int action, struct options *options) {
    struct failure failure;

    if (privilege_none(&failure) < 0)
        return log_fail(&failure);
    switch (action) {
    case OPTIONS_ACTION_CHECK:
        return check_run(options);
    case OPTIONS_ACTION_EXPLAIN:
        return explain_run(options);
    case OPTIONS_ACTION_HELP:
        fputs(options_help, stdout);
        return LOG_EXIT_STOPPED;
    default:
        puts(OPTIONS_PROGRAM " " OPTIONS_VERSION);
        return LOG_EXIT_STOPPED;
    }
}

int main(int argc, char **argv) {
    struct options options;
    struct failure failure;
    int action;

    log_open();
    signal(SIGPIPE, SIG_IGN); // a write to a pipe without a reader must not end the process
    if (argc > 1 && strcmp(argv[1], GUARD_COMMAND) == 0)
        return guard_run(argc, argv);
    action = options_parse(argc, argv, &options, &failure);
    if (action < 0)
        return log_fail(&failure);
    return action == OPTIONS_ACTION_RUN ? daemon_run(&options)
                                        : run_without_rights(action, &options);
}
