/* One tile of keys and values, and what query vectors do with it.

   Each sum is made in the order of its terms, however many vectors there are. */

#pragma once

#include "simd.h"

#define MAX_DIM 256 /* of a head */
#define BLOCK 6     /* query vectors in registers at a time */
#define FEW 3       /* so few that twice as wide a stretch of keys or values fits beside them */
#define GROUP 16    /* keys that lie side by side: two registers */
#define GROUPS (TILE / GROUP)

/* One head's keys, a group of them [dim][stride], and its values, [GROUP][dim]; only those from
   `first` up to `end` are there. */
struct tile {
    const char *k[GROUPS], *v[GROUPS];
    int32_t stride, first, end;
};

INLINE int size_of(enum dtype type)
{
    return type == FP32 ? 4 : 2;
}

/* Ask for what lies at a number's place before it is needed. */
INLINE void fetch(const char *from, int64_t at, enum dtype type)
{
    _mm_prefetch(from + at * size_of(type), _MM_HINT_T1);
}

/* Scores of n vectors with the keys of groups `g` to `g` + `wide`; the next tile's come nearer. */
INLINE void score_groups(const float *q, const struct tile *tile, const struct tile *next, int g,
                         float *scores, int dim, const int type, const int n, const int wide)
{
    __m256 sums[BLOCK][4];
    for (int r = 0; r < n; r++)
        for (int w = 0; w < 2 * wide; w++)
            sums[r][w] = _mm256_setzero_ps();
    for (int i = 0; i < dim; i++) {
        const int64_t at = (int64_t)i * tile->stride;
        __m256 each[BLOCK], keys[2];
        for (int w = 0; w < wide; w++)
            fetch(next->k[g + w], (int64_t)i * next->stride, type);
        for (int r = 0; r < n && n <= FEW; r++)
            each[r] = _mm256_broadcast_ss(q + r * dim + i);
        for (int w = 0; w < wide; w++) {
            for (int half = 0; half < 2; half++)
                keys[half] = load8(tile->k[g + w], at + half * LANES, type);
            for (int r = 0; r < n; r++) {
                __m256 now = n <= FEW ? each[r] : _mm256_broadcast_ss(q + r * dim + i);
                for (int half = 0; half < 2; half++)
                    sums[r][2 * w + half] = _mm256_fmadd_ps(now, keys[half],
                                                            sums[r][2 * w + half]);
            }
        }
    }
    for (int r = 0; r < n; r++)
        for (int w = 0; w < 2 * wide; w++)
            _mm256_store_ps(scores + r * TILE + g * GROUP + w * LANES, sums[r][w]);
}

/* scores[n][j] = q[n] . k[j] */
INLINE void score(const float *q, const struct tile *tile, const struct tile *next, float *scores,
                  int dim, const int type, const int n)
{
    const int wide = n <= FEW ? 2 : 1;
    int g = tile->first / GROUP;
    for (; (g + wide - 1) * GROUP < tile->end; g += wide)
        score_groups(q, tile, next, g, scores, dim, type, n, wide);
    if (wide > 1 && g * GROUP < tile->end)
        score_groups(q, tile, next, g, scores, dim, type, n, 1);
}

/* Eight times `wide` of the dimensions of `weigh`. */
INLINE void weigh_part(const float *weights, const struct tile *tile, const struct tile *next,
                       const float *shrink, float *out, int dim, int i, const int type,
                       const int n, const int wide)
{
    __m256 sums[BLOCK][4];
    for (int r = 0; r < n; r++)
        for (int w = 0; w < wide; w++)
            sums[r][w] = _mm256_mul_ps(_mm256_load_ps(out + r * dim + i + w * LANES),
                                       _mm256_broadcast_ss(shrink + r));
    for (int j = tile->first; j < tile->end; j++) {
        const int64_t at = j % GROUP * dim + i;
        __m256 each[BLOCK], values[2];
        for (int w = 0; w < wide; w += 2)
            fetch(next->v[j / GROUP], at + w * LANES, type);
        for (int r = 0; r < n && n <= FEW; r++)
            each[r] = _mm256_broadcast_ss(weights + r * TILE + j);
        for (int w = 0; w < wide; w += 2) {
            for (int half = 0; half < 2 && w + half < wide; half++)
                values[half] = load8(tile->v[j / GROUP], at + (w + half) * LANES, type);
            for (int r = 0; r < n; r++) {
                __m256 now = n <= FEW ? each[r] : _mm256_broadcast_ss(weights + r * TILE + j);
                for (int half = 0; half < 2 && w + half < wide; half++)
                    sums[r][w + half] = _mm256_fmadd_ps(now, values[half], sums[r][w + half]);
            }
        }
    }
    for (int r = 0; r < n; r++)
        for (int w = 0; w < wide; w++)
            _mm256_store_ps(out + r * dim + i + w * LANES, sums[r][w]);
}

/* out[n] = out[n] * shrink[n] + sum of weights[n][j] * v[j] */
INLINE void weigh(const float *weights, const struct tile *tile, const struct tile *next,
                  const float *shrink, float *out, int dim, const int type, const int n)
{
    const int wide = n <= FEW ? 4 : 2;
    int i = 0;
    for (; i + wide * LANES <= dim; i += wide * LANES)
        weigh_part(weights, tile, next, shrink, out, dim, i, type, n, wide);
    for (; i < dim; i += LANES)
        weigh_part(weights, tile, next, shrink, out, dim, i, type, n, 1);
}

/* Scores of keys outside of `first` to `end` become those of nothing. */
INLINE void hide(float *scores, int from, int to, int first, int end)
{
    const __m256i count = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256 nothing = _mm256_set1_ps(-INFINITY);
    for (int j = from; j < to; j += LANES) {
        __m256i key = _mm256_add_epi32(count, _mm256_set1_epi32(j));
        __m256i hidden = _mm256_or_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(first), key),
                                         _mm256_cmpgt_epi32(key, _mm256_set1_epi32(end - 1)));
        _mm256_store_ps(scores + j, _mm256_blendv_ps(_mm256_load_ps(scores + j), nothing,
                                                     _mm256_castsi256_ps(hidden)));
    }
}

/* Scores become weights, in place.  Only keys from `first` up to `end` are seen: a score of theirs
   that is NaN makes all of it NaN.  Returns by how much all that was summed before shrinks. */
INLINE float soften(float *scores, const struct tile *tile, int first, int end, float *peak,
                    float *total)
{
    const int from = tile->first / GROUP * GROUP;
    const int to = (tile->end + GROUP - 1) / GROUP * GROUP;
    if (first >= to || end <= from) { /* nothing is seen: no weight, and nothing to shrink */
        memset(scores + from, 0, (to - from) * sizeof(float));
        return 1.0f;
    }
    if (first > from || end < to)
        hide(scores, from, to, first, end);
    __m256 most = _mm256_set1_ps(-INFINITY);
    for (int j = from; j < to; j += LANES)
        most = _mm256_max_ps(most, _mm256_load_ps(scores + j));
    float now = fmaxf(*peak, max_of(most));
    __m256 by = _mm256_set1_ps(now), sum = _mm256_setzero_ps();
    for (int j = from; j < to; j += LANES) {
        __m256 weight = exp_of(_mm256_sub_ps(_mm256_load_ps(scores + j), by));
        _mm256_store_ps(scores + j, weight);
        sum = _mm256_add_ps(sum, weight);
    }
    float shrink = _mm256_cvtss_f32(exp_of(_mm256_set1_ps(*peak - now)));
    *total = *total * shrink + sum_of(sum);
    *peak = now;
    return shrink;
}
