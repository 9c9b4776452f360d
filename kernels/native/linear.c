/* Products with a weight matrix, packed for them once.

   Each number of the result is one sum in the order of its terms: it does not depend on how many
   rows there are, nor on the others. */

#include "product.h"

#define CACHE 131072 /* bytes of x that are worked on while the whole weight passes by */

/* packed: [outputs / COLUMNS, rounded up][inputs][COLUMNS]; what is beyond the weight is zero. */
void gm_pack(const struct product *product, const float *weight, float *packed)
{
    const int64_t inputs = product->inputs;
#pragma omp parallel for num_threads(product->threads)
    for (int from = 0; from < product->outputs; from += COLUMNS)
        for (int64_t k = 0; k < inputs; k++)
            for (int n = 0; n < COLUMNS; n++)
                packed[from * inputs + k * COLUMNS + n] =
                    from + n < product->outputs ? weight[(from + n) * inputs + k] : 0.0f;
}

/* Some rows of x with one panel.  out: the first of them, whole rows. */
INLINE void multiply(const struct product *product, const float *x, const float *panel,
                     const float *bias, float *out, int from, struct ahead ahead, const int rows)
{
    const int64_t inputs = product->inputs;
    __m256 sums[ROWS][2];
    for (int r = 0; r < rows; r++)
        sums[r][0] = sums[r][1] = _mm256_setzero_ps();
    for (int64_t k = 0; k < inputs; k++) {
        __m256 left = _mm256_loadu_ps(panel + k * COLUMNS);
        __m256 right = _mm256_loadu_ps(panel + k * COLUMNS + LANES);
        if (k < ahead.lines)
            _mm_prefetch(ahead.from + k * LINE, _MM_HINT_T1);
        for (int r = 0; r < rows; r++) {
            __m256 each = _mm256_broadcast_ss(x + r * inputs + k);
            sums[r][0] = _mm256_fmadd_ps(each, left, sums[r][0]);
            sums[r][1] = _mm256_fmadd_ps(each, right, sums[r][1]);
        }
    }
    for (int r = 0; r < rows; r++)
        store(product, sums[r], bias, out + (int64_t)r * product->outputs, from);
}

static void multiply_panel(const struct product *product, const float *x, const float *panel,
                           const float *bias, float *out, int rows, int from)
{
    const int64_t inputs = product->inputs, bytes = inputs * COLUMNS * sizeof(float);
    for (int row = 0; row < rows; row += ROWS) {
        const float *here = x + row * inputs;
        float *to = out + (int64_t)row * product->outputs;
        struct ahead ahead = share(product, panel, bytes, from, row, rows);
#define SOME(n) case n: multiply(product, here, panel, bias, to, from, ahead, n); break;
        switch (rows - row < ROWS ? rows - row : ROWS) {
            SOME(1) SOME(2) SOME(3) SOME(4) SOME(5) SOME(6)
        }
    }
}

/* bias: [outputs, rounded up to COLUMNS], or null. */
void gm_linear(const struct product *product, const float *x, const float *packed,
               const float *bias, float *out)
{
    const int64_t inputs = product->inputs, outputs = product->outputs;
    const int fitting = CACHE / (int)sizeof(float) / product->inputs / ROWS * ROWS;
    const int at_once = fitting > ROWS ? fitting : ROWS;
#pragma omp parallel num_threads(product->threads)
    for (int row = 0; row < product->rows; row += at_once) {
        const int rows = product->rows - row < at_once ? product->rows - row : at_once;
#pragma omp for schedule(dynamic, 4) nowait
        for (int from = 0; from < product->outputs; from += COLUMNS)
            multiply_panel(product, x + row * inputs, packed + from * inputs, bias,
                           out + row * outputs, rows, from);
    }
}
