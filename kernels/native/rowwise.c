/* What is done to each row of a step by itself.  Sizes are multiples of eight. */

#include "simd.h"

/* Rows so few that to wake the other threads would take longer than they save. */
#define ALONE 8

struct rows {
    int32_t count, size, threads;
    float eps;
};

INLINE float inverse_rms(const float *x, int size, float eps)
{
    __m256 squares = _mm256_setzero_ps();
    for (int i = 0; i < size; i += LANES) {
        __m256 each = _mm256_loadu_ps(x + i);
        squares = _mm256_fmadd_ps(each, each, squares);
    }
    return 1.0f / sqrtf(sum_of(squares) / size + eps);
}

INLINE void normalise(const float *x, const float *weight, float *out, int size, float eps)
{
    __m256 by = _mm256_set1_ps(inverse_rms(x, size, eps));
    for (int i = 0; i < size; i += LANES) {
        __m256 each = _mm256_mul_ps(_mm256_loadu_ps(x + i), by);
        _mm256_storeu_ps(out + i, _mm256_mul_ps(each, _mm256_loadu_ps(weight + i)));
    }
}

void gm_rms_norm(const struct rows *rows, const float *x, const float *weight, float *out)
{
#pragma omp parallel for num_threads(rows->threads) if (rows->count > ALONE)
    for (int64_t row = 0; row < rows->count; row++)
        normalise(x + row * rows->size, weight, out + row * rows->size, rows->size, rows->eps);
}

void gm_add_rms_norm(const struct rows *rows, const float *x, const float *residual,
                     const float *weight, float *out, float *total)
{
    const int size = rows->size;
#pragma omp parallel for num_threads(rows->threads) if (rows->count > ALONE)
    for (int64_t row = 0; row < rows->count; row++) {
        float *sum = total + row * size;
        for (int i = 0; i < size; i += LANES)
            _mm256_storeu_ps(sum + i, _mm256_add_ps(_mm256_loadu_ps(x + row * size + i),
                                                    _mm256_loadu_ps(residual + row * size + i)));
        normalise(sum, weight, out + row * size, size, rows->eps);
    }
}

/* gate and up side by side in a row; size: of each. */
void gm_silu_mul(const struct rows *rows, const float *gate_up, float *out)
{
    const int size = rows->size;
    const __m256 one = _mm256_set1_ps(1.0f), most = _mm256_set1_ps(88.0f);
#pragma omp parallel for num_threads(rows->threads) if (rows->count > ALONE)
    for (int64_t row = 0; row < rows->count; row++) {
        const float *gates = gate_up + 2 * row * size, *ups = gates + size;
        for (int i = 0; i < size; i += LANES) {
            __m256 gate = _mm256_loadu_ps(gates + i);
            __m256 minus = _mm256_min_ps(_mm256_sub_ps(_mm256_setzero_ps(), gate), most);
            __m256 share = _mm256_div_ps(gate, _mm256_add_ps(one, exp_of(minus)));
            _mm256_storeu_ps(out + row * size + i,
                             _mm256_mul_ps(share, _mm256_loadu_ps(ups + i)));
        }
    }
}

struct heads {
    int32_t tokens, count, dim, stride, threads; /* stride: from token to token, in floats */
};

/* cos_sin: [positions, dim], cosines, then sines. */
void gm_rotate(const struct heads *heads, const float *x, const int64_t *positions,
               const float *cos_sin, float *out)
{
    const int half = heads->dim / 2;
#pragma omp parallel for num_threads(heads->threads) if (heads->tokens > ALONE)
    for (int64_t token = 0; token < heads->tokens; token++) {
        const float *cos = cos_sin + positions[token] * heads->dim, *sin = cos + half;
        for (int head = 0; head < heads->count; head++) {
            const float *from = x + token * heads->stride + head * heads->dim;
            float *to = out + (token * heads->count + head) * heads->dim;
            for (int i = 0; i < half; i += LANES) {
                __m256 c = _mm256_loadu_ps(cos + i), s = _mm256_loadu_ps(sin + i);
                __m256 left = _mm256_loadu_ps(from + i), right = _mm256_loadu_ps(from + half + i);
                _mm256_storeu_ps(to + i, _mm256_fmsub_ps(left, c, _mm256_mul_ps(right, s)));
                _mm256_storeu_ps(to + half + i,
                                 _mm256_fmadd_ps(right, c, _mm256_mul_ps(left, s)));
            }
        }
    }
}

/* One token's K or V, count * dim numbers, into its slot; a negative slot is none. */
void gm_store(const struct heads *heads, const float *x, const int64_t *slots, void *cache,
              int32_t type)
{
    const int64_t size = (int64_t)heads->count * heads->dim;
#pragma omp parallel for num_threads(heads->threads) if (heads->tokens > ALONE)
    for (int64_t token = 0; token < heads->tokens; token++) {
        const float *from = x + token * heads->stride;
        if (slots[token] < 0)
            continue;
        if (type == FP32) {
            memcpy((float *)cache + slots[token] * size, from, size * sizeof(float));
            continue;
        }
        uint16_t *to = (uint16_t *)cache + slots[token] * size;
        for (int64_t i = 0; i < size; i += LANES)
            _mm_storeu_si128((__m128i *)(to + i),
                             _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
    }
}
