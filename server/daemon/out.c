/* daemon: output chains. */
#include <config.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/out.h"

#define SEGMENT_MIN 32768      /* bytes of a shared segment */

struct out_segment {
  TAILQ_ENTRY (out_segment) link;
  uint8_t *data;               /* `room`, or a buffer that is owned */
  size_t start, end, size;     /* [start, end) is to be sent */
  uint8_t room[];
};

void
out_init (struct out *o)
{
  TAILQ_INIT (&o->segments);
  o->bytes = 0;
}

static void
segment_free (struct out_segment *s)
{
  if (s->data != s->room)
    free (s->data);
  free (s);
}

void
out_done (struct out *o)
{
  struct out_segment *s;

  while ((s = TAILQ_FIRST (&o->segments)) != NULL) {
    TAILQ_REMOVE (&o->segments, s, link);
    segment_free (s);
  }
  o->bytes = 0;
}

uint8_t *
out_space (struct out *o, size_t len)
{
  struct out_segment *s = TAILQ_LAST (&o->segments, out_segments);
  size_t size;

  if (s && s->size - s->end >= len)
    return s->data + s->end;
  size = len > SEGMENT_MIN ? len : SEGMENT_MIN;
  s = malloc (sizeof *s + size);
  if (s == NULL)
    return NULL;
  s->data = s->room;
  s->start = s->end = 0;
  s->size = size;
  TAILQ_INSERT_TAIL (&o->segments, s, link);
  return s->data;
}

void
out_commit (struct out *o, size_t len)
{
  struct out_segment *s = TAILQ_LAST (&o->segments, out_segments);

  assert (s != NULL && s->size - s->end >= len);
  s->end += len;
  o->bytes += len;
}

bool
out_append (struct out *o, const void *data, size_t len)
{
  uint8_t *p;

  if (len == 0)
    return true;
  p = out_space (o, len);
  if (p == NULL)
    return false;
  memcpy (p, data, len);
  out_commit (o, len);
  return true;
}

static struct out_segment *
segment_adopt (uint8_t *data, size_t offset, size_t len)
{
  struct out_segment *s = malloc (sizeof *s);

  assert (len > 0);
  if (s == NULL) {
    free (data);
    return NULL;
  }
  s->data = data;
  s->start = offset;
  s->end = s->size = offset + len;
  return s;
}

bool
out_adopt (struct out *o, uint8_t *data, size_t offset, size_t len)
{
  struct out_segment *s = segment_adopt (data, offset, len);

  if (s == NULL)
    return false;
  TAILQ_INSERT_TAIL (&o->segments, s, link);
  o->bytes += len;
  return true;
}

bool
out_adopt_first (struct out *o, uint8_t *data, size_t offset, size_t len)
{
  struct out_segment *s = segment_adopt (data, offset, len);

  if (s == NULL)
    return false;
  TAILQ_INSERT_HEAD (&o->segments, s, link);
  o->bytes += len;
  return true;
}

int
out_iovec (const struct out *o, struct iovec *iov, int max)
{
  struct out_segment *s;
  int n = 0;

  TAILQ_FOREACH (s, &o->segments, link) {
    if (n == max)
      break;
    if (s->start == s->end)
      continue;
    iov[n++] = (struct iovec) { s->data + s->start, s->end - s->start };
  }
  return n;
}

void
out_sent (struct out *o, size_t len)
{
  struct out_segment *s;
  size_t n;

  assert (len <= o->bytes);
  o->bytes -= len;
  while ((s = TAILQ_FIRST (&o->segments)) != NULL) {
    n = s->end - s->start < len ? s->end - s->start : len;
    s->start += n;
    len -= n;
    if (s->start < s->end)
      return;
    /* Keep one empty shared segment for the next replies. */
    if (TAILQ_NEXT (s, link) == NULL && s->data == s->room &&
        s->size == SEGMENT_MIN) {
      s->start = s->end = 0;
      return;
    }
    TAILQ_REMOVE (&o->segments, s, link);
    segment_free (s);
  }
}
