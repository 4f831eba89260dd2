// SPDX-License-Identifier: GPL-2.0-or-later
// Fuzzer of /dev/twinwall-message. Its processes (actors) use the device and pass its descriptors
// to each other; at random times an actor is killed or stopped.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fuzz.h"
#include "guest.h"

#define ACTORS 4
/// Time limit of an actor in seconds. After this time the actor is killed, because it may wait
/// without a deadline.
#define ACTOR_SECONDS 20

struct actor {
    pid_t pid;
    uint64_t number;
    uint64_t started_ns;
    bool stopped;
};

static struct actor actors[ACTORS];
static int shared[2];

static void start(struct actor *actor, uint64_t seed, uint64_t number) {
    pid_t pid = fork();

    CHECK(pid >= 0);
    if (pid == 0) {
        fuzz_message_actor(random_of(seed, number), shared[number % 2]);
        _exit(0);
    }
    *actor = (struct actor){pid, number, now_ns(), false};
}

/// Returns true if an actor has ended. Kills the actor after ACTOR_SECONDS. Fails if it ended with
/// an error, or by a signal other than SIGKILL.
static bool ended(struct actor *actor) {
    int status;

    if (waitpid(actor->pid, &status, WNOHANG) != actor->pid) {
        if (now_ns() - actor->started_ns > ACTOR_SECONDS * UINT64_C(1000000000))
            kill(actor->pid, SIGKILL);
        return false;
    }
    if (WIFSIGNALED(status) ? WTERMSIG(status) != SIGKILL : WEXITSTATUS(status) != 0)
        guest_fail(__FILE__, __LINE__, "process %llu: status %#x",
                   (unsigned long long)actor->number, status);
    return true;
}

static void disturb(struct random *random) {
    struct actor *actor = &actors[random_below(random, ACTORS)];

    if (actor->pid == 0)
        return;
    switch (random_below(random, 6)) {
    case 0:
        kill(actor->pid, SIGKILL);
        break;
    case 1:
        kill(actor->pid, SIGSTOP);
        actor->stopped = true;
        break;
    case 2:
        kill(actor->pid, SIGALRM);
        break;
    default:
        for (int i = 0; i < ACTORS; i++)
            if (actors[i].stopped)
                kill(actors[i].pid, SIGCONT);
    }
}

void fuzz_message(uint64_t seed, uint64_t steps) {
    struct random random = random_of(seed, UINT64_MAX);
    uint64_t number = 0;

    /* An actor that has no handler yet isn't ended by it. */
    signal(SIGALRM, SIG_IGN);
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, shared) == 0);
    for (bool busy = true; busy;) {
        busy = false;
        for (int i = 0; i < ACTORS; i++) {
            if (actors[i].pid != 0 && ended(&actors[i]))
                actors[i].pid = 0;
            if (actors[i].pid == 0 && number < steps) {
                start(&actors[i], seed, number);
                fuzz_at(++number);
            }
            busy |= actors[i].pid != 0;
        }
        sleep_ms(random_below(&random, 8));
        disturb(&random);
    }
}
