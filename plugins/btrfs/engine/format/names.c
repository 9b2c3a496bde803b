/* format: hashes of names and back references.
 *
 * All are the CRC-32C register without the usual final inversion.  Names
 * start from ~1, an extended reference from its parent's number, the two
 * halves of a data reference from ~0.
 */
#include <config.h>

#include <btrnbd/endian.h>

#include "base/csum.h"
#include "format/names.h"

uint64_t
name_hash (const char *name, size_t len)
{
  return crc32c_raw (~UINT32_C (1), name, len);
}

uint64_t
extref_hash (uint64_t parent, const char *name, size_t len)
{
  return crc32c_raw ((uint32_t) parent, name, len);
}

uint64_t
data_ref_hash (uint64_t root, uint64_t objectid, uint64_t offset)
{
  le64 r = le64_make (root), o[2];
  uint32_t high, low;

  o[0] = le64_make (objectid);
  o[1] = le64_make (offset);
  high = crc32c_raw (~UINT32_C (0), &r, sizeof r);
  low = crc32c_raw (~UINT32_C (0), o, sizeof o);
  return ((uint64_t) high << 31) ^ low;
}
