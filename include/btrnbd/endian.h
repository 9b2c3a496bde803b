/* btrnbd: fixed-endian integers for on-disk structures.
 *
 * Every integer in a btrfs structure is little-endian and unaligned.  The
 * types below have size 2, 4 and 8 and alignment 1, so a structure made of
 * them has no padding and may be overlaid on any byte of a buffer, and a
 * field cannot be used as a number without an accessor.
 */
#ifndef BTRNBD_ENDIAN_H
#define BTRNBD_ENDIAN_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

typedef struct { uint8_t b[2]; } le16;
typedef struct { uint8_t b[4]; } le32;
typedef struct { uint8_t b[8]; } le64;

#define BTRNBD_DEFINE_LE(bits)                                          \
  static inline uint##bits##_t                                          \
  le##bits##_get (le##bits v)                                           \
  {                                                                     \
    uint##bits##_t n;                                                   \
    memcpy (&n, v.b, sizeof n);                                         \
    return le##bits##toh (n);                                           \
  }                                                                     \
  static inline le##bits                                                \
  le##bits##_make (uint##bits##_t n)                                    \
  {                                                                     \
    le##bits v;                                                         \
    n = htole##bits (n);                                                \
    memcpy (v.b, &n, sizeof n);                                         \
    return v;                                                           \
  }

BTRNBD_DEFINE_LE (16)
BTRNBD_DEFINE_LE (32)
BTRNBD_DEFINE_LE (64)
#undef BTRNBD_DEFINE_LE

#endif /* BTRNBD_ENDIAN_H */
