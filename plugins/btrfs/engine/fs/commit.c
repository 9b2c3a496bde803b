/* fs: the steps of a commit, and the thread that commits by itself.
 *
 * Order of durability: data writes have completed before the items that point
 * to them entered a tree; all tree blocks of the transaction are written and
 * waited for; every device is flushed; then the superblocks, the first copy
 * of each durable by itself.  Space freed by the transaction is usable only
 * after that.
 */
#include <config.h>

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/log.h"
#include "base/math.h"
#include "format/super.h"
#include "fs/commit_priv.h"
#include "fs/core.h"
#include "fs/image.h"
#include "space/space.h"

static uint64_t
now_ns (void)
{
  struct timespec ts;

  clock_gettime (CLOCK_MONOTONIC, &ts);
  return ts.tv_sec * UINT64_C (1000000000) + ts.tv_nsec;
}

int
commit_ctx_new (struct fs *fs, struct commit_ctx **ret)
{
  struct commit_ctx *c = calloc (1, sizeof *c);

  if (c == NULL)
    return err_new (ERR_nomem, "commit");
  mutex_init (&c->lock, RANK_SPACE);
  cond_init (&c->cond);
  c->super = c->captured = *volume_super (fs->volume);
  c->uuid_tree_current = le64_get (c->super.uuid_tree_generation) ==
    le64_get (c->super.generation);
  commit_super_init (fs, c);
  *ret = c;
  return 0;
}

void
commit_ctx_free (struct commit_ctx *c)
{
  if (c == NULL)
    return;
  cond_done (&c->cond);
  mutex_done (&c->lock);
  free (c);
}

void
commit_get_stats (struct fs *fs, struct commit_stats *ret)
{
  SCOPED_LOCK (&fs->commit->lock);
  *ret = fs->commit->stats;
}

void
commit_edit_super (struct fs *fs,
                   void (*fn) (void *opaque, struct btrfs_super *),
                   void *opaque)
{
  SCOPED_LOCK (&fs->commit->lock);
  fn (opaque, &fs->commit->super);
}

void
commit_set_image (struct fs *fs, struct image *image)
{
  struct commit_ctx *c = fs->commit;

  SCOPED_LOCK (&c->lock);
  c->image = image;
  while (c->capturing)
    cond_wait (&c->cond, &c->lock);
}

/* Only this thread changes what was captured. */
static void
capture_image (struct commit_ctx *c)
{
  struct image *image;

  mutex_lock (&c->lock);
  image = c->image;
  c->image = NULL;
  c->capturing = image != NULL;
  mutex_unlock (&c->lock);
  if (image == NULL)
    return;
  image_capture (image, &c->captured);
  SCOPED_LOCK (&c->lock);
  c->capturing = false;
  cond_broadcast (&c->cond);
}

int
commit_sys_chunk (void *opaque, struct key key,
                  const struct btrfs_chunk *chunk, uint32_t size)
{
  struct fs *fs = opaque;

  SCOPED_LOCK (&fs->commit->lock);
  return super_sys_chunk_add (&fs->commit->super, key, chunk, size);
}

/* --- steps beside joiners --- */

static int
step_begin (void *opaque, struct txn *txn)
{
  struct fs *fs = opaque;

  (void) txn;
  SCOPED_LOCK (&fs->commit->lock);
  fs->commit->began = now_ns ();
  return 0;
}

/* Most of the work, so that little is left when joins are shut out.  What
 * comes in meanwhile is not waited for.
 */
static int
step_early_refs (void *opaque, struct txn *txn)
{
  struct fs *fs = opaque;
  size_t n = extents_pending (fs->extents);

  return n == 0 ? 0 : extents_run (fs->extents, txn, n, false);
}

static int
step_early_fst (void *opaque, struct txn *txn)
{
  struct fs *fs = opaque;
  bool changed;

  return space_write_fst (fs->space, txn, &changed);
}

static int
step_remove_empty (void *opaque, struct txn *txn)
{
  struct fs *fs = opaque;

  return space_remove_empty (fs->space, txn);
}

/* --- joins shut out --- */

static int
step_refs (void *opaque, struct txn *txn)
{
  struct fs *fs = opaque;

  {
    SCOPED_LOCK (&fs->commit->lock);
    fs->commit->shut = now_ns ();
  }
  return extents_run (fs->extents, txn, 0, true);
}

/* What the log of this transaction promises is in the trees. */
static int
step_drop_log (void *opaque, struct txn *txn)
{
  struct fs *fs = opaque;

  return logs_commit (fs->logs, txn);
}

static int
step_subvol_roots (void *opaque, struct txn *txn)
{
  struct fs *fs = opaque;

  return roots_write_subvols (fs->roots, txn);
}

static int
step_root_tree (void *opaque, struct txn *txn)
{
  struct fs *fs = opaque;

  return roots_cow_root_tree (fs->roots, txn);
}

/* Error counters of devices: the item is there once something went wrong. */
static int
write_dev_stats (struct fs *fs, struct txn *txn, unsigned index)
{
  struct root *root = roots_pool_tree (fs->roots, BTRFS_DEV_TREE);
  struct btrfs_dev_stats item = { 0 }, old = { 0 };
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  struct key key = KEY (BTRFS_DEV_STATS_OBJECTID, BTRFS_PERSISTENT_ITEM,
                        volume_device (fs->volume, index)->devid);
  uint32_t size;
  bool found;
  unsigned i;
  int r;

  for (i = 0; i < DEV_STATS; i++)
    item.values[i] = le64_make (volume_dev_stat (fs->volume, index, i));
  rwlock_wrlock (&root->tree->lock);
  r = tree_get (root->tree, key, &old, sizeof old, &size, &found);
  if (r == 0 && memcmp (&item, &old, sizeof item) != 0) {
    if (!found)
      r = tree_insert_data (&txn->tree, root->tree, key, &item, sizeof item);
    else {
      r = tree_find_rw (&txn->tree, root->tree, key, &c);
      if (r == 0 && cursor_size (&c) < sizeof item)
        r = cursor_resize (&txn->tree, &c, sizeof item);
      if (r == 0)
        memcpy (cursor_data_rw (&c), &item, sizeof item);
      cursor_done (&c);
    }
  }
  rwlock_unlock (&root->tree->lock);
  return r;
}

static int
step_dev_stats (void *opaque, struct txn *txn)
{
  struct fs *fs = opaque;
  unsigned i, n = volume_num_devices (fs->volume);
  int r = 0;

  if (roots_pool_tree (fs->roots, BTRFS_DEV_TREE) == NULL)
    return 0;
  for (i = 0; i < n && r == 0; i++)
    r = write_dev_stats (fs, txn, i);
  return r < 0 ? err_note (r, "device statistics") : 0;
}

/* Each of these changes trees, whose copies change references, which change
 * group items and free space, which ... A tree's path is copied once per
 * transaction, so it ends; the bound is for what we did not think of.
 */
static int
step_fixpoint (void *opaque, struct txn *txn)
{
  struct fs *fs = opaque;
  bool made, groups, fst, roots;
  unsigned round;
  int r;

  for (round = 0; round < 1000; round++) {
    r = space_create_pending (fs->space, txn, &made);
    if (r == 0)
      r = extents_run (fs->extents, txn, 0, true);
    if (r == 0)
      r = space_write_groups (fs->space, txn, &groups);
    if (r == 0)
      r = extents_run (fs->extents, txn, 0, true);
    if (r == 0)
      r = space_write_fst (fs->space, txn, &fst);
    if (r == 0)
      r = roots_write_pool (fs->roots, txn, &roots);
    if (r < 0)
      return r;
    if (!made && !groups && !fst && !roots &&
        extents_pending (fs->extents) == 0)
      return 0;
  }
  return err_new (ERR_generation, "commit does not come to rest");
}

static uint64_t
root_generation (const struct root *root)
{
  return root ? tb_generation (root->tree->root->data) : 0;
}

static uint64_t
root_bytenr (const struct root *root)
{
  return root ? root->tree->root->bytenr : 0;
}

static uint8_t
root_level (const struct root *root)
{
  return root ? tree_level (root->tree) : 0;
}

/* For recovery tools: where the trees were, four commits back. */
static void
fill_backup (struct fs *fs, struct btrfs_root_backup *b)
{
  struct roots *rs = fs->roots;
  struct root *chunk = roots_pool_tree (rs, BTRFS_CHUNK_TREE);
  struct root *extent = roots_pool_tree (rs, BTRFS_EXTENT_TREE);
  struct root *top = roots_pool_tree (rs, BTRFS_FS_TREE);
  struct root *dev = roots_pool_tree (rs, BTRFS_DEV_TREE);
  struct root *csum = roots_pool_tree (rs, BTRFS_CSUM_TREE);

  memset (b, 0, sizeof *b);
  b->chunk_root = le64_make (root_bytenr (chunk));
  b->chunk_root_gen = le64_make (root_generation (chunk));
  b->chunk_root_level = root_level (chunk);
  b->extent_root = le64_make (root_bytenr (extent));
  b->extent_root_gen = le64_make (root_generation (extent));
  b->extent_root_level = root_level (extent);
  b->fs_root = le64_make (root_bytenr (top));
  b->fs_root_gen = le64_make (root_generation (top));
  b->fs_root_level = root_level (top);
  b->dev_root = le64_make (root_bytenr (dev));
  b->dev_root_gen = le64_make (root_generation (dev));
  b->dev_root_level = root_level (dev);
  b->csum_root = le64_make (root_bytenr (csum));
  b->csum_root_gen = le64_make (root_generation (csum));
  b->csum_root_level = root_level (csum);
}

/* The slot behind the newest one. */
static struct btrfs_root_backup *
next_backup (struct btrfs_super *sb)
{
  unsigned i, last = BTRFS_NUM_BACKUP_ROOTS - 1;
  uint64_t best = 0;

  for (i = 0; i < BTRFS_NUM_BACKUP_ROOTS; i++)
    if (le64_get (sb->super_roots[i].tree_root_gen) > best) {
      best = le64_get (sb->super_roots[i].tree_root_gen);
      last = i;
    }
  return &sb->super_roots[(last + 1) % BTRFS_NUM_BACKUP_ROOTS];
}

static int
step_capture (void *opaque, struct txn *txn)
{
  struct fs *fs = opaque;
  struct root *rt = roots_pool_tree (fs->roots, BTRFS_ROOT_TREE);
  struct root *ct = roots_pool_tree (fs->roots, BTRFS_CHUNK_TREE);
  struct commit_ctx *c = fs->commit;
  uint64_t used = space_bytes_used (fs->space), ns;
  struct btrfs_super *sb = &c->super;
  struct btrfs_root_backup backup;

  if (root_generation (rt) != txn->tree.transid)
    return err_new (ERR_generation, "root tree: generation %llu",
                    (unsigned long long) root_generation (rt));
  fill_backup (fs, &backup);
  roots_capture (fs->roots);
  space_capture (fs->space);
  mutex_lock (&c->lock);
  sb->generation = le64_make (txn->tree.transid);
  sb->root = le64_make (root_bytenr (rt));
  sb->root_level = root_level (rt);
  sb->chunk_root = le64_make (root_bytenr (ct));
  sb->chunk_root_level = root_level (ct);
  sb->chunk_root_generation = le64_make (root_generation (ct));
  sb->log_root = le64_make (0);
  sb->log_root_level = 0;
  sb->bytes_used = le64_make (used);
  if (c->uuid_tree_current)
    sb->uuid_tree_generation = sb->generation;
  backup.tree_root = sb->root;
  backup.tree_root_gen = sb->generation;
  backup.tree_root_level = sb->root_level;
  backup.total_bytes = sb->total_bytes;
  backup.bytes_used = sb->bytes_used;
  backup.num_devices = sb->num_devices;
  *next_backup (sb) = backup;
  c->captured = *sb;
  ns = now_ns () - c->shut;
  c->stats.ns_shut_total += ns;
  c->stats.ns_shut_max = MAX (c->stats.ns_shut_max, ns);
  mutex_unlock (&c->lock);
  capture_image (c);
  return 0;
}

/* --- beside the next transaction --- */

static int
step_write_blocks (void *opaque, struct txn *txn)
{
  struct fs *fs = opaque;
  uint64_t bytes = 0;
  int r = block_write_out (fs->cache, txn->tree.transid, &bytes);

  SCOPED_LOCK (&fs->commit->lock);
  fs->commit->stats.block_bytes += bytes;
  return r;
}

static int
step_flush (void *opaque, struct txn *txn)
{
  struct fs *fs = opaque;

  (void) txn;
  return commit_flush (fs);
}

static int
step_supers (void *opaque, struct txn *txn)
{
  struct fs *fs = opaque;

  (void) txn;
  return volume_write_supers (fs->volume, &fs->commit->captured, SUPER_ALL);
}

/* Committed roots change and freed space becomes usable in one step: see
 * space/load.c.
 */
static int
step_finish (void *opaque, struct txn *txn)
{
  struct fs *fs = opaque;

  (void) txn;
  roots_committed_wrlock (fs->roots);
  roots_commit (fs->roots);
  space_finish_commit (fs->space);
  roots_committed_unlock (fs->roots);
  return 0;
}

const struct commit_step commit_steps[] = {
  { "begin", step_begin },
  { "remove empty block groups", step_remove_empty },
  { "run references early", step_early_refs },
  { "free space early", step_early_fst },
  { "run what came up meanwhile", step_early_refs },
  /* joins are shut out */
  { "drop the log", step_drop_log },
  { "run references", step_refs },
  { "root items of subvolumes", step_subvol_roots },
  { "copy the root of roots", step_root_tree },
  { "device statistics", step_dev_stats },
  { "groups, free space, root items", step_fixpoint },
  { "capture", step_capture },
  /* joins are allowed again */
  { "write tree blocks", step_write_blocks },
  { "flush devices", step_flush },
  { "write superblocks", step_supers },
  { "free what was freed", step_finish },
  { NULL, NULL }
};
const unsigned commit_steps_shut = 5, commit_steps_unblock = 12;

void
commit_finished (void *opaque, uint64_t transid, int err)
{
  struct fs *fs = opaque;
  struct commit_ctx *c = fs->commit;
  uint64_t ns;

  if (err < 0) {
    /* Nothing may be written any more, by anybody. */
    volume_set_read_only (fs->volume);
    return;
  }
  log_debug ("transaction %llu is durable", (unsigned long long) transid);
  SCOPED_LOCK (&c->lock);
  ns = now_ns () - c->began;
  c->stats.commits++;
  c->stats.ns_total += ns;
  c->stats.ns_max = MAX (c->stats.ns_max, ns);
}
