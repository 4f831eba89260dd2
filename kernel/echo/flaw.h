/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Flaws of published modules of this kind, as build options: `make -C kernel flaws` builds the
 * module once with each, and the tests must detect every one. Without the option FLAW the module
 * contains none of them.
 */
#ifndef ECHO_FLAW_H
#define ECHO_FLAW_H

enum echo_flaw {
    FLAW_NONE,
    FLAW_MAXATTR,   /* `maxattr` is the number of attributes instead of the last one: the policy is
                       read beyond its end */
    FLAW_LEAK,      /* the answer's size is fixed, and it isn't freed if the data don't fit */
    FLAW_ERRNO,     /* the same fixed size; the error is returned with the wrong sign */
    FLAW_DUMP_LOCK, /* a dump holds a lock between two reads: an unread dump blocks all
                       others */
    FLAW_SEQUENCE,  /* the answer has a sequence number of its own */
    FLAW_LOG,       /* each request writes to the kernel's log */
};

#ifndef FLAW
#define FLAW FLAW_NONE
#endif
#define HAS_FLAW(name) (FLAW == FLAW_##name)

#endif
