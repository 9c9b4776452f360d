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
    float k[MAX_DIM * TILE] __attribute__((aligned(64))); /* [GROUPS][dim][GROUP] */
    float v[TILE * MAX_DIM] __attribute__((aligned(64))); /* [TILE][dim] */
    float q[MAX_VECTORS * MAX_DIM] __attribute__((aligned(64)));
    float out[MAX_VECTORS * MAX_DIM] __attribute__((aligned(64)));
    float scores[BLOCK * TILE] __attribute__((aligned(64)));
    float peak[MAX_VECTORS], total[MAX_VECTORS];
    struct tile tiles[2]; /* the one at work, and the next */
};

/* Where a key of a head lies, in numbers from the start: of K, whose blocks are [dim][block_size],
   and of V, whose blocks are [block_size][dim]. */
INLINE int64_t block_of(const struct attention *of, const struct segment *segment, int key,
                        int head)
{
    const int32_t *table = of->plan->tables + (int64_t)segment->table * of->plan->table_width;
    return ((int64_t)table[key / of->block_size] * of->kv_heads + head) * of->block_size * of->dim;
}

/* Find a tile whose groups each lie in one block.  Nothing is read of groups beyond the segment. */
static void find(const struct attention *of, const struct segment *segment, int tile, int head,
                 struct tile *found)
{
    const int size = size_of(of->kv_type), first = segment->first - tile, end = segment->end - tile;
    found->stride = of->block_size;
    found->first = first > 0 ? first : 0;
    found->end = end < TILE ? end : TILE;
    for (int g = 0; g < GROUPS; g++) {
        const int key = tile + g * GROUP, offset = key % of->block_size;
        const int here = key + GROUP > segment->first && key < segment->end;
        const int64_t block = here ? block_of(of, segment, key, head) : 0;
        found->k[g] = (const char *)of->k + (block + offset) * size;
        found->v[g] = (const char *)of->v + (block + (int64_t)offset * of->dim) * size;
    }
}

/* Some query vectors and a tile that they are to meet. */
struct meeting {
    const struct attention *of;
    const struct segment *segment;
    const int32_t *rows; /* whose vectors they are */
    int32_t num, first;  /* vectors, and where they begin in the scratch */
    int32_t head, start; /* of K and V; the tile's first key */
};

/* Have the tile in fp32 in the scratch. */
static void widen(const struct meeting *of, struct tile *tile, struct scratch *scratch)
{
    const int dim = of->of->dim, type = of->of->kv_type;
    for (int g = tile->first / GROUP; g * GROUP < tile->end; g++) {
        float *k = scratch->k + g * dim * GROUP, *v = scratch->v + g * GROUP * dim;
        for (int i = 0; i < dim; i++)
            for (int j = 0; j < GROUP; j += LANES)
                _mm256_store_ps(k + i * GROUP + j,
                                load8(tile->k[g], (int64_t)i * tile->stride + j, type));
        for (int i = 0; i < GROUP * dim; i += LANES)
            _mm256_store_ps(v + i, load8(tile->v[g], i, type));
        tile->k[g] = (const char *)k;
        tile->v[g] = (const char *)v;
    }
    tile->stride = GROUP;
}

/* The same of a tile whose groups lie in several blocks. */
static void gather(const struct meeting *meeting, struct tile *tile, struct scratch *scratch)
{
    const struct attention *of = meeting->of;
    const int dim = of->dim, type = of->kv_type, size = size_of(type);
    for (int j = tile->first; j < tile->end; j++) {
        const int key = meeting->start + j, offset = key % of->block_size;
        const int64_t block = block_of(of, meeting->segment, key, meeting->head);
        const char *k = (const char *)of->k + (block + offset) * size;
        const char *v = (const char *)of->v + (block + (int64_t)offset * dim) * size;
        float *column = scratch->k + j / GROUP * dim * GROUP + j % GROUP;
        for (int i = 0; i < dim; i++)
            column[i * GROUP] = load1(k, (int64_t)i * of->block_size, type);
        for (int i = 0; i < dim; i += LANES)
            _mm256_store_ps(scratch->v + j * dim + i, load8(v, i, type));
    }
    for (int g = 0; g < GROUPS; g++) {
        tile->k[g] = (const char *)(scratch->k + g * dim * GROUP);
        tile->v[g] = (const char *)(scratch->v + g * GROUP * dim);
    }
    tile->stride = GROUP;
}

/* Vectors `from` to `from` + n of them. */
INLINE void attend_block(const struct meeting *of, const struct tile *tile,
                         const struct tile *next, struct scratch *scratch, int from,
                         const int type, const int n)
{
    const struct plan *plan = of->of->plan;
    const int dim = of->of->dim, sharing = of->of->heads / of->of->kv_heads;
    const int at = of->first + from;
    float shrink[BLOCK];
    score(scratch->q + at * dim, tile, next, scratch->scores, dim, type, n);
    for (int r = 0; r < n; r++) {
        int end = plan->positions[of->rows[(from + r) / sharing]] + 1 - of->start;
        shrink[r] = soften(scratch->scores + r * TILE, tile, end - plan->window, end,
                           scratch->peak + at + r, scratch->total + at + r);
    }
    weigh(scratch->scores, tile, next, shrink, scratch->out + at * dim, dim, type, n);
}

/* Each number of vectors is code of its own: they are held in registers. */
INLINE void attend_tile(const struct meeting *of, const struct tile *tile,
                        const struct tile *next, struct scratch *scratch, const int type)
{
#define SOME(n) case n: attend_block(of, tile, from ? tile : next, scratch, from, type, n); break;
    for (int from = 0; from < of->num; from += BLOCK)
        switch (of->num - from < BLOCK ? of->num - from : BLOCK) {
            SOME(1) SOME(2) SOME(3) SOME(4) SOME(5) SOME(6)
        }
}

/* Where the tile lies, if that is no dearer than to copy it first. */
static void attend_meeting(const struct meeting *of, struct tile *tile, const struct tile *next,
                           struct scratch *scratch)
{
    const int type = of->of->kv_type;
    if (of->of->block_size % GROUP)
        gather(of, tile, scratch);
    else if (type == FP16 && of->num <= BLOCK)
        return attend_tile(of, tile, next, scratch, FP16);
    else if (type == FP16)
        widen(of, tile, scratch);
    attend_tile(of, tile, next, scratch, FP32);
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
    const int num = (segment->rows_to - segment->rows_from) * (of->heads / of->kv_heads);
    const int from = segment->head_from, to = segment->head_to;
    struct tile *tile = scratch->tiles, *next = scratch->tiles + 1;
    struct meeting now = {of, segment, rows, num, 0, from, segment->first / TILE * TILE};
    for (int head = from; head < to; head++)
        begin(of, segment, rows, num, head, scratch, (head - from) * num);
    find(of, segment, now.start, from, tile);
    while (now.start < segment->end) {
        struct meeting then = now;
        then.head = now.head + 1 < to ? now.head + 1 : from;
        then.start = then.head == from ? now.start + TILE : now.start;
        then.first = (then.head - from) * num;
        find(of, segment, then.start, then.head, next);
        attend_meeting(&now, tile, next, scratch);
        struct tile *done = tile;
        tile = next, next = done, now = then;
    }
    for (int head = from; head < to; head++)
        end(of, segment, rows, num, head, scratch, (head - from) * num);
}

void gm_attend(struct member *me, int32_t rows, const struct attention *of)
{
    static _Thread_local struct scratch scratch; /* a thread's stack may be smaller */
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
