/* The threads that compute together, and how they share the work. */

#pragma once

#include <immintrin.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

#define PATIENCE 4096 /* pauses, 50 to 100 microseconds, before who waits lets others run */

/* phase: how often all have waited for all; taken: tasks of this phase and, by turns, of the next
   that somebody has begun. */
struct team {
    _Atomic int32_t phase, arrived, taken[2];
};

struct member {
    struct team *team;
    int32_t id, size, phase; /* size: of the team */
};

/* The next task that nobody has begun, of a phase whose tasks are numbered from 0. */
static inline int32_t next_task(struct member *me)
{
    return atomic_fetch_add_explicit(&me->team->taken[me->phase & 1], 1, memory_order_relaxed);
}

/* This member's part of things that take equally long: from `from` up to `to`. */
struct part {
    int32_t from, to;
};

static inline struct part part_of(const struct member *me, int32_t count)
{
    return (struct part){(int64_t)count * me->id / me->size,
                         (int64_t)count * (me->id + 1) / me->size};
}

/* Return when all have come here.  Threads of a team wait for microseconds at most, unless the
   machine runs something else: to sleep and be woken would take longer than the work. */
static inline void wait_for_all(struct member *me)
{
    struct team *team = me->team;
    const int32_t next = ++me->phase;
    if (atomic_fetch_add_explicit(&team->arrived, 1, memory_order_acq_rel) + 1 == me->size) {
        atomic_store_explicit(&team->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&team->taken[(next + 1) & 1], 0, memory_order_relaxed);
        atomic_store_explicit(&team->phase, next, memory_order_release);
        return;
    }
    for (int64_t turns = 0; atomic_load_explicit(&team->phase, memory_order_acquire) != next;
         turns++)
        if (turns < PATIENCE)
            _mm_pause();
        else
            sched_yield();
}
