/* data: what kind of data is where, for block status. */
#include <config.h>

#include "base/err.h"
#include "base/math.h"
#include "data/data_priv.h"

struct walk {
  data_extent_fn fn;
  void *opaque;
  struct data_extent last;     /* len 0: none yet */
};

static int
flush (struct walk *w)
{
  int r = 0;

  if (w->last.len > 0)
    r = w->fn (w->opaque, &w->last);
  w->last.len = 0;
  return r;
}

static int
emit (struct walk *w, uint64_t offset, uint64_t len,
      enum data_extent_kind kind)
{
  int r = 0;

  if (len == 0)
    return 0;
  if (w->last.len > 0 && w->last.kind == kind) {
    w->last.len += len;
    return 0;
  }
  r = flush (w);
  w->last = (struct data_extent) { .offset = offset, .len = len,
                                   .kind = kind };
  return r;
}

static enum data_extent_kind
kind_of (const struct mapping *m)
{
  switch (m->kind) {
  case MAP_HOLE:
    return DATA_EXTENT_HOLE;
  case MAP_PREALLOC:
    return DATA_EXTENT_PREALLOC;
  default:
    return DATA_EXTENT_DATA;
  }
}

/* [pos, end) has one mapping; dirty parts of it are data. */
static int
one_mapping (struct file_data *f, struct walk *w,
             enum data_extent_kind kind, uint64_t pos, uint64_t end)
{
  int r = 0;

  while (pos < end && r == 0) {
    uint64_t start = end, stop = end;

    if (kind != DATA_EXTENT_DATA
        && dirty_next (f, pos, end, &start, &stop)) {
      start = MAX (start, pos);
      stop = MIN (stop, end);
    }
    r = emit (w, pos, start - pos, kind);
    if (r == 0)
      r = emit (w, start, stop - start, DATA_EXTENT_DATA);
    pos = stop;
  }
  return r;
}

int
data_extents (struct data *d, struct inode *inode, uint64_t offset,
              uint64_t len, data_extent_fn fn, void *opaque)
{
  struct walk w = { .fn = fn, .opaque = opaque };
  struct file_data *f;
  uint64_t pos = offset, end;
  int r;

  r = file_get (d, inode, &f);
  if (r == 0)
    r = file_check_range (f, offset, len);
  if (r < 0)
    return r;
  for (end = offset + len; pos < end && r == 0;) {
    struct mapping m;
    uint64_t stop;

    r = map_lookup (f, pos, &m);
    if (r < 0)
      return r;
    stop = MIN (end, m.offset + m.len);
    r = one_mapping (f, &w, kind_of (&m), pos, stop);
    pos = stop;
  }
  return r == 0 ? flush (&w) : r;
}
