/* Products with a weight matrix of int8, a scale for each of its rows.

   Rows of x become int16 by a scale of their own, so no row depends on another.  Pairs of products
   are summed in int32, exactly: `limit`, the largest number of a row, is such that no sum can
   overflow.  Beside int8, which would need the same number of multiplications, int16 costs nothing
   and loses next to nothing. */

#include "product.h"

#define PAIR 2 /* neighbouring inputs, which one instruction multiplies and adds */

/* packed: [outputs / COLUMNS, rounded up][inputs / PAIR][COLUMNS][PAIR]; scales: [outputs, rounded
   up].  What is beyond the weight is zero. */
void gm_pack_int8(const struct product *product, const float *weight, int8_t *packed,
                  float *scales)
{
    const int64_t inputs = product->inputs;
#pragma omp parallel for num_threads(product->threads)
    for (int64_t n = 0; n < (product->outputs + COLUMNS - 1) / COLUMNS * COLUMNS; n++) {
        const float *row = weight + n * inputs;
        const int real = n < product->outputs;
        float most = 0.0f;
        for (int64_t k = 0; real && k < inputs; k++)
            most = fmaxf(most, fabsf(row[k]));
        scales[n] = most / 127.0f;
        int8_t *to = packed + n / COLUMNS * COLUMNS * inputs + n % COLUMNS * PAIR;
        for (int64_t k = 0; k < inputs; k++)
            to[k / PAIR * COLUMNS * PAIR + k % PAIR] =
                most > 0.0f ? (int8_t)lrintf(row[k] / most * 127.0f) : 0;
    }
}

/* One row to int16.  Returns what a unit of it is worth. */
static float narrow(const float *x, int16_t *out, int64_t inputs, int limit)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    __m256 most = _mm256_setzero_ps();
    for (int64_t k = 0; k < inputs; k += LANES)
        most = _mm256_max_ps(most, _mm256_andnot_ps(sign, _mm256_loadu_ps(x + k)));
    float peak = max_of(most);
    __m256 by = _mm256_set1_ps(peak > 0.0f ? limit / peak : 0.0f);
    for (int64_t k = 0; k < inputs; k += 2 * LANES) {
        __m256i left = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + k), by));
        __m256i right = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + k + LANES), by));
        __m256i both = _mm256_permute4x64_epi64(_mm256_packs_epi32(left, right), 0xd8);
        _mm256_storeu_si256((__m256i *)(out + k), both);
    }
    return peak / limit;
}

/* What the rows are multiplied with, and what a unit of the result is worth. */
struct weight {
    const int8_t *packed;
    const float *scales, *bias;
};

/* Some rows of x with one panel.  units: of the rows; out: the first of them, whole rows. */
INLINE void multiply(const struct product *product, const int16_t *x, const float *units,
                     const struct weight *weight, float *out, int from, struct ahead ahead,
                     const int rows)
{
    const int64_t inputs = product->inputs;
    const int8_t *panel = weight->packed + from * inputs;
    __m256i sums[ROWS][2];
    for (int r = 0; r < rows; r++)
        sums[r][0] = sums[r][1] = _mm256_setzero_si256();
    for (int64_t k = 0; k < inputs; k += PAIR) {
        const __m128i *here = (const __m128i *)(panel + k * COLUMNS);
        __m256i left = _mm256_cvtepi8_epi16(_mm_loadu_si128(here));
        __m256i right = _mm256_cvtepi8_epi16(_mm_loadu_si128(here + 1));
        if (k < ahead.lines * PAIR)
            _mm_prefetch(ahead.from + k / PAIR * LINE, _MM_HINT_T1);
        for (int r = 0; r < rows; r++) {
            int32_t pair;
            memcpy(&pair, x + r * inputs + k, sizeof(pair));
            __m256i both = _mm256_set1_epi32(pair);
            sums[r][0] = _mm256_add_epi32(sums[r][0], _mm256_madd_epi16(both, left));
            sums[r][1] = _mm256_add_epi32(sums[r][1], _mm256_madd_epi16(both, right));
        }
    }
    for (int r = 0; r < rows; r++) {
        __m256 scaled[2], unit = _mm256_broadcast_ss(units + r);
        for (int half = 0; half < 2; half++)
            scaled[half] = _mm256_mul_ps(
                _mm256_cvtepi32_ps(sums[r][half]),
                _mm256_mul_ps(_mm256_loadu_ps(weight->scales + from + half * LANES), unit));
        store(product, scaled, weight->bias, out + (int64_t)r * product->outputs, from);
    }
}

static void multiply_panel(const struct product *product, const int16_t *x, const float *units,
                           const struct weight *weight, float *out, int from)
{
    const int64_t inputs = product->inputs;
    for (int row = 0; row < product->rows; row += ROWS) {
        const int16_t *here = x + row * inputs;
        float *to = out + (int64_t)row * product->outputs;
        struct ahead ahead = share(product, weight->packed + from * inputs, inputs * COLUMNS, from,
                                   row, product->rows);
#define SOME(n) case n: multiply(product, here, units + row, weight, to, from, ahead, n); break;
        switch (product->rows - row < ROWS ? product->rows - row : ROWS) {
            SOME(1) SOME(2) SOME(3) SOME(4) SOME(5) SOME(6)
        }
    }
}

/* narrowed: [rows, inputs] and units: [rows], scratch; bias: [outputs, rounded up to COLUMNS], or
   null. */
void gm_linear_int8(const struct product *product, const float *x, const int8_t *packed,
                    const float *scales, const float *bias, int16_t *narrowed, float *units,
                    float *out)
{
    const int64_t inputs = product->inputs;
    const struct weight weight = {packed, scales, bias};
#pragma omp parallel num_threads(product->threads)
    {
#pragma omp for
        for (int row = 0; row < product->rows; row++)
            units[row] = narrow(x + row * inputs, narrowed + row * inputs, inputs, product->limit);
#pragma omp for schedule(dynamic, 4)
        for (int from = 0; from < product->outputs; from += COLUMNS)
            multiply_panel(product, narrowed, units, &weight, out, from);
    }
}
