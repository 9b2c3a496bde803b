/* Packed images: the 4096-byte blocks that are not zero, compressed. */
#ifndef BTRNBD_TESTS_LIB_SPARSE_H
#define BTRNBD_TESTS_LIB_SPARSE_H

#include <stddef.h>
#include <stdint.h>

#define SPARSE_BLOCK 4096

/* Unpack into fresh zeroed memory (sparse, mmap); 0 or -1 with a message. */
extern int sparse_load (const char *path, uint8_t **ret_base,
                        uint64_t *ret_size);
extern void sparse_free (uint8_t *base, uint64_t size);
/* As an ordinary sparse file. */
extern int sparse_write (const uint8_t *base, uint64_t size,
                         const char *path);
extern int sparse_pack (const uint8_t *base, uint64_t size,
                        const char *path);

#endif /* BTRNBD_TESTS_LIB_SPARSE_H */
