// SPDX-License-Identifier: GPL-2.0-or-later
// Tests of /dev/twinring: packets through a ring of each page policy, the counters, refused
// requests, and the census of pages.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"
#include "inject.h"
#include "twinwall_ring.h"

#define BLOCKS 16
#define RING_BYTES ((size_t)BLOCKS * TWINWALL_RING_BLOCK)
#define PAGES (TWINWALL_RING_BLOCK / 4096)
#define PORT 9
#define PAYLOAD 1000
#define WAIT_MS 20000

static const char *const names[TWINWALL_RING_POLICIES] = {"RX_RING",  "GFPNORETRY", "VZALLOC",
                                                          "GFPRETRY", "TRANSHUGE",  "HUGETLB",
                                                          "BOTH",     "DAX",        "VMALLOC_HUGE"};

struct ring {
    int fd;
    uint8_t *memory;
    unsigned int next;   // block
    uint64_t delivered;  // packets
    uint32_t numbers[4]; // the first and the last that came, and how many were out of order
};

// Filter "udp dst port 9" for Ethernet frames with IPv4 headers without options.
static const struct sock_filter to_port[] = {
    {BPF_LD | BPF_H | BPF_ABS, 0, 0, 12}, {BPF_JMP | BPF_JEQ | BPF_K, 0, 5, 0x0800},
    {BPF_LD | BPF_B | BPF_ABS, 0, 0, 23}, {BPF_JMP | BPF_JEQ | BPF_K, 0, 3, IPPROTO_UDP},
    {BPF_LD | BPF_H | BPF_ABS, 0, 0, 36}, {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, PORT},
    {BPF_RET | BPF_K, 0, 0, 65535},       {BPF_RET | BPF_K, 0, 0, 0},
};

static bool is_users(unsigned int policy) {
    return policy == TWINWALL_RING_HUGETLB || policy == TWINWALL_RING_BOTH;
}

static int ring_device(void) {
    int fd = open(TWINWALL_RING_PATH, O_RDWR | O_CLOEXEC);

    CHECK(fd >= 0);
    return fd;
}

static struct twinwall_ring_setup good_setup(unsigned int policy) {
    return (struct twinwall_ring_setup){
        .policy = policy,
        .blocks = BLOCKS,
        .interface = if_nametoindex("lo"),
        .snap_bytes = 65536,
        .timeout_ms = 20,
        .steps = sizeof(to_port) / sizeof(to_port[0]),
        .filter = (uintptr_t)to_port,
    };
}

// Sets the number of huge pages in the system's pool; 0 returns them.
static void pool(unsigned int count) {
    FILE *file = fopen("/proc/sys/vm/nr_hugepages", "we");

    CHECK(file);
    fprintf(file, "%u\n", count);
    CHECK_EQUAL(fclose(file), 0);
}

static void *huge_memory(size_t blocks) {
    pool(blocks);
    void *memory = mmap(NULL, blocks * TWINWALL_RING_BLOCK, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_POPULATE, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

static struct ring ring_open(unsigned int policy) {
    struct ring ring = {.fd = ring_device()};
    struct twinwall_ring_setup setup = good_setup(policy);

    if (is_users(policy)) {
        ring.memory = huge_memory(BLOCKS);
        setup.address = (uintptr_t)ring.memory;
    }
    if (ioctl(ring.fd, TWINWALL_RING_SETUP, &setup) != 0)
        guest_fail(__FILE__, __LINE__, "%s: %s", names[policy], strerror(errno));
    if (!is_users(policy)) {
        ring.memory = mmap(NULL, RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd, 0);
        if (ring.memory == MAP_FAILED)
            guest_fail(__FILE__, __LINE__, "%s: mmap: %s", names[policy], strerror(errno));
    }
    return ring;
}

static void ring_close(struct ring *ring) {
    munmap(ring->memory, RING_BYTES);
    close(ring->fd);
    pool(0);
}

static struct twinwall_ring_statistics statistics(const struct ring *ring) {
    struct twinwall_ring_statistics counts;

    CHECK_EQUAL(ioctl(ring->fd, TWINWALL_RING_STATISTICS, &counts), 0);
    return counts;
}

// Sends datagrams with the numbers `from` to `to` - 1 to a port without a listener.
static void send_numbers(uint32_t from, uint32_t to) {
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    uint8_t payload[PAYLOAD];

    // All datagrams are sent by one processor: each processor has a separate path to loopback.
    cpu_set_t first;
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    CHECK_EQUAL(sched_setaffinity(0, sizeof(first), &first), 0);
    CHECK(fd >= 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    memset(payload, 7, sizeof(payload));
    for (uint32_t number = from; number < to; number++) {
        memcpy(payload, &number, sizeof(number));
        CHECK_EQUAL(sendto(fd, payload, sizeof(payload), 0, (void *)&address, sizeof(address)),
                    PAYLOAD);
    }
    close(fd);
}

// Sends numbered datagrams without a loss before the ring. Loopback's queue is short, so this waits
// after every 250 datagrams until the ring has counted them.
static void send_counted(const struct ring *ring, uint32_t from, uint32_t to) {
    uint64_t counted = statistics(ring).packets;

    for (uint32_t number = from; number < to;) {
        uint32_t few = to - number < 250 ? to - number : 250;

        send_numbers(number, number + few);
        number += few;
        for (int i = 0; i < WAIT_MS && statistics(ring).packets < counted + number - from; i++)
            sleep_ms(1);
    }
    CHECK_EQUAL(statistics(ring).packets, counted + to - from);
}

static void take_packet(struct ring *ring, const uint8_t *at) {
    const struct tpacket3_hdr *head = (const void *)at;
    const uint8_t *payload = at + head->tp_mac + 14 + 20 + 8;
    uint32_t number;

    CHECK_EQUAL(head->tp_snaplen, 14 + 20 + 8 + PAYLOAD);
    CHECK_EQUAL(head->tp_len, head->tp_snaplen);
    memcpy(&number, payload, sizeof(number));
    for (size_t i = sizeof(number); i < PAYLOAD; i++)
        CHECK_EQUAL(payload[i], 7);
    if (ring->delivered == 0)
        ring->numbers[0] = number;
    else if (number <= ring->numbers[1])
        ring->numbers[2]++;
    ring->numbers[1] = number;
    ring->delivered++;
}

// Consumes the next block. Returns false if it is not ready.
static bool take_block(struct ring *ring) {
    uint8_t *block = ring->memory + (size_t)ring->next * TWINWALL_RING_BLOCK;
    struct tpacket_hdr_v1 *head = &((struct tpacket_block_desc *)block)->hdr.bh1;
    uint32_t at;

    if (!(__atomic_load_n(&head->block_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER))
        return false;
    at = head->offset_to_first_pkt;
    for (uint32_t i = 0; i < head->num_pkts; i++) {
        take_packet(ring, block + at);
        at += ((struct tpacket3_hdr *)(block + at))->tp_next_offset;
    }
    __atomic_store_n(&head->block_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
    ring->next = (ring->next + 1) % BLOCKS;
    return true;
}

// Consumes blocks until `sent` packets have been delivered or dropped.
static void take_all(struct ring *ring, uint64_t sent) {
    while (ring->delivered + statistics(ring).drops < sent) {
        struct pollfd ready = {.fd = ring->fd, .events = POLLIN};

        CHECK_EQUAL(poll(&ready, 1, WAIT_MS), 1);
        CHECK_EQUAL(ready.revents, POLLIN);
        while (take_block(ring))
            ;
    }
}

static void *send_few(void *unused) {
    send_numbers(0, 300);
    return unused;
}

// Checks that 300 packets are delivered, with each policy. They are consumed as they arrive: a
// block also ends by its time-out, and a slow kernel could end all blocks before the last packet.
static void twinring_packets(void) {
    for (unsigned int policy = 0; policy < TWINWALL_RING_POLICIES; policy++) {
        struct ring ring = ring_open(policy);
        pthread_t sender;

        CHECK_EQUAL(pthread_create(&sender, NULL, send_few, NULL), 0);
        take_all(&ring, 300);
        CHECK_EQUAL(pthread_join(sender, NULL), 0);
        CHECK_EQUAL(ring.delivered, 300);
        CHECK_EQUAL(ring.numbers[0], 0);
        CHECK_EQUAL(ring.numbers[1], 299);
        CHECK_EQUAL(ring.numbers[2], 0);
        CHECK_EQUAL(statistics(&ring).packets, 300);
        ring_close(&ring);
    }
}

// Checks that, when unconsumed packets fill the ring, further packets are counted as dropped, and
// that the ring has room again after the packets are consumed.
static void twinring_drops(void) {
    struct ring ring = ring_open(TWINWALL_RING_DAX);
    uint32_t sent = RING_BYTES / 1024 + 4000;

    send_counted(&ring, 0, sent);
    CHECK(statistics(&ring).drops > 2000);
    take_all(&ring, sent);
    CHECK_EQUAL(ring.delivered + statistics(&ring).drops, sent);
    CHECK_EQUAL(ring.numbers[1], ring.delivered - 1);
    send_numbers(sent, sent + 100);
    take_all(&ring, sent + 100);
    CHECK_EQUAL(ring.numbers[1], sent + 99);
    CHECK_EQUAL(ring.numbers[2], 0);
    ring_close(&ring);
}

// Checks the page sizes of each policy, and prints them as a table; kernel/README.md has a copy.
static void twinring_census(void) {
    for (unsigned int policy = 0; policy < TWINWALL_RING_POLICIES; policy++) {
        struct ring ring = ring_open(policy);
        struct twinwall_ring_census census = {.address = (uintptr_t)ring.memory};
        const struct twinwall_ring_pages *kernel = &census.kernel, *user = &census.user;
        bool kernel_small = policy == TWINWALL_RING_VZALLOC || policy == TWINWALL_RING_HUGETLB;
        bool user_huge = is_users(policy) || policy == TWINWALL_RING_DAX;

        // The page-table entries of the program are created at the first access, unless mmap
        // creates them.
        for (size_t at = 0; at < RING_BYTES; at += 4096)
            *(volatile uint8_t *)(ring.memory + at);
        CHECK_EQUAL(ioctl(ring.fd, TWINWALL_RING_CENSUS, &census), 0);
        printf("census %s kernel %llux4K %llux2M %llux1G user %llux4K %llux2M none %llu\n",
               names[policy], kernel->small, kernel->huge, kernel->giant, user->small, user->huge,
               kernel->none + user->none);
        CHECK_EQUAL(kernel->none + user->none + user->giant, 0);
        CHECK_EQUAL(user->small, user_huge ? 0 : BLOCKS * PAGES);
        CHECK_EQUAL(user->huge, user_huge ? BLOCKS : 0);
        CHECK_EQUAL(kernel->small, kernel_small ? BLOCKS * PAGES : 0);
        // The kernel's direct map may have larger entries.
        if (!kernel_small && kernel->giant == 0)
            CHECK_EQUAL(kernel->huge, BLOCKS);
        ring_close(&ring);
    }
}

static void refused(struct twinwall_ring_setup setup, int error) {
    int fd = ring_device();

    CHECK_EQUAL(ioctl(fd, TWINWALL_RING_SETUP, &setup), -1);
    CHECK_EQUAL(errno, error);
    // A failed setup must leave no resources, so a second setup succeeds.
    setup = good_setup(TWINWALL_RING_GFPRETRY);
    CHECK_EQUAL(ioctl(fd, TWINWALL_RING_SETUP, &setup), 0);
    CHECK_EQUAL(ioctl(fd, TWINWALL_RING_SETUP, &setup), -1);
    CHECK_EQUAL(errno, EISCONN);
    close(fd);
}

#define REFUSED(code, policy, ...)                                                                 \
    do {                                                                                           \
        struct twinwall_ring_setup setup = good_setup(policy);                                     \
        __VA_ARGS__;                                                                               \
        refused(setup, code);                                                                      \
    } while (0)

static void twinring_refuses_setups(void) {
    struct sock_filter endless = {BPF_JMP | BPF_JA, 0, 0, 0xffffffff};

    REFUSED(EINVAL, TWINWALL_RING_POLICIES, );
    REFUSED(EINVAL, TWINWALL_RING_DAX, setup.blocks = 1);
    REFUSED(EINVAL, TWINWALL_RING_DAX, setup.blocks = TWINWALL_RING_BLOCKS_MOST + 1);
    REFUSED(EINVAL, TWINWALL_RING_DAX, setup.snap_bytes = 0);
    REFUSED(EINVAL, TWINWALL_RING_DAX, setup.snap_bytes = TWINWALL_RING_BLOCK);
    REFUSED(EINVAL, TWINWALL_RING_DAX, setup.timeout_ms = 0);
    REFUSED(ENODEV, TWINWALL_RING_DAX, setup.interface = 4711);
    REFUSED(EINVAL, TWINWALL_RING_DAX, setup.steps = 1; setup.filter = (uintptr_t)&endless);
    REFUSED(EFAULT, TWINWALL_RING_DAX, setup.filter = 8);
    REFUSED(EINVAL, TWINWALL_RING_BOTH, setup.address = 4096);
    REFUSED(EINVAL, TWINWALL_RING_BOTH, setup.address = UINT64_MAX << 21);
    REFUSED(EFAULT, TWINWALL_RING_BOTH, setup.address = UINT64_C(1) << 40);
}

// Checks that a setup refuses small pages of the program.
static void twinring_refuses_small_pages(void) {
    void *memory = mmap(NULL, RING_BYTES + TWINWALL_RING_BLOCK, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uintptr_t address = ((uintptr_t)memory | (TWINWALL_RING_BLOCK - 1)) + 1;

    CHECK(memory != MAP_FAILED);
    CHECK_EQUAL(madvise(memory, RING_BYTES + TWINWALL_RING_BLOCK, MADV_NOHUGEPAGE), 0);
    REFUSED(EINVAL, TWINWALL_RING_HUGETLB, setup.address = address);
    REFUSED(EINVAL, TWINWALL_RING_BOTH, setup.address = address);
}

static void twinring_refuses_mappings(void) {
    const int both = PROT_READ | PROT_WRITE;

    for (unsigned int policy = 0; policy < TWINWALL_RING_POLICIES; policy++) {
        struct ring ring = ring_open(policy);

        CHECK(mmap(NULL, RING_BYTES, both, MAP_PRIVATE, ring.fd, 0) == MAP_FAILED);
        CHECK(mmap(NULL, RING_BYTES / 2, both, MAP_SHARED, ring.fd, 0) == MAP_FAILED);
        CHECK(mmap(NULL, RING_BYTES * 2, both, MAP_SHARED, ring.fd, 0) == MAP_FAILED);
        CHECK(mmap(NULL, RING_BYTES, both, MAP_SHARED, ring.fd, TWINWALL_RING_BLOCK) == MAP_FAILED);
        CHECK(mremap(ring.memory, RING_BYTES, RING_BYTES * 2, MREMAP_MAYMOVE) == MAP_FAILED);
        ring_close(&ring);
    }
    // A device without a ring can't be mapped.
    int fd = ring_device();
    CHECK(mmap(NULL, RING_BYTES, both, MAP_SHARED, fd, 0) == MAP_FAILED);
    close(fd);
}

static void twinring_census_of_what_is_not_there(void) {
    struct ring ring = ring_open(TWINWALL_RING_DAX);
    struct twinwall_ring_census census = {.address = UINT64_C(1) << 40};

    CHECK_EQUAL(ioctl(ring.fd, TWINWALL_RING_CENSUS, &census), 0);
    CHECK_EQUAL(census.user.none, BLOCKS * PAGES);
    for (int bit = 0; bit < 64; bit++)
        for (int high = 0; high < 2; high++) {
            census.address = (high ? UINT64_MAX : UINT64_C(1)) << bit;
            CHECK(ioctl(ring.fd, TWINWALL_RING_CENSUS, &census) == 0 || errno == EINVAL);
        }
    ring_close(&ring);
}

// Checks that the kernel does not trust the blocks, into which the program may write any data.
static void twinring_believes_no_block(void) {
    for (unsigned int policy = 0; policy < TWINWALL_RING_POLICIES; policy++) {
        struct ring ring = ring_open(policy);

        for (int round = 0; round < 3; round++) {
            memset(ring.memory, round == 1 ? 0xff : 0xfe, RING_BYTES);
            send_counted(&ring, 0, 100);
            // Blocks whose lowest status bit is set belong to the program, so these are returned to
            // the kernel.
            memset(ring.memory, 0, RING_BYTES);
            send_counted(&ring, 0, 100);
        }
        CHECK_EQUAL(statistics(&ring).packets, 600);
        ring_close(&ring);
    }
}

static void hold_ring(void *policy) {
    struct ring ring = ring_open(*(unsigned int *)policy);

    (void)ring;
    pause();
}

// Checks a process that is killed during traffic, memory that is unmapped during traffic, and a
// child that has the only descriptor.
static void twinring_users_that_go(void) {
    for (unsigned int policy = 0; policy < TWINWALL_RING_POLICIES; policy++) {
        pid_t pid = spawn(hold_ring, &policy);

        wait_until_asleep(pid);
        send_numbers(0, 500);
        kill(pid, SIGKILL);
        CHECK(WIFSIGNALED(join(pid)));
        send_numbers(0, 500);
        struct ring ring = ring_open(policy);
        munmap(ring.memory, RING_BYTES);
        send_numbers(0, 500);
        pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            sleep_ms(100);
            _exit(0);
        }
        close(ring.fd);
        send_numbers(0, 500);
        CHECK_EQUAL(join(pid), 0);
        pool(0);
    }
}

// Checks an interface that disappears with its network namespace.
static void twinring_interface_that_goes(void) {
    int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    struct ring ring;

    CHECK(home >= 0 && unshare(CLONE_NEWNET) == 0);
    ring = ring_open(TWINWALL_RING_BOTH);
    CHECK_EQUAL(setns(home, CLONE_NEWNET), 0);
    struct pollfd ready = {.fd = ring.fd, .events = POLLIN};
    CHECK_EQUAL(poll(&ready, 1, WAIT_MS), 1);
    CHECK_EQUAL(ready.revents, POLLERR | POLLHUP);
    CHECK_EQUAL(statistics(&ring).packets, 0);
    ring_close(&ring);
}

// Checks that a stop delivers the received packets at once, and that no more arrive. There are
// fewer packets than blocks, so all fit even if each block ends by its time-out.
static void twinring_stops(void) {
    struct ring ring = ring_open(TWINWALL_RING_DAX);

    send_counted(&ring, 0, BLOCKS / 2);
    CHECK_EQUAL(ioctl(ring.fd, TWINWALL_RING_STOP), 0);
    while (take_block(&ring))
        ;
    CHECK_EQUAL(ring.delivered, BLOCKS / 2);
    send_numbers(BLOCKS / 2, BLOCKS);
    CHECK_EQUAL(ioctl(ring.fd, TWINWALL_RING_STOP), 0);
    CHECK_EQUAL(statistics(&ring).packets, BLOCKS / 2);
    CHECK(!take_block(&ring));
    ring_close(&ring);
    // A stop without a ring succeeds.
    int fd = ring_device();
    CHECK_EQUAL(ioctl(fd, TWINWALL_RING_STOP), 0);
    close(fd);
}

// Checks that all memory of each policy is returned.
static void twinring_keeps_no_memory(void) {
    twinring_packets();
    long long before = proc_value("/proc/meminfo", "MemAvailable:");
    for (int round = 0; round < 2; round++)
        twinring_packets();
    long long kept = before - proc_value("/proc/meminfo", "MemAvailable:");
    // A ring has 32 MiB, and 18 rings were made.
    if (kept > 24 << 10)
        guest_fail(__FILE__, __LINE__, "%lld KiB are kept", kept);
    CHECK_EQUAL(proc_value("/proc/vmstat", "nr_foll_pin_acquired "),
                proc_value("/proc/vmstat", "nr_foll_pin_released "));
}

// Setup of a ring that is large enough for fault injection: two blocks.
static struct twinwall_ring_setup small_setup;

// Creates a ring of `small_setup` and maps it. Returns 0 or the positive errno.
static int make_small_ring(void) {
    size_t bytes = small_setup.blocks * (size_t)TWINWALL_RING_BLOCK;
    int fd = open(TWINWALL_RING_PATH, O_RDWR | O_CLOEXEC), error = 0;

    if (fd < 0)
        return ENOMEM;
    if (ioctl(fd, TWINWALL_RING_SETUP, &small_setup) != 0) {
        error = errno;
    } else if (!is_users(small_setup.policy)) {
        void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (memory == MAP_FAILED)
            error = errno;
        else
            munmap(memory, bytes);
    }
    close(fd);
    return error;
}

static void make_with_a_fault(void) {
    int error = make_small_ring();

    if (error != 0 && error != ENOMEM && error != EFAULT)
        guest_fail(__FILE__, __LINE__, "%s: %s", names[small_setup.policy], strerror(error));
}

static void make_without_a_fault(void) { CHECK_EQUAL(make_small_ring(), 0); }

static void twinring_without_memory(void) {
    for (unsigned int policy = 0; policy < TWINWALL_RING_POLICIES; policy++) {
        small_setup = good_setup(policy);
        small_setup.blocks = 2;
        if (is_users(policy))
            small_setup.address = (uintptr_t)huge_memory(small_setup.blocks);
        with_faults(make_with_a_fault, make_without_a_fault);
        if (is_users(policy))
            munmap((void *)(uintptr_t)small_setup.address, 2 * TWINWALL_RING_BLOCK);
    }
    pool(0);
}

static void twinring_is_roots(void) {
    CHECK(open(TWINWALL_RING_PATH, O_RDWR | O_CLOEXEC) < 0 && errno == EACCES);
}

const struct guest_test twinring_tests[] = {
    {"twinring_census", twinring_census, true},
    {"twinring_packets", twinring_packets, true},
    {"twinring_drops", twinring_drops, true},
    {"twinring_refuses_setups", twinring_refuses_setups, true},
    {"twinring_refuses_small_pages", twinring_refuses_small_pages, true},
    {"twinring_refuses_mappings", twinring_refuses_mappings, true},
    {"twinring_census_of_what_is_not_there", twinring_census_of_what_is_not_there, true},
    {"twinring_believes_no_block", twinring_believes_no_block, true},
    {"twinring_users_that_go", twinring_users_that_go, true},
    {"twinring_interface_that_goes", twinring_interface_that_goes, true},
    {"twinring_stops", twinring_stops, true},
    {"twinring_keeps_no_memory", twinring_keeps_no_memory, true},
    {"twinring_without_memory", twinring_without_memory, true},
    {"twinring_is_roots", twinring_is_roots, false},
    {NULL, NULL, false},
};
