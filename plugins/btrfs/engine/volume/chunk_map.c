/* volume: the chunk map: logical addresses to places on devices.
 *
 * Mapping of offset `off` in a chunk, in stripes of 64 KiB, nr = off / 64K:
 *
 *   single, DUP, RAID1*   every stripe holds a copy:  stripe[i] + off
 *   RAID0                 row = nr / n, stripe nr % n
 *   RAID10                groups of sub_stripes copies: f = n / sub,
 *                         row = nr / f, stripes (nr % f) * sub + copy
 */
#include <config.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/math.h"
#include "format/super.h"
#include "volume/volume_priv.h"

#define STRIPE ((uint64_t) BTRFS_STRIPE_LEN)

static int
chunk_cmp (const struct chunk *a, const struct chunk *b)
{
  return a->info.logical < b->info.logical ? -1
    : a->info.logical > b->info.logical;
}

RB_GENERATE_INTERNAL (volume_chunks, chunk, entry, chunk_cmp,
                      __attribute__ ((unused)) static)

void
chunk_map_init (struct volume *v)
{
  mutex_init (&v->source_lock, RANK_CHUNK_SOURCE);
  rwlock_init (&v->mend_lock, RANK_MEND);
  rwlock_init (&v->lock, RANK_VOLUME);
  RB_INIT (&v->chunks);
}

static void
chunk_free (struct chunk *c)
{
  if (c == NULL)
    return;
  free (c->places);
  free (c);
}

void
chunk_map_done (struct volume *v)
{
  struct chunk *c, *next;

  for (c = RB_MIN (volume_chunks, &v->chunks); c != NULL; c = next) {
    next = RB_NEXT (volume_chunks, &v->chunks, c);
    RB_REMOVE (volume_chunks, &v->chunks, c);
    chunk_free (c);
  }
  rwlock_done (&v->lock);
  rwlock_done (&v->mend_lock);
  mutex_done (&v->source_lock);
}

/* The last chunk that begins at or before LOGICAL. */
static struct chunk *
find_before (const struct volume *v, uint64_t logical)
{
  struct chunk *c = RB_ROOT (&v->chunks), *best = NULL;

  while (c != NULL) {
    if (c->info.logical <= logical) {
      best = c;
      c = RB_RIGHT (c, entry);
    }
    else
      c = RB_LEFT (c, entry);
  }
  return best;
}

const struct chunk *
chunk_find (const struct volume *v, uint64_t logical)
{
  const struct chunk *c = find_before (v, logical);

  if (c == NULL || logical - c->info.logical >= c->info.length)
    return NULL;
  return c;
}

/* --- adding --- */

static int
bad_chunk (uint64_t logical, const char *what, uint64_t value)
{
  return err_new (ERR_chunk_format, "chunk %llu: %s %llu",
                  (unsigned long long) logical, what,
                  (unsigned long long) value);
}

/* The number of stripes must be one that the mapping can divide by. */
static int
check_shape (const struct chunk *c)
{
  const struct profile *p = c->profile;
  uint64_t logical = c->info.logical;
  unsigned n = c->info.num_stripes;

  if (n == 0 || n < p->devs_min * p->dev_stripes ||
      (p->devs_max > 0 && n != p->devs_max * p->dev_stripes))
    return bad_chunk (logical, "number of stripes", n);
  if (c->info.stripe_len != STRIPE)
    return bad_chunk (logical, "stripe length", c->info.stripe_len);
  if (p->sub_stripes > 1 &&
      (c->info.sub_stripes != p->sub_stripes || n % p->sub_stripes != 0))
    return bad_chunk (logical, "sub stripes", c->info.sub_stripes);
  if (c->info.length == 0 ||
      c->info.length > UINT64_MAX - c->info.logical)
    return bad_chunk (logical, "length", c->info.length);
  return 0;
}

static unsigned
data_stripes (const struct chunk *c)
{
  if (!c->profile->striped)
    return 1;
  return (c->info.num_stripes - c->profile->parity) / c->profile->copies;
}

/* Find the device of each stripe and check that the stripe lies on it. */
static int
resolve_devices (const struct volume *v, struct chunk *c)
{
  for (unsigned i = 0; i < c->info.num_stripes; ++i) {
    const struct chunk_stripe *s = &c->stripes[i];
    const struct volume_device *dev = NULL;
    uint64_t end;

    for (unsigned d = 0; d < v->ndevs; ++d)
      if (v->devs[d].pub.devid == s->devid) {
        dev = &v->devs[d].pub;
        c->places[i].dev = d;
      }
    if (dev == NULL)
      return err_new (ERR_chunk_device, "chunk %llu: device %llu",
                      (unsigned long long) c->info.logical,
                      (unsigned long long) s->devid);
    if (memcmp (c->places[i].uuid, dev->uuid, BTRFS_UUID_SIZE) != 0)
      return err_new (ERR_chunk_device,
                      "chunk %llu: uuid of device %llu is another",
                      (unsigned long long) c->info.logical,
                      (unsigned long long) s->devid);
    if (!add_ok (s->physical, c->info.physical_len, &end) ||
        end > device_get_info (dev->dev)->size)
      return err_new (ERR_chunk_device,
                      "chunk %llu: stripe at %llu is beyond the end of "
                      "device %llu", (unsigned long long) c->info.logical,
                      (unsigned long long) s->physical,
                      (unsigned long long) s->devid);
  }
  return 0;
}

static int
chunk_new (const struct volume *v, uint64_t logical,
           const struct btrfs_chunk *disk, struct chunk **ret)
{
  unsigned n = le16_get (disk->num_stripes);
  struct chunk *c = calloc (1, sizeof *c + n * sizeof c->stripes[0]);
  int r;

  if (c != NULL)
    c->places = calloc (MAX (n, 1u), sizeof *c->places);
  if (c == NULL || c->places == NULL) {
    chunk_free (c);
    return err_new (ERR_nomem, "chunk");
  }
  c->info = (struct chunk_info) {
    .logical = logical, .length = le64_get (disk->length),
    .type = le64_get (disk->type),
    .stripe_len = le64_get (disk->stripe_len), .num_stripes = n,
    .sub_stripes = le16_get (disk->sub_stripes), .stripes = c->stripes,
  };
  for (unsigned i = 0; i < n; ++i) {
    c->stripes[i].devid = le64_get (disk->stripes[i].devid);
    c->stripes[i].physical = le64_get (disk->stripes[i].offset);
    memcpy (c->places[i].uuid, disk->stripes[i].dev_uuid, BTRFS_UUID_SIZE);
  }
  c->profile = profile_of (c->info.type);
  r = c->profile ? check_shape (c)
    : bad_chunk (logical, "type", c->info.type);
  if (r == 0) {
    c->info.physical_len = c->info.length / data_stripes (c);
    r = resolve_devices (v, c);
  }
  if (r < 0) {
    chunk_free (c);
    return r;
  }
  *ret = c;
  return 0;
}

static bool
same_chunk (const struct chunk *a, const struct chunk *b)
{
  if (a->info.logical != b->info.logical ||
      a->info.length != b->info.length || a->info.type != b->info.type ||
      a->info.num_stripes != b->info.num_stripes ||
      a->info.sub_stripes != b->info.sub_stripes)
    return false;
  return memcmp (a->stripes, b->stripes,
                 a->info.num_stripes * sizeof a->stripes[0]) == 0;
}

/* Under the lock: link C in; *ret_known when it is there already. */
static int
chunk_link (struct volume *v, struct chunk *c, bool *ret_known)
{
  const struct chunk *old = find_before (v, c->info.logical + c->info.length
                                         - 1);

  *ret_known = false;
  if (old == NULL ||
      old->info.logical + old->info.length <= c->info.logical) {
    RB_INSERT (volume_chunks, &v->chunks, c);
    return 0;
  }
  *ret_known = same_chunk (old, c);
  if (*ret_known)
    return 0;
  return err_new (ERR_chunk_overlap, "%llu + %llu and %llu + %llu",
                  (unsigned long long) c->info.logical,
                  (unsigned long long) c->info.length,
                  (unsigned long long) old->info.logical,
                  (unsigned long long) old->info.length);
}

int
volume_add_chunk (struct volume *v, uint64_t logical,
                  const struct btrfs_chunk *disk)
{
  struct chunk *c;
  bool known;
  int r = chunk_new (v, logical, disk, &c);

  if (r < 0)
    return r;
  rwlock_wrlock (&v->lock);
  r = chunk_link (v, c, &known);
  rwlock_unlock (&v->lock);
  if (r < 0 || known)
    chunk_free (c);
  return r;
}

void
volume_remove_chunk (struct volume *v, uint64_t logical)
{
  struct chunk key = { .info.logical = logical }, *c;

  rwlock_wrlock (&v->lock);
  c = RB_FIND (volume_chunks, &v->chunks, &key);
  if (c != NULL)
    RB_REMOVE (volume_chunks, &v->chunks, c);
  rwlock_unlock (&v->lock);
  chunk_free (c);
}

/* --- the rest of the map --- */

void
volume_set_chunk_source (struct volume *v, const struct chunk_source *source)
{
  v->source = source ? *source : (struct chunk_source) { .all = NULL };
}

static bool
is_known (struct volume *v, uint64_t logical)
{
  bool known;

  rwlock_rdlock (&v->lock);
  known = chunk_find (v, logical) != NULL;
  rwlock_unlock (&v->lock);
  return known;
}

int
chunk_need (struct volume *v, uint64_t logical)
{
  if (chunk_map_is_whole (v) || is_known (v, logical))
    return 0;
  SCOPED_LOCK (&v->source_lock);
  if (chunk_map_is_whole (v) || is_known (v, logical))
    return 0;
  return err_note (v->source.around (v->source.opaque, logical),
                   "the chunk of %llu", (unsigned long long) logical);
}

int
volume_load_chunks (struct volume *v)
{
  int r;

  if (chunk_map_is_whole (v))
    return 0;
  SCOPED_LOCK (&v->source_lock);
  if (chunk_map_is_whole (v))
    return 0;
  r = v->source.all (v->source.opaque);
  if (r < 0)
    return err_note (r, "reading all chunks");
  atomic_store_explicit (&v->whole, true, memory_order_release);
  return 0;
}

/* --- asking --- */

static bool
copy_info (struct volume *v, uint64_t logical, struct chunk_info *ret)
{
  const struct chunk *c;

  rwlock_rdlock (&v->lock);
  c = chunk_find (v, logical);
  if (c != NULL)
    *ret = c->info;
  rwlock_unlock (&v->lock);
  return c != NULL;
}

int
volume_get_chunk (struct volume *v, uint64_t logical, struct chunk_info *ret)
{
  int r;

  if (copy_info (v, logical, ret))
    return 0;
  r = chunk_need (v, logical);
  if (r == 0 && !copy_info (v, logical, ret))
    r = err_new (ERR_unmapped, "%llu", (unsigned long long) logical);
  return r;
}

bool
volume_next_chunk (struct volume *v, uint64_t logical,
                   struct chunk_info *ret)
{
  const struct chunk *c;

  assert (chunk_map_is_whole (v));
  rwlock_rdlock (&v->lock);
  c = chunk_find (v, logical);
  if (c == NULL) {
    const struct chunk *before = find_before (v, logical);

    c = before ? RB_NEXT (volume_chunks, &v->chunks, (struct chunk *) before)
      : RB_MIN (volume_chunks, &v->chunks);
  }
  if (c != NULL)
    *ret = c->info;
  rwlock_unlock (&v->lock);
  return c != NULL;
}

unsigned
volume_num_mirrors (struct volume *v, uint64_t logical)
{
  const struct chunk *c;
  unsigned count = 0;

  rwlock_rdlock (&v->lock);
  c = chunk_find (v, logical);
  if (c != NULL)
    count = c->profile->copies;
  rwlock_unlock (&v->lock);
  return count;
}

int
chunk_map (const struct chunk *c, uint64_t logical, uint64_t len,
           struct piece *ret)
{
  const struct profile *p = c->profile;
  uint64_t off = logical - c->info.logical;
  uint64_t physical = off;
  unsigned first = 0;

  if (p->parity > 0)
    return err_new (ERR_profile, "chunk %llu is %s",
                    (unsigned long long) c->info.logical, p->name);
  ret->len = MIN (len, c->info.length - off);
  if (p->striped) {
    uint64_t nr = off / STRIPE, in = off % STRIPE;
    unsigned groups = c->info.num_stripes / p->copies;

    first = (nr % groups) * p->copies;
    physical = nr / groups * STRIPE + in;
    ret->len = MIN (ret->len, STRIPE - in);
  }
  ret->copies = p->copies;
  ret->tolerated = p->tolerated;
  for (unsigned i = 0; i < p->copies; ++i)
    ret->at[i] = (struct place) {
      .dev = c->places[first + i].dev,
      .physical = c->stripes[first + i].physical + physical,
    };
  return 0;
}

/* Stripes of one group lost at once; parity profiles: of the whole row. */
static bool
chunk_survives (const struct chunk *c, const bool *lost)
{
  const struct profile *p = c->profile;
  unsigned n = c->info.num_stripes;
  unsigned group = p->parity > 0 ? n : p->copies;

  for (unsigned first = 0; first < n; first += group) {
    unsigned count = 0;

    for (unsigned i = first; i < MIN (first + group, n); ++i)
      count += lost[c->places[i].dev];
    if (count > p->tolerated)
      return false;
  }
  return true;
}

bool
chunk_map_survives (struct volume *v, const bool *lost)
{
  struct chunk *c;
  bool ok = true;

  rwlock_rdlock (&v->lock);
  RB_FOREACH (c, volume_chunks, &v->chunks) {
    ok = chunk_survives (c, lost);
    if (!ok)
      break;
  }
  rwlock_unlock (&v->lock);
  return ok;
}

/* --- superblock copies inside chunks --- */

struct ranges {
  struct volume_extent *list;
  unsigned count, max;
};

static void
range_add (struct ranges *r, uint64_t start, uint64_t len)
{
  for (unsigned i = 0; i < r->count; ++i)
    if (r->list[i].start == start && r->list[i].len == len)
      return;
  if (r->count < r->max)
    r->list[r->count++] = (struct volume_extent) { start, len };
}

/* Rows FIRST .. LAST of stripe INDEX hold a copy of the superblock. */
static void
rows_add (struct ranges *r, const struct chunk *c, unsigned index,
          uint64_t first, uint64_t last)
{
  const struct profile *p = c->profile;
  uint64_t n = data_stripes (c);

  for (uint64_t row = first; row <= last; ++row) {
    uint64_t off = row * n * STRIPE, len = n * STRIPE;

    if (p->parity == 0) {
      off += p->striped ? index / p->copies * STRIPE : 0;
      len = STRIPE;
    }
    if (off < c->info.length)
      range_add (r, c->info.logical + off, MIN (len, c->info.length - off));
  }
}

unsigned
volume_super_ranges (struct volume *v, uint64_t logical,
                     struct volume_extent *ret, unsigned max)
{
  struct chunk key = { .info.logical = logical };
  struct ranges r = { .list = ret, .max = max };
  const struct chunk *c;

  rwlock_rdlock (&v->lock);
  c = RB_FIND (volume_chunks, &v->chunks, &key);
  if (c != NULL && logical < STRIPE)
    range_add (&r, logical, MIN (STRIPE - logical, c->info.length));
  for (unsigned i = 0; c != NULL && i < c->info.num_stripes; ++i) {
    uint64_t begin = c->stripes[i].physical;
    uint64_t end = begin + c->info.physical_len;

    for (unsigned copy = 0; copy < BTRFS_SUPER_COPIES; ++copy) {
      uint64_t s = super_offset (copy);

      if (s + STRIPE <= begin || s >= end)
        continue;
      rows_add (&r, c, i, (MAX (s, begin) - begin) / STRIPE,
                (MIN (s + STRIPE, end) - 1 - begin) / STRIPE);
    }
  }
  rwlock_unlock (&v->lock);
  return r.count;
}
