/* What the products share: a panel of the packed weight is as wide as registers can hold. */

#pragma once

#include "simd.h"
#include "team.h"

#define COLUMNS 16 /* of the result, held in registers for ROWS rows at a time */
#define ROWS 6
#define LINE 64    /* bytes of a line of cache */

/* A product, cut into tasks: so many rows, by columns of few panels, that the panel after the one at
   work is mostly the same thread's, and yet no thread waits long for the last. */
#define AT_ONCE 4
#define SHARES 16

struct tiling {
    int32_t rows, outputs, high, wide, across, tasks; /* across: tasks side by side */
};

struct tile {
    struct part rows, columns;
};

INLINE int at_most(int x, int limit)
{
    return x < limit ? x : limit;
}

INLINE struct tiling cut(int rows, int high, int outputs)
{
    const int panels = (outputs + COLUMNS - 1) / COLUMNS;
    const int few = panels < SHARES ? 1 : at_most(panels / SHARES, AT_ONCE);
    const int across = (panels + few - 1) / few;
    return (struct tiling){rows, outputs, high, few * COLUMNS, across,
                           across * ((rows + high - 1) / high)};
}

INLINE struct tile tile_of(const struct tiling *of, int task)
{
    const int row = task / of->across * of->high, column = task % of->across * of->wide;
    return (struct tile){{row, at_most(row + of->high, of->rows)},
                         {column, at_most(column + of->wide, of->outputs)}};
}

/* What each sum is to become. */
struct result {
    const float *bias; /* [outputs, rounded up to COLUMNS], or null */
    float *out;        /* [rows][outputs] */
    int32_t outputs;
};

/* While a panel is multiplied with block after block of rows, the one after it comes nearer: some
   lines of it with each block. */
struct ahead {
    const char *from;
    int64_t lines;
};

INLINE struct ahead share(const void *panel, int64_t bytes, int is_last, int row, int rows)
{
    const int64_t lines = is_last ? 0 : bytes / LINE;
    const int64_t blocks = (rows + ROWS - 1) / ROWS, each = (lines + blocks - 1) / blocks;
    const int64_t done = row / ROWS * each;
    const int64_t left = done < lines ? lines - done : 0;
    return (struct ahead){(const char *)panel + bytes + done * LINE, each < left ? each : left};
}

/* One row's sums of the panel that begins at column `from`. */
INLINE void store(const struct result *result, const __m256 sums[2], int64_t row, int from)
{
    float edge[COLUMNS];
    const float *bias = result->bias;
    float *out = result->out + row * result->outputs + from;
    const int whole = from + COLUMNS <= result->outputs;
    float *to = whole ? out : edge;
    for (int half = 0; half < 2; half++) {
        __m256 sum = sums[half];
        if (bias)
            sum = _mm256_add_ps(sum, _mm256_loadu_ps(bias + from + half * LANES));
        _mm256_storeu_ps(to + half * LANES, sum);
    }
    if (!whole)
        memcpy(out, edge, (result->outputs - from) * sizeof(float));
}
