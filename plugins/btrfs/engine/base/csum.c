/* base: the four checksums of btrfs, all from libraries.
 *
 * On disk: crc32c as le32 (with the usual inversions), xxhash64 with seed 0
 * as le64, sha256 and blake2b-256 (no key) as their bytes.
 */
#include <config.h>

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include <gcrypt.h>
#include <isa-l/crc.h>
#include <xxhash.h>

#include <btrnbd/endian.h>

#include "base/csum.h"
#include "base/math.h"

static pthread_once_t gcrypt_once = PTHREAD_ONCE_INIT;

/* No secrets here: no locked memory.  A machine in FIPS mode would forbid
 * blake2b, which is a checksum and no cryptography to us.
 */
static void
gcrypt_start (void)
{
  if (gcry_control (GCRYCTL_INITIALIZATION_FINISHED_P))
    return;                     /* the host has done it */
  gcry_control (GCRYCTL_NO_FIPS_MODE);
  gcry_check_version (NULL);
  gcry_control (GCRYCTL_DISABLE_SECMEM, 0);
  gcry_control (GCRYCTL_INITIALIZATION_FINISHED, 0);
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
    pthread_once (&gcrypt_once, gcrypt_start);
    gcry_md_hash_buffer (GCRY_MD_SHA256, out, data, len);
    return;
  case CSUM_BLAKE2B:
    pthread_once (&gcrypt_once, gcrypt_start);
    gcry_md_hash_buffer (GCRY_MD_BLAKE2B_256, out, data, len);
    return;
  }
  assert (!"known checksum type");
}
