/* data: decompressors on good, cut and damaged input. */
#include <config.h>

#include "unit/test.h"

#include <lzo/lzo1x.h>
#include <zlib.h>
#include <zstd.h>

#include <btrnbd/errors.h>
#include <btrnbd/ondisk.h>

#include "data/decompress.h"

#define SECTOR 4096
#define PLAIN (128 * 1024)
#define ROOM (2 * PLAIN)

static uint8_t plain[PLAIN], out[PLAIN + 64];
static uint64_t seed = 1;

static uint32_t
rnd (void)
{
  seed = seed * UINT64_C (6364136223846793005) + 1442695040888963407;
  return seed >> 33;
}

/* Text-like: compresses, but not to nothing. */
static void
make_plain (void)
{
  size_t i;

  for (i = 0; i < PLAIN; ++i)
    plain[i] = rnd () % 7 == 0 ? rnd () : "the quick brown fox "[i % 20];
}

static void
put_le32 (uint8_t *p, uint32_t n)
{
  le32 v = le32_make (n);

  memcpy (p, &v, sizeof v);
}

/* As the format wants it: see decompress.c. */
static size_t
pack_lzo (uint8_t *to, const uint8_t *from, size_t len)
{
  static uint8_t work[LZO1X_1_MEM_COMPRESS];
  size_t pos = 4, i;

  for (i = 0; i < len; i += SECTOR) {
    uint8_t one[2 * SECTOR];
    lzo_uint n = sizeof one;
    size_t in = len - i < SECTOR ? len - i : SECTOR;

    assert_int_equal (lzo1x_1_compress (from + i, in, one, &n, work),
                      LZO_E_OK);
    if (SECTOR - pos % SECTOR < 4) {
      memset (to + pos, 0, SECTOR - pos % SECTOR);
      pos += SECTOR - pos % SECTOR;
    }
    put_le32 (to + pos, n);
    memcpy (to + pos + 4, one, n);
    pos += 4 + n;
  }
  put_le32 (to, pos);
  return pos;
}

static size_t
pack (unsigned type, uint8_t *to, const uint8_t *from, size_t len)
{
  uLongf n = ROOM;

  switch (type) {
  case BTRFS_COMPRESS_ZLIB:
    assert_int_equal (compress2 (to, &n, from, len, 3), Z_OK);
    return n;
  case BTRFS_COMPRESS_LZO:
    return pack_lzo (to, from, len);
  default:
    n = ZSTD_compress (to, ROOM, from, len, 3);
    assert_false (ZSTD_isError (n));
    return n;
  }
}

static const unsigned types[] = { BTRFS_COMPRESS_ZLIB, BTRFS_COMPRESS_LZO,
                                  BTRFS_COMPRESS_ZSTD };

static void
good_data (void **state)
{
  static const size_t lens[] = { PLAIN, SECTOR, SECTOR + 1, 100, 2048,
                                 PLAIN - SECTOR };
  uint8_t *packed = malloc (ROOM);
  size_t t, l;

  (void) state;
  for (t = 0; t < 3; ++t)
    for (l = 0; l < 6; ++l) {
      const size_t n = pack (types[t], packed, plain, lens[l]);

      memset (out, 0xaa, sizeof out);
      /* With what rounds the extent up to a sector behind it. */
      memset (packed + n, 0, SECTOR);
      assert_int_equal (decompress (types[t], packed,
                                    (n + SECTOR - 1) / SECTOR * SECTOR, out,
                                    lens[l], SECTOR), 0);
      assert_memory_equal (out, plain, lens[l]);
      assert_int_equal (out[lens[l]], 0xaa);
    }
  free (packed);
}

/* HARD-CASE 174: more is wanted than there is: zeroes; less: a prefix. */
static void
other_lengths (void **state)
{
  uint8_t *packed = malloc (ROOM);
  size_t t, i;

  (void) state;
  for (t = 0; t < 3; ++t) {
    const size_t n = pack (types[t], packed, plain, 6000);

    memset (out, 0xaa, sizeof out);
    assert_int_equal (decompress (types[t], packed, n, out, 8192, SECTOR), 0);
    assert_memory_equal (out, plain, 6000);
    for (i = 6000; i < 8192; ++i)
      assert_int_equal (out[i], 0);
    memset (out, 0xaa, sizeof out);
    assert_int_equal (decompress (types[t], packed, n, out, 5000, SECTOR), 0);
    assert_memory_equal (out, plain, 5000);
    assert_int_equal (out[5000], 0xaa);
  }
  free (packed);
}

/* HARD-CASE 172: damaged data never leads outside of the buffers (malloc'ed
 * to size, for the sanitizer), and cut data is an error or plain bytes.
 */
static void
damaged_data (void **state)
{
  uint8_t *packed = malloc (ROOM);
  size_t t, i, errors = 0;

  (void) state;
  for (t = 0; t < 3; ++t) {
    const size_t n = pack (types[t], packed, plain, 32768);

    for (i = 0; i < 3000; ++i) {
      const size_t len = i % 3 == 0 ? rnd () % (n + 1) : n;
      uint8_t *in = malloc (len + 1), *to = malloc (32768);
      unsigned flips = rnd () % 8;
      int r;

      memcpy (in, packed, len);
      while (flips-- > 0 && len > 0) {
        size_t at = rnd () % 4 == 0 ? rnd () % (len < 16 ? len : 16)
          : rnd () % len;

        in[at] = rnd ();
      }
      r = decompress (types[t], in, len, to, 32768, SECTOR);
      assert_true (r == 0 || r == -ERR_compress_data || r == -ERR_nomem);
      errors += r < 0;
      free (in);
      free (to);
    }
  }
  assert_true (errors > 1000);
  free (packed);
}

static void
unknown_type (void **state)
{
  (void) state;
  assert_int_equal (decompress (9, plain, 100, out, 100, SECTOR),
                    -ERR_compress_type);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (good_data),
    cmocka_unit_test (other_lengths),
    cmocka_unit_test (damaged_data),
    cmocka_unit_test (unknown_type),
  };

  if (lzo_init () != LZO_E_OK)
    return 1;
  make_plain ();
  return cmocka_run_group_tests (tests, NULL, NULL);
}
