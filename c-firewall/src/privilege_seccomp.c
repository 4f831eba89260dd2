// SPDX-License-Identifier: GPL-2.0-or-later
#include "privilege_seccomp.h"

#include <errno.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "seccomp.inc"

// What the C library calls of its own accord: memory, threads and their locks, signals, the end,
// and clocks where the kernel has no vDSO for them; a call that newer ones prefer (fstat); what
// qsort asks before it takes memory for more than a kilobyte (sysinfo). Then the line on stderr.

// seccomp: brk mmap mprotect mremap munmap madvise
// seccomp: clone clone3 set_robust_list rseq futex sched_getaffinity exit exit_group
// seccomp: rt_sigaction rt_sigprocmask rt_sigreturn restart_syscall getpid gettid tgkill
// seccomp: clock_gettime gettimeofday getrandom fstat sysinfo
// seccomp: write
// seccomp-guard: brk mmap munmap mremap madvise futex rt_sigaction rt_sigprocmask
// seccomp-guard: rt_sigreturn restart_syscall getpid gettid tgkill clock_gettime
// seccomp-guard: write exit_group

enum {
    CALLS = 1024,    // system calls have smaller numbers
    NAME_BYTES = 32, // of a call's name with its final NUL
    LINE_BYTES = 200,
};

static const struct {
    const int *calls;
    size_t count;
} lists[PRIVILEGE_LIST_COUNT] = {
    [PRIVILEGE_FIREWALL] = {firewall_calls, sizeof firewall_calls / sizeof *firewall_calls},
    [PRIVILEGE_GUARD] = {guard_calls, sizeof guard_calls / sizeof *guard_calls},
};

/// Known before a call is forbidden, because a signal handler can't ask for them.
static char names[CALLS][NAME_BYTES];

static void learn_names(void) {
    for (int call = 0; call < CALLS; call++) {
        char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, call);

        snprintf(names[call], NAME_BYTES, "%s", name ? name : "?");
        free(name);
    }
}

/// Says which call it was, and lets the signal end the process.
static void tell(int number, siginfo_t *info, void *context) {
    const int call = info->si_syscall;
    char line[LINE_BYTES];
    const int length = snprintf(line, sizeof line,
                                "error: forbidden system call %s (%d): the sandbox ended the "
                                "firewall: --sandbox off, and please report it\n",
                                call >= 0 && call < CALLS ? names[call] : "?", call);

    (void)context;
    // Nobody may be reading there, which changes nothing.
    (void)!write(STDERR_FILENO, line, (size_t)length);
    signal(number, SIG_DFL);
    raise(number);
}

/// Puts the filter together and in force. Returns 0 or -errno.
static int load_filter(enum privilege_list list) {
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_TRAP);
    int result = filter ? 0 : -ENOMEM;

    // What is no call of this machine's own kind (32 bits) has no place here at all.
    if (result == 0)
        result = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    for (size_t i = 0; result == 0 && i < lists[list].count; i++)
        result = seccomp_rule_add(filter, SCMP_ACT_ALLOW, lists[list].calls[i], 0);
    if (result == 0)
        result = seccomp_load(filter);
    seccomp_release(filter);
    return result;
}

int privilege_seccomp(enum privilege_list list, struct failure *failure) {
    const struct sigaction action = {.sa_sigaction = tell, .sa_flags = SA_SIGINFO};
    int result;

    learn_names();
    if (sigaction(SIGSYS, &action, NULL) < 0) {
        failure_set_start(failure, "sigaction", errno);
        return -errno;
    }
    result = load_filter(list);
    if (result < 0) {
        failure_set_start(failure, "seccomp", -result);
        return result;
    }
    return (int)lists[list].count;
}
