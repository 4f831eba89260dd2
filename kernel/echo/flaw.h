/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Mistakes that published modules of this kind make, as build options: `make -C kernel flaws`
 * builds the module once with each, and the tests must notice every one. Without the option FLAW
 * nothing of them is in the module.
 */
#ifndef ECHO_FLAW_H
#define ECHO_FLAW_H

enum echo_flaw {
    FLAW_NONE,
    FLAW_MAXATTR, /* `maxattr` counts the attributes, instead of naming the last: the policy is read
                     behind its end */
    FLAW_LEAK,    /* the answer has a fixed room, and isn't freed when the data don't fit */
    FLAW_ERRNO,   /* the same room; the error is returned with the wrong sign */
    FLAW_DUMP_LOCK, /* a dump keeps a lock between two reads: whoever doesn't read on stops
                       everybody */
    FLAW_SEQUENCE,  /* the answer has a sequence number of its own */
    FLAW_LOG,       /* each request writes to the kernel's log */
};

#ifndef FLAW
#define FLAW FLAW_NONE
#endif
#define HAS_FLAW(name) (FLAW == FLAW_##name)

#endif
