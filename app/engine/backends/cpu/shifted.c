/* Sums of shifted copies of one block of memory, each times a weight: convolution without windows laid
 * out as a matrix.
 *
 *   out[o][p] (+)= sum over k of weights[o][k] * base[offsets[k] + p]
 *
 * Owns: the loop over registers. Must not: allocate, use threads, or know Python; shifted.py says what
 * the offsets are. A tile is 8 outputs by 3 vectors: 24 sums that stay in registers for all of k, which
 * is cut so that no chain of additions is longer than PIECE. Nothing here serves class exact.
 */
#include <stddef.h>
#include <string.h>

#define OUTPUTS 8
#define VECTORS 3
#define PIECE 1024

/* A loop of one vector width. `count` is a multiple of LANES; `weights` is [outputs / 8][inner][8];
 * each of the rows of `out` has room for `count` positions. The last tile may have fewer vectors. */
#define DEFINE_LOOP(NAME, TARGET, LANES)                                                           \
  typedef float NAME##_vector __attribute__((vector_size(4 * LANES), aligned(4), may_alias));      \
  TARGET static inline __attribute__((always_inline)) void NAME##_tile(                            \
      const float *base, const ptrdiff_t *offsets, ptrdiff_t inner, const float *rows,             \
      ptrdiff_t count, float *out, const int vectors) {                                            \
    for (ptrdiff_t start = 0; start < inner; start += PIECE) {                                     \
      ptrdiff_t stop = start + PIECE < inner ? start + PIECE : inner;                              \
      NAME##_vector sums[OUTPUTS][VECTORS];                                                        \
      memset(sums, 0, sizeof sums);                                                                \
      for (ptrdiff_t k = start; k < stop; k++) {                                                   \
        const float *source = base + offsets[k];                                                   \
        const float *weight = rows + k * OUTPUTS;                                                  \
        NAME##_vector value[VECTORS];                                                              \
        _Pragma("GCC unroll 8") for (int v = 0; v < vectors; v++) value[v] =                       \
            *(const NAME##_vector *)(source + v * LANES);                                          \
        _Pragma("GCC unroll 8") for (int o = 0; o < OUTPUTS; o++)                                  \
          _Pragma("GCC unroll 8") for (int v = 0; v < vectors; v++) sums[o][v] +=                  \
            weight[o] * value[v];                                                                  \
      }                                                                                            \
      _Pragma("GCC unroll 8") for (int o = 0; o < OUTPUTS; o++)                                    \
        _Pragma("GCC unroll 8") for (int v = 0; v < vectors; v++) {                                \
          NAME##_vector *there = (NAME##_vector *)(out + o * count + v * LANES);                   \
          if (start) sums[o][v] += *there;                                                         \
          *there = sums[o][v];                                                                     \
        }                                                                                          \
    }                                                                                              \
  }                                                                                                \
  TARGET static void NAME(const float *base, const ptrdiff_t *offsets, ptrdiff_t inner,            \
                          const float *weights, ptrdiff_t outputs, ptrdiff_t count, float *out) {  \
    const ptrdiff_t across = (count + VECTORS * LANES - 1) / (VECTORS * LANES);                    \
    const ptrdiff_t down = outputs / OUTPUTS;                                                      \
    for (ptrdiff_t tile = 0; tile < across * down; tile++) {                                       \
      /* What is larger, weights or data, is gone through once. */                                 \
      const int weights_once = 4 * outputs > count;                                                \
      ptrdiff_t first = OUTPUTS * (weights_once ? tile / across : tile % down);                    \
      ptrdiff_t place = VECTORS * LANES * (weights_once ? tile % across : tile / down);            \
      const float *rows = weights + first * inner;                                                 \
      float *target = out + first * count + place;                                                 \
      switch ((count - place) / LANES) {                                                           \
        case 1: NAME##_tile(base + place, offsets, inner, rows, count, target, 1); break;          \
        case 2: NAME##_tile(base + place, offsets, inner, rows, count, target, 2); break;          \
        default: NAME##_tile(base + place, offsets, inner, rows, count, target, 3);                \
      }                                                                                            \
    }                                                                                              \
  }

DEFINE_LOOP(plain, , 4)
#if defined(__x86_64__) && defined(__GNUC__)
DEFINE_LOOP(wide, __attribute__((target("avx512f"))), 16)
/* 16 registers: 8 lanes would need 24 sums, so that GCC keeps some in the cache; still the better. */
DEFINE_LOOP(half, __attribute__((target("avx2,fma"))), 8)
#endif

/* Positions of a vector on this machine; at most 16. */
ptrdiff_t gg_positions(void) {
#if defined(__x86_64__) && defined(__GNUC__)
  if (__builtin_cpu_supports("avx512f")) return 16;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 8;
#endif
  return 4;
}

/* `outputs` is a multiple of 8, `count` of gg_positions(). */
void gg_shifted(const float *base, const ptrdiff_t *offsets, ptrdiff_t inner, const float *weights,
                ptrdiff_t outputs, ptrdiff_t count, float *out) {
#if defined(__x86_64__) && defined(__GNUC__)
  if (__builtin_cpu_supports("avx512f")) {
    wide(base, offsets, inner, weights, outputs, count, out);
    return;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    half(base, offsets, inner, weights, outputs, count, out);
    return;
  }
#endif
  plain(base, offsets, inner, weights, outputs, count, out);
}
