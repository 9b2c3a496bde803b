/* fs: the pool itself as a read-only image: opening, capture, reading. */
#include <config.h>

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "base/math.h"
#include "format/super.h"
#include "fs/commit_priv.h"
#include "fs/image.h"

/* What a chunk has of a device, byte by byte in the order of its addresses. */
struct image_chunk {
  uint64_t start, len, logical;
};

struct image_device {
  uint64_t devid, size;
  unsigned copies;             /* of the superblock that it has room for */
  struct btrfs_super super[BTRFS_SUPER_COPIES];
  /* Ascending and apart: all that may be data, and what of that is known. */
  struct volume_extent *used;
  struct image_chunk *chunk;
  size_t num_used, max_used, num_chunks, max_chunks;
};

/* Constant when it has been made. */
struct image {
  struct images *images;
  uint64_t hold;               /* 0: nothing has to be held */
  uint64_t generation;
  int error;                   /* of the capture */
  unsigned num_devices;
  struct image_device *devices;

  unsigned users;              /* protected by images->lock */
};

struct images {
  struct fs *fs;
  uint64_t limit;
  struct mutex lock;           /* RANK_IMAGE; protects all below */
  struct cond made;
  bool making;
  struct image *current;       /* the newest, while somebody has it open */
  bool told;                   /* that it was ended */
};

int
images_new (struct fs *fs, struct images **ret)
{
  struct images *is = calloc (1, sizeof *is);
  unsigned i;

  if (is == NULL)
    return err_new (ERR_nomem, "image");
  is->fs = fs;
  is->limit = fs->opts.image_reserve;
  for (i = 0; fs->opts.image_reserve == 0 && i
         < volume_num_devices (fs->volume); i++)
    is->limit += volume_device (fs->volume, i)->total_bytes / 10;
  mutex_init (&is->lock, RANK_IMAGE);
  cond_init (&is->made);
  *ret = is;
  return 0;
}

void
images_free (struct images *is)
{
  if (is == NULL)
    return;
  assert (is->current == NULL && !is->making);
  cond_done (&is->made);
  mutex_done (&is->lock);
  free (is);
}

static void
image_free (struct image *im)
{
  unsigned i;

  if (im == NULL)
    return;
  for (i = 0; i < im->num_devices; i++) {
    free (im->devices[i].used);
    free (im->devices[i].chunk);
  }
  free (im->devices);
  free (im);
}

static int
image_new (struct images *is, struct image **ret)
{
  struct volume *v = is->fs->volume;
  struct image *im = calloc (1, sizeof *im);
  unsigned i;

  if (im) {
    im->num_devices = volume_num_devices (v);
    im->devices = calloc (im->num_devices, sizeof *im->devices);
  }
  if (im == NULL || im->devices == NULL) {
    free (im);
    return err_new (ERR_nomem, "image");
  }
  im->images = is;
  for (i = 0; i < im->num_devices; i++) {
    const struct volume_device *d = volume_device (v, i);

    im->devices[i].devid = d->devid;
    im->devices[i].size = device_get_info (d->dev)->size;
  }
  *ret = im;
  return 0;
}

/* --- what is where --- */

static int
chunk_by_start (const void *a, const void *b)
{
  const struct image_chunk *x = a, *y = b;

  return x->start < y->start ? -1 : x->start > y->start;
}

static int
by_start (const void *a, const void *b)
{
  const struct volume_extent *x = a, *y = b;

  return x->start < y->start ? -1 : x->start > y->start;
}

static int
add_used (struct image_device *d, uint64_t start, uint64_t len)
{
  const size_t max = d->max_used ? 2 * d->max_used : 64;
  struct volume_extent *used;

  if (d->num_used == d->max_used) {
    used = reallocarray (d->used, max, sizeof *used);
    if (used == NULL)
      return err_new (ERR_nomem, "image");
    d->used = used;
    d->max_used = max;
  }
  d->used[d->num_used++] = (struct volume_extent) { start, len };
  return 0;
}

static int
add_chunk (struct image_device *d, uint64_t start, uint64_t len,
           uint64_t logical)
{
  const size_t max = d->max_chunks ? 2 * d->max_chunks : 64;
  struct image_chunk *chunk;

  if (d->num_chunks == d->max_chunks) {
    chunk = reallocarray (d->chunk, max, sizeof *chunk);
    if (chunk == NULL)
      return err_new (ERR_nomem, "image");
    d->chunk = chunk;
    d->max_chunks = max;
  }
  d->chunk[d->num_chunks++] = (struct image_chunk) { start, len, logical };
  return 0;
}

/* The part of C on its stripe K. */
static int
add_stripe (struct image_device *d, const struct chunk_info *c, unsigned k)
{
  const uint64_t striped = BTRFS_BG_RAID0 | BTRFS_BG_RAID10 | BTRFS_BG_RAID5
    | BTRFS_BG_RAID6;
  int r = add_used (d, c->stripes[k].physical, c->physical_len);

  if (r == 0 && (c->type & striped) == 0)
    r = add_chunk (d, c->stripes[k].physical, c->physical_len, c->logical);
  return r;
}

/* Sorted, neighbours joined, nothing behind the end. */
static void
tidy_used (struct image_device *d)
{
  size_t i, n = 0;

  qsort (d->used, d->num_used, sizeof *d->used, by_start);
  for (i = 0; i < d->num_used; i++) {
    struct volume_extent e = d->used[i], *last = n ? &d->used[n - 1] : NULL;

    if (e.start >= d->size)
      break;
    e.len = MIN (e.len, d->size - e.start);
    if (last && e.start <= last->start + last->len)
      last->len = MAX (last->len, e.start + e.len - last->start);
    else
      d->used[n++] = e;
  }
  d->num_used = n;
}

/* The map may still have chunks that the commit removed; they do no harm. */
static int
find_used (struct image *im)
{
  struct volume *v = im->images->fs->volume;
  struct chunk_info c;
  uint64_t at = 0;
  unsigned i, k;
  int r = 0;

  for (i = 0; i < im->num_devices && r == 0; i++) {
    r = add_used (&im->devices[i], 0, BTRFS_DEV_RESERVED);
    for (k = 0; k < im->devices[i].copies && r == 0; k++)
      r = add_used (&im->devices[i], super_offset (k), BTRFS_SUPER_SIZE);
  }
  if (r == 0)
    r = volume_load_chunks (v);
  while (r == 0 && volume_next_chunk (v, at, &c)) {
    for (i = 0; i < c.num_stripes; i++)
      for (k = 0; k < im->num_devices && r == 0; k++)
        if (im->devices[k].devid == c.stripes[i].devid)
          r = add_stripe (&im->devices[k], &c, i);
    if (!add_ok (c.logical, c.length, &at))
      break;
  }
  for (i = 0; i < im->num_devices; i++) {
    struct image_device *d = &im->devices[i];

    tidy_used (d);
    qsort (d->chunk, d->num_chunks, sizeof *d->chunk, chunk_by_start);
  }
  return r;
}

static void
set_supers (struct image_device *d, const struct btrfs_super *super)
{
  const uint64_t total = le64_get (super->dev_item.total_bytes);
  unsigned i;

  for (i = 0; i < BTRFS_SUPER_COPIES; i++) {
    if (i > 0 && super_offset (i) + BTRFS_SUPER_SIZE >= total)
      break;
    d->super[i] = *super;
    d->super[i].log_root = le64_make (0);
    d->super[i].log_root_level = 0;
    super_seal_copy (&d->super[i], i);
  }
  d->copies = i;
}

void
image_capture (struct image *im, const struct btrfs_super *super)
{
  struct fs *fs = im->images->fs;
  struct btrfs_super s;
  unsigned i;

  im->generation = le64_get (super->generation);
  space_hold_capture (fs->space, im->hold, im->generation);
  for (i = 0; i < im->num_devices; i++) {
    s = *super;
    volume_super_fill (fs->volume, i, &s);
    set_supers (&im->devices[i], &s);
  }
  im->error = find_used (im);
  if (im->error < 0)
    err_clear ();
}

/* --- opening --- */

/* Of a pool that is not written to any more: what its superblocks say.  A log
 * that they lead to is left out.
 */
static int
from_disk (struct image *im)
{
  CLEANUP_FREE struct btrfs_super *s = io_alloc (sizeof *s);
  struct fs *fs = im->images->fs;
  unsigned i;
  int r = s ? 0 : err_new (ERR_nomem, "image");

  for (i = 0; i < im->num_devices && r == 0; i++) {
    r = volume_super_read (fs->volume, i, fs->opts.super_copy, s);
    if (r < 0)
      break;
    im->generation = MAX (im->generation, le64_get (s->generation));
    set_supers (&im->devices[i], s);
  }
  return r < 0 ? r : find_used (im);
}

static int
commit_anew (struct fs *fs)
{
  struct txn *txn;
  int r = txn_join (fs->trans, &txn);

  if (r == 0)
    r = txn_end (txn);
  return r < 0 ? r : trans_commit (fs->trans, NULL);
}

/* Twice: so that nearly all is written before writes in place are refused,
 * and the commit that is captured is a short one.
 */
static int
from_commit (struct image *im)
{
  struct fs *fs = im->images->fs;
  int r = fs_commit (fs);

  if (r == 0)
    r = space_hold_begin (fs->space, im->images->limit, &im->hold);
  if (r < 0)
    return r;
  commit_set_image (fs, im);
  r = commit_anew (fs);
  commit_set_image (fs, NULL);
  if (r == 0 && im->error < 0)
    r = err_new (ERR_nomem, "image");
  if (r == 0)
    r = space_hold_check (fs->space, im->hold);
  if (r < 0)
    space_hold_end (fs->space, im->hold);
  return r;
}

static int
image_make (struct images *is, struct image **ret)
{
  struct fs *fs = is->fs;
  struct image *im = NULL;
  int r = image_new (is, &im);

  if (r < 0)
    return r;
  if (fs->read_only || trans_check (fs->trans) < 0) {
    err_clear ();
    r = from_disk (im);
  }
  else
    r = from_commit (im);
  if (r < 0) {
    image_free (im);
    return err_note (r, "the image of the pool");
  }
  log_info ("the image of the pool is open: generation %" PRIu64,
            im->generation);
  *ret = im;
  return 0;
}

static int
check (struct image *im)
{
  return im->hold == 0 ? 0
    : space_hold_check (im->images->fs->space, im->hold);
}

static bool
is_good (struct image *im)
{
  const bool good = check (im) == 0;

  if (!good)
    err_clear ();
  return good;
}

int
image_get (struct images *is, struct image **ret)
{
  struct image *im = NULL;
  int r = 0;

  if (is->fs->opts.no_image)
    return err_new (ERR_not_found, "image-reserve is 0: the pool has no "
                    "image");
  mutex_lock (&is->lock);
  while (is->making)
    cond_wait (&is->made, &is->lock);
  /* Those who have one open that was ended keep it. */
  if (is->current == NULL || !is_good (is->current)) {
    is->making = true;
    mutex_unlock (&is->lock);
    r = image_make (is, &im);
    mutex_lock (&is->lock);
    is->making = false;
    if (r == 0) {
      is->current = im;
      is->told = false;
    }
    cond_broadcast (&is->made);
  }
  if (r == 0) {
    *ret = is->current;
    is->current->users++;
  }
  mutex_unlock (&is->lock);
  return r;
}

void
image_put (struct image *im)
{
  struct images *is = im->images;
  bool last;

  mutex_lock (&is->lock);
  last = --im->users == 0;
  if (last) {
    if (is->current == im)
      is->current = NULL;
    /* Here, so that the next one does not begin before. */
    if (im->hold)
      space_hold_end (is->fs->space, im->hold);
  }
  mutex_unlock (&is->lock);
  if (last)
    image_free (im);
}

/* --- reading --- */

uint64_t
image_size (const struct image *im, unsigned dev)
{
  return im->devices[dev].size;
}

/* Do chunks have OFFSET? */
static bool
is_used (const struct image_device *d, uint64_t offset, uint64_t *len)
{
  size_t lo = 0, hi = d->num_used, mid;
  bool used;

  /* The first extent that ends behind OFFSET. */
  while (lo < hi) {
    mid = lo + (hi - lo) / 2;
    if (d->used[mid].start + d->used[mid].len <= offset)
      lo = mid + 1;
    else
      hi = mid;
  }
  used = lo < d->num_used && d->used[lo].start <= offset;
  if (used)
    *len = MIN (*len, d->used[lo].start + d->used[lo].len - offset);
  else if (lo < d->num_used)
    *len = MIN (*len, d->used[lo].start - offset);
  return used;
}

/* The chunk that has OFFSET in the order of its addresses, or NULL. */
static const struct image_chunk *
chunk_at (const struct image_device *d, uint64_t offset, uint64_t *len)
{
  size_t lo = 0, hi = d->num_chunks, mid;
  const struct image_chunk *c;

  while (lo < hi) {
    mid = lo + (hi - lo) / 2;
    if (d->chunk[mid].start + d->chunk[mid].len <= offset)
      lo = mid + 1;
    else
      hi = mid;
  }
  if (lo == d->num_chunks)
    return NULL;
  c = &d->chunk[lo];
  if (c->start > offset) {
    *len = MIN (*len, c->start - offset);
    return NULL;
  }
  *len = MIN (*len, c->start + c->len - offset);
  return c;
}

bool
image_is_data (struct image *im, unsigned dev, uint64_t offset, uint64_t len,
               uint64_t *ret_len)
{
  const struct image_device *d = &im->devices[dev];
  const struct image_chunk *c = NULL;
  bool data = is_used (d, offset, &len);

  if (data && im->hold)
    c = chunk_at (d, offset, &len);
  if (c)
    data = space_hold_may_use (im->images->fs->space, im->hold,
                               c->logical + (offset - c->start), len, &len);
  *ret_len = len;
  return data;
}

/* The superblocks of the image in what the device has. */
static void
overlay (const struct image_device *d, uint8_t *buf, size_t len,
         uint64_t offset)
{
  unsigned i;

  for (i = 0; i < d->copies; i++) {
    const uint64_t s = super_offset (i), from = MAX (s, offset);
    const uint64_t to = MIN (s + BTRFS_SUPER_SIZE, offset + len);

    if (from < to)
      memcpy (buf + (from - offset),
              (const uint8_t *) &d->super[i] + (from - s), to - from);
  }
}

#define GAP (64 * 1024)        /* cheaper to read than to leave out */

/* From OFFSET, which is data, up to a larger gap. */
static uint64_t
stretch (struct image *im, unsigned dev, uint64_t offset, uint64_t len)
{
  uint64_t done = 0, at = 0, part;

  for (; at < len; at += part)
    if (image_is_data (im, dev, offset + at, len - at, &part))
      done = at + part;
    else if (part >= GAP)
      break;
  return done;
}

/* What was read and the image does not lead to. */
static void
zero_gaps (struct image *im, unsigned dev, uint8_t *buf, size_t len,
           uint64_t offset)
{
  uint64_t at, part;

  for (at = 0; at < len; at += part)
    if (!image_is_data (im, dev, offset + at, len - at, &part))
      memset (buf + at, 0, part);
}

static int
read_all (struct image *im, unsigned dev, uint8_t *buf, size_t len,
          uint64_t offset)
{
  uint64_t part;
  int r = 0;

  for (; len > 0 && r == 0; offset += part, buf += part, len -= part) {
    if (!image_is_data (im, dev, offset, len, &part)) {
      memset (buf, 0, part);
      continue;
    }
    part = stretch (im, dev, offset, len);
    r = volume_read_device (im->images->fs->volume, dev, offset, buf, part);
    if (r == 0)
      zero_gaps (im, dev, buf, part, offset);
  }
  return r;
}

int
image_read (struct image *im, unsigned dev, void *buf, size_t len,
            uint64_t offset)
{
  const struct image_device *d = &im->devices[dev];
  int r = check (im);

  if (offset > d->size || len > d->size - offset)
    return err_new (ERR_file_range, "%zu bytes at %" PRIu64, len, offset);
  if (r == 0)
    r = read_all (im, dev, buf, len, offset);
  /* Nothing was written over while it was read, if it is in place still. */
  if (r == 0)
    r = check (im);
  if (r < 0)
    return r;
  overlay (d, buf, len, offset);
  return 0;
}

/* --- telling --- */

void
images_get_info (struct images *is, struct image_info *ret)
{
  *ret = (struct image_info) {
    .limit = is->fs->opts.no_image ? 0 : is->limit };
  SCOPED_LOCK (&is->lock);
  if (is->current == NULL)
    return;
  ret->clients = is->current->users;
  ret->generation = is->current->generation;
  if (is->current->hold)
    ret->ended = space_hold_why (is->fs->space, is->current->hold);
}

void
images_tell (struct images *is)
{
  const struct fs_opts *o = &is->fs->opts;
  const char *why = NULL;
  uint64_t generation = 0;

  {
    SCOPED_LOCK (&is->lock);
    if (is->current && is->current->hold && !is->told) {
      why = space_hold_why (is->fs->space, is->current->hold);
      generation = is->current->generation;
      is->told = why != NULL;
    }
  }
  if (why && o->image_ended)
    o->image_ended (o->image_ended_opaque, generation, why);
}
