// SPDX-License-Identifier: GPL-2.0-or-later
#include "privilege/seccomp.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "seccomp.inc"

// System calls of the C library: memory, threads and their locks, signals, exit, clocks where the
// kernel has no vDSO for them, and fstat, which newer versions prefer to newfstatat; sysinfo, which
// qsort calls before it allocates more than a kilobyte. Last, the line on stderr.

// seccomp: brk mmap mprotect mremap munmap madvise
// seccomp: clone clone3 set_robust_list rseq futex sched_getaffinity exit exit_group
// seccomp: rt_sigaction rt_sigprocmask rt_sigreturn restart_syscall getpid gettid tgkill
// seccomp: clock_gettime gettimeofday getrandom fstat sysinfo
// seccomp: write
// seccomp-guard: brk mmap munmap mremap madvise futex rt_sigaction rt_sigprocmask
// seccomp-guard: rt_sigreturn restart_syscall getpid gettid tgkill clock_gettime
// seccomp-guard: write exit_group

enum {
    CALLS = 1024,    // upper bound for the number that identifies a system call
    NAME_BYTES = 32, // maximum size of a call's name with its final NUL
    LINE_BYTES = 200,
};

static const struct {
    const int *calls;
    size_t count;
} lists[PRIVILEGE_LIST_COUNT] = {
    [PRIVILEGE_FIREWALL] = {firewall_calls, sizeof firewall_calls / sizeof *firewall_calls},
    [PRIVILEGE_GUARD] = {guard_calls, sizeof guard_calls / sizeof *guard_calls},
};

/// Flags of clone with which the C library starts threads (nptl/pthread_create.c of glibc).
#define THREAD_FLAGS                                                                               \
    (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |            \
     CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID)

/// System calls that are allowed only with certain values of an argument. Each row allows one value
/// of one argument. socket: only sockets that lead to other programs, never to the kernel (netlink)
/// or the network. ioctl: requests for the name or index of an interface (if_indextoname), and
/// requests that the libraries of the two languages make; nothing that changes an interface or a
/// route. setsockopt: only options of the level SOL_SOCKET, none that changes rules of iptables.
/// clone: only threads, with the flags of the C library; no process, and no namespace.
static const struct {
    int call;
    unsigned int argument;
    scmp_datum_t value;
} limits[] = {
    {SCMP_SYS(socket), 0, AF_UNIX},     {SCMP_SYS(ioctl), 1, SIOCGIFNAME},
    {SCMP_SYS(ioctl), 1, SIOCGIFINDEX}, {SCMP_SYS(ioctl), 1, FIONBIO},
    {SCMP_SYS(ioctl), 1, TCGETS},       {SCMP_SYS(setsockopt), 1, SOL_SOCKET},
    {SCMP_SYS(clone), 0, THREAD_FLAGS},
};

/// Mask of the bits of an argument that the kernel reads as an int.
#define INT_MASK UINT32_MAX

/// Names of the system calls, stored in advance because a signal handler can't search for them.
static char names[CALLS][NAME_BYTES];

static void learn_names(void) {
    for (int call = 0; call < CALLS; call++) {
        char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, call);

        snprintf(names[call], NAME_BYTES, "%s", name ? name : "?");
        free(name);
    }
}

/// Signal handler that prints the name of a forbidden call, and ends the process by the signal.
static void tell(int number, siginfo_t *info, void *context) {
    const int call = info->si_syscall;
    char line[LINE_BYTES];
    const int length =
        snprintf(line, sizeof line,
                 "%serror: forbidden system call %s (%d): the sandbox ended the "
                 "firewall: --sandbox off, and please report it\n",
                 log_prefix(LOG_ERROR), call >= 0 && call < CALLS ? names[call] : "?", call);

    (void)context;
    // A failure to write the line is ignored.
    (void)!write(STDERR_FILENO, line, (size_t)length);
    signal(number, SIG_DFL);
    raise(number);
}

/// Allows a call, within its limits if it has limits. Returns 0 or -errno. clone3 fails with
/// ENOSYS, because its flags lie in memory, where a filter can't read them; then the C library
/// calls clone.
static int allow(scmp_filter_ctx filter, int call) {
    bool limited = false;
    int result = 0;

    if (call == SCMP_SYS(clone3))
        return seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), call, 0);
    for (size_t i = 0; result == 0 && i < sizeof limits / sizeof *limits; i++) {
        if (limits[i].call != call)
            continue;
        limited = true;
        result = seccomp_rule_add(
            filter, SCMP_ACT_ALLOW, call, 1,
            SCMP_CMP(limits[i].argument, SCMP_CMP_MASKED_EQ, INT_MASK, limits[i].value));
    }
    return limited ? result : seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 0);
}

/// Builds the seccomp filter for a list of allowed system calls, and enforces it. Returns 0 or
/// -errno.
static int load_filter(enum privilege_list list) {
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_TRAP);
    int result = filter ? 0 : -ENOMEM;

    // Calls for another architecture (32 bits) end the process.
    if (result == 0)
        result = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    for (size_t i = 0; result == 0 && i < lists[list].count; i++)
        result = allow(filter, lists[list].calls[i]);
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
