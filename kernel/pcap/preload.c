// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * libtwinring-pcap.so: with LD_PRELOAD, a program of libpcap (tcpdump, dumpcap) receives its
 * packets from /dev/twinring. It intercepts calls between libpcap and libc: the TPACKET_V3 ring of
 * a packet socket becomes the module's, with its statistics and its readiness (poll, select). All
 * other functions stay with the socket, but a filter is refused once the ring is mapped.
 * TWINRING_POLICY names the policy (default DAX). Without the module, or with an unknown policy, it
 * prints a message and does nothing.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "twinwall_ring.h"

#define RINGS 16
#define POLLS 16
/* Room for headers before the bytes: libpcap refuses packets that extend beyond its frame. */
#define HEADERS 256
#define TIMEOUT_MS 10

struct ring {
    bool used;
    int socket;
    int device;
    int version;
    unsigned int interface;
    struct tpacket_req3 request;
    struct twinwall_ring_statistics told;
    bool set_up;
};

static const char *const names[TWINWALL_RING_POLICIES] = {"RX_RING",  "GFPNORETRY", "VZALLOC",
                                                          "GFPRETRY", "TRANSHUGE",  "HUGETLB",
                                                          "BOTH",     "DAX",        "VMALLOC_HUGE"};
static struct ring rings[RINGS];
static unsigned int policy = TWINWALL_RING_DAX;
static bool active;

static void say(const char *format, ...) {
    va_list words;

    va_start(words, format);
    fputs("libtwinring-pcap: ", stderr);
    vfprintf(stderr, format, words);
    fputc('\n', stderr);
    va_end(words);
}

/* Declares `next`: the function of libc that is intercepted, looked up at the first call. */
#define NEXT(name)                                                                                 \
    static __typeof__(&name) next;                                                                 \
    if (!next)                                                                                     \
    next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

__attribute__((constructor)) static void begin(void) {
    const char *wanted = getenv("TWINRING_POLICY");
    unsigned int number = 0;
    int device;

    for (; wanted && number < TWINWALL_RING_POLICIES && strcmp(names[number], wanted) != 0;
         number++)
        ;
    if (wanted && number == TWINWALL_RING_POLICIES) {
        say("there is no policy %s: it does nothing", wanted);
        return;
    }
    policy = wanted ? number : policy;
    device = open(TWINWALL_RING_PATH, O_RDWR | O_CLOEXEC);
    if (device < 0) {
        say("%s: %s: it does nothing", TWINWALL_RING_PATH, strerror(errno));
        return;
    }
    active = true;
    syscall(SYS_close, device);
}

static struct ring *ring_of(int socket) {
    for (int i = 0; active && i < RINGS; i++)
        if (rings[i].used && rings[i].socket == socket)
            return &rings[i];
    return NULL;
}

int socket(int domain, int type, int protocol) {
    int made = (int)syscall(SYS_socket, domain, type, protocol);

    for (int i = 0; active && made >= 0 && domain == AF_PACKET && i < RINGS; i++)
        if (!rings[i].used) {
            rings[i] = (struct ring){.used = true, .socket = made, .device = -1};
            break;
        }
    return made;
}

/* With a ring the module receives the interface's packets, and the socket receives none. */
int bind(int fd, const struct sockaddr *address, socklen_t length) {
    struct ring *ring = ring_of(fd);
    struct sockaddr_ll to;

    if (ring && length >= sizeof(to)) {
        memcpy(&to, address, sizeof(to));
        ring->interface = (unsigned int)to.sll_ifindex;
        if (ring->set_up) {
            to.sll_protocol = 0;
            return (int)syscall(SYS_bind, fd, &to, sizeof(to));
        }
    }
    return (int)syscall(SYS_bind, fd, address, length);
}

static void ring_close(struct ring *ring) {
    if (ring->device >= 0)
        syscall(SYS_close, ring->device);
    ring->device = -1;
    ring->set_up = false;
}

/*
 * Opens the module's file for the requested ring, which is created when it is mapped. Returns false
 * if the module does not support the ring or can't be opened, and for a request without blocks,
 * which closes the ring. libpcap computes the places of the blocks from its request after this
 * call, so the request gets the module's blocks: as many bytes, rounded down, in blocks of 2 MiB
 * with one frame each.
 */
static bool take_request(struct ring *ring, struct tpacket_req3 *request) {
    const size_t blocks =
        (size_t)request->tp_block_nr * request->tp_block_size / TWINWALL_RING_BLOCK;

    if (request->tp_block_nr == 0) {
        ring_close(ring);
        return false;
    }
    if (ring->version != TPACKET_V3 || request->tp_block_nr != request->tp_frame_nr || blocks < 2 ||
        blocks > TWINWALL_RING_BLOCKS_MOST) {
        say("a ring of %u blocks of %u bytes (TPACKET_V%d) is not the module's: 2 to %d of 2 MiB "
            "(-B 4096 or more)",
            request->tp_block_nr, request->tp_block_size, ring->version + 1,
            TWINWALL_RING_BLOCKS_MOST);
        return false;
    }
    ring->device = open(TWINWALL_RING_PATH, O_RDWR | O_CLOEXEC);
    if (ring->device < 0)
        return false;
    ring->request = *request;
    request->tp_block_nr = (unsigned int)blocks;
    request->tp_frame_nr = (unsigned int)blocks;
    request->tp_block_size = TWINWALL_RING_BLOCK;
    request->tp_frame_size = TWINWALL_RING_BLOCK;
    return true;
}

int setsockopt(int fd, int level, int option, const void *value, socklen_t length) {
    struct ring *ring = ring_of(fd);

    if (ring && level == SOL_PACKET && option == PACKET_VERSION && length >= sizeof(int))
        memcpy(&ring->version, value, sizeof(int));
    if (ring && level == SOL_PACKET && option == PACKET_RX_RING &&
        length >= sizeof(struct tpacket_req3) && take_request(ring, (struct tpacket_req3 *)value))
        return 0;
    if (ring && ring->set_up && level == SOL_SOCKET && option == SO_ATTACH_FILTER) {
        /* libpcap then filters the packets itself. */
        errno = ENOPROTOOPT;
        return -1;
    }
    return (int)syscall(SYS_setsockopt, fd, level, option, value, length);
}

/* Returns the counts since the last call, like AF_PACKET. */
int getsockopt(int fd, int level, int option, void *restrict value, socklen_t *restrict length) {
    struct ring *ring = ring_of(fd);
    struct twinwall_ring_statistics all;
    struct tpacket_stats_v3 told = {0};

    if (!ring || !ring->set_up || level != SOL_PACKET || option != PACKET_STATISTICS)
        return (int)syscall(SYS_getsockopt, fd, level, option, value, length);
    if (ioctl(ring->device, TWINWALL_RING_STATISTICS, &all) != 0)
        return -1;
    told.tp_packets = (unsigned int)(all.packets - ring->told.packets);
    told.tp_drops = (unsigned int)(all.drops - ring->told.drops);
    ring->told = all;
    *length = *length < sizeof(told) ? *length : (socklen_t)sizeof(told);
    memcpy(value, &told, *length);
    return 0;
}

static void *map(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    return (void *)syscall(SYS_mmap, address, length, protection, flags, fd, offset);
}

/* Creates the ring and maps it. Returns MAP_FAILED with errno on errors. */
static void *ring_map(struct ring *ring, size_t length, int protection) {
    bool is_ours = policy == TWINWALL_RING_HUGETLB || policy == TWINWALL_RING_BOTH;
    struct twinwall_ring_setup setup = {
        .policy = policy,
        .blocks = (unsigned int)(length / TWINWALL_RING_BLOCK),
        .interface = ring->interface,
        .snap_bytes = ring->request.tp_frame_size - HEADERS,
        .timeout_ms =
            ring->request.tp_retire_blk_tov ? ring->request.tp_retire_blk_tov : TIMEOUT_MS,
    };
    void *memory = NULL;

    if (is_ours) {
        memory = map(NULL, length, protection,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_POPULATE, -1, 0);
        if (memory == MAP_FAILED)
            return memory;
        setup.address = (uintptr_t)memory;
    }
    if (ioctl(ring->device, TWINWALL_RING_SETUP, &setup) != 0) {
        if (is_ours)
            munmap(memory, length);
        return MAP_FAILED;
    }
    if (!is_ours)
        memory = map(NULL, length, protection, MAP_SHARED, ring->device, 0);
    if (memory != MAP_FAILED) {
        ring->set_up = true;
        say("%s, %u blocks of 2 MiB", names[policy], setup.blocks);
    }
    return memory;
}

void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    struct ring *ring = fd >= 0 ? ring_of(fd) : NULL;

    if (ring && ring->device >= 0 && !ring->set_up)
        return ring_map(ring, length, protection);
    return map(address, length, protection, flags, fd, offset);
}

void *mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    return mmap(address, length, protection, flags, fd, offset);
}

/* Polls the module's file instead of the socket. */
int poll(struct pollfd *fds, nfds_t count, int timeout) {
    int sockets[POLLS], result;

    NEXT(poll);
    if (!active || count > POLLS)
        return next(fds, count, timeout);
    for (nfds_t i = 0; i < count; i++) {
        struct ring *ring = ring_of(fds[i].fd);

        sockets[i] = fds[i].fd;
        if (ring && ring->set_up)
            fds[i].fd = ring->device;
    }
    result = next(fds, count, timeout);
    for (nfds_t i = 0; i < count; i++)
        fds[i].fd = sockets[i];
    return result;
}

/* Checks the module's file in place of the socket: dumpcap calls select before libpcap. */
int select(int count, fd_set *restrict readable, fd_set *restrict writable,
           fd_set *restrict special, struct timeval *restrict limit) {
    bool asked[RINGS] = {false};
    int result;

    NEXT(select);
    for (int i = 0; active && readable && i < RINGS; i++) {
        struct ring *ring = &rings[i];

        if (!ring->used || !ring->set_up || ring->socket >= count ||
            !FD_ISSET(ring->socket, readable))
            continue;
        asked[i] = true;
        FD_CLR(ring->socket, readable);
        FD_SET(ring->device, readable);
        count = ring->device >= count ? ring->device + 1 : count;
    }
    result = next(count, readable, writable, special, limit);
    for (int i = 0; i < RINGS; i++) {
        if (!asked[i])
            continue;
        if (result > 0 && FD_ISSET(rings[i].device, readable))
            FD_SET(rings[i].socket, readable);
        FD_CLR(rings[i].device, readable);
    }
    return result;
}

int close(int fd) {
    struct ring *ring = ring_of(fd);

    if (ring) {
        ring_close(ring);
        ring->used = false;
    }
    return (int)syscall(SYS_close, fd);
}
