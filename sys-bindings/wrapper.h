/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The header from which ./regenerate generates src/bindings.rs.
 *
 * The kernel's headers come first: libnetfilter_queue and libnfnetlink ship old copies of two of
 * them under the same include guards, and the first one included takes effect.
 */
#include <linux/netlink.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/netfilter/nfnetlink_queue.h>

#include <libmnl/libmnl.h>
#include <libnetfilter_queue/libnetfilter_queue.h>

/*
 * bindgen evaluates literals, but not macros that contain a cast, a sizeof or an enumerator. Here
 * such macros become enumerators of the same name, whose values the compiler computes.
 */
enum length_from_macro {
    from_NLMSG_HDRLEN = NLMSG_HDRLEN,
    from_NLA_HDRLEN = NLA_HDRLEN,
};

enum limit_from_macro {
    from_NFQA_MAX = NFQA_MAX,
    from_NFQA_VLAN_MAX = NFQA_VLAN_MAX,
    from_NFQA_CFG_MAX = NFQA_CFG_MAX,
};

#undef NLMSG_HDRLEN
#undef NLA_HDRLEN
#undef NFQA_MAX
#undef NFQA_VLAN_MAX
#undef NFQA_CFG_MAX

enum netlink_header_length {
    NLMSG_HDRLEN = from_NLMSG_HDRLEN,
    NLA_HDRLEN = from_NLA_HDRLEN,
};

enum nfqnl_attr_limit {
    NFQA_MAX = from_NFQA_MAX,
    NFQA_VLAN_MAX = from_NFQA_VLAN_MAX,
    NFQA_CFG_MAX = from_NFQA_CFG_MAX,
};
