/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Flaws of a published module for message passing, as build options: `make -C kernel flaws` builds
 * the module once with each, and the tests must detect every one. Without the option FLAW the
 * module contains none of them.
 */
#ifndef MESSAGE_FLAW_H
#define MESSAGE_FLAW_H

enum message_flaw {
    FLAW_NONE,
    FLAW_SOURCE_WRITABLE,  /* requests are pinned for writing; failure to pin is a BUG */
    FLAW_KILLED_QUEUED,    /* a leaving caller's message stays in the queue */
    FLAW_PORT_UNCOUNTED,   /* a client has no reference to its port */
    FLAW_STRAY_BYTE,       /* loading the module writes a byte beyond an allocation */
    FLAW_FORGED_ANSWER,    /* answers are accepted from other processes than the port's server */
    FLAW_FLUSH_RELEASES,   /* closing any descriptor releases what the open file owns */
    FLAW_CLEAN_PAGES,      /* written pages aren't marked dirty */
    FLAW_BYTES_UNLIMITED,  /* a message may have any length */
    FLAW_QUEUE_UNLIMITED,  /* any number of requests may wait */
    FLAW_MEMLOCK_IGNORED,  /* pinned memory isn't charged */
    FLAW_DEADLINE_IGNORED, /* a call waits without limit */
    FLAW_DEATH_UNTOLD,     /* the server's end wakes no caller */
    FLAW_ALWAYS_READY,     /* there is no poll */
    FLAW_UNKNOWN_SLEEPS,   /* an unknown ioctl fails after a second, and not with ENOTTY */
    FLAW_PID_GLOBAL,       /* the sender's process id is that of the first namespace */
};

#ifndef FLAW
#define FLAW FLAW_NONE
#endif
#define HAS_FLAW(name) (FLAW == FLAW_##name)

#endif
