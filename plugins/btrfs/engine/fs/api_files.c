/* The public API: open files, I/O and durability.
 *
 * All handles of one inode share its in-memory state, so what one connection
 * was told is done is what every other one reads, and what a flush on any of
 * them makes durable.
 *
 * A flush writes the file's dirty ranges out, after which their extents are
 * part of the running transaction, and waits for the commit of the last
 * transaction that changed the file.  If that one is on disk already, only
 * blocks that were overwritten in place can be missing: a flush of the
 * devices then does, and a file with copy-on-write data needs not even that.
 *
 * Data that could not be written is reported to the flush that finds it, and
 * then once to every other handle that was open at the time.
 */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "base/math.h"
#include "fs/api_priv.h"
#include "fs/image.h"

static int
open_inode_cmp (const struct open_inode *a, const struct open_inode *b)
{
  const struct inode *x = a->inode, *y = b->inode;

  if (x->root->id != y->root->id)
    return x->root->id < y->root->id ? -1 : 1;
  return x->ino < y->ino ? -1 : x->ino > y->ino;
}

RB_GENERATE (open_inodes, open_inode, entry, open_inode_cmp)

static struct open_inode *
open_find (struct btrnbd_pool *p, const struct inode *inode)
{
  struct open_inode key = { .inode = (struct inode *) inode };

  assert (mutex_is_mine (&p->open_lock));
  return RB_FIND (open_inodes, &p->open, &key);
}

unsigned
open_handles (struct btrnbd_pool *p, const struct inode *inode)
{
  struct open_inode *o = open_find (p, inode);

  return o == NULL ? 0 : o->handles;
}

/* --- opening and closing --- */

/* The shared state of INODE with one more handle.  Takes over the caller's
 * reference on INODE when the state is new, and leaves it when not.
 */
static int
open_inode_get (struct btrnbd_pool *p, struct inode **inode,
                struct open_inode **ret)
{
  struct open_inode *o = open_find (p, *inode);

  if (o == NULL) {
    o = calloc (1, sizeof *o);
    if (o == NULL)
      return err_new (ERR_nomem, "open file");
    o->inode = take (*inode);
    RB_INSERT (open_inodes, &p->open, o);
  }
  o->handles++;
  *ret = o;
  return 0;
}

/* Consumes the reference on INODE. */
static int
open_file (struct btrnbd_pool *p, struct inode *inode, bool volume,
           unsigned flags, struct btrnbd_file **ret)
{
  struct btrnbd_file *f = calloc (1, sizeof *f);
  struct inode *spare = inode;
  int r;

  if (f == NULL) {
    inode_put (inode);
    return err_new (ERR_nomem, "open file");
  }
  f->pool = p;
  r = export_description_get (p, inode, volume, &f->description);
  if (r == 0) {
    mutex_lock (&p->open_lock);
    mutex_lock (&inode->lock);
    /* Found by its name, removed since. */
    if (inode->nlink == 0)
      r = err_new (ERR_not_found, "removed just now");
    mutex_unlock (&inode->lock);
    if (r == 0)
      r = open_inode_get (p, &spare, &f->open);
    mutex_unlock (&p->open_lock);
  }
  if (r < 0) {
    inode_put (inode);
    free (f->description);
    free (f);
    return r;
  }
  if (spare != NULL)
    inode_put (spare);
  f->inode = f->open->inode;
  f->read_only = (flags & BTRNBD_OPEN_RDONLY) != 0 || p->fs->read_only ||
    api_root_read_only (f->inode->root);
  *ret = f;
  return 0;
}

int
btrnbd_file_open (struct btrnbd_pool *p, const char *path, unsigned flags,
                  struct btrnbd_file **ret)
{
  struct inode *inode = NULL;
  int r;

  r = api_walk (p, path, &inode);
  if (r < 0)
    return r;
  if (!api_is_file (inode)) {
    inode_put (inode);
    return err_new (ERR_not_file, "%s", path);
  }
  return open_file (p, inode, false, flags, ret);
}

int
btrnbd_export_open (struct btrnbd_pool *p, const char *name, unsigned flags,
                    struct btrnbd_file **ret)
{
  struct inode *inode = NULL;
  bool volume;
  int r;

  if (image_has_name (name))
    return image_file_open (p, name, ret);
  r = export_resolve (p, name, &inode, &volume);
  return r < 0 ? r : open_file (p, inode, volume, flags, ret);
}

void
btrnbd_file_close (struct btrnbd_file *f)
{
  struct btrnbd_pool *p;
  struct open_inode *last = NULL;

  if (f == NULL)
    return;
  if (f->image) {
    image_file_close (f);
    return;
  }
  p = f->pool;
  mutex_lock (&p->open_lock);
  if (--f->open->handles == 0) {
    last = f->open;
    RB_REMOVE (open_inodes, &p->open, last);
  }
  mutex_unlock (&p->open_lock);
  if (last != NULL) {
    inode_put (last->inode);
    free (last);
  }
  free (f->description);
  free (f);
}

uint64_t
btrnbd_file_size (struct btrnbd_file *f)
{
  if (f->image)
    return image_size (f->image, f->image_device);
  SCOPED_LOCK (&f->inode->lock);
  return f->inode->size;
}

bool
btrnbd_file_read_only (struct btrnbd_file *f)
{
  return f->read_only;
}

const char *
btrnbd_file_description (struct btrnbd_file *f)
{
  return f->description;
}

/* --- durability --- */

/* What has been written out of INODE becomes durable, and its names; times
 * unless DATA_ONLY.
 */
static int
flush_inode (struct btrnbd_pool *p, struct inode *inode, bool data_only)
{
  struct fs *fs = p->fs;
  uint64_t transid;
  bool in_place;
  int r;

  mutex_lock (&inode->lock);
  transid = inode->transid;
  in_place = inode->flags & BTRFS_INODE_NODATACOW;
  mutex_unlock (&inode->lock);
  r = transid > trans_committed_id (fs->trans)
    ? logs_flush (fs->logs, inode, data_only) : trans_check (fs->trans);
  if (r < 0)
    return r;
  /* A commit that was past its flush does not cover what was overwritten. */
  return in_place && fs_in_place_pending (fs) ? pool_flush_devices (p) : 0;
}

static int
flush_range (struct btrnbd_file *f, uint64_t offset, uint64_t len)
{
  struct fs *fs = f->pool->fs;
  struct data_flush *left;
  int r;

  r = data_flush_begin (fs->data, f->inode, offset, len, &left);
  if (r < 0)
    return r;
  return left != NULL ? logs_flush_data (fs->logs, f->inode, left)
    : flush_inode (f->pool, f->inode, true);
}

int
btrnbd_flush (struct btrnbd_file *f)
{
  if (f->pool->fs->read_only || f->image)
    return 0;
  return flush_range (f, 0, UINT64_MAX);
}

int
api_sync_inode (struct btrnbd_pool *p, struct inode *inode)
{
  int r = 0;

  if (p->fs->read_only)
    return 0;
  if (api_is_file (inode))
    r = data_write_out (p->fs->data, inode, 0, UINT64_MAX);
  return r < 0 ? r : flush_inode (p, inode, false);
}

int
btrnbd_fsync (struct btrnbd_pool *p, const char *path)
{
  struct inode *inode = NULL;
  int r;

  r = api_walk (p, path, &inode);
  if (r < 0)
    return r;
  r = api_sync_inode (p, inode);
  inode_put (inode);
  return r < 0 ? err_note (r, "%s", path) : 0;
}

/* --- reading --- */

int
btrnbd_pread (struct btrnbd_file *f, void *buf, size_t len, uint64_t offset)
{
  if (f->image)
    return image_read (f->image, f->image_device, buf, len, offset);
  return data_read (f->pool->fs->data, f->inode, buf, len, offset);
}

bool
btrnbd_try_pread (struct btrnbd_file *f, void *buf, size_t len,
                  uint64_t offset)
{
  return f->image == NULL
    && data_try_read (f->pool->fs->data, f->inode, buf, len, offset);
}

int
btrnbd_prefetch (struct btrnbd_file *f, uint64_t offset, uint64_t len)
{
  if (f->image)
    return 0;                   /* nothing of it is cached */
  return data_prefetch (f->pool->fs->data, f->inode, offset, len);
}

struct extents {
  btrnbd_extent_fn fn;
  void *opaque;
};

static int
pass_extent (void *opaque, const struct data_extent *e)
{
  static const unsigned types[] = {
    [DATA_EXTENT_HOLE] = BTRNBD_EXTENT_HOLE | BTRNBD_EXTENT_ZERO,
    [DATA_EXTENT_PREALLOC] = BTRNBD_EXTENT_ZERO,
    [DATA_EXTENT_DATA] = 0,
  };
  const struct extents *x = opaque;

  return x->fn (x->opaque, e->offset, e->len, types[e->kind]);
}

int
btrnbd_extents (struct btrnbd_file *f, uint64_t offset, uint64_t len,
                btrnbd_extent_fn fn, void *opaque)
{
  struct extents x = { .fn = fn, .opaque = opaque };

  if (f->image)
    return image_extents (f, offset, len, fn, opaque);
  return data_extents (f->pool->fs->data, f->inode, offset, len, pass_extent,
                       &x);
}

/* --- writing --- */

static int
check_writable (struct btrnbd_file *f)
{
  if (f->pool->fs->read_only)
    return pool_check_writable (f->pool);
  if (f->read_only)
    return err_new (ERR_inode_readonly, "the file is open read-only");
  return 0;
}

static int
finish (struct btrnbd_file *f, uint64_t offset, uint64_t len, unsigned flags)
{
  return flags & BTRNBD_FUA ? flush_range (f, offset, len) : 0;
}

int
btrnbd_pwrite (struct btrnbd_file *f, const void *buf, size_t len,
               uint64_t offset, unsigned flags)
{
  int r;

  r = check_writable (f);
  if (r == 0)
    r = data_write (f->pool->fs->data, f->inode, buf, len, offset);
  return r < 0 ? r : finish (f, offset, len, flags);
}

bool
btrnbd_try_pwrite (struct btrnbd_file *f, const void *buf, size_t len,
                   uint64_t offset)
{
  return !f->pool->fs->read_only && !f->read_only
    && data_try_write (f->pool->fs->data, f->inode, buf, len, offset);
}

/* Neither way writes data blocks, apart from the edges of a range that does
 * not begin and end with a sector: both are fast.
 */
int
btrnbd_zero (struct btrnbd_file *f, uint64_t offset, uint64_t len,
             unsigned flags)
{
  struct data *data = f->pool->fs->data;
  int r;

  r = check_writable (f);
  if (r == 0)
    r = flags & BTRNBD_MAY_TRIM ? data_punch (data, f->inode, offset, len)
      : data_zero (data, f->inode, offset, len);
  return r < 0 ? r : finish (f, offset, len, flags);
}

/* TRIM is a hint: the sectors at the edges, which would have to be rewritten,
 * keep their contents.
 */
int
btrnbd_trim (struct btrnbd_file *f, uint64_t offset, uint64_t len,
             unsigned flags)
{
  uint32_t sector = volume_format (f->pool->fs->volume)->sectorsize;
  uint64_t size = btrnbd_file_size (f), start, end;
  int r;

  r = check_writable (f);
  if (r < 0)
    return r;
  if (offset > size || len > size - offset)
    return err_new (ERR_file_range, "trim of %llu bytes at %llu",
                    (unsigned long long) len, (unsigned long long) offset);
  start = round_up (offset, sector);
  end = offset + len == size ? size : round_down (offset + len, sector);
  if (start < end) {
    r = data_punch (f->pool->fs->data, f->inode, start, end - start);
    if (r < 0)
      return r;
  }
  return finish (f, offset, len, flags);
}

int
btrnbd_truncate (struct btrnbd_file *f, uint64_t size)
{
  struct btrnbd_pool *p = f->pool;
  int r;

  r = check_writable (f);
  if (r < 0)
    return r;
  mutex_lock (&p->open_lock);
  if (f->open->handles > 1 && size < btrnbd_file_size (f))
    r = err_new (ERR_busy, "a file that others have open cannot shrink");
  else
    r = data_set_size (p->fs->data, f->inode, size);
  mutex_unlock (&p->open_lock);
  return r;
}
