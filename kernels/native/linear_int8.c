/* Products with a weight matrix of int8, a scale for each of its rows.

   Rows of x become int16 by a scale of their own, so no row depends on another.  Pairs of products
   are summed in int32, exactly: `limit`, the largest number of a row, is such that no sum can
   overflow.  Beside int8, which would need the same number of multiplications, int16 costs nothing
   and loses next to nothing. */

#include "product.h"

#define PAIR 2 /* neighbouring inputs, which one instruction multiplies and adds */

/* packed: [outputs / COLUMNS, rounded up][inputs / PAIR][COLUMNS][PAIR]; scales: [outputs, rounded
   up].  What is beyond the weight is zero. */
struct pack_int8 {
    const float *weight;
    int8_t *packed;
    float *scales;
    int32_t inputs, outputs;
};

void gm_pack_int8(struct member *me, int32_t panels, const struct pack_int8 *of)
{
    const int64_t inputs = of->inputs;
    const struct part mine = part_of(me, panels);
    for (int64_t n = mine.from * COLUMNS; n < mine.to * COLUMNS; n++) {
        const float *row = of->weight + n * inputs;
        const int real = n < of->outputs;
        float most = 0.0f;
        for (int64_t k = 0; real && k < inputs; k++)
            most = fmaxf(most, fabsf(row[k]));
        of->scales[n] = most / 127.0f;
        int8_t *to = of->packed + n / COLUMNS * COLUMNS * inputs + n % COLUMNS * PAIR;
        for (int64_t k = 0; k < inputs; k++)
            to[k / PAIR * COLUMNS * PAIR + k % PAIR] =
                most > 0.0f ? (int8_t)lrintf(row[k] / most * 127.0f) : 0;
    }
}

/* One row to int16.  Returns what a unit of it is worth: NaN if any of it is not finite. */
static float narrow(const float *x, int16_t *out, int64_t inputs, int limit)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    __m256 most = _mm256_setzero_ps(), nothing = _mm256_setzero_ps();
    for (int64_t k = 0; k < inputs; k += LANES) {
        __m256 each = _mm256_loadu_ps(x + k);
        most = _mm256_max_ps(most, _mm256_andnot_ps(sign, each));
        nothing = _mm256_fmadd_ps(each, _mm256_setzero_ps(), nothing);
    }
    float peak = max_of(most);
    __m256 by = _mm256_set1_ps(peak > 0.0f ? limit / peak : 0.0f);
    for (int64_t k = 0; k < inputs; k += 2 * LANES) {
        __m256i left = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + k), by));
        __m256i right = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + k + LANES), by));
        __m256i both = _mm256_permute4x64_epi64(_mm256_packs_epi32(left, right), 0xd8);
        _mm256_storeu_si256((__m256i *)(out + k), both);
    }
    return peak / limit + sum_of(nothing);
}

/* limit: the largest number of a row in int16; narrowed: [rows][inputs] and units: [rows], of x,
   scratch. */
struct linear_int8 {
    const float *x;
    const int8_t *packed;
    const float *scales;
    int16_t *narrowed;
    float *units;
    struct result result;
    int32_t inputs, limit;
};

/* Some rows with the panel that begins at column `from`. */
INLINE void multiply(const struct linear_int8 *of, int64_t row, int from, struct ahead ahead,
                     const int rows)
{
    const int64_t inputs = of->inputs;
    const int16_t *x = of->narrowed + row * inputs;
    const int8_t *panel = of->packed + from * inputs;
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
        __m256 scaled[2], unit = _mm256_broadcast_ss(of->units + row + r);
        for (int half = 0; half < 2; half++)
            scaled[half] = _mm256_mul_ps(
                _mm256_cvtepi32_ps(sums[r][half]),
                _mm256_mul_ps(_mm256_loadu_ps(of->scales + from + half * LANES), unit));
        store(&of->result, scaled, row + r, from);
    }
}

static void multiply_panel(const struct linear_int8 *of, int rows, int from)
{
    const int64_t bytes = (int64_t)of->inputs * COLUMNS;
    const int8_t *panel = of->packed + from * (int64_t)of->inputs;
    for (int row = 0; row < rows; row += ROWS) {
        struct ahead ahead = share(panel, bytes, from + COLUMNS >= of->result.outputs, row, rows);
#define SOME(n) case n: multiply(of, row, from, ahead, n); break;
        switch (at_most(rows - row, ROWS)) {
            SOME(1) SOME(2) SOME(3) SOME(4) SOME(5) SOME(6)
        }
    }
}

void gm_linear_int8(struct member *me, int32_t rows, const struct linear_int8 *of)
{
    const int64_t inputs = of->inputs;
    const struct part mine = part_of(me, rows);
    for (int64_t row = mine.from; row < mine.to; row++)
        of->units[row] =
            narrow(of->x + row * inputs, of->narrowed + row * inputs, inputs, of->limit);
    wait_for_all(me);
    const struct tiling tiling = cut(rows, rows ? rows : 1, of->result.outputs);
    for (int task; (task = next_task(me)) < tiling.tasks;) {
        const struct part columns = tile_of(&tiling, task).columns;
        for (int from = columns.from; from < columns.to; from += COLUMNS)
            multiply_panel(of, rows, from);
    }
}
