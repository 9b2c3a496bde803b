/* nbd: byte buffers. */
#include <config.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "nbd/buf.h"

void
buf_done (struct buf *b)
{
  free (b->data);
  *b = (struct buf) { .data = NULL };
}

uint8_t *
buf_space (struct buf *b, size_t len)
{
  size_t used = buf_len (b), size;
  uint8_t *data;

  if (b->size - b->end >= len)
    return b->data + b->end;
  if (b->start > 0) {
    memmove (b->data, buf_front (b), used);
    b->start = 0;
    b->end = used;
    if (b->size - b->end >= len)
      return b->data + b->end;
  }
  size = b->size ? b->size : 4096;
  while (size - used < len)
    size *= 2;
  data = realloc (b->data, size);
  if (data == NULL)
    return NULL;
  b->data = data;
  b->size = size;
  return b->data + b->end;
}

void
buf_add (struct buf *b, size_t len)
{
  assert (b->size - b->end >= len);
  b->end += len;
}

bool
buf_append (struct buf *b, const void *data, size_t len)
{
  uint8_t *p;

  if (len == 0)
    return true;
  p = buf_space (b, len);
  if (p == NULL)
    return false;
  memcpy (p, data, len);
  buf_add (b, len);
  return true;
}

void
buf_consume (struct buf *b, size_t len)
{
  assert (buf_len (b) >= len);
  b->start += len;
  if (b->start == b->end)
    b->start = b->end = 0;
}
