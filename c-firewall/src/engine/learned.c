// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/learned.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/siphash.h"

enum {
    BUCKET_ADDRESSES = 8,
    WORDS = 3,
    LOOKS_MAX = 64, // maximum number of attempts to read a bucket without a lock
};

/// Entry of a bucket: an address that a set has learned. All fields are atomic.
struct entry {
    uint64_t words[WORDS]; // identity of the set, then the address, upper half first
    uint64_t end_ns;       // time at which the address expires; 0 = free entry
};

/// Bucket of the hash table: addresses with hashes in one interval. All fields are atomic.
struct bucket {
    uint64_t number; // number of changes times 2; odd while an address is being exchanged
    struct entry entries[BUCKET_ADDRESSES];
};

struct learned {
    uint32_t owners; // number of owners; only the main thread uses it, without a lock
    uint32_t bucket_count;
    struct siphash_key key;
    pthread_mutex_t writer;
    struct bucket buckets[];
};

/// Words by which an address of a set is hashed: the set's identity, and the address, upper half
/// first.
struct words {
    uint64_t words[WORDS];
};

static uint64_t get(const uint64_t *word) { return __atomic_load_n(word, __ATOMIC_RELAXED); }

static void put(uint64_t *word, uint64_t value) { __atomic_store_n(word, value, __ATOMIC_RELAXED); }

struct learned *learned_make(uint32_t addresses) {
    const uint32_t count = (addresses + BUCKET_ADDRESSES - 1) / BUCKET_ADDRESSES;
    struct learned *learned = calloc(1, sizeof *learned + (count + 1) * sizeof *learned->buckets);

    if (!learned)
        return NULL;
    learned->owners = 1;
    learned->bucket_count = count > 0 ? count : 1;
    learned->key = siphash_draw();
    learned->writer = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    return learned;
}

struct learned *learned_share(struct learned *learned) {
    if (learned)
        learned->owners++;
    return learned;
}

void learned_free(struct learned *learned) {
    if (learned && --learned->owners == 0)
        free(learned);
}

/// Returns the words by which an address of a set is hashed: the set's identity, and the address,
/// upper half first.
static struct words words_of(uint64_t set, policy_value address) {
    return (struct words){{set, (uint64_t)(address >> 64), (uint64_t)address}};
}

/// Returns the bucket of an address.
static struct bucket *bucket_of(struct learned *learned, const struct words *words) {
    const uint64_t hash = siphash_words(&learned->key, words->words, WORDS);

    return &learned->buckets[(uint64_t)((unsigned __int128)hash * learned->bucket_count >> 64)];
}

/// Returns the entry of an address, expired or not; NULL if there is none.
static struct entry *entry_of(struct bucket *bucket, const struct words *words) {
    for (int i = 0; i < BUCKET_ADDRESSES; i++) {
        struct entry *entry = &bucket->entries[i];
        bool same = true;

        for (int j = 0; j < WORDS && same; j++)
            same = get(&entry->words[j]) == words->words[j];
        if (same)
            return entry;
    }
    return NULL;
}

/// Returns the time at which an address of a bucket expires; 0 if the bucket does not have it.
static uint64_t end_of(struct bucket *bucket, const struct words *words) {
    const struct entry *entry = entry_of(bucket, words);

    return entry ? get(&entry->end_ns) : 0;
}

uint64_t learned_end(struct learned *learned, uint64_t set, policy_value address) {
    const struct words words = words_of(set, address);
    struct bucket *bucket = bucket_of(learned, &words);
    uint64_t found;

    for (int i = 0; i < LOOKS_MAX; i++) {
        const uint64_t before = __atomic_load_n(&bucket->number, __ATOMIC_ACQUIRE);

        found = end_of(bucket, &words);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (!(before & 1) && get(&bucket->number) == before)
            return found;
    }
    pthread_mutex_lock(&learned->writer);
    found = end_of(bucket, &words);
    pthread_mutex_unlock(&learned->writer);
    return found;
}

bool learned_find(struct learned *learned, uint64_t set, policy_value address, uint64_t now_ns) {
    return learned_end(learned, set, address) > now_ns;
}

/// Stores an address in an entry of a bucket: a free entry, or in place of another address.
static void exchange(struct bucket *bucket, struct entry *entry, const struct words *words,
                     uint64_t end_ns) {
    const uint64_t number = get(&bucket->number);

    put(&bucket->number, number + 1);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    for (int i = 0; i < WORDS; i++)
        put(&entry->words[i], words->words[i]);
    put(&entry->end_ns, end_ns);
    __atomic_store_n(&bucket->number, number + 2, __ATOMIC_RELEASE);
}

bool learned_add(struct learned *learned, uint64_t set, policy_value address, uint64_t end_ns,
                 uint64_t now_ns) {
    const struct words words = words_of(set, address);
    struct bucket *bucket = bucket_of(learned, &words);
    struct entry *entry;
    bool evicts;

    pthread_mutex_lock(&learned->writer);
    entry = entry_of(bucket, &words);
    if (entry) {
        if (end_ns > get(&entry->end_ns))
            put(&entry->end_ns, end_ns);
        pthread_mutex_unlock(&learned->writer);
        return false;
    }
    entry = &bucket->entries[0];
    for (int i = 1; i < BUCKET_ADDRESSES; i++)
        if (get(&bucket->entries[i].end_ns) < get(&entry->end_ns))
            entry = &bucket->entries[i];
    evicts = get(&entry->end_ns) > now_ns;
    exchange(bucket, entry, &words, end_ns);
    pthread_mutex_unlock(&learned->writer);
    return evicts;
}

uint64_t learned_count(const struct learned *learned, uint64_t now_ns) {
    uint64_t count = 0;

    for (uint32_t i = 0; i < learned->bucket_count; i++)
        for (int j = 0; j < BUCKET_ADDRESSES; j++)
            count += get(&learned->buckets[i].entries[j].end_ns) > now_ns;
    return count;
}

uint32_t learned_places(const struct learned *learned) {
    return learned->bucket_count * BUCKET_ADDRESSES;
}

bool learned_at(const struct learned *learned, uint32_t place, uint64_t now_ns,
                struct learned_address *found) {
    const struct bucket *bucket = &learned->buckets[place / BUCKET_ADDRESSES];
    const struct entry *entry = &bucket->entries[place % BUCKET_ADDRESSES];

    *found = (struct learned_address){
        .set = get(&entry->words[0]),
        .address = (policy_value)get(&entry->words[1]) << 64 | get(&entry->words[2]),
        .end_ns = get(&entry->end_ns),
    };
    return found->end_ns > now_ns;
}

void learned_forget_all(struct learned *learned) {
    for (uint32_t i = 0; i < learned->bucket_count; i++)
        for (int j = 0; j < BUCKET_ADDRESSES; j++)
            put(&learned->buckets[i].entries[j].end_ns, 0);
}
