/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Mistakes of a ring of pages, as build options: `make -C kernel flaws` builds the module once with
 * each, and the tests must notice every one. Without the option FLAW nothing of them is in the
 * module.
 */
#ifndef TWINRING_FLAW_H
#define TWINRING_FLAW_H

enum twinring_flaw {
    FLAW_NONE,
    FLAW_PINS_KEPT,        /* the program's pages are never given back */
    FLAW_NO_DAX,           /* without S_DAX the kernel never asks for a huge entry */
    FLAW_DROPS_UNCOUNTED,  /* what finds no room is in no count */
    FLAW_STATUS_UNCHECKED, /* a block is written to that the program has not given back */
};

#ifndef FLAW
#define FLAW FLAW_NONE
#endif
#define HAS_FLAW(name) (FLAW == FLAW_##name)

#endif
