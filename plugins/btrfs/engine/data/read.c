/* data: reading files.
 *
 * One pass: dirty pages, then for what is left the extent map, then the cache
 * by disk address; what neither has is read from disk in one batch
 * (read_disk.c).  A pass whose mappings changed under it is repeated
 * (data_priv.h says why).
 */
#include <config.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/math.h"
#include "data/data_priv.h"

/* What a pass used, to be checked at its end. */
struct used {
  struct mapping map;
  uint64_t offset, len;
};

enum patience {
  READ_NOWAIT,                 /* give up rather than wait for a disk */
  READ_WAIT,
  READ_IN_CONVOY,              /* nor go to it before others are there */
};

struct pass {
  struct file_data *f;
  bool nowait;
  bool gave_up;
  struct used *used;
  size_t n, max;
  struct used few[8];
  struct miss *miss;
  size_t nmiss, max_miss;
  struct miss few_miss[8];
};

static void
pass_init (struct pass *p, struct file_data *f, bool nowait)
{
  p->f = f;
  p->nowait = nowait;
  p->gave_up = false;
  p->used = p->few;
  p->max = ARRAY_SIZE (p->few);
  p->miss = p->few_miss;
  p->max_miss = ARRAY_SIZE (p->few_miss);
  p->n = p->nmiss = 0;
}

static void
pass_done (struct pass *p)
{
  if (p->used != p->few)
    free (p->used);
  if (p->miss != p->few_miss)
    free (p->miss);
}

/* One more element in a growing array whose first room is FEW. */
static int
grow (void **v, size_t n, size_t *max, size_t size, const void *few)
{
  void *more;

  if (n < *max)
    return 0;
  more = malloc (2 * *max * size);
  if (more == NULL)
    return err_new (ERR_nomem, "read");
  memcpy (more, *v, n * size);
  if (*v != few)
    free (*v);
  *v = more;
  *max *= 2;
  return 0;
}

static int
note_used (struct pass *p, const struct mapping *m, uint64_t offset,
           uint64_t len)
{
  int r = grow ((void **) &p->used, p->n, &p->max, sizeof *p->used, p->few);

  if (r == 0)
    p->used[p->n++] = (struct used) { .map = *m, .offset = offset,
                                      .len = len };
  return r;
}

static int
note_miss (struct pass *p, uint64_t disk, size_t len, uint8_t *dst)
{
  struct miss *last = p->nmiss > 0 ? &p->miss[p->nmiss - 1] : NULL;
  int r;

  if (last != NULL && last->disk + last->len == disk
      && last->dst + last->len == dst && last->len + len <= MISS_MAX) {
    last->len += len;
    return 0;
  }
  r = grow ((void **) &p->miss, p->nmiss, &p->max_miss, sizeof *p->miss,
            p->few_miss);
  if (r == 0)
    p->miss[p->nmiss++] = (struct miss) { .disk = disk, .len = len,
                                          .dst = dst };
  return r;
}

/* LEN bytes at logical address DISK from the cache; note what is missing. */
static int
from_cache (struct pass *p, uint64_t disk, size_t len, uint8_t *dst)
{
  struct data *d = p->f->d;
  int r = 0;

  while (len > 0 && r == 0) {
    const unsigned at = disk & (CACHE_FRAME - 1);
    const unsigned n = MIN (len, (size_t) (CACHE_FRAME - at));
    unsigned missing = cache_copy (d->cache, cache_key (disk), at, n, dst);

    while (missing != 0 && r == 0) {
      const unsigned i = __builtin_ctz (missing);
      const unsigned start = MAX (at, i * d->ps);
      const unsigned end = MIN (at + n, (i + 1) * d->ps);

      r = note_miss (p, disk - at + start, end - start, dst + (start - at));
      missing &= missing - 1;
    }
    disk += n;
    len -= n;
    dst += n;
  }
  return r;
}

static int
one_mapping (struct pass *p, const struct mapping *m, uint64_t offset,
             size_t len, uint8_t *dst)
{
  bool done = true;
  int r = 0;

  switch (m->kind) {
  case MAP_HOLE:
  case MAP_PREALLOC:
    memset (dst, 0, len);
    return 0;
  case MAP_INLINE:
    if (p->nowait)
      done = false;
    else
      r = read_inline (p->f, offset, len, dst, &done);
    /* Not there any more: the map has changed, the pass is repeated. */
    if (r == 0 && !done && !p->nowait)
      return 0;
    break;
  default:
    if (m->compression == 0)
      return from_cache (p, mapping_disk (m, offset), len, dst);
    r = read_compressed (p->f, m, m->ext_offset + (offset - m->offset), len,
                         dst, p->nowait, &done);
  }
  if (!done)
    p->gave_up = true;
  return r;
}

static int
one_gap (struct pass *p, uint64_t offset, size_t len, uint8_t *dst)
{
  int r = 0;

  while (len > 0 && r == 0 && !p->gave_up) {
    struct mapping m;
    bool found = true;
    size_t n;

    if (p->nowait)
      map_peek (p->f, offset, &m, &found);
    else
      r = map_lookup (p->f, offset, &m);
    if (!found)
      p->gave_up = true;
    if (r < 0 || !found)
      return r;
    n = MIN ((uint64_t) len, m.offset + m.len - offset);
    r = note_used (p, &m, offset, n);
    if (r == 0)
      r = one_mapping (p, &m, offset, n, dst);
    offset += n;
    len -= n;
    dst += n;
  }
  return r;
}

/* Nothing that the pass used has moved since SEQ. */
static bool
still_valid (struct pass *p, uint64_t seq)
{
  size_t i;

  if (__atomic_load_n (&p->f->map_seq, __ATOMIC_ACQUIRE) == seq)
    return true;
  for (i = 0; i < p->n; ++i)
    if (!map_still (p->f, &p->used[i].map, p->used[i].offset,
                    p->used[i].len))
      return false;
  return true;
}

/* *ret_done false: give up (nowait), or repeat. */
static int
one_pass (struct file_data *f, uint8_t *buf, size_t len, uint64_t offset,
          enum patience how, bool *ret_done)
{
  const bool nowait = how == READ_NOWAIT;
  const uint64_t seq = __atomic_load_n (&f->map_seq, __ATOMIC_ACQUIRE);
  struct gaps gaps;
  struct pass p;
  size_t i;
  int r;

  *ret_done = false;
  gaps_init (&gaps);
  pass_init (&p, f, nowait);
  r = dirty_copy (f, buf, len, offset, &gaps);
  for (i = 0; i < gaps.n && r == 0 && !p.gave_up; ++i)
    r = one_gap (&p, gaps.v[i].offset, gaps.v[i].len,
                 buf + (gaps.v[i].offset - offset));
  if (r == 0 && p.nmiss > 0) {
    if (nowait)
      p.gave_up = true;
    else {
      if (how == READ_IN_CONVOY)
        convoy_wait (f, offset);
      r = read_misses (f, p.miss, p.nmiss, file_has_csums (f));
    }
  }
  if (!p.gave_up || !nowait) {
    /* An error from a place that is not the file's any more is no error. */
    const bool valid = still_valid (&p, seq);

    if (valid && r == 0 && !p.gave_up)
      *ret_done = true;
    else if (!valid && r < 0) {
      err_clear ();
      r = 0;
    }
  }
  pass_done (&p);
  gaps_done (&gaps);
  return r;
}

static int
read_with (struct file_data *f, void *buf, size_t len, uint64_t offset,
           enum patience how)
{
  bool done = false;
  int r = 0;

  /* Each repetition means that write-out or a punch went by in between. */
  while (r == 0 && !done)
    r = one_pass (f, buf, len, offset, how, &done);
  if (r < 0)
    return err_note (r, "read of tree %" PRIu64 " inode %" PRIu64
                     " offset %" PRIu64, f->inode->root->id, f->inode->ino,
                     offset);
  return 0;
}

int
file_read (struct file_data *f, void *buf, size_t len, uint64_t offset)
{
  return read_with (f, buf, len, offset, READ_WAIT);
}

int
data_read (struct data *d, struct inode *inode, void *buf, size_t len,
           uint64_t offset)
{
  struct file_data *f;
  int r;

  r = file_get (d, inode, &f);
  if (r == 0)
    r = file_check_range (f, offset, len);
  if (r < 0 || len == 0)
    return r;
  r = read_with (f, buf, len, offset, READ_IN_CONVOY);
  if (r < 0)
    return r;
  readahead_note (f, offset, len);
  return 0;
}

bool
data_try_read (struct data *d, struct inode *inode, void *buf, size_t len,
               uint64_t offset)
{
  struct file_data *f = __atomic_load_n (&inode->data, __ATOMIC_ACQUIRE);
  bool done = false;
  int r;

  if (f == NULL || offset >= DATA_FILE_END - CACHE_FRAME
      || offset > file_size (f) || len > file_size (f) - offset)
    return false;
  if (len == 0)
    return true;
  r = one_pass (f, buf, len, offset, READ_NOWAIT, &done);
  if (r < 0) {
    err_clear ();
    return false;
  }
  if (done) {
    data_count (&d->stats.hits, 1);
    readahead_note (f, offset, len);
  }
  return done;
}
