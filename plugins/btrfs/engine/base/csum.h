/* base: the four checksums of btrfs. */
#ifndef BTRNBD_BASE_CSUM_H
#define BTRNBD_BASE_CSUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CSUM_SIZE_MAX 32

enum csum_type {        /* on-disk numbers */
  CSUM_CRC32C = 0,
  CSUM_XXHASH64 = 1,
  CSUM_SHA256 = 2,
  CSUM_BLAKE2B = 3,
};

extern bool csum_type_known (unsigned type);
extern size_t csum_size (enum csum_type);      /* bytes: 4, 8, 32, 32 */
extern const char *csum_name (enum csum_type); /* as mkfs.btrfs spells it */
extern bool csum_type_by_name (const char *name, enum csum_type *ret_type);

/* The checksum of DATA as stored on disk, csum_size bytes to OUT. */
extern void csum_data (enum csum_type, const void *data, size_t len,
                       uint8_t *out);

/* Raw CRC-32C: no inversion before or after (names and back references are
 * hashed with it, see BTRFS-format notes at each user).
 */
extern uint32_t crc32c_raw (uint32_t seed, const void *data, size_t len);

#endif /* BTRNBD_BASE_CSUM_H */
