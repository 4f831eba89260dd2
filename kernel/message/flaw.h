/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Mistakes of a published module for message passing, as build options: `make -C kernel flaws`
 * builds the module once with each, and the tests must notice every one. Without the option FLAW
 * nothing of them is in the module.
 */
#ifndef MESSAGE_FLAW_H
#define MESSAGE_FLAW_H

enum message_flaw {
    FLAW_NONE,
    FLAW_SOURCE_WRITABLE,  /* a request is pinned for writing, and that it can't be is a BUG */
    FLAW_KILLED_QUEUED,    /* a caller that leaves stays in the queue */
    FLAW_PORT_UNCOUNTED,   /* a client doesn't hold the port that it sends to */
    FLAW_STRAY_BYTE,       /* loading the module writes a byte behind an allocation */
    FLAW_FORGED_ANSWER,    /* an answer is taken from others than the port's server */
    FLAW_FLUSH_RELEASES,   /* each close of a descriptor gives up what the open file owns */
    FLAW_CLEAN_PAGES,      /* pages that were written aren't marked dirty */
    FLAW_BYTES_UNLIMITED,  /* a message may have any length */
    FLAW_QUEUE_UNLIMITED,  /* any number of requests may wait */
    FLAW_MEMLOCK_IGNORED,  /* pinned memory isn't counted */
    FLAW_DEADLINE_IGNORED, /* a call waits for ever */
    FLAW_DEATH_UNTOLD,     /* the server's end wakes nobody */
    FLAW_ALWAYS_READY,     /* there is no poll */
    FLAW_UNKNOWN_SLEEPS,   /* an unknown request is answered after a second, and not by ENOTTY */
    FLAW_PID_GLOBAL,       /* the sender's process id is that of the first namespace */
};

#ifndef FLAW
#define FLAW FLAW_NONE
#endif
#define HAS_FLAW(name) (FLAW == FLAW_##name)

#endif
