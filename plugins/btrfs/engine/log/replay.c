/* log: replay.
 *
 * Order: the space of all log blocks is taken, so that nothing is allocated
 * over them before the replay is durable; then log tree by log tree, file by
 * file in the order of the items: inode item (cuts what lies behind the new
 * size), attributes, extents, each with its checksums.
 */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/containers.h"
#include "base/err.h"
#include "base/log.h"
#include "base/math.h"
#include "extent/csum_items.h"
#include "log/replay_priv.h"

struct replay {
  const struct replay_env *env;
  struct txn *txn;
  uint32_t nodesize, sectorsize, csum_size;
  struct tree *log;
  struct root *root;
  struct inode *in;            /* of the items at hand, lock held, or NULL */
  unsigned files;
};

/* --- log blocks --- */

static int
take_block (void *opaque, uint64_t bytenr)
{
  struct replay *p = opaque;

  return space_take (p->env->space, bytenr, p->nodesize);
}

static int
give_block (void *opaque, uint64_t bytenr)
{
  struct replay *p = opaque;

  return space_extent_cancelled (p->env->space, p->txn, bytenr, p->nodesize);
}

/* --- checksums --- */

/* Copy from the log what it has of [START, END), replacing what is there. */
static int
replay_sums (struct replay *p, uint64_t start, uint64_t end)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  int r;

  r = tree_find_le (p->log, KEY (BTRFS_EXTENT_CSUM_OBJECTID,
                                 BTRFS_EXTENT_CSUM, start), &c, NULL);
  if (r == 0 && !cursor_at_item (&c))
    r = tree_find (p->log, KEY_MIN, &c, NULL);
  while (r == 0 && cursor_at_item (&c)) {
    const struct key key = cursor_key (&c);
    const size_t n = cursor_size (&c) / p->csum_size;
    const uint64_t from = MAX (key.offset, start);
    const uint64_t to = MIN (key.offset + n * p->sectorsize, end);

    if (key.objectid == BTRFS_EXTENT_CSUM_OBJECTID &&
        key.type == BTRFS_EXTENT_CSUM) {
      if (key.offset >= end)
        break;
      if (from < to)
        r = csum_items_delete (p->env->roots, p->txn, from, to - from);
      if (r == 0 && from < to)
        r = csum_items_insert (p->env->roots, p->txn, from,
                               (const uint8_t *) cursor_data (&c) +
                               (from - key.offset) / p->sectorsize
                               * p->csum_size,
                               (to - from) / p->sectorsize);
    }
    if (r == 0)
      r = cursor_next (&c);
  }
  return r;
}

/* --- items of a file --- */

static int
replay_extent (struct replay *p, const struct cursor *c)
{
  const struct btrfs_file_extent *e = cursor_data (c);
  const uint64_t offset = cursor_key (c).offset;
  uint64_t start, len;
  int r;

  r = data_replay_extent (p->env->data, p->in, p->txn, offset, e,
                          cursor_size (c));
  if (r < 0 || e->type != BTRFS_FILE_EXTENT_REG ||
      le64_get (e->disk_bytenr) == 0 ||
      p->in->flags & BTRFS_INODE_NODATASUM)
    return r;
  start = le64_get (e->disk_bytenr);
  len = le64_get (e->disk_num_bytes);
  if (e->compression == BTRFS_COMPRESS_NONE) {
    start += le64_get (e->offset);
    len = le64_get (e->num_bytes);
  }
  return replay_sums (p, start, start + len);
}

static int
replay_xattr (struct replay *p, const struct cursor *c)
{
  struct tree *t = p->root->tree;
  int r;

  rwlock_wrlock (&t->lock);
  r = tree_insert_data (&p->txn->tree, t, cursor_key (c), cursor_data (c),
                        cursor_size (c));
  rwlock_unlock (&t->lock);
  return r;
}

static int
end_inode (struct replay *p)
{
  int r = 0;

  if (p->in == NULL)
    return 0;
  r = inode_write_item (p->txn, p->in);
  mutex_unlock (&p->in->lock);
  inode_put (take (p->in));
  return r;
}

/* All attributes are in the log, so those that are not were removed. */
static int
begin_inode (struct replay *p, const struct cursor *c)
{
  const uint64_t ino = cursor_key (c).objectid;
  struct tree *t = p->root->tree;
  int r;

  r = end_inode (p);
  if (r == 0)
    r = inode_get (p->env->inodes, p->root->id, ino, &p->in);
  if (r < 0)
    return r;
  mutex_lock (&p->in->lock);
  inode_replay_item (p->in, cursor_data (c));
  rwlock_wrlock (&t->lock);
  r = tree_delete_range (&p->txn->tree, t, KEY (ino, BTRFS_XATTR_ITEM, 0),
                         KEY (ino, BTRFS_XATTR_ITEM, UINT64_MAX), 0, NULL);
  rwlock_unlock (&t->lock);
  p->files++;
  return r < 0 ? r : data_replay_cut (p->env->data, p->in, p->txn);
}

static int
replay_item (struct replay *p, const struct cursor *c)
{
  switch (cursor_key (c).type) {
  case BTRFS_INODE_ITEM:
    return begin_inode (p, c);
  case BTRFS_XATTR_ITEM:
    return replay_xattr (p, c);
  case BTRFS_EXTENT_DATA:
    return replay_extent (p, c);
  default:
    return 0; /* names are as they are; checksums come with their extents */
  }
}

/* No lock of the log is held: nobody else knows it. */
static int
replay_tree (struct replay *p)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  int r = tree_find (p->log, KEY_MIN, &c, NULL), e;

  while (r == 0 && cursor_at_item (&c)) {
    r = replay_item (p, &c);
    if (r == 0)
      r = cursor_next (&c);
  }
  e = end_inode (p);
  return r < 0 ? r : e;
}

static int
replay_log (struct replay *p, const struct replay_log *l)
{
  int r = replay_open (p->env, l, &p->log);

  if (r < 0)
    return r;
  r = roots_get (p->env->roots, l->root_id, &p->root);
  if (r == 0) {
    r = replay_tree (p);
    roots_put (p->env->roots, p->root);
  }
  else if (r == -ERR_subvol_missing) {
    log_warning ("the log of a subvolume that is gone is ignored: %s",
                 err_text (r));
    err_clear ();
    r = 0;
  }
  tree_free (p->log);
  return r;
}

static int
replay_all (struct replay *p, const struct replay_log *logs, size_t n)
{
  size_t i;
  int r = replay_blocks (p->env, logs, n, take_block, p);

  for (i = 0; i < n && r == 0; ++i)
    r = replay_log (p, &logs[i]);
  if (r == 0)
    r = replay_blocks (p->env, logs, n, give_block, p);
  return r;
}

int
replay_run (const struct replay_env *env)
{
  const struct format_info *format = block_cache_format (env->cache);
  struct replay p = { .env = env, .nodesize = format->nodesize,
    .sectorsize = format->sectorsize, .csum_size = format->csum_size };
  struct replay_log *logs = NULL;
  size_t n = 0;
  int r, e;

  r = replay_logs (env, &logs, &n);
  if (r == 0)
    r = txn_join (env->trans, &p.txn);
  if (r < 0) {
    free (logs);
    return r;
  }
  r = replay_all (&p, logs, n);
  free (logs);
  if (r < 0)
    txn_abort (p.txn, r);
  e = txn_end (p.txn);
  if (r == 0)
    r = e;
  if (r == 0)
    r = trans_commit (env->trans, NULL);
  if (r == 0)
    log_info ("the log has been replayed: %u files", p.files);
  return r < 0 ? err_note (r, "replaying the log") : 0;
}
