/* What the products share: a panel of the packed weight is as wide as registers can hold. */

#pragma once

#include "simd.h"

#define COLUMNS 16 /* of the result, held in registers for ROWS rows at a time */
#define ROWS 6
#define LINE 64    /* bytes of a line of cache */

/* limit: the largest number of a row in int16. */
struct product {
    int32_t rows, inputs, outputs, threads, limit;
};

/* While a panel is multiplied with block after block of rows, the one after it comes nearer: some
   lines of it with each block. */
struct ahead {
    const char *from;
    int64_t lines;
};

INLINE struct ahead share(const struct product *product, const void *panel, int64_t bytes,
                          int from, int row, int rows)
{
    const int64_t lines = from + COLUMNS < product->outputs ? bytes / LINE : 0;
    const int64_t blocks = (rows + ROWS - 1) / ROWS, each = (lines + blocks - 1) / blocks;
    const int64_t done = row / ROWS * each;
    const int64_t left = done < lines ? lines - done : 0;
    return (struct ahead){(const char *)panel + bytes + done * LINE, each < left ? each : left};
}

/* One row's numbers of a panel; out: the whole row. */
INLINE void store(const struct product *product, const __m256 sums[2], const float *bias,
                  float *out, int from)
{
    float edge[COLUMNS];
    const int whole = from + COLUMNS <= product->outputs;
    float *to = whole ? out + from : edge;
    for (int half = 0; half < 2; half++) {
        __m256 sum = sums[half];
        if (bias)
            sum = _mm256_add_ps(sum, _mm256_loadu_ps(bias + from + half * LANES));
        _mm256_storeu_ps(to + half * LANES, sum);
    }
    if (!whole)
        memcpy(out + from, edge, (product->outputs - from) * sizeof(float));
}
