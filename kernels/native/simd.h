/* What the kernels share: eight floats at a time, by AVX2 and FMA. */

#pragma once

#include <float.h>
#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define LANES 8

enum dtype { FP32 = 0, FP16 = 1 };

INLINE float sum_of(__m256 x)
{
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

INLINE float max_of(__m256 x)
{
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

/* e**x for x <= 88, within 2 units in the last place; exactly 0 for what is below -87, also -inf;
   NaN of NaN.
   x = n ln 2 + r with |r| <= ln 2 / 2; ln 2 in two parts, so that r loses nothing; e**r by its
   Taylor polynomial of degree 7, whose rest is below 1e-8. */
INLINE __m256 exp_of(__m256 x)
{
    const __m256 lowest = _mm256_set1_ps(-87.0f);
    __m256 kept = _mm256_cmp_ps(x, lowest, _CMP_NLT_UQ);
    x = _mm256_max_ps(lowest, x); /* in this order NaN stays */
    __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504f)),
                               _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693359375f), x);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(-2.12194440e-4f), r);
    __m256 y = _mm256_set1_ps(1.0f / 5040);
    y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(1.0f / 720));
    y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(1.0f / 120));
    y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(1.0f / 24));
    y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(1.0f / 6));
    y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(0.5f));
    y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(1.0f));
    y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(1.0f));
    __m256i power = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
    y = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(y), power));
    return _mm256_and_ps(y, kept);
}

/* Eight numbers, or one, from index `at` on. */
INLINE __m256 load8(const void *from, int64_t at, enum dtype type)
{
    if (type == FP32)
        return _mm256_loadu_ps((const float *)from + at);
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)((const uint16_t *)from + at)));
}

INLINE float load1(const void *from, int64_t at, enum dtype type)
{
    return type == FP32 ? ((const float *)from)[at] : _cvtsh_ss(((const uint16_t *)from)[at]);
}
