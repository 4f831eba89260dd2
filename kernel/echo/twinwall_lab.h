/* SPDX-License-Identifier: GPL-2.0-or-later WITH Linux-syscall-note */
/*
 * The generic netlink family of the lab: its user interface.
 */
#ifndef TWINWALL_LAB_H
#define TWINWALL_LAB_H

#define TWINWALL_LAB_FAMILY "twinwall_lab"
#define TWINWALL_LAB_VERSION 1

/* Maximum bytes of TWINWALL_LAB_A_DATA. */
#define TWINWALL_LAB_DATA_MOST 32768
/* Maximum of TWINWALL_LAB_A_PARTS. */
#define TWINWALL_LAB_PARTS_MOST 1000000

enum twinwall_lab_command {
    TWINWALL_LAB_C_UNSPEC,
    /* Request: A_DATA. Answer: the same command with the same A_DATA. */
    TWINWALL_LAB_C_ECHO,
    /*
     * Dump; request: A_PARTS. Answer: that number of messages with A_INDEX, from 0. They carry
     * NLM_F_DUMP_INTR after a C_TOUCH between two reads.
     */
    TWINWALL_LAB_C_COUNT,
    /* Interrupts running dumps; needs CAP_NET_ADMIN. No attributes, no answer but the ACK. */
    TWINWALL_LAB_C_TOUCH,
};

enum twinwall_lab_attribute {
    TWINWALL_LAB_A_UNSPEC,
    TWINWALL_LAB_A_DATA,  /* bytes, 1 to TWINWALL_LAB_DATA_MOST */
    TWINWALL_LAB_A_PARTS, /* u32, 1 to TWINWALL_LAB_PARTS_MOST */
    TWINWALL_LAB_A_INDEX, /* u32, in answers only */
    TWINWALL_LAB_A_END,
};
#define TWINWALL_LAB_A_MOST (TWINWALL_LAB_A_END - 1)

#endif
