/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Flaws of a ring of pages, as build options: `make -C kernel flaws` builds the module once with
 * each, and the tests must detect every one. Without the option FLAW the module contains none of
 * them.
 */
#ifndef TWINRING_FLAW_H
#define TWINRING_FLAW_H

enum twinring_flaw {
    FLAW_NONE,
    FLAW_PINS_KEPT,        /* the program's pages are never unpinned */
    FLAW_NO_DAX,           /* without S_DAX the kernel never requests a huge entry */
    FLAW_DROPS_UNCOUNTED,  /* packets without room are not counted */
    FLAW_STATUS_UNCHECKED, /* blocks are overwritten that the program has not returned */
};

#ifndef FLAW
#define FLAW FLAW_NONE
#endif
#define HAS_FLAW(name) (FLAW == FLAW_##name)

#endif
