/* Products with a weight matrix, packed for them once.

   Each number of the result is one sum in the order of its terms: it does not depend on how many
   rows there are, nor on the others. */

#include "product.h"

#define CACHE 131072 /* bytes of x that are worked on while the whole weight passes by */

/* packed: [outputs / COLUMNS, rounded up][inputs][COLUMNS]; what is beyond the weight is zero. */
struct pack {
    const float *weight;
    float *packed;
    int32_t inputs, outputs;
};

void gm_pack(struct member *me, int32_t panels, const struct pack *of)
{
    const int64_t inputs = of->inputs;
    const struct part mine = part_of(me, panels);
    for (int from = mine.from * COLUMNS; from < mine.to * COLUMNS; from += COLUMNS)
        for (int64_t k = 0; k < inputs; k++)
            for (int n = 0; n < COLUMNS; n++)
                of->packed[from * inputs + k * COLUMNS + n] =
                    from + n < of->outputs ? of->weight[(from + n) * inputs + k] : 0.0f;
}

struct linear {
    const float *x, *packed;
    struct result result;
    int32_t inputs;
};

/* Some rows with the panel that begins at column `from`. */
INLINE void multiply(const struct linear *of, int64_t row, int from, struct ahead ahead,
                     const int rows)
{
    const int64_t inputs = of->inputs;
    const float *x = of->x + row * inputs, *panel = of->packed + from * inputs;
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
        store(&of->result, sums[r], row + r, from);
}

static void multiply_panel(const struct linear *of, struct part rows, int from)
{
    const int64_t bytes = of->inputs * COLUMNS * sizeof(float);
    const float *panel = of->packed + (int64_t)from * of->inputs;
    for (int row = rows.from; row < rows.to; row += ROWS) {
        struct ahead ahead = share(panel, bytes, from + COLUMNS >= of->result.outputs,
                                   row - rows.from, rows.to - rows.from);
#define SOME(n) case n: multiply(of, row, from, ahead, n); break;
        switch (at_most(rows.to - row, ROWS)) {
            SOME(1) SOME(2) SOME(3) SOME(4) SOME(5) SOME(6)
        }
    }
}

void gm_linear(struct member *me, int32_t rows, const struct linear *of)
{
    const int fitting = CACHE / (int)sizeof(float) / of->inputs / ROWS * ROWS;
    const struct tiling tiling = cut(rows, fitting > ROWS ? fitting : ROWS, of->result.outputs);
    for (int task; (task = next_task(me)) < tiling.tasks;) {
        const struct tile here = tile_of(&tiling, task);
        for (int from = here.columns.from; from < here.columns.to; from += COLUMNS)
            multiply_panel(of, here.rows, from);
    }
}
