/* nbd: a byte buffer that grows at its end and is consumed at its front. */
#ifndef BTRNBDD_NBD_BUF_H
#define BTRNBDD_NBD_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
  uint8_t *data;
  size_t start, end, size;     /* valid bytes are [start, end) of size */
};

static inline size_t
buf_len (const struct buf *b)
{
  return b->end - b->start;
}

static inline uint8_t *
buf_front (const struct buf *b)
{
  return b->data + b->start;
}

extern void buf_done (struct buf *);
/* LEN writable bytes behind the end, or NULL when out of memory; they become
 * valid by buf_add.
 */
extern uint8_t *buf_space (struct buf *, size_t len);
extern void buf_add (struct buf *, size_t len);
/* Append a copy. */
extern bool buf_append (struct buf *, const void *data, size_t len);
extern void buf_consume (struct buf *, size_t len);

#endif /* BTRNBDD_NBD_BUF_H */
