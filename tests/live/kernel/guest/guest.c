// SPDX-License-Identifier: GPL-2.0-or-later
#include "guest.h"

#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fuzz.h"
#include "modes.h"

#define TEST_SECONDS 600
#define DEBUG_TEST_SECONDS 3000
#define KILLED_SECONDS 60
#define FAILED 99

bool guest_debug_kernel;

uint64_t now_ns(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * UINT64_C(1000000000) + now.tv_nsec;
}

void sleep_ms(unsigned int ms) {
    struct timespec left = {ms / 1000, ms % 1000 * 1000000L};

    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

void guest_fail(const char *file, int line, const char *format, ...) {
    char text[256];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    const char *name = strrchr(file, '/');
    dprintf(STDOUT_FILENO, "  %s:%d: %s\n", name ? name + 1 : file, line, text);
    _exit(FAILED);
}

pid_t spawn(void (*run)(void *), void *argument) {
    pid_t pid = fork();

    CHECK(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        run(argument);
        _exit(0);
    }
    return pid;
}

/// Waits until a process ends. Returns false if it still runs after `seconds`.
/// - status: out: wait status.
static bool wait_seconds(pid_t pid, int seconds, int *status) {
    uint64_t end = now_ns() + seconds * UINT64_C(1000000000);

    while (now_ns() < end) {
        pid_t ended = waitpid(pid, status, WNOHANG);
        if (ended == pid)
            return true;
        sleep_ms(2);
    }
    return false;
}

int join(pid_t pid) {
    int status = 0;

    if (!wait_seconds(pid, KILLED_SECONDS, &status))
        guest_fail(__FILE__, __LINE__, "process %d doesn't end", (int)pid);
    return status;
}

void wait_until_asleep(pid_t pid) {
    char name[64], text[512];

    snprintf(name, sizeof(name), "/proc/%d/stat", (int)pid);
    for (int i = 0; i < 1000; i++) {
        FILE *file = fopen(name, "re");
        CHECK(file);
        size_t length = fread(text, 1, sizeof(text) - 1, file);
        fclose(file);
        text[length] = '\0';
        const char *state = strrchr(text, ')');
        if (state && state[2] == 'S')
            return;
        sleep_ms(5);
    }
    guest_fail(__FILE__, __LINE__, "process %d doesn't sleep", (int)pid);
}

long long proc_value(const char *file, const char *name) {
    char line[256];
    long long value = -1;
    FILE *stream = fopen(file, "re");

    CHECK(stream);
    while (fgets(line, sizeof(line), stream))
        if (strncmp(line, name, strlen(name)) == 0)
            value = strtoll(line + strlen(name), NULL, 10);
    fclose(stream);
    return value;
}

static void run_as_child(const struct guest_test *test) {
    setpgid(0, 0);
    if (!test->as_root && (setgroups(0, NULL) || setgid(NOBODY) || setuid(NOBODY)))
        guest_fail(__FILE__, __LINE__, "can't become user %d", NOBODY);
    /* After setuid, root owns /proc/self, which a test's forked children read. */
    prctl(PR_SET_DUMPABLE, 1);
    test->run();
    _exit(0);
}

/// Runs one test and prints its result in a line. Returns true if it passed.
static bool run_test(const struct guest_test *test) {
    int status = 0;
    const char *why = "failed";
    pid_t pid = fork();

    if (pid == 0)
        run_as_child(test);
    bool ended = wait_seconds(pid, guest_debug_kernel ? DEBUG_TEST_SECONDS : TEST_SECONDS, &status);
    /* Processes that the test started end with it. */
    kill(-pid, SIGKILL);
    if (!ended) {
        kill(pid, SIGKILL);
        why = wait_seconds(pid, KILLED_SECONDS, &status) ? "doesn't end" : "can't be killed";
    } else if (WIFSIGNALED(status)) {
        why = strsignal(WTERMSIG(status));
    }
    bool passed = ended && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    printf("%s %s%s%s\n", passed ? "ok" : "FAIL", test->name, passed ? "" : ": ",
           passed ? "" : why);
    return passed;
}

/// Runs the tests whose names begin with one of the arguments: `guest PREFIX...`. With a first
/// argument --loads, --fuzz or --hold, runs that mode instead. Returns 1 if a test failed or no
/// test has such a name, otherwise 0.
int main(int count, char **arguments) {
    const struct guest_test *const suites[] = {echo_tests,        message_tests,
                                               message_end_tests, message_memory_tests,
                                               twinring_tests,    fault_tests};
    int failed = 0, ran = 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    guest_debug_kernel = access("/sys/kernel/debug/kmemleak", F_OK) == 0;
    if (count == 5 && strcmp(arguments[1], "--loads") == 0)
        return loads(arguments + 2);
    if (count == 5 && strcmp(arguments[1], "--fuzz") == 0)
        return fuzz(arguments + 2);
    if (count == 3 && strcmp(arguments[1], "--hold") == 0)
        return hold_port(arguments[2]);
    for (size_t i = 0; i < sizeof(suites) / sizeof(suites[0]); i++)
        for (const struct guest_test *test = suites[i]; test->name; test++)
            for (int a = 1; a < count; a++)
                if (strncmp(test->name, arguments[a], strlen(arguments[a])) == 0) {
                    failed += !run_test(test);
                    ran++;
                    break;
                }
    return failed > 0 || ran == 0;
}
