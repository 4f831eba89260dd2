// SPDX-License-Identifier: GPL-2.0-or-later
#include "guard/watch.h"

#include <string.h>

static uint32_t enqueued_of(const struct queue_figures *figures) {
    return figures->offered - figures->user_drop;
}

static struct guard_watch_look look_of(const struct guard_watch *watch,
                                       const struct queue_figures *figures) {
    const uint32_t enqueued = enqueued_of(figures);

    return (struct guard_watch_look){
        .waiting = figures->waiting,
        .offered = figures->offered,
        .enqueued = enqueued,
        .settled = enqueued - figures->waiting - watch->own,
    };
}

void guard_watch_forget(struct guard_watch *watch) { watch->count = 0; }

static void remember(struct guard_watch *watch, const struct guard_watch_look *look) {
    if (watch->count > GUARD_WATCH_LOOKS) {
        watch->count = GUARD_WATCH_LOOKS;
        memmove(&watch->looks[0], &watch->looks[1], GUARD_WATCH_LOOKS * sizeof watch->looks[0]);
    }
    watch->looks[watch->count++] = *look;
}

bool guard_watch_look(struct guard_watch *watch, const struct queue_figures *figures,
                      const uint32_t *head, uint32_t *id) {
    const struct guard_watch_look look = look_of(watch, figures);
    const struct guard_watch_look *oldest = &watch->looks[0];
    const bool head_stays = head && watch->has_head && *head == watch->head;

    if (watch->count > 0 && look.settled != watch->looks[watch->count - 1].settled && !head_stays) {
        watch->count = 0;
        watch->stalls = false;
    }
    watch->has_head = head;
    if (head)
        watch->head = *head;
    remember(watch, &look);
    if (watch->count <= GUARD_WATCH_LOOKS || look.waiting == 0 || oldest->waiting == 0 ||
        (watch->stalls && oldest->enqueued == watch->settled))
        return false;
    *id = oldest->offered;
    return true;
}

uint32_t guard_watch_settled(struct guard_watch *watch, const struct queue_figures *before,
                             const struct queue_figures *after, bool *begins) {
    const uint32_t came = enqueued_of(after) - enqueued_of(before);
    const uint32_t there = before->waiting + came;
    const uint32_t settled = there > after->waiting ? there - after->waiting : 0;

    *begins = !watch->stalls;
    watch->stalls = true;
    watch->settled = watch->looks[0].enqueued;
    watch->own += settled;
    return settled;
}
