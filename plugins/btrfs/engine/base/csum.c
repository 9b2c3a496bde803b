/* base: the four checksums of btrfs, all from libraries.
 *
 * On disk: crc32c as le32 (with the usual inversions), xxhash64 with seed 0
 * as le64, sha256 and blake2b-256 (no key) as their bytes.
 */
#include <config.h>

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include <isa-l/crc.h>
#include <sodium.h>
#include <xxhash.h>

#include <btrnbd/endian.h>

#include "base/csum.h"
#include "base/math.h"

static pthread_once_t sodium_once = PTHREAD_ONCE_INIT;

/* Lets libsodium choose the fastest code for this CPU; without it (or when it
 * fails) the portable code is used.
 */
static void
sodium_start (void)
{
  if (sodium_init () < 0)
    return;
}

static const struct {
  const char *name;
  size_t size;
} types[] = {
  [CSUM_CRC32C] = { "crc32c", 4 },
  [CSUM_XXHASH64] = { "xxhash", 8 },
  [CSUM_SHA256] = { "sha256", 32 },
  [CSUM_BLAKE2B] = { "blake2b", 32 },
};

bool
csum_type_known (unsigned type)
{
  return type < ARRAY_SIZE (types);
}

size_t
csum_size (enum csum_type type)
{
  assert (csum_type_known (type));
  return types[type].size;
}

const char *
csum_name (enum csum_type type)
{
  return csum_type_known (type) ? types[type].name : "unknown";
}

bool
csum_type_by_name (const char *name, enum csum_type *ret_type)
{
  for (unsigned i = 0; i < ARRAY_SIZE (types); ++i) {
    if (strcmp (name, types[i].name) == 0) {
      *ret_type = i;
      return true;
    }
  }
  /* Spellings that mkfs.btrfs takes too. */
  if (strcmp (name, "xxhash64") == 0)
    *ret_type = CSUM_XXHASH64;
  else if (strcmp (name, "blake2") == 0)
    *ret_type = CSUM_BLAKE2B;
  else
    return false;
  return true;
}

uint32_t
crc32c_raw (uint32_t seed, const void *data, size_t len)
{
  unsigned char *p = (unsigned char *) data; /* the library only reads */

  /* The length is an int there. */
  while (len > 0) {
    size_t n = MIN (len, (size_t) 1 << 30);

    seed = crc32_iscsi (p, n, seed);
    p += n;
    len -= n;
  }
  return seed;
}

void
csum_data (enum csum_type type, const void *data, size_t len, uint8_t *out)
{
  le32 c32;
  le64 c64;

  switch (type) {
  case CSUM_CRC32C:
    c32 = le32_make (~crc32c_raw (~UINT32_C (0), data, len));
    memcpy (out, &c32, sizeof c32);
    return;
  case CSUM_XXHASH64:
    c64 = le64_make (XXH64 (data, len, 0));
    memcpy (out, &c64, sizeof c64);
    return;
  case CSUM_SHA256:
    crypto_hash_sha256 (out, data, len);
    return;
  case CSUM_BLAKE2B:
    pthread_once (&sodium_once, sodium_start);
    crypto_generichash (out, 32, data, len, NULL, 0);
    return;
  }
  assert (!"known checksum type");
}
