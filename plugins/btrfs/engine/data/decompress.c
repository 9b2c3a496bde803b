/* data: zlib, lzo and zstd as btrfs frames them.
 *
 * zlib: one zlib stream.  zstd: one frame.  lzo: le32 length of everything,
 * itself included; then segments of le32 length and lzo1x data, each for one
 * sector of plain data; a segment's length never crosses a sector boundary
 * of the compressed data (the bytes before the boundary are skipped).
 */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include <lzo/lzo1x.h>
#include <zlib.h>
#include <zstd.h>

#include <btrnbd/ondisk.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/math.h"
#include "data/decompress.h"

/* Windows larger than any extent are a lie and would cost memory. */
#define ZSTD_WINDOW_LOG_MAX_OURS 20

static int
inflate_all (const uint8_t *in, size_t in_len, uint8_t *out, size_t out_len,
             size_t *ret_len)
{
  z_stream z = { .next_in = (uint8_t *) in, .avail_in = in_len,
                 .next_out = out, .avail_out = out_len };
  int r;

  if (inflateInit (&z) != Z_OK)
    return err_new (ERR_nomem, "zlib");
  r = inflate (&z, Z_SYNC_FLUSH);
  *ret_len = out_len - z.avail_out;
  inflateEnd (&z);
  if (r == Z_STREAM_END || (r == Z_OK && z.avail_out == 0)
      || (r == Z_BUF_ERROR && z.avail_out == 0))
    return 0;
  return err_new (ERR_compress_data, "zlib: %s after %zu bytes",
                  r == Z_OK || r == Z_BUF_ERROR ? "cut short" : zError (r),
                  *ret_len);
}

static int
unzstd (const uint8_t *in, size_t in_len, uint8_t *out, size_t out_len,
        size_t *ret_len)
{
  ZSTD_inBuffer ib = { .src = in, .size = in_len };
  ZSTD_outBuffer ob = { .dst = out, .size = out_len };
  ZSTD_DStream *z = ZSTD_createDStream ();
  size_t r, before;

  if (z == NULL)
    return err_new (ERR_nomem, "zstd");
  ZSTD_DCtx_setParameter (z, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG_MAX_OURS);
  do {
    before = ib.pos + ob.pos;
    r = ZSTD_decompressStream (z, &ob, &ib);
  } while (!ZSTD_isError (r) && r != 0 && ob.pos < ob.size
           && ib.pos + ob.pos > before);
  ZSTD_freeDStream (z);
  *ret_len = ob.pos;
  if (ZSTD_isError (r))
    return err_new (ERR_compress_data, "zstd: %s", ZSTD_getErrorName (r));
  if (r != 0 && ob.pos < ob.size)
    return err_new (ERR_compress_data, "zstd: cut short after %zu bytes",
                    ob.pos);
  return 0;
}

static uint32_t
get_le32 (const uint8_t *p)
{
  le32 v;

  memcpy (&v, p, sizeof v);
  return le32_get (v);
}

/* Most bytes that lzo makes of one sector. */
static size_t
lzo_worst (size_t sector)
{
  return sector + sector / 16 + 64 + 3;
}

static int
unlzo (const uint8_t *in, size_t in_len, uint8_t *out, size_t out_len,
       uint32_t sector, size_t *ret_len)
{
  CLEANUP_FREE uint8_t *one = NULL;
  size_t total, pos = 4, done = 0;

  if (in_len < 8)
    return err_new (ERR_compress_data, "lzo: %zu bytes", in_len);
  total = get_le32 (in);
  if (total > in_len || total < 8)
    return err_new (ERR_compress_data, "lzo: length %zu of %zu", total,
                    in_len);
  while (pos < total && done < out_len) {
    const size_t left = sector - pos % sector;
    lzo_uint got = sector;
    uint8_t *to = out + done;
    size_t len;

    if (left < 4)
      pos += left;
    if (pos + 4 > total)
      break;
    len = get_le32 (in + pos);
    pos += 4;
    if (len == 0 || len > total - pos || len > lzo_worst (sector))
      return err_new (ERR_compress_data, "lzo: segment of %zu at %zu of %zu",
                      len, pos, total);
    /* The last sector may be wanted in part only. */
    if (out_len - done < sector) {
      if (one == NULL)
        one = malloc (sector);
      if (one == NULL)
        return err_new (ERR_nomem, "lzo");
      to = one;
    }
    if (lzo1x_decompress_safe (in + pos, len, to, &got, NULL) != LZO_E_OK)
      return err_new (ERR_compress_data, "lzo: bad segment at %zu", pos);
    pos += len;
    if (to == one) {
      got = MIN (got, out_len - done);
      memcpy (out + done, one, got);
    }
    done += got;
    if (got < sector)
      break;
  }
  *ret_len = done;
  return 0;
}

int
decompress (unsigned type, const uint8_t *in, size_t in_len, uint8_t *out,
            size_t out_len, uint32_t sectorsize)
{
  size_t len = 0;
  int r;

  if (out_len == 0)
    return 0;
  switch (type) {
  case BTRFS_COMPRESS_ZLIB:
    r = inflate_all (in, in_len, out, out_len, &len);
    break;
  case BTRFS_COMPRESS_LZO:
    r = unlzo (in, in_len, out, out_len, sectorsize, &len);
    break;
  case BTRFS_COMPRESS_ZSTD:
    r = unzstd (in, in_len, out, out_len, &len);
    break;
  default:
    return err_new (ERR_compress_type, "type %u", type);
  }
  if (r == 0 && len < out_len)
    memset (out + len, 0, out_len - len);
  return r;
}
