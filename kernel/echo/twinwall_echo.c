// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Answers generic netlink requests of any user: an echo, a dump of a requested number of parts,
 * refusals. It is the peer of the lab's measurements, and does as little as such a module can.
 *
 * A counter is the only state, so requests need no lock, and an unread dump blocks nothing. The
 * policy refuses invalid attributes before this code runs.
 */
#include <linux/atomic.h>
#include <linux/module.h>
#include <net/genetlink.h>

#include "flaw.h"
#include "twinwall_lab.h"

/* Incremented by C_TOUCH; a dump that sees two values of it was interrupted. */
static atomic_t generation = ATOMIC_INIT(1);

/* For FLAW_DUMP_LOCK. */
static DEFINE_MUTEX(dump_lock);

static struct genl_family family;

/* Not const, since the policy's pointers aren't. */
static struct netlink_range_validation parts_range = {
    .min = 1,
    .max = TWINWALL_LAB_PARTS_MOST,
};

static struct netlink_range_validation data_range = {
    .min = 1,
    .max = TWINWALL_LAB_DATA_MOST,
};

static const struct nla_policy policy[TWINWALL_LAB_A_MOST + 1] = {
    [TWINWALL_LAB_A_DATA] = NLA_POLICY_FULL_RANGE(NLA_BINARY, &data_range),
    [TWINWALL_LAB_A_PARTS] = NLA_POLICY_FULL_RANGE(NLA_U32, &parts_range),
    [TWINWALL_LAB_A_INDEX] = {.type = NLA_REJECT, .reject_message = "INDEX stands in answers only"},
};

static int echo(struct sk_buff *request, struct genl_info *info) {
    const struct nlattr *data = info->attrs[TWINWALL_LAB_A_DATA];
    const bool fixed_room = HAS_FLAW(LEAK) || HAS_FLAW(ERRNO);
    struct sk_buff *answer;
    void *header;
    int error;

    if (GENL_REQ_ATTR_CHECK(info, TWINWALL_LAB_A_DATA))
        return -EINVAL;
    if (HAS_FLAW(LOG))
        pr_info("echo of %d bytes\n", nla_len(data));
    answer = genlmsg_new(fixed_room ? NLMSG_GOODSIZE : nla_total_size(nla_len(data)), GFP_KERNEL);
    if (!answer)
        return -ENOMEM;
    if (HAS_FLAW(SEQUENCE))
        header = genlmsg_put(answer, info->snd_portid, info->snd_seq + 1, &family, 0,
                             TWINWALL_LAB_C_ECHO);
    else
        header = genlmsg_put_reply(answer, info, &family, 0, TWINWALL_LAB_C_ECHO);
    error =
        header ? nla_put(answer, TWINWALL_LAB_A_DATA, nla_len(data), nla_data(data)) : -EMSGSIZE;
    if (error) {
        if (!HAS_FLAW(LEAK))
            nlmsg_free(answer);
        return HAS_FLAW(ERRNO) ? -error : error;
    }
    genlmsg_end(answer, header);
    return genlmsg_reply(answer, info);
}

/* State of a dump between two reads, stored in its callback. */
struct progress {
    u32 next;
    u32 end;
};

static struct progress *progress_of(struct netlink_callback *callback) {
    BUILD_BUG_ON(sizeof(struct progress) > sizeof(callback->ctx));
    return (struct progress *)callback->ctx;
}

static int count_start(struct netlink_callback *callback) {
    const struct genl_dumpit_info *info = genl_dumpit_info(callback);
    const struct nlattr *parts = info->attrs[TWINWALL_LAB_A_PARTS];
    struct progress *progress = progress_of(callback);

    /* In this kernel the start of a dump has no extended ACK to name the attribute. */
    if (!parts)
        return -EINVAL;
    if (HAS_FLAW(DUMP_LOCK) && mutex_lock_interruptible(&dump_lock))
        return -EINTR;
    progress->next = 0;
    progress->end = nla_get_u32(parts);
    return 0;
}

/* Fills one read's buffer. Returns its length, or 0 with the last parts, so that the end is sent in
 * the same read. */
static int count_fill(struct sk_buff *answer, struct netlink_callback *callback) {
    struct progress *progress = progress_of(callback);

    callback->seq = atomic_read(&generation);
    for (; progress->next < progress->end; progress->next++) {
        void *header =
            genlmsg_put(answer, NETLINK_CB(callback->skb).portid, callback->nlh->nlmsg_seq, &family,
                        NLM_F_MULTI, TWINWALL_LAB_C_COUNT);

        if (!header)
            break;
        if (nla_put_u32(answer, TWINWALL_LAB_A_INDEX, progress->next)) {
            genlmsg_cancel(answer, header);
            break;
        }
        genl_dump_check_consistent(callback, header);
        genlmsg_end(answer, header);
    }
    return progress->next < progress->end ? answer->len : 0;
}

static int count_done(struct netlink_callback *callback) {
    if (HAS_FLAW(DUMP_LOCK))
        mutex_unlock(&dump_lock);
    return 0;
}

static int touch(struct sk_buff *request, struct genl_info *info) {
    /* Dumps treat 0 as "no value seen yet". */
    if (atomic_inc_return(&generation) == 0)
        atomic_inc(&generation);
    return 0;
}

static const struct genl_ops operations[] = {
    {.cmd = TWINWALL_LAB_C_ECHO, .doit = echo},
    {.cmd = TWINWALL_LAB_C_COUNT, .start = count_start, .dumpit = count_fill, .done = count_done},
    {.cmd = TWINWALL_LAB_C_TOUCH, .flags = GENL_ADMIN_PERM, .doit = touch},
};

static struct genl_family family = {
    .name = TWINWALL_LAB_FAMILY,
    .version = TWINWALL_LAB_VERSION,
    .maxattr = HAS_FLAW(MAXATTR) ? TWINWALL_LAB_A_END : TWINWALL_LAB_A_MOST,
    .policy = policy,
    .ops = operations,
    .n_ops = ARRAY_SIZE(operations),
    /* All commands are newer than the strict checks: the header's reserved fields must be 0. */
    .resv_start_op = TWINWALL_LAB_C_UNSPEC + 1,
    .parallel_ops = true,
    .module = THIS_MODULE,
};

static int __init echo_init(void) { return genl_register_family(&family); }

static void __exit echo_exit(void) { genl_unregister_family(&family); }

module_init(echo_init);
module_exit(echo_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Echoes and dumps over generic netlink, for the lab of Twinwall");
