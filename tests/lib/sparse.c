/* Packed images, see sparse.h.  The compressed stream is the image's size,
 * then for each block its offset and its bytes.
 */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <zstd.h>

#include <btrnbd/endian.h>

#include "lib/sparse.h"

#define RECORD (sizeof (le64) + SPARSE_BLOCK)

static int
complain (const char *path, const char *what)
{
  fprintf (stderr, "%s: %s\n", path, what);
  return -1;
}

/* The whole file, malloc'd. */
static void *
read_file (const char *path, size_t *ret_len)
{
  FILE *f = fopen (path, "rb");
  void *buf = NULL;
  long len;

  if (f == NULL)
    return NULL;
  if (fseek (f, 0, SEEK_END) == 0 && (len = ftell (f)) > 0) {
    rewind (f);
    buf = malloc (len);
    if (buf != NULL && fread (buf, 1, len, f) != (size_t) len) {
      free (buf);
      buf = NULL;
    }
    *ret_len = len;
  }
  fclose (f);
  return buf;
}

static int
unpack (const char *path, const uint8_t *p, size_t len, uint8_t **ret_base,
        uint64_t *ret_size)
{
  uint64_t size, offset;
  uint8_t *base;
  le64 v;

  memcpy (&v, p, sizeof v);
  size = le64_get (v);
  base = mmap (NULL, size, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED)
    return complain (path, "out of memory");
  for (size_t i = sizeof v; i + RECORD <= len; i += RECORD) {
    memcpy (&v, p + i, sizeof v);
    offset = le64_get (v);
    if (offset > size || size - offset < SPARSE_BLOCK) {
      munmap (base, size);
      return complain (path, "block beyond the end");
    }
    memcpy (base + offset, p + i + sizeof v, SPARSE_BLOCK);
  }
  *ret_base = base;
  *ret_size = size;
  return 0;
}

int
sparse_load (const char *path, uint8_t **ret_base, uint64_t *ret_size)
{
  size_t packed_len, len;
  void *packed = read_file (path, &packed_len), *plain;
  int r;

  if (packed == NULL)
    return complain (path, "cannot be read");
  len = ZSTD_getFrameContentSize (packed, packed_len);
  if (len < sizeof (le64) || len > 1 << 28) {
    free (packed);
    return complain (path, "is no packed image");
  }
  plain = malloc (len);
  if (plain == NULL ||
      ZSTD_decompress (plain, len, packed, packed_len) != len)
    r = complain (path, "cannot be decompressed");
  else
    r = unpack (path, plain, len, ret_base, ret_size);
  free (plain);
  free (packed);
  return r;
}

void
sparse_free (uint8_t *base, uint64_t size)
{
  munmap (base, size);
}

int
sparse_write (const uint8_t *base, uint64_t size, const char *path)
{
  static const uint8_t zero[SPARSE_BLOCK];
  FILE *f = fopen (path, "wb");

  if (f == NULL)
    return complain (path, "cannot be made");
  for (uint64_t i = 0; i + SPARSE_BLOCK <= size; i += SPARSE_BLOCK) {
    if (memcmp (base + i, zero, SPARSE_BLOCK) == 0)
      continue;
    if (fseek (f, i, SEEK_SET) != 0 ||
        fwrite (base + i, SPARSE_BLOCK, 1, f) != 1) {
      fclose (f);
      return complain (path, "cannot be written");
    }
  }
  if (fflush (f) != 0 || ftruncate (fileno (f), size) < 0 || fclose (f) != 0)
    return complain (path, "cannot be written");
  return 0;
}

int
sparse_pack (const uint8_t *base, uint64_t size, const char *path)
{
  static const uint8_t zero[SPARSE_BLOCK];
  size_t len = sizeof (le64), n;
  uint8_t *plain, *packed;
  FILE *f;
  le64 v = le64_make (size);

  for (uint64_t i = 0; i + SPARSE_BLOCK <= size; i += SPARSE_BLOCK)
    if (memcmp (base + i, zero, SPARSE_BLOCK) != 0)
      len += RECORD;
  plain = malloc (len);
  packed = malloc (ZSTD_compressBound (len));
  if (plain == NULL || packed == NULL)
    return complain (path, "out of memory");
  memcpy (plain, &v, sizeof v);
  n = sizeof v;
  for (uint64_t i = 0; i + SPARSE_BLOCK <= size; i += SPARSE_BLOCK) {
    if (memcmp (base + i, zero, SPARSE_BLOCK) == 0)
      continue;
    v = le64_make (i);
    memcpy (plain + n, &v, sizeof v);
    memcpy (plain + n + sizeof v, base + i, SPARSE_BLOCK);
    n += RECORD;
  }
  n = ZSTD_compress (packed, ZSTD_compressBound (len), plain, len, 19);
  f = fopen (path, "wb");
  if (f == NULL || fwrite (packed, 1, n, f) != n || fclose (f) != 0)
    return complain (path, "cannot be written");
  free (plain);
  free (packed);
  return 0;
}
