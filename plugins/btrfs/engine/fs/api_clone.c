/* The public API: files that share data. */
#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/math.h"
#include "fs/api_priv.h"

/* What is compared and shared at once by btrnbd_dedupe. */
#define DEDUPE_PIECE (128 * 1024)

struct pair {
  struct inode *from, *to;     /* referenced */
  bool to_volume;
};

static void
pair_done (struct pair *x)
{
  inode_put (x->from);
  inode_put (x->to);
}

static int
pair_find (struct btrnbd_pool *p, const char *from, const char *to,
           struct pair *x)
{
  bool volume;
  int r;

  r = pool_check_writable (p);
  if (r == 0)
    r = export_resolve (p, from, &x->from, &volume);
  if (r == 0)
    r = export_resolve (p, to, &x->to, &x->to_volume);
  if (r == 0 && api_root_read_only (x->to->root))
    r = err_new (ERR_inode_readonly, "%s", to);
  return r;
}

static uint64_t
size_of (struct inode *in)
{
  SCOPED_LOCK (&in->lock);
  return in->size;
}

/* The size of a volume stays what clients have been told. */
static int
check_volume (const struct pair *x, uint64_t from, uint64_t len, uint64_t to)
{
  const uint64_t size = size_of (x->to), src = size_of (x->from);

  if (len == 0)
    len = src - MIN (from, src);
  if (x->to_volume && (to > size || len > size - to))
    return err_new (ERR_file_range, "a volume of %llu bytes",
                    (unsigned long long) size);
  return 0;
}

int
btrnbd_clone_range (struct btrnbd_pool *p, const char *from, uint64_t offset,
                    uint64_t len, const char *to, uint64_t to_offset)
{
  struct pair x = { NULL };
  int r;

  r = pair_find (p, from, to, &x);
  if (r == 0)
    r = check_volume (&x, offset, len, to_offset);
  if (r == 0)
    r = data_clone (p->fs->data, x.from, offset, len, x.to, to_offset);
  if (r == 0)
    r = api_sync_inode (p, x.to);
  pair_done (&x);
  return r < 0 ? err_note (r, "%s to %s", from, to) : 0;
}

static int
copy_unit (struct btrnbd_pool *p, struct inode *from, struct inode *to)
{
  const uint64_t unit = data_unit (p->fs->data, from);
  char text[24];

  if (unit == data_unit (p->fs->data, to))
    return 0;
  snprintf (text, sizeof text, "%" PRIu64, unit);
  return inode_setxattr (to, DATA_UNIT_XATTR, text, strlen (text));
}

/* A new file at PATH, of FROM's kind. */
static int
make_like (struct btrnbd_pool *p, struct inode *from, const char *path)
{
  struct inode_new new = { .mode = S_IFREG | 0600 };
  struct inode *dir = NULL, *in = NULL;
  const char *name;
  size_t len;
  int r;

  {
    SCOPED_LOCK (&from->lock);
    new.mode = from->mode;
    new.flags = from->flags & (BTRFS_INODE_NODATACOW | BTRFS_INODE_NODATASUM);
  }
  r = api_walk_new (p, path, &dir, &name, &len);
  if (r == 0)
    r = inode_create (dir, name, len, &new, &in);
  if (r == 0)
    r = copy_unit (p, from, in);
  inode_put (in);
  inode_put (dir);
  return r;
}

static int
make_if_missing (struct btrnbd_pool *p, const char *from, const char *to)
{
  struct inode *in = NULL;
  const char *path;
  bool volume;
  int r;

  r = pool_check_writable (p);
  if (r == 0)
    r = export_name_check (to, &path);
  if (r == 0)
    r = api_walk (p, path, &in);
  inode_put (in);
  if (r != -ERR_not_found)
    return r;
  err_clear ();
  in = NULL;
  r = export_resolve (p, from, &in, &volume);
  if (r == 0)
    r = make_like (p, in, path);
  inode_put (in);
  return r;
}

/* What is behind the end of the copy goes, or reads as zeroes in a volume. */
static int
cut_behind (struct btrnbd_pool *p, const struct pair *x)
{
  const uint64_t size = size_of (x->from), now = size_of (x->to);
  int r;

  if (now <= size)
    return 0;
  if (x->to_volume)
    return data_punch (p->fs->data, x->to, size, now - size);
  mutex_lock (&p->open_lock);
  if (open_handles (p, x->to) > 0)
    r = err_new (ERR_busy, "it is open and cannot shrink");
  else
    r = data_set_size (p->fs->data, x->to, size);
  mutex_unlock (&p->open_lock);
  return r;
}

int
btrnbd_reflink (struct btrnbd_pool *p, const char *from, const char *to)
{
  const uint32_t sector = volume_format (p->fs->volume)->sectorsize;
  struct pair x = { NULL };
  int r;

  r = make_if_missing (p, from, to);
  if (r == 0)
    r = pair_find (p, from, to, &x);
  if (r == 0 && x.from == x.to)
    r = err_new (ERR_invalid, "a copy of itself");
  if (r == 0 && x.to_volume && size_of (x.from) % sector != 0)
    r = err_new (ERR_invalid, "the size of %s does not suit a volume", from);
  if (r == 0)
    r = check_volume (&x, 0, 0, 0);
  if (r == 0)
    r = cut_behind (p, &x);
  if (r == 0)
    r = data_clone (p->fs->data, x.from, 0, 0, x.to, 0);
  if (r == 0)
    r = api_sync_inode (p, x.to);
  pair_done (&x);
  return r < 0 ? err_note (r, "%s to %s", from, to) : 0;
}

int
btrnbd_dedupe_range (struct btrnbd_pool *p, const char *from, uint64_t offset,
                     uint64_t len, const char *to, uint64_t to_offset,
                     uint64_t *ret_shared)
{
  struct pair x = { NULL };
  int r;

  *ret_shared = 0;
  r = pair_find (p, from, to, &x);
  if (r == 0)
    r = data_dedupe (p->fs->data, x.from, offset, len, x.to, to_offset,
                     ret_shared);
  if (r == 0)
    r = api_sync_inode (p, x.to);
  pair_done (&x);
  return r < 0 ? err_note (r, "%s and %s", from, to) : 0;
}

static int
dedupe_all (struct btrnbd_pool *p, const struct pair *x, uint64_t *ret_shared)
{
  const uint32_t sector = volume_format (p->fs->volume)->sectorsize;
  const uint64_t a = size_of (x->from), b = size_of (x->to);
  const uint64_t size = a == b ? a : round_down (MIN (a, b), sector);
  uint64_t at;
  int r = 0;

  for (at = 0; at < size && r == 0; at += DEDUPE_PIECE) {
    const uint64_t n = MIN (size - at, (uint64_t) DEDUPE_PIECE);
    uint64_t shared;

    r = data_dedupe (p->fs->data, x->from, at, n, x->to, at, &shared);
    *ret_shared += shared;
    if (r == -ERR_differs) {
      err_clear ();
      r = 0;
    }
  }
  return r;
}

int
btrnbd_dedupe (struct btrnbd_pool *p, const char *from, const char *to,
               uint64_t *ret_shared)
{
  struct pair x = { NULL };
  int r;

  *ret_shared = 0;
  r = pair_find (p, from, to, &x);
  if (r == 0 && x.from == x.to)
    r = err_new (ERR_invalid, "a file and itself");
  if (r == 0)
    r = dedupe_all (p, &x, ret_shared);
  if (r == 0)
    r = api_sync_inode (p, x.to);
  pair_done (&x);
  return r < 0 ? err_note (r, "%s and %s", from, to) : 0;
}
