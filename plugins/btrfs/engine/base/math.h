/* base: integer helpers.  Checked forms return false on overflow. */
#ifndef BTRNBD_BASE_MATH_H
#define BTRNBD_BASE_MATH_H

#include <stdbool.h>
#include <stdint.h>

#define MIN(a, b)                               \
  ({                                            \
    __typeof__ (a) min_a_ = (a);                \
    __typeof__ (b) min_b_ = (b);                \
    min_a_ < min_b_ ? min_a_ : min_b_;          \
  })
#define MAX(a, b)                               \
  ({                                            \
    __typeof__ (a) max_a_ = (a);                \
    __typeof__ (b) max_b_ = (b);                \
    max_a_ > max_b_ ? max_a_ : max_b_;          \
  })
#define ARRAY_SIZE(a) (sizeof (a) / sizeof (a)[0])

static inline bool
add_ok (uint64_t a, uint64_t b, uint64_t *ret_sum)
{
  return !__builtin_add_overflow (a, b, ret_sum);
}

static inline bool
mul_ok (uint64_t a, uint64_t b, uint64_t *ret_product)
{
  return !__builtin_mul_overflow (a, b, ret_product);
}

static inline bool
is_power_of_2 (uint64_t n)
{
  return n != 0 && (n & (n - 1)) == 0;
}

/* ALIGN is a power of two; round_up wraps when N is within ALIGN of 2^64. */
static inline uint64_t
round_down (uint64_t n, uint64_t align)
{
  return n & ~(align - 1);
}

static inline uint64_t
round_up (uint64_t n, uint64_t align)
{
  return (n + align - 1) & ~(align - 1);
}

static inline bool
is_aligned (uint64_t n, uint64_t align)
{
  return (n & (align - 1)) == 0;
}

static inline uint64_t
div_round_up (uint64_t n, uint64_t d)
{
  return n / d + (n % d != 0);
}

#endif /* BTRNBD_BASE_MATH_H */
