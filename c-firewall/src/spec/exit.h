// SPDX-License-Identifier: GPL-2.0-or-later
// Made by spec/generate from spec/exits.toml: exit codes.
#ifndef SPEC_EXIT_H
#define SPEC_EXIT_H

/// Exit codes.
enum log_exit {
    LOG_EXIT_STOPPED = 0,    // stopped by SIGINT or SIGTERM, or all is well
    LOG_EXIT_CALL = 1,       // a system call failed, or explain --expect found another verdict
    LOG_EXIT_USAGE = 2,      // bad command line, policy or capture
    LOG_EXIT_CAPABILITY = 3, // no CAP_NET_ADMIN (for reject: CAP_NET_RAW)
    LOG_EXIT_KERNEL = 4,     // kernel without NFQUEUE or what the policy needs of it
    LOG_EXIT_OWNED = 5,      // queue owned by another process
    LOG_EXIT_BUFFER = 6,     // receive buffer refused
};

#endif
