/* Rows of float32 in registers: what NumPy does in many passes through the cache, in one or two.
 *
 * Owns: layer_norm, gelu and the powers of softmax, on rows that lie one after the other. Must not:
 * allocate, use threads, or know Python; rows.py says who may call it and with what.
 *
 * Sums have 16 lanes and blocks of 4,096 terms, whose sums are added in double: no chain of additions
 * is longer than 256, which is within what the catalog asks of a backend
 * (gpugoblin/catalog/rounding.py). Contraction to fused multiply-add is allowed: nothing here serves
 * class exact.
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LANES 16
#define BLOCK 4096

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define EACH_MACHINE __attribute__((target_clones("avx512f", "arch=haswell", "default")))
#else
#define EACH_MACHINE
#endif
#define INLINE static inline __attribute__((always_inline))

/* 2^n, for whole n from -126 to 127. */
INLINE float power_of_two(float whole) {
  int32_t bits = ((int32_t)whole + 127) << 23;
  float power;
  memcpy(&power, &bits, sizeof power);
  return power;
}

/* e^x within 2 units in the last place; 0 below 2^-126, infinity above 88, NaN stays. */
INLINE float exponential(float x) {
  float held = x < -87.33654f ? -87.33654f : x;
  held = held > 88.0f ? 88.0f : held;
  /* Adding 1.5 * 2^23 rounds to a whole number. */
  float whole = (held * 1.44269504f + 12582912.0f) - 12582912.0f;
  float rest = (held - whole * 0.693359375f) - whole * -2.12194440e-4f;
  /* (exp(x) - 1 - x) / x^2 on [-0.347, 0.347], as gpugoblin/catalog/polynomials.py has it. */
  float curve = 0.0013941207434982061f;
  curve = curve * rest + 0.008368835784494877f;
  curve = curve * rest + 0.04166639596223831f;
  curve = curve * rest + 0.1666651964187622f;
  curve = curve * rest + 0.5f;
  float value = ((curve * rest) * rest + rest) + 1.0f;
  value = value * power_of_two(whole);
  value = x < -87.33654f ? 0.0f : value;
  return x > 88.0f ? INFINITY : value;
}

INLINE double summed(const float *lanes) {
  double total = 0.0;
  for (int lane = 0; lane < LANES; lane++) total += lanes[lane];
  return total;
}

/* The sum of a row. */
INLINE double row_sum(const float *row, ptrdiff_t count) {
  double total = 0.0;
  for (ptrdiff_t start = 0; start < count; start += BLOCK) {
    ptrdiff_t stop = start + BLOCK < count ? start + BLOCK : count;
    float lanes[LANES] = {0.0f};
    ptrdiff_t at = start;
    for (; at + LANES <= stop; at += LANES)
      for (int lane = 0; lane < LANES; lane++) lanes[lane] += row[at + lane];
    for (int lane = 0; at < stop; at++, lane++) lanes[lane] += row[at];
    total += summed(lanes);
  }
  return total;
}

/* The sum of squares of distances from `middle`. */
INLINE double row_spread(const float *row, ptrdiff_t count, float middle) {
  double total = 0.0;
  for (ptrdiff_t start = 0; start < count; start += BLOCK) {
    ptrdiff_t stop = start + BLOCK < count ? start + BLOCK : count;
    float lanes[LANES] = {0.0f};
    ptrdiff_t at = start;
    for (; at + LANES <= stop; at += LANES)
      for (int lane = 0; lane < LANES; lane++) {
        float distance = row[at + lane] - middle;
        lanes[lane] += distance * distance;
      }
    for (int lane = 0; at < stop; at++, lane++) {
      float distance = row[at] - middle;
      lanes[lane] += distance * distance;
    }
    total += summed(lanes);
  }
  return total;
}

/* (x - mean) / sqrt(variance + epsilon), times scale and plus shift where they are not null. */
EACH_MACHINE void gg_layer_norm(const float *source, float *out, ptrdiff_t rows, ptrdiff_t count,
                                float epsilon, const float *scale, const float *shift) {
  for (ptrdiff_t number = 0; number < rows; number++) {
    const float *row = source + number * count;
    float *target = out + number * count;
    float middle = (float)(row_sum(row, count) / (double)count);
    float variance = (float)(row_spread(row, count, middle) / (double)count);
    float factor = 1.0f / sqrtf(variance + epsilon);
    if (scale == NULL) {
      for (ptrdiff_t at = 0; at < count; at++) target[at] = (row[at] - middle) * factor;
    } else if (shift == NULL) {
      for (ptrdiff_t at = 0; at < count; at++)
        target[at] = ((row[at] - middle) * factor) * scale[at];
    } else {
      for (ptrdiff_t at = 0; at < count; at++)
        target[at] = ((row[at] - middle) * factor) * scale[at] + shift[at];
    }
  }
}

/* x / (1 + exp(-2 x P(x^2))): 1 + tanh(y) is 2 / (1 + exp(-2 y)), and erf(x / sqrt 2) is
 * tanh(x P(x^2)) within 9e-8 (activating.py). `series` is P, lowest power first, doubled and with
 * its sign changed; beyond `most` of x^2 it stands still. */
EACH_MACHINE void gg_gelu(const float *source, float *out, ptrdiff_t count, const float *series,
                          ptrdiff_t terms, float most) {
  float p[8] = {0.0f};
  for (ptrdiff_t place = 0; place < terms && place < 8; place++) p[place] = series[place];
  for (ptrdiff_t at = 0; at < count; at++) {
    float x = source[at];
    float square = x * x;
    square = square > most ? most : square;
    float value = p[6];
    value = value * square + p[5];
    value = value * square + p[4];
    value = value * square + p[3];
    value = value * square + p[2];
    value = value * square + p[1];
    value = value * square + p[0];
    out[at] = x / (1.0f + exponential(x * value));
  }
}

/* In place: exp(scale x - the largest of the row), and the sums of the rows. A NaN makes a NaN of
 * its row's sum. */
EACH_MACHINE void gg_powers(float *scores, ptrdiff_t rows, ptrdiff_t count, float scale,
                            float *sums) {
  for (ptrdiff_t number = 0; number < rows; number++) {
    float *row = scores + number * count;
    float largest[LANES];
    for (int lane = 0; lane < LANES; lane++) largest[lane] = -INFINITY;
    ptrdiff_t at = 0;
    for (; at + LANES <= count; at += LANES)
      for (int lane = 0; lane < LANES; lane++) {
        float value = row[at + lane] * scale;
        row[at + lane] = value;
        largest[lane] = value > largest[lane] ? value : largest[lane];
      }
    for (int lane = 0; at < count; at++, lane++) {
      row[at] *= scale;
      largest[lane] = row[at] > largest[lane] ? row[at] : largest[lane];
    }
    float top = largest[0];
    for (int lane = 1; lane < LANES; lane++) top = largest[lane] > top ? largest[lane] : top;
    double total = 0.0;
    for (ptrdiff_t start = 0; start < count; start += BLOCK) {
      ptrdiff_t stop = start + BLOCK < count ? start + BLOCK : count;
      float lanes[LANES] = {0.0f};
      ptrdiff_t place = start;
      for (; place + LANES <= stop; place += LANES)
        for (int lane = 0; lane < LANES; lane++) {
          float value = exponential(row[place + lane] - top);
          row[place + lane] = value;
          lanes[lane] += value;
        }
      for (int lane = 0; place < stop; place++, lane++) {
        row[place] = exponential(row[place] - top);
        lanes[lane] += row[place];
      }
      total += summed(lanes);
    }
    sums[number] = (float)total;
  }
}
