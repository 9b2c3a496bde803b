/* log: replay.
 *
 * Order: the space of all log blocks is taken, so that nothing is allocated
 * over them before the replay is durable.  Then stage by stage, as Linux does,
 * and in each from the highest subvolume down, item by item:
 *
 *   inodes    items of inodes; removed attributes, names and tails of files
 *   entries   of directories, unless the log has the name's reference, too
 *   the rest  references with their names, attributes, extents with their
 *             checksums; then links are counted
 *
 * so that whatever a name leads to or lies in is there before it.  An inode
 * without links (a file that was open when it was synced) is left out.
 */
#include <config.h>

#include <stdlib.h>

#include "base/log.h"
#include "log/replay_priv.h"

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

/* --- stages --- */

static int
stage_inodes (struct replay *p, const struct cursor *c)
{
  return cursor_key (c).type == BTRFS_INODE_ITEM ? replay_inode_item (p, c)
    : 0;
}

static int
stage_entries (struct replay *p, const struct cursor *c)
{
  return cursor_key (c).type == BTRFS_DIR_INDEX ? replay_dir_index (p, c) : 0;
}

/* Entries by hash, which old logs hold, and their ranges say nothing that
 * those by index do not.
 */
static int
stage_rest (struct replay *p, const struct cursor *c)
{
  switch (cursor_key (c).type) {
  case BTRFS_INODE_REF:
  case BTRFS_INODE_EXTREF:
    return replay_refs (p, c);
  case BTRFS_XATTR_ITEM:
    return replay_xattr (p, c);
  case BTRFS_EXTENT_DATA:
    return replay_extent (p, c);
  default:
    return 0; /* checksums come with their extents */
  }
}

static int
next_inode (struct replay *p, const struct cursor *c)
{
  const struct key key = cursor_key (c);
  int r = replay_extents_end (p);

  p->ino = key.objectid;
  p->skip = key.type == BTRFS_INODE_ITEM &&
    le32_get (((const struct btrfs_inode_item *)
               cursor_data (c))->nlink) == 0;
  return r;
}

static int
run_stage (struct replay *p, int (*item) (struct replay *,
                                          const struct cursor *))
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  int r = tree_find (p->log, KEY_MIN, &c, NULL), e;

  p->ino = 0;
  while (r == 0 && cursor_at_item (&c)) {
    if (cursor_key (&c).objectid != p->ino)
      r = next_inode (p, &c);
    if (r == 0 && !p->skip)
      r = item (p, &c);
    if (r < 0)
      r = err_note (r, "inode %llu", (unsigned long long) p->ino);
    else
      r = cursor_next (&c);
  }
  e = replay_extents_end (p);
  return r < 0 ? r : e;
}

static int
do_extents (struct replay *p)
{
  return p->mixed ? replay_take_extents (p) : 0;
}

static int
do_inodes (struct replay *p)
{
  return run_stage (p, stage_inodes);
}

static int
do_entries (struct replay *p)
{
  return run_stage (p, stage_entries);
}

/* Numbers of inodes were used that the subvolume did not know. */
static int
do_rest (struct replay *p)
{
  struct root *root = p->root;
  int r = run_stage (p, stage_rest);

  if (r == 0)
    r = replay_fix_links (p);
  rwlock_wrlock (&root->tree->lock);
  root->item.ctransid = le64_make (p->txn->tree.transid);
  root->item.ctime = time_to_disk (time_now ());
  root->free_objectid = 0;
  rwlock_unlock (&root->tree->lock);
  if (r < 0)
    return r;
  /* Nothing that was read before the end may stay in memory. */
  inodes_names_lock (p->env->inodes);
  r = inodes_root_leave (p->env->inodes, root->id);
  if (r == 0)
    inodes_root_left (p->env->inodes);
  inodes_names_unlock (p->env->inodes);
  return r;
}

/* One stage of the log of one subvolume. */
static int
in_log (struct replay *p, const struct replay_log *l,
        int (*stage) (struct replay *))
{
  int r = roots_get (p->env->roots, l->root_id, &p->root);

  if (r == -ERR_subvol_missing) { /* replay_check has told */
    err_clear ();
    return 0;
  }
  if (r < 0)
    return r;
  r = replay_open (p->env, l, &p->log);
  if (r == 0) {
    r = stage (p);
    tree_free (p->log);
  }
  roots_put (p->env->roots, p->root);
  return r < 0 ? err_note (r, "log of subvolume %llu",
                           (unsigned long long) l->root_id) : 0;
}

static int
replay_all (struct replay *p, const struct replay_log *logs, size_t n)
{
  static int (*const stages[]) (struct replay *) = {
    do_extents, do_inodes, do_entries, do_rest,
  };
  size_t i, j;
  int r = replay_blocks (p->env, logs, n, take_block, p);

  for (j = 0; j < ARRAY_SIZE (stages); ++j)
    for (i = 0; i < n && r == 0; ++i)
      r = in_log (p, &logs[i], stages[j]);
  replay_give_extents (p);
  if (r == 0)
    r = replay_blocks (p->env, logs, n, give_block, p);
  return r;
}

int
replay_run (const struct replay_env *env)
{
  const struct format_info *format = block_cache_format (env->cache);
  struct replay p = { .env = env, .nodesize = format->nodesize,
    .sectorsize = format->sectorsize, .csum_size = format->csum_size,
    .mixed = format->incompat & BTRFS_INCOMPAT_MIXED_GROUPS };
  struct replay_log *logs = NULL;
  size_t n = 0;
  int r, e;

  RB_INIT (&p.taken);
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
    log_info ("the log has been replayed: %u inodes", p.inodes);
  return r < 0 ? err_note (r, "replaying the log") : 0;
}
