/* Attention over pages, segment by segment.

   A segment is a run of keys that lie in the blocks of one table, and the query rows that meet
   them: one sequence's, or those of all sequences that share the run.  A row meets its segments in
   the order of their keys, and carries the state of its softmax from one to the next:

       peak   the greatest score so far
       total  the sum of e**(score - peak)
       out    the sum of e**(score - peak) * value

   which is the exact merge of softmaxes over disjoint keys (Milakov & Gimelshein 2018,
   arXiv:1805.02867).  Keys are taken TILE at a time, and tiles begin at multiples of TILE.  So a
   row's numbers come out of the same operations in the same order, to the last bit, however its
   keys are cut into segments at such multiples, and whatever other rows are there. */

#include "team.h"
#include "tile.h"

/* Whoever compiles this says TILE, in keys, and MAX_VECTORS, of one segment: its rows times the
   query heads of its KV heads. */

/* How a step is cut.  levels: [num_levels + 1], where each level's segments begin.  The segments of
   a level have no row and head in common; those of the levels before it are done when it begins. */
struct plan {
    const int32_t *tables, *positions, *rows;
    const struct segment *segments;
    const int32_t *levels;
    int32_t num_levels, table_width, window;
};

struct segment {
    int32_t table; /* whose row of the tables */
    int32_t first, end; /* keys */
    int32_t rows_from, rows_to; /* in the list of rows */
    int32_t head_from, head_to; /* KV heads */
    int32_t starts, ends; /* whether these are the first, the last keys of its rows */
};

/* state: of each row and head its peak and total. */
struct attention {
    const float *q;
    const void *k, *v;
    float *out, *state;
    const struct plan *plan;
    int32_t heads, kv_heads, dim, block_size, q_stride, kv_type;
    float scale;
};

struct scratch {
    float k[MAX_DIM * TILE] __attribute__((aligned(64))); /* [dim][TILE] */
    float v[TILE * MAX_DIM] __attribute__((aligned(64))); /* [TILE][dim] */
    float q[MAX_VECTORS * MAX_DIM] __attribute__((aligned(64)));
    float out[MAX_VECTORS * MAX_DIM] __attribute__((aligned(64)));
    float scores[BLOCK * TILE] __attribute__((aligned(64)));
    float peak[MAX_VECTORS], total[MAX_VECTORS];
    struct places places[2]; /* of what is computed, and of what comes next */
};

/* What is not of the segment is found to be zero. */
static void find(const struct attention *of, const struct segment *segment, int tile, int head,
                 struct places *places)
{
    static const float zeros[MAX_DIM];
    const int32_t *table = of->plan->tables + (int64_t)segment->table * of->plan->table_width;
    const int64_t bytes = of->dim * (of->kv_type == FP32 ? 4 : 2);
    int block = tile / of->block_size, offset = tile % of->block_size;
    for (int j = 0; j < TILE; j++) {
        int here = tile + j >= segment->first && tile + j < segment->end;
        int64_t slot = here ? (int64_t)table[block] * of->block_size + offset : 0;
        int64_t at = (slot * of->kv_heads + head) * bytes;
        places->k[j] = here ? (const char *)of->k + at : (const char *)zeros;
        places->v[j] = here ? (const char *)of->v + at : (const char *)zeros;
        if (++offset == of->block_size)
            block++, offset = 0;
    }
}

/* The softmaxes of n query vectors over one tile's scores; `from`: the first of them. */
INLINE void soften_block(const struct attention *of, const int32_t *rows, int from, int tile,
                         struct scratch *scratch, float *shrink, const int first, const int n)
{
    const int sharing = of->heads / of->kv_heads;
    for (int r = 0; r < n; r++) {
        int end = of->plan->positions[rows[(from + r) / sharing]] + 1 - tile;
        shrink[r] = soften(scratch->scores + r * TILE, end - of->plan->window, end,
                           scratch->peak + first + from + r, scratch->total + first + from + r);
    }
}

/* Query vectors `from` to `from` + n of a head; its first is `first`. */
INLINE void attend_block(const struct attention *of, const int32_t *rows, int from, int tile,
                         struct scratch *scratch, const int first, const int n)
{
    const int dim = of->dim;
    float shrink[BLOCK];
    score(scratch->q + (first + from) * dim, scratch->k, scratch->scores, dim, n);
    soften_block(of, rows, from, tile, scratch, shrink, first, n);
    weigh(scratch->scores, scratch->v, shrink, scratch->out + (first + from) * dim, dim, n);
}

INLINE void attend_few(const struct attention *of, const int32_t *rows, int tile,
                       const struct places *places, const struct places *next,
                       struct scratch *scratch, const int first, const int n)
{
    const int dim = of->dim, type = of->kv_type;
    const float *q = scratch->q + first * dim;
    float *out = scratch->out + first * dim;
    float shrink[FEW];
    if (type == FP32)
        score_in_place(q, places, next, scratch->scores, dim, FP32, n);
    else
        score_in_place(q, places, next, scratch->scores, dim, type, n);
    soften_block(of, rows, 0, tile, scratch, shrink, first, n);
    if (type == FP32)
        weigh_in_place(scratch->scores, places, next, shrink, out, dim, FP32, n);
    else
        weigh_in_place(scratch->scores, places, next, shrink, out, dim, type, n);
}

/* Each number of vectors is code of its own: they are held in registers. */
static void attend_tile(const struct attention *of, const int32_t *rows, int num, int tile,
                        const struct places *places, const struct places *next,
                        struct scratch *scratch, const int first)
{
#define SOME(n) case n: attend_few(of, rows, tile, places, next, scratch, first, n); return;
    switch (num) { SOME(1) SOME(2) SOME(3) SOME(4) }
    load_tile(places, of->kv_type, of->dim, scratch->k, scratch->v);
    int from = 0;
    for (; from + BLOCK <= num; from += BLOCK)
        attend_block(of, rows, from, tile, scratch, first, BLOCK);
#define REST(n) case n: attend_block(of, rows, from, tile, scratch, first, n); return;
    switch (num - from) { REST(1) REST(2) REST(3) REST(4) REST(5) }
}

/* The vector's place among all of the step: row, then head. */
INLINE int64_t place_of(const struct attention *of, const int32_t *rows, int n, int head)
{
    const int sharing = of->heads / of->kv_heads;
    return (int64_t)rows[n / sharing] * of->heads + head * sharing + n % sharing;
}

/* Take up the softmaxes of a head where the segment before left them. */
static void begin(const struct attention *of, const struct segment *segment, const int32_t *rows,
                  int num, int head, struct scratch *scratch, const int first)
{
    const int dim = of->dim;
    const __m256 scale = _mm256_set1_ps(of->scale);
    for (int n = 0; n < num; n++) {
        int64_t place = place_of(of, rows, n, head), row = place / of->heads;
        const float *q = of->q + row * of->q_stride + place % of->heads * dim;
        float *out = scratch->out + (first + n) * dim;
        for (int i = 0; i < dim; i += LANES)
            _mm256_store_ps(scratch->q + (first + n) * dim + i,
                            _mm256_mul_ps(_mm256_loadu_ps(q + i), scale));
        if (segment->starts)
            memset(out, 0, dim * sizeof(float));
        else
            memcpy(out, of->out + place * dim, dim * sizeof(float));
        scratch->peak[first + n] = segment->starts ? -INFINITY : of->state[2 * place];
        scratch->total[first + n] = segment->starts ? 0.0f : of->state[2 * place + 1];
    }
}

/* Leave them to the segment after this, or end them.  Who met no key has nothing to divide. */
static void end(const struct attention *of, const struct segment *segment, const int32_t *rows,
                int num, int head, struct scratch *scratch, const int first)
{
    const int dim = of->dim;
    for (int n = 0; n < num; n++) {
        int64_t place = place_of(of, rows, n, head);
        of->state[2 * place] = scratch->peak[first + n];
        of->state[2 * place + 1] = scratch->total[first + n];
        const float total = scratch->total[first + n];
        __m256 by = _mm256_set1_ps(segment->ends && total > 0.0f ? 1.0f / total : 1.0f);
        for (int i = 0; i < dim; i += LANES) {
            __m256 sum = _mm256_load_ps(scratch->out + (first + n) * dim + i);
            _mm256_storeu_ps(of->out + place * dim + i, _mm256_mul_ps(sum, by));
        }
    }
}

static void attend_segment(const struct attention *of, const struct segment *segment,
                           struct scratch *scratch)
{
    const int32_t *rows = of->plan->rows + segment->rows_from;
    const int sharing = of->heads / of->kv_heads;
    const int num = (segment->rows_to - segment->rows_from) * sharing;
    const int from = segment->head_from, to = segment->head_to;
    int tile = segment->first / TILE * TILE, head = from, turn = 0;
    for (int h = from; h < to; h++)
        begin(of, segment, rows, num, h, scratch, (h - from) * num);
    find(of, segment, tile, head, &scratch->places[turn]);
    while (tile < segment->end) {
        int next_head = head + 1 < to ? head + 1 : from;
        int next_tile = next_head == from ? tile + TILE : tile;
        find(of, segment, next_tile, next_head, &scratch->places[!turn]);
        attend_tile(of, rows, num, tile, &scratch->places[turn], &scratch->places[!turn],
                    scratch, (head - from) * num);
        head = next_head, tile = next_tile, turn = !turn;
    }
    for (int h = from; h < to; h++)
        end(of, segment, rows, num, h, scratch, (h - from) * num);
}

void gm_attend(struct member *me, int32_t rows, const struct attention *of)
{
    struct scratch scratch;
    const struct plan *plan = of->plan;
    (void)rows; /* the segments name them */
    for (int level = 0; level < plan->num_levels; level++) {
        const int first = plan->levels[level], count = plan->levels[level + 1] - first;
        if (level)
            wait_for_all(me);
        for (int task; (task = next_task(me)) < count;)
            attend_segment(of, plan->segments + first + task, &scratch);
    }
}
