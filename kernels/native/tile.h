/* One tile of keys and values, and what query vectors do with it.

   Each sum is made in the order of its terms, whichever of the two ways it is made. */

#pragma once

#include "simd.h"

#define MAX_DIM 256 /* of a head */
#define BLOCK 6     /* query vectors in registers at a time */
#define FEW 4       /* so few that they meet the keys where these lie */
#define LINE 64     /* bytes of a line of cache */

/* Where one head's keys and values of a tile lie. */
struct places {
    const char *k[TILE], *v[TILE];
};

/* Copy them for many query vectors to meet: keys turned, [dim][TILE], values [TILE][dim]. */
static void load_tile(const struct places *places, enum dtype type, int dim, float *k, float *v)
{
    for (int j = 0; j < TILE; j += LANES)
        for (int i = 0; i < dim; i += LANES) {
            __m256 part[LANES];
            for (int n = 0; n < LANES; n++)
                part[n] = load8(places->k[j + n], i, type);
            transpose8(part);
            for (int n = 0; n < LANES; n++)
                _mm256_store_ps(k + (i + n) * TILE + j, part[n]);
        }
    for (int j = 0; j < TILE; j++)
        for (int i = 0; i < dim; i += LANES)
            _mm256_store_ps(v + j * dim + i,
                            load8(places->v[j], i, type));
}

/* Ask for numbers `at` to `at` + count before they are needed. */
INLINE void fetch(const char *from, int at, int count, enum dtype type)
{
    const int size = type == FP32 ? 4 : 2;
    for (int i = at * size; i < (at + count) * size; i += LINE)
        _mm_prefetch(from + i, _MM_HINT_T1);
}

/* `score` for vectors so few that to copy the keys would cost more than it saves: then reading
   them from memory is what takes time, so the next ones are fetched meanwhile. */
INLINE void score_in_place(const float *q, const struct places *places, const struct places *next,
                           float *scores, int dim, const int type, const int n)
{
    for (int j = 0; j < TILE; j += 2 * LANES) {
        __m256 sums[2][FEW];
        for (int r = 0; r < n; r++)
            sums[0][r] = sums[1][r] = _mm256_setzero_ps();
        for (int m = 0; m < 2 * LANES; m++)
            fetch(next->k[j + m], 0, dim, type);
        for (int i = 0; i < dim; i += LANES)
            for (int half = 0; half < 2; half++) {
                __m256 part[LANES];
                for (int m = 0; m < LANES; m++)
                    part[m] = load8(places->k[j + half * LANES + m], i, type);
                transpose8(part);
                for (int m = 0; m < LANES; m++)
                    for (int r = 0; r < n; r++)
                        sums[half][r] = _mm256_fmadd_ps(_mm256_broadcast_ss(q + r * dim + i + m),
                                                        part[m], sums[half][r]);
            }
        for (int r = 0; r < n; r++) {
            _mm256_store_ps(scores + r * TILE + j, sums[0][r]);
            _mm256_store_ps(scores + r * TILE + j + LANES, sums[1][r]);
        }
    }
}

/* Eight times `wide` of the dimensions of `weigh_in_place`. */
INLINE void weigh_part(const float *weights, const struct places *places,
                       const struct places *next, const float *shrink, float *out, int dim, int i,
                       const int type, const int n, const int wide)
{
    __m256 sums[FEW][4];
    for (int r = 0; r < n; r++)
        for (int w = 0; w < wide; w++)
            sums[r][w] = _mm256_mul_ps(_mm256_load_ps(out + r * dim + i + w * LANES),
                                       _mm256_broadcast_ss(shrink + r));
    for (int j = 0; j < TILE; j++) {
        __m256 value[4];
        fetch(next->v[j], i, wide * LANES, type);
        for (int w = 0; w < wide; w++)
            value[w] = load8(places->v[j], i + w * LANES, type);
        for (int r = 0; r < n; r++) {
            __m256 weight = _mm256_broadcast_ss(weights + r * TILE + j);
            for (int w = 0; w < wide; w++)
                sums[r][w] = _mm256_fmadd_ps(weight, value[w], sums[r][w]);
        }
    }
    for (int r = 0; r < n; r++)
        for (int w = 0; w < wide; w++)
            _mm256_store_ps(out + r * dim + i + w * LANES, sums[r][w]);
}

/* `weigh` for them. */
INLINE void weigh_in_place(const float *weights, const struct places *places,
                           const struct places *next, const float *shrink, float *out, int dim,
                           const int type, const int n)
{
    int i = 0;
    for (; i + 4 * LANES <= dim; i += 4 * LANES)
        weigh_part(weights, places, next, shrink, out, dim, i, type, n, 4);
    for (; i < dim; i += LANES)
        weigh_part(weights, places, next, shrink, out, dim, i, type, n, 1);
}

/* scores[n][j] = q[n] . k[j] */
INLINE void score(const float *q, const float *k, float *scores, int dim, const int n)
{
    for (int j = 0; j < TILE; j += 2 * LANES) {
        __m256 sums[BLOCK][2];
        for (int r = 0; r < n; r++)
            sums[r][0] = sums[r][1] = _mm256_setzero_ps();
        for (int i = 0; i < dim; i++) {
            __m256 left = _mm256_load_ps(k + i * TILE + j);
            __m256 right = _mm256_load_ps(k + i * TILE + j + LANES);
            for (int r = 0; r < n; r++) {
                __m256 each = _mm256_broadcast_ss(q + r * dim + i);
                sums[r][0] = _mm256_fmadd_ps(each, left, sums[r][0]);
                sums[r][1] = _mm256_fmadd_ps(each, right, sums[r][1]);
            }
        }
        for (int r = 0; r < n; r++) {
            _mm256_store_ps(scores + r * TILE + j, sums[r][0]);
            _mm256_store_ps(scores + r * TILE + j + LANES, sums[r][1]);
        }
    }
}

/* out[n] = out[n] * shrink[n] + sum of weights[n][j] * v[j] */
INLINE void weigh(const float *weights, const float *v, const float *shrink, float *out, int dim,
                  const int n)
{
    int i = 0;
    for (; i + 2 * LANES <= dim; i += 2 * LANES) {
        __m256 sums[BLOCK][2];
        for (int r = 0; r < n; r++) {
            __m256 by = _mm256_broadcast_ss(shrink + r);
            sums[r][0] = _mm256_mul_ps(_mm256_load_ps(out + r * dim + i), by);
            sums[r][1] = _mm256_mul_ps(_mm256_load_ps(out + r * dim + i + LANES), by);
        }
        for (int j = 0; j < TILE; j++) {
            __m256 left = _mm256_load_ps(v + j * dim + i);
            __m256 right = _mm256_load_ps(v + j * dim + i + LANES);
            for (int r = 0; r < n; r++) {
                __m256 each = _mm256_broadcast_ss(weights + r * TILE + j);
                sums[r][0] = _mm256_fmadd_ps(each, left, sums[r][0]);
                sums[r][1] = _mm256_fmadd_ps(each, right, sums[r][1]);
            }
        }
        for (int r = 0; r < n; r++) {
            _mm256_store_ps(out + r * dim + i, sums[r][0]);
            _mm256_store_ps(out + r * dim + i + LANES, sums[r][1]);
        }
    }
    for (; i < dim; i += LANES) /* half of the above is left */
        for (int r = 0; r < n; r++) {
            __m256 sum = _mm256_mul_ps(_mm256_load_ps(out + r * dim + i),
                                       _mm256_broadcast_ss(shrink + r));
            for (int j = 0; j < TILE; j++)
                sum = _mm256_fmadd_ps(_mm256_broadcast_ss(weights + r * TILE + j),
                                      _mm256_load_ps(v + j * dim + i), sum);
            _mm256_store_ps(out + r * dim + i, sum);
        }
}

/* Scores become weights, in place.  Only keys from `first` up to `end` are seen.  Returns by how
   much all that was summed before shrinks. */
INLINE float soften(float *scores, int first, int end, float *peak, float *total)
{
    for (int j = 0; j < TILE && (first > 0 || end < TILE); j++)
        if (j < first || j >= end)
            scores[j] = -INFINITY;
    __m256 most = _mm256_load_ps(scores);
    for (int j = LANES; j < TILE; j += LANES)
        most = _mm256_max_ps(most, _mm256_load_ps(scores + j));
    float now = fmaxf(*peak, max_of(most));
    if (now == -INFINITY) { /* nothing seen yet: no weight, and nothing to shrink */
        memset(scores, 0, TILE * sizeof(float));
        return 1.0f;
    }
    __m256 by = _mm256_set1_ps(now), sum = _mm256_setzero_ps();
    for (int j = 0; j < TILE; j += LANES) {
        __m256 weight = exp_of(_mm256_sub_ps(_mm256_load_ps(scores + j), by));
        _mm256_store_ps(scores + j, weight);
        sum = _mm256_add_ps(sum, weight);
    }
    float shrink = _mm256_cvtss_f32(exp_of(_mm256_set1_ps(*peak - now)));
    *total = *total * shrink + sum_of(sum);
    *peak = now;
    return shrink;
}
