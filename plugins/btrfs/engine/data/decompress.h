/* data: the plain bytes of compressed extents; no I/O. */
#ifndef BTRNBD_DATA_DECOMPRESS_H
#define BTRNBD_DATA_DECOMPRESS_H

#include <stddef.h>
#include <stdint.h>

/* Decompress IN (the whole extent, or the data of an inline item) by TYPE
 * (enum btrfs_compression) to exactly OUT_LEN bytes: more is cut off, less is
 * filled up with zeroes.  SECTORSIZE matters to lzo only.  Whatever IN holds,
 * nothing outside of the two buffers is touched.
 */
extern int decompress (unsigned type, const uint8_t *in, size_t in_len,
                       uint8_t *out, size_t out_len, uint32_t sectorsize);

#endif /* BTRNBD_DATA_DECOMPRESS_H */
