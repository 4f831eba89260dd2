// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The path of a packet from an interface into a block. The program can write to the blocks, so the
 * position and the number of packets are stored here.
 */
#include <linux/if_vlan.h>
#include <linux/ktime.h>

#include "twinring.h"

#define HEAD_BYTES sizeof(struct tpacket_block_desc)
/* Offsets of a packet's address and bytes from its header (struct tpacket3_hdr). */
#define ADDRESS_AT TPACKET_ALIGN(sizeof(struct tpacket3_hdr))
#define DATA_AT ALIGN(ADDRESS_AT + sizeof(struct sockaddr_ll), 16)

static struct tpacket_block_desc *block_at(const struct ring *ring, unsigned int number) {
    return ring->block[number];
}

static bool is_ours(const struct ring *ring, unsigned int number) {
    struct tpacket_block_desc *block = block_at(ring, number);

    return !(smp_load_acquire(&block->hdr.bh1.block_status) & TP_STATUS_USER);
}

/* Passes the current block to the program, and advances to the next. */
static void retire(struct ring *ring, struct timespec64 now) {
    struct tpacket_block_desc *block = block_at(ring, ring->current_block);
    struct tpacket_hdr_v1 *head = &block->hdr.bh1;
    u32 status = TP_STATUS_USER | (ring->losing ? TP_STATUS_LOSING : 0);

    head->num_pkts = ring->count;
    head->blk_len = ring->next;
    head->offset_to_first_pkt = HEAD_BYTES;
    head->seq_num = ring->sequence++;
    head->ts_first_pkt.ts_sec = ring->first_time.tv_sec;
    head->ts_first_pkt.ts_nsec = ring->first_time.tv_nsec;
    head->ts_last_pkt.ts_sec = now.tv_sec;
    head->ts_last_pkt.ts_nsec = now.tv_nsec;
    block->version = TPACKET_V3;
    block->offset_to_priv = HEAD_BYTES;
    smp_store_release(&head->block_status, status);
    ring->current_block = (ring->current_block + 1) % ring->blocks;
    ring->next = 0;
    ring->losing = false;
    wake_up_interruptible(&ring->readers);
}

/* Passes the current block to the program, if it contains a packet. */
void fill_flush(struct ring *ring) {
    struct timespec64 now;

    ktime_get_real_ts64(&now);
    spin_lock_bh(&ring->fill);
    if (ring->next)
        retire(ring, now);
    spin_unlock_bh(&ring->fill);
}

static void timer_over(struct timer_list *timer) {
    struct ring *ring = from_timer(ring, timer, timer);
    struct timespec64 now;

    ktime_get_real_ts64(&now);
    spin_lock_bh(&ring->fill);
    if (ring->next && ring->timed == ring->sequence)
        retire(ring, now);
    spin_unlock_bh(&ring->fill);
}

void fill_init(struct ring *ring) {
    spin_lock_init(&ring->fill);
    timer_setup(&ring->timer, timer_over, 0);
}

/* Returns the place for a packet of `bytes` bytes in a block that the kernel owns; NULL if there is
 * none. */
static void *place(struct ring *ring, unsigned int bytes, struct timespec64 now) {
    if (ring->next && ring->next + bytes > TWINWALL_RING_BLOCK)
        retire(ring, now);
    if (!ring->next) {
        if (!HAS_FLAW(STATUS_UNCHECKED) && !is_ours(ring, ring->current_block))
            return NULL;
        ring->next = HEAD_BYTES;
        ring->last = 0;
        ring->count = 0;
        ring->first_time = now;
        ring->timed = ring->sequence;
        mod_timer(&ring->timer, jiffies + msecs_to_jiffies(ring->timeout_ms) + 1);
    }
    return ring->block[ring->current_block] + ring->next;
}

static void describe(struct tpacket3_hdr *head, const struct sk_buff *skb, unsigned int length,
                     unsigned int kept, struct timespec64 now) {
    struct sockaddr_ll *address = (void *)head + ADDRESS_AT;

    memset(head, 0, DATA_AT);
    head->tp_sec = now.tv_sec;
    head->tp_nsec = now.tv_nsec;
    head->tp_len = length;
    head->tp_snaplen = kept;
    head->tp_mac = DATA_AT;
    head->tp_net = DATA_AT + (skb_network_offset(skb) > 0 ? skb_network_offset(skb) : 0);
    head->tp_status = TP_STATUS_USER;
    if (skb_vlan_tag_present(skb)) {
        head->hv1.tp_vlan_tci = skb_vlan_tag_get(skb);
        head->hv1.tp_vlan_tpid = ntohs(skb->vlan_proto);
        head->tp_status |= TP_STATUS_VLAN_VALID | TP_STATUS_VLAN_TPID_VALID;
    }
    address->sll_family = AF_PACKET;
    address->sll_protocol = skb->protocol;
    address->sll_hatype = skb->dev->type;
    address->sll_pkttype = skb->pkt_type;
    address->sll_ifindex = skb->dev->ifindex;
    address->sll_halen = dev_parse_header(skb, address->sll_addr);
}

static void put(struct ring *ring, struct sk_buff *skb, unsigned int most) {
    unsigned int kept = min3(skb->len, ring->snap_bytes, most);
    unsigned int bytes = ALIGN(DATA_AT + kept, 16);
    struct tpacket3_hdr *head;
    struct timespec64 now;

    ktime_get_real_ts64(&now);
    spin_lock_bh(&ring->fill);
    ring->packets++;
    head = place(ring, bytes, now);
    if (!head) {
        ring->drops += !HAS_FLAW(DROPS_UNCOUNTED);
        ring->losing = true;
        goto out;
    }
    describe(head, skb, skb->len, kept, now);
    if (skb_copy_bits(skb, 0, (void *)head + DATA_AT, kept) != 0)
        memset((void *)head + DATA_AT, 0, kept);
    if (ring->last)
        ((struct tpacket3_hdr *)(ring->block[ring->current_block] + ring->last))->tp_next_offset =
            ring->next - ring->last;
    ring->last = ring->next;
    ring->next += bytes;
    ring->count++;
out:
    spin_unlock_bh(&ring->fill);
}

/* Called for each packet of the interface, in an RCU section; consumes the reference. */
int fill_packet(struct sk_buff *skb, struct net_device *device, struct packet_type *hook,
                struct net_device *original) {
    struct ring *ring = container_of(hook, struct ring, hook);
    unsigned int most = ring->snap_bytes;

    skb = skb_share_check(skb, GFP_ATOMIC);
    if (!skb)
        return 0;
    /* Incoming packets have their link-layer header before the data. */
    if (dev_has_header(device))
        skb_push(skb, skb->data - skb_mac_header(skb));
    if (ring->filter)
        most = bpf_prog_run_clear_cb(ring->filter, skb);
    if (most > 0)
        put(ring, skb, most);
    consume_skb(skb);
    return 0;
}

/* Returns true if the program still owns the block that was passed last. */
bool fill_is_readable(struct ring *ring) {
    unsigned int last;
    bool readable;

    spin_lock_bh(&ring->fill);
    last = (ring->current_block + ring->blocks - 1) % ring->blocks;
    readable = !is_ours(ring, last);
    spin_unlock_bh(&ring->fill);
    return readable;
}
