/* The threads that compute together, and how they share the work. */

#pragma once

#include <immintrin.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Pauses before a waiting thread sleeps, at most: 50 to 100 microseconds, about what it takes to be
   woken. */
#define PATIENCE 4096

/* phase: how often all have waited for all; asleep: those who wait so and are to be woken; taken:
   tasks of this phase and, by turns, of the next that somebody has begun; astray: whether an op was
   to write where nothing is, and did not. */
struct team {
    _Atomic int32_t phase, arrived, asleep, taken[2], astray;
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

/* The order of both counters is the same for everybody: either the last to arrive sees that somebody
   sleeps, or the system sees that there is nothing to sleep for. */
static inline void sleep_until(struct team *team, int32_t next)
{
    atomic_fetch_add(&team->asleep, 1);
    while (atomic_load(&team->phase) != next)
        syscall(SYS_futex, &team->phase, FUTEX_WAIT_PRIVATE, next - 1, NULL, NULL, 0);
    atomic_fetch_sub(&team->asleep, 1);
}

static inline void release(struct team *team, int32_t next)
{
    atomic_store_explicit(&team->arrived, 0, memory_order_relaxed);
    atomic_store_explicit(&team->taken[(next + 1) & 1], 0, memory_order_relaxed);
    atomic_store(&team->phase, next);
    if (atomic_load(&team->asleep))
        syscall(SYS_futex, &team->phase, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Return when all have come here.  Mostly that takes microseconds, and to sleep would take longer.
   But where threads outnumber cores, who does not sleep keeps the others from arriving: so each
   time that patience was in vain there is half as much of it the next time. */
static inline void wait_for_all(struct member *me)
{
    static _Thread_local int32_t patience = PATIENCE;
    struct team *team = me->team;
    const int32_t next = ++me->phase;
    if (atomic_fetch_add_explicit(&team->arrived, 1, memory_order_acq_rel) + 1 == me->size)
        return release(team, next);
    for (int32_t turns = 0; turns < patience; turns++) {
        if (atomic_load_explicit(&team->phase, memory_order_acquire) == next) {
            patience += (PATIENCE - patience) / 8;
            return;
        }
        _mm_pause();
    }
    patience = patience / 2 + 1;
    sleep_until(team, next);
}
