// SPDX-License-Identifier: GPL-2.0-or-later
#include "fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"
#include "message.h"

/// Time limit of a step in seconds: even on a busy machine only a hang exceeds it.
#define STUCK_SECONDS 40
/// Allocated memory that the kernel may retain for later use, in KiB.
#define KEPT_KIB 8192

static uint64_t *progress;

struct random random_of(uint64_t seed, uint64_t step) {
    return (struct random){seed * UINT64_C(0x9e3779b97f4a7c15) ^
                           step * UINT64_C(0xd1b54a32d192ed03)};
}

/// Returns the next number of splitmix64.
static uint64_t next(struct random *random) {
    uint64_t value = random->state += UINT64_C(0x9e3779b97f4a7c15);

    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

uint32_t random_below(struct random *random, uint32_t limit) {
    return (next(random) >> 32) * limit >> 32;
}

bool random_once_in(struct random *random, uint32_t n) { return random_below(random, n) == 0; }

size_t random_length(struct random *random, size_t most) {
    static const size_t edges[] = {0,     1,     2,     3,     4,      5,       8,
                                   53,    255,   256,   257,   1400,   3071,    3072,
                                   3073,  4095,  4096,  4097,  9000,   32767,   32768,
                                   32769, 65535, 65536, 65537, 200000, 1048576, 1048577};
    size_t length = edges[random_below(random, sizeof(edges) / sizeof(edges[0]))];

    if (length > most || random_once_in(random, 3))
        length = random_below(random, most + 1);
    return length;
}

void random_fill(struct random *random, void *bytes, size_t length) {
    /* Lengths change more than contents do. */
    memset(bytes, next(random), length);
    if (length > 0)
        *(uint8_t *)bytes = next(random);
}

void fuzz_at(uint64_t step) { __atomic_store_n(progress, step, __ATOMIC_RELAXED); }

/// Waits for the fuzzer's process as long as it makes progress. Returns true if it ended without an
/// error.
static bool watch(pid_t pid) {
    uint64_t seen = 0, since = now_ns();
    int status;

    for (;;) {
        uint64_t step = __atomic_load_n(progress, __ATOMIC_RELAXED);
        pid_t ended = waitpid(pid, &status, WNOHANG);

        if (ended == pid)
            return WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (step != seen) {
            seen = step;
            since = now_ns();
        }
        if (now_ns() - since > STUCK_SECONDS * UINT64_C(1000000000)) {
            printf("  nothing goes on\n");
            kill(-pid, SIGKILL);
            return false;
        }
        sleep_ms(20);
    }
}

/// Makes the debug kernel release freed messages, which it otherwise counts as used for a while.
static void forget_freed(void) {
    int fd = open("/sys/kernel/slab/twinwall_message/shrink", O_WRONLY | O_CLOEXEC);

    if (fd >= 0) {
        CHECK_EQUAL(write(fd, "1", 1), 1);
        close(fd);
    }
}

/// Returns true if the kernel has returned all memory soon after the fuzzer's processes have ended.
/// - before: unreclaimable slab memory before the fuzzer, in KiB.
static bool all_is_given_back(long long before) {
    long long grown = 0, messages = 0, pinned = 0;

    for (int i = 0; i < 50; i++) {
        grown = proc_value("/proc/meminfo", "SUnreclaim:") - before;
        forget_freed();
        messages = proc_value("/proc/slabinfo", "twinwall_message ");
        pinned = pinned_pages();
        if ((grown <= KEPT_KIB || guest_debug_kernel) && messages <= 0 && pinned == 0)
            return true;
        sleep_ms(100);
    }
    printf("  the kernel keeps %lld KiB, %lld messages, %lld pinned pages\n", grown, messages,
           pinned);
    return false;
}

static void begin(const char *module, uint64_t seed, uint64_t steps) {
    setpgid(0, 0);
    if (setgroups(0, NULL) || setgid(NOBODY) || setuid(NOBODY))
        guest_fail(__FILE__, __LINE__, "can't become user %d", NOBODY);
    prctl(PR_SET_DUMPABLE, 1);
    if (strcmp(module, "echo") == 0)
        fuzz_echo(seed, steps);
    else
        fuzz_message(seed, steps);
    _exit(0);
}

int fuzz(char **arguments) {
    uint64_t seed = strtoull(arguments[1], NULL, 10), steps = strtoull(arguments[2], NULL, 10);
    long long before = proc_value("/proc/meminfo", "SUnreclaim:");
    const char *module = arguments[0];

    progress =
        mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(progress != MAP_FAILED);
    CHECK(strcmp(module, "echo") == 0 || strcmp(module, "message") == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        begin(module, seed, steps);
    bool passed = watch(pid);
    kill(-pid, SIGKILL);
    passed = passed && all_is_given_back(before);
    printf("%s fuzz %s %" PRIu64 " %" PRIu64 "%s\n", passed ? "ok" : "FAIL", module, seed, steps,
           passed ? "" : ": failed");
    if (!passed)
        printf("  at step %" PRIu64 "\n", *progress);
    return !passed;
}
