/* What is done to each row of a step by itself.  Sizes are multiples of eight. */

#include "simd.h"
#include "team.h"

/* heads: rows of a token, side by side; stride: from token to token. */
struct rms_norm {
    const float *x, *weight;
    float *out;
    int32_t heads, size, stride;
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

void gm_rms_norm(struct member *me, int32_t rows, const struct rms_norm *of)
{
    const struct part mine = part_of(me, rows);
    for (int64_t token = mine.from; token < mine.to; token++)
        for (int head = 0; head < of->heads; head++)
            normalise(of->x + token * of->stride + head * of->size, of->weight,
                      of->out + (token * of->heads + head) * of->size, of->size, of->eps);
}

struct add_rms_norm {
    const float *x, *residual, *weight;
    float *out, *total;
    int32_t size;
    float eps;
};

void gm_add_rms_norm(struct member *me, int32_t rows, const struct add_rms_norm *of)
{
    const struct part mine = part_of(me, rows);
    for (int64_t row = mine.from; row < mine.to; row++) {
        const float *x = of->x + row * of->size, *residual = of->residual + row * of->size;
        float *sum = of->total + row * of->size;
        for (int i = 0; i < of->size; i += LANES)
            _mm256_storeu_ps(sum + i,
                             _mm256_add_ps(_mm256_loadu_ps(x + i), _mm256_loadu_ps(residual + i)));
        normalise(sum, of->weight, of->out + row * of->size, of->size, of->eps);
    }
}

/* gate and up side by side in a row; size: of each. */
struct gate {
    const float *gate_up;
    float *out;
    int32_t size;
};

/* x / (1 + e**-a) */
INLINE __m256 times_sigmoid(__m256 x, __m256 a)
{
    const __m256 one = _mm256_set1_ps(1.0f), most = _mm256_set1_ps(88.0f);
    __m256 minus = _mm256_min_ps(_mm256_sub_ps(_mm256_setzero_ps(), a), most);
    return _mm256_div_ps(x, _mm256_add_ps(one, exp_of(minus)));
}

INLINE __m256 silu(__m256 x)
{
    return times_sigmoid(x, x);
}

/* By the hyperbolic tangent: x (1 + tanh(a)) / 2, and (1 + tanh(a)) / 2 is the sigmoid of 2a. */
INLINE __m256 gelu(__m256 x)
{
    const __m256 linear = _mm256_set1_ps(1.5957691f), cubic = _mm256_set1_ps(0.07135482f);
    __m256 square = _mm256_mul_ps(x, x);
    return times_sigmoid(x, _mm256_mul_ps(x, _mm256_fmadd_ps(square, cubic, linear)));
}

INLINE void open_gates(struct member *me, int32_t rows, const struct gate *of,
                       __m256 (*const activation)(__m256))
{
    const int size = of->size;
    const struct part mine = part_of(me, rows);
    for (int64_t row = mine.from; row < mine.to; row++) {
        const float *gates = of->gate_up + 2 * row * size, *ups = gates + size;
        for (int i = 0; i < size; i += LANES)
            _mm256_storeu_ps(of->out + row * size + i,
                             _mm256_mul_ps(activation(_mm256_loadu_ps(gates + i)),
                                           _mm256_loadu_ps(ups + i)));
    }
}

void gm_silu_mul(struct member *me, int32_t rows, const struct gate *of)
{
    open_gates(me, rows, of, silu);
}

void gm_gelu_mul(struct member *me, int32_t rows, const struct gate *of)
{
    open_gates(me, rows, of, gelu);
}

/* stride: from token to token, in floats; cos_sin: [positions, dim], cosines, then sines. */
struct rotate {
    const float *x, *cos_sin;
    const int64_t *positions;
    float *out;
    int32_t heads, dim, stride;
};

void gm_rotate(struct member *me, int32_t rows, const struct rotate *of)
{
    const int dim = of->dim, half = dim / 2;
    const struct part mine = part_of(me, rows);
    for (int64_t token = mine.from; token < mine.to; token++) {
        const float *cos = of->cos_sin + of->positions[token] * dim, *sin = cos + half;
        for (int head = 0; head < of->heads; head++) {
            const float *from = of->x + token * of->stride + head * dim;
            float *to = of->out + (token * of->heads + head) * dim;
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

/* K's blocks are [heads][dim][block_size], V's [heads][block_size][dim]: what a token's query meets
   side by side lies side by side.  *_stride: from token to token; type: of the caches. */
struct store {
    const float *k, *v;
    const int64_t *slots;
    void *k_cache, *v_cache;
    int32_t heads, dim, block_size, num_blocks, k_stride, v_stride, type;
};

/* Whether the cache can hold every number: NaN is none, and infinity neither. */
INLINE int can_hold(const float *x, int size, enum dtype type)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    const __m256 limit = _mm256_set1_ps(type == FP32 ? FLT_MAX : 65504.0f);
    __m256 all = _mm256_castsi256_ps(_mm256_set1_epi32(-1));
    for (int i = 0; i < size; i += LANES) {
        __m256 each = _mm256_andnot_ps(sign, _mm256_loadu_ps(x + i));
        all = _mm256_and_ps(all, _mm256_cmp_ps(each, limit, _CMP_LE_OQ));
    }
    return _mm256_movemask_ps(all) == 0xff;
}

INLINE void put1(void *to, int64_t at, float x, enum dtype type)
{
    if (type == FP32)
        ((float *)to)[at] = x;
    else
        ((uint16_t *)to)[at] = _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT);
}

INLINE void put8(void *to, int64_t at, __m256 x, enum dtype type)
{
    if (type == FP32)
        _mm256_storeu_ps((float *)to + at, x);
    else
        _mm_storeu_si128((__m128i *)((uint16_t *)to + at),
                         _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

/* A negative slot is none.  Where a head has what the cache cannot hold, its K becomes NaN and its V
   zero: who sees it gets NaN, and who does not a weight of 0, times which NaN would be NaN. */
void gm_store(struct member *me, int32_t rows, const struct store *of)
{
    const int dim = of->dim, size = of->block_size;
    const struct part mine = part_of(me, rows);
    for (int64_t token = mine.from; token < mine.to; token++) {
        const int64_t block = of->slots[token] / size, offset = of->slots[token] % size;
        const int within = block < of->num_blocks;
        if (!within)
            atomic_store_explicit(&me->team->astray, 1, memory_order_relaxed);
        for (int head = 0; within && of->slots[token] >= 0 && head < of->heads; head++) {
            const float *k = of->k + token * of->k_stride + head * dim;
            const float *v = of->v + token * of->v_stride + head * dim;
            const int64_t at = (block * of->heads + head) * size * dim;
            const int held = can_hold(k, dim, of->type) && can_hold(v, dim, of->type);
            for (int i = 0; i < dim; i++)
                put1(of->k_cache, at + (int64_t)i * size + offset, held ? k[i] : NAN, of->type);
            for (int i = 0; i < dim; i += LANES)
                put8(of->v_cache, at + offset * dim + i,
                     held ? _mm256_loadu_ps(v + i) : _mm256_setzero_ps(), of->type);
        }
    }
}
