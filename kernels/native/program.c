/* Runs ops one after the other, each by all threads together.

   One call for a whole pass over a model: between two ops the threads meet, and nobody else has to
   be asked what comes next. */

#include <omp.h>

#include "team.h"

struct op {
    void (*compute)(struct member *me, int32_t rows, const void *arguments);
    const void *arguments;
    int32_t per_token; /* rows */
};

/* Returns whether all went well: see `astray`. */
int32_t gm_run(const struct op *ops, int32_t count, int32_t tokens, int32_t threads)
{
    struct team team = {0};
#pragma omp parallel num_threads(threads)
    {
        struct member me = {&team, omp_get_thread_num(), omp_get_num_threads(), 0};
        for (int32_t i = 0; i < count; i++) {
            ops[i].compute(&me, tokens * ops[i].per_token, ops[i].arguments);
            wait_for_all(&me);
        }
    }
    return !team.astray;
}
