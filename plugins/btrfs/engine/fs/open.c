/* fs: opening and closing a pool, as one table of steps with their undoing. */
#include <config.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/math.h"
#include "format/super.h"
#include "fs/chunk_source.h"
#include "fs/commit_priv.h"
#include "fs/core.h"
#include "fs/image.h"
#include "fs/memory.h"
#include "fs/prepare.h"
#include "fs/regroup.h"

#define DEFAULT_CACHE (UINT64_C (256) << 20)

static const struct btrfs_super *
super_of (const struct fs *fs)
{
  return volume_super (fs->volume);
}

/* The first reason is kept, also when read-only was asked for: it is what a
 * server for writing would be told.
 */
void
fs_make_read_only (struct fs *fs, const char *why)
{
  if (fs->read_only_reason[0] == '\0')
    snprintf (fs->read_only_reason, sizeof fs->read_only_reason, "%s", why);
  fs->read_only = true;
  volume_set_read_only (fs->volume);
}

const char *
fs_why_read_only (struct fs *fs)
{
  if (fs->read_only)
    return fs->read_only_reason[0] ? fs->read_only_reason
      : "opened read-only";
  return trans_abort_reason (fs->trans);
}

/* --- steps --- */

static void
close_volume (struct fs *fs)
{
  volume_close (fs->volume);
  fs->volume = NULL;
}

static int
check_features (struct fs *fs)
{
  char why[SUPER_WHY_MAX] = "";
  enum super_access access;
  int r;

  r = super_access (super_of (fs), &access, why);
  if (r < 0)
    return r;
  if (access == SUPER_READ_ONLY)
    fs_make_read_only (fs, why);
  if (le64_get (super_of (fs)->num_devices) > 1)
    fs_make_read_only (fs, "several devices can only be read yet");
  return 0;
}

static int
open_cache (struct fs *fs)
{
  return block_cache_new (fs->volume, memory_blocks (fs), &fs->cache);
}

static void
close_cache (struct fs *fs)
{
  block_cache_free (fs->cache);
  fs->cache = NULL;
}

static int
open_roots (struct fs *fs)
{
  return roots_new (fs->cache, &fs->roots);
}

static void
close_roots (struct fs *fs)
{
  roots_free (fs->roots);
  fs->roots = NULL;
}

/* For the error R nothing can be written. */
static void
read_only_for (struct fs *fs, int r)
{
  log_warning ("%s", err_text (r));
  fs_make_read_only (fs, err_text (r));
  err_clear ();
}

/* Trees without which nothing can be written. */
static int
open_needed (struct fs *fs, uint64_t id)
{
  struct root *root;
  int r = roots_get (fs->roots, id, &root);

  if (r == 0)
    return 0;
  if (id == BTRFS_CSUM_TREE && !fs->read_only)
    return r;
  read_only_for (fs, r);
  return 0;
}

/* May be absent, also left over from before the feature was cleared: then it
 * is made.  One that cannot be read is no more to be replaced than kept: its
 * blocks, which have to be given back, are not known.
 */
static int
open_free_space_tree (struct fs *fs)
{
  const uint64_t ro = le64_get (super_of (fs)->compat_ro_flags);
  struct root *root;
  int r;

  if (fs->read_only)
    return 0;
  r = roots_get (fs->roots, BTRFS_FREE_SPACE_TREE, &root);
  if (r == 0 || r == -ERR_nomem)
    return r;
  if (r != -ERR_subvol_missing)
    read_only_for (fs, r);
  else if (ro & BTRFS_COMPAT_RO_FREE_SPACE_TREE_VALID)
    log_warning ("the free space tree is gone: building it");
  err_clear ();
  return 0;
}

static int
open_trees (struct fs *fs)
{
  uint64_t ro = le64_get (super_of (fs)->compat_ro_flags);
  struct root *root;
  int r;

  r = roots_open_root_tree (fs->roots, super_of (fs));
  if (r == 0)
    r = roots_get (fs->roots, BTRFS_FS_TREE, &root);
  if (r == 0)
    r = open_needed (fs, BTRFS_CSUM_TREE);
  if (r == 0)
    r = open_needed (fs, BTRFS_EXTENT_TREE);
  if (r == 0)
    r = open_needed (fs, BTRFS_DEV_TREE);
  if (r == 0 && (ro & BTRFS_COMPAT_RO_BLOCK_GROUP_TREE))
    r = open_needed (fs, BTRFS_BLOCK_GROUP_TREE);
  return r < 0 ? r : open_free_space_tree (fs);
}

static int
open_space (struct fs *fs)
{
  return space_new (fs->cache, fs->roots, &fs->space);
}

static void
close_space (struct fs *fs)
{
  space_free (fs->space);
  fs->space = NULL;
}

static int
open_extents (struct fs *fs)
{
  int r = extents_new (fs->roots, fs->space, fs->cache, &fs->extents);

  if (r == 0)
    extents_set_watch (fs->extents, memory_watch, fs);
  return r;
}

static void
close_extents (struct fs *fs)
{
  extents_free (fs->extents);
  fs->extents = NULL;
}

static int
hook_reserve (void *opaque, unsigned items, uint64_t *ret_bytes)
{
  struct fs *fs = opaque;
  int r = memory_limit (fs);

  return r < 0 ? r : space_reserve (fs->space, items, ret_bytes);
}

static int
hook_reserve_to_free (void *opaque, unsigned items, uint64_t *ret_bytes)
{
  struct fs *fs = opaque;
  int r = memory_limit (fs);

  return r < 0 ? r : space_reserve_to_free (fs->space, items, ret_bytes);
}

static void
hook_release (void *opaque, uint64_t bytes)
{
  space_release (((struct fs *) opaque)->space, bytes);
}

/* For space/, which is below extent/. */
static int
run_pending_refs (void *opaque, struct txn *txn)
{
  struct extents *extents = opaque;

  return extents_run (extents, txn, extents_pending (extents), false);
}

static int
open_trans (struct fs *fs)
{
  struct trans_hooks hooks = {
    .opaque = fs,
    .reserve = hook_reserve,
    .reserve_to_free = hook_reserve_to_free,
    .release = hook_release,
    .alloc_ops = &extent_alloc_ops,
    .extents = fs->extents,
    .space = fs->space,
    .roots = fs->roots,
    .steps = commit_steps,
    .shut = commit_steps_shut,
    .unblock = commit_steps_unblock,
    .finished = commit_finished,
  };
  int r;

  if (fs->read_only)
    return 0;
  r = commit_ctx_new (fs, &fs->commit);
  if (r == 0)
    r = trans_new (le64_get (super_of (fs)->generation), &hooks, &fs->trans);
  if (r < 0) {
    commit_ctx_free (fs->commit);
    fs->commit = NULL;
    return r;
  }
  space_set_discard (fs->space, fs->opts.discard);
  space_set_trans (fs->space, fs->trans, run_pending_refs, fs->extents);
  space_set_sys_chunk_hook (fs->space, commit_sys_chunk, fs);
  return 0;
}

static void
close_trans (struct fs *fs)
{
  trans_free (fs->trans);
  fs->trans = NULL;
  commit_ctx_free (fs->commit);
  fs->commit = NULL;
}

static int
open_logs (struct fs *fs)
{
  const struct logs_env env = { .cache = fs->cache, .trans = fs->trans,
    .roots = fs->roots, .space = fs->space, .opaque = fs,
    .write_super = commit_log_super, .others_begin = commit_others_begin,
    .others_end = commit_others_end };

  return fs->read_only ? 0 : logs_new (&env, &fs->logs);
}

static void
close_logs (struct fs *fs)
{
  logs_free (fs->logs);
  fs->logs = NULL;
}

static int
open_workers (struct fs *fs)
{
  unsigned n = fs->opts.workers;
  int r;

  if (n == 0)
    n = MAX (1L, MIN (sysconf (_SC_NPROCESSORS_ONLN), 64L));
  r = workers_new ("btrnbd-work", n, &fs->workers);
  if (r == 0)
    block_cache_set_workers (fs->cache, fs->workers);
  return r;
}

static void
close_workers (struct fs *fs)
{
  block_cache_set_workers (fs->cache, NULL);
  workers_free (fs->workers);
  fs->workers = NULL;
}

static int
open_data (struct fs *fs)
{
  struct data_env env = {
    .volume = fs->volume, .trans = fs->trans, .roots = fs->roots,
    .space = fs->space, .extents = fs->extents, .workers = fs->workers,
    .cache_bytes = fs->opts.cache_size - memory_blocks (fs),
    .read_only = fs->read_only, .regroup = !fs->opts.no_regroup,
    .nocow_no_early = fs->opts.nocow_no_early,
    .nocow_no_cache = fs->opts.nocow_no_cache,
  };
  int r;

  r = data_new (&env, &fs->data);
  if (r == 0 && fs->logs != NULL)
    logs_attach (fs->logs, fs->data);
  return r;
}

static void
close_data (struct fs *fs)
{
  data_free (fs->data);
  fs->data = NULL;
}

static void
set_incompat (void *opaque, struct btrfs_super *sb)
{
  uint64_t bit = *(uint64_t *) opaque;

  sb->incompat_flags = le64_make (le64_get (sb->incompat_flags) | bit);
}

void
prepare_use_incompat (void *pool, uint64_t bit)
{
  commit_edit_super (pool, set_incompat, &bit);
}

static int
open_inodes (struct fs *fs)
{
  struct inodes_env env = {
    .trans = fs->trans, .roots = fs->roots, .space = fs->space,
    .extents = fs->extents, .read_only = fs->read_only, .opaque = fs->data,
    .evict_data = data_evict, .drop_data = data_drop,
    .truncate_items = data_truncate_items,
    .pool = fs, .use_incompat = prepare_use_incompat,
  };

  return inodes_new (&env, &fs->inodes);
}

static void
close_inodes (struct fs *fs)
{
  if (inodes_free (fs->inodes) < 0)
    err_clear ();
  fs->inodes = NULL;
}

static int
open_subvols (struct fs *fs)
{
  struct subvols_env env = {
    .trans = fs->trans, .roots = fs->roots, .extents = fs->extents,
    .cache = fs->cache, .inodes = fs->inodes, .data = fs->data,
  };

  return subvols_new (&env, &fs->subvols);
}

static void
close_subvols (struct fs *fs)
{
  subvols_free (fs->subvols);
  fs->subvols = NULL;
}

static int
open_images (struct fs *fs)
{
  return images_new (fs, &fs->images);
}

static void
close_images (struct fs *fs)
{
  images_free (fs->images);
  fs->images = NULL;
}

static int
find_dead (struct fs *fs)
{
  return fs->read_only ? 0 : subvols_find_dead (fs->subvols);
}

static int
start_thread (struct fs *fs)
{
  return fs->read_only ? 0 : commit_thread_start (fs);
}

static int
start_regroup (struct fs *fs)
{
  return fs->read_only || fs->opts.no_regroup ? 0 : regroup_start (fs);
}

struct step {
  const char *name;
  int (*run) (struct fs *);
  void (*undo) (struct fs *);
};

/* After the devices have become a volume. */
static const struct step steps[] = {
  { "features", check_features, close_volume },
  { "block cache", open_cache, close_cache },
  { "registry of trees", open_roots, close_roots },
  { "chunk tree", chunk_source_open, chunk_source_close },
  { "trees of the pool", open_trees, NULL },
  { "interrupted balance", prepare_relocation, NULL },
  { "device replacement", prepare_replace, NULL },
  { "check of the log", prepare_log_check, NULL },
  { "device statistics", prepare_dev_stats, NULL },
  { "space", open_space, close_space },
  { "extents", open_extents, close_extents },
  { "transactions", open_trans, close_trans },
  { "log", open_logs, close_logs },
  { "free space tree", prepare_fst, NULL },
  { "workers", open_workers, close_workers },
  { "file data", open_data, close_data },
  { "inodes", open_inodes, close_inodes },
  { "subvolumes", open_subvols, close_subvols },
  { "replay of the log", prepare_log_replay, NULL },
  { "read-only from here on", prepare_end_overlays, NULL },
  { "free space tree, made anew", prepare_fst_build, NULL },
  { "quotas", prepare_quota, NULL },
  { "deleted subvolumes", find_dead, NULL },
  { "image", open_images, close_images },
  { "commit thread", start_thread, commit_thread_stop },
  { "regroup thread", start_regroup, regroup_stop },
};

static void
undo_to (struct fs *fs, unsigned first)
{
  while (fs->opened > first) {
    fs->opened--;
    if (steps[fs->opened].undo)
      steps[fs->opened].undo (fs);
  }
}

static void
undo_all (struct fs *fs)
{
  char *notes = err_take ();

  undo_to (fs, 0);
  free (fs);
  err_put (notes);
}

static int
run_steps (struct fs *fs)
{
  int r;

  for (; fs->opened < ARRAY_SIZE (steps); fs->opened++) {
    r = steps[fs->opened].run (fs);
    if (r < 0 && fs->replay_failed) {
      /* Once: the pool is read-only now.  The volume stays open. */
      fs->replay_failed = false;
      err_clear ();
      undo_to (fs, 1);
      fs->opened--; /* the loop adds one: the second step is next */
      continue;
    }
    if (r < 0) {
      r = err_note (r, "opening: %s", steps[fs->opened].name);
      /* The first step's undo closes the devices. */
      if (fs->opened == 0)
        fs->opened = 1;
      return r;
    }
  }
  return 0;
}

int
fs_open (struct device **devs, size_t n, const struct fs_opts *opts,
         struct fs **ret)
{
  struct fs *fs = calloc (1, sizeof *fs);
  size_t i;
  int r = fs ? 0 : err_new (ERR_nomem, "pool");

  if (fs) {
    if (opts)
      fs->opts = *opts;
    if (fs->opts.cache_size == 0)
      fs->opts.cache_size = DEFAULT_CACHE;
    r = prepare_overlays (fs, devs, n);
    fs->read_only = fs->opts.read_only && !fs->replay_in_memory;
    if (r == 0)
      r = volume_open_copy (devs, n, fs->read_only, fs->opts.super_copy,
                            &fs->volume);
  }
  if (r < 0) {
    for (i = 0; i < n; i++)
      device_close (devs[i]);
    free (fs);
    return r;
  }
  r = run_steps (fs);
  if (r < 0) {
    undo_all (fs);
    return r;
  }
  *ret = fs;
  return 0;
}

/* --- closing --- */

int
fs_flush_devices (struct fs *fs)
{
  const uint64_t n = fs->data ? data_in_place (fs->data) : 0;
  uint64_t old = __atomic_load_n (&fs->in_place_flushed, __ATOMIC_RELAXED);
  int r = volume_flush (fs->volume);

  while (r == 0 && old < n
         && !__atomic_compare_exchange_n (&fs->in_place_flushed, &old, n,
                                          false, __ATOMIC_RELEASE,
                                          __ATOMIC_RELAXED))
    ;
  return r;
}

bool
fs_in_place_pending (struct fs *fs)
{
  return __atomic_load_n (&fs->in_place_flushed, __ATOMIC_ACQUIRE)
    < data_in_place (fs->data);
}

/* Data written in place need not have been part of any transaction, and may
 * have missed the flush of the commit that was running.
 */
static int
flush_in_place (struct fs *fs)
{
  int r = 0;

  if (fs_in_place_pending (fs))
    r = fs_flush_devices (fs);
  if (r < 0)
    trans_fail (fs->trans, r);
  return r;
}

int
fs_commit (struct fs *fs)
{
  int r, e;

  if (fs->read_only)
    return 0;
  /* What can be committed is, whatever else could not be written. */
  r = data_write_out_all (fs->data);
  e = trans_commit (fs->trans, NULL);
  if (e == 0)
    e = flush_in_place (fs);
  return r < 0 ? r : e;
}

/* A pool that crashed between the copies of its superblock and was not
 * changed since: the next commit would bring them up to date, so that no
 * scrub finds anything; without one this does.
 */
static int
refresh_supers (struct fs *fs)
{
  const struct btrfs_super *sb = volume_super (fs->volume);
  const uint64_t generation = le64_get (sb->generation);

  if (trans_check (fs->trans) < 0) {
    err_clear ();
    return 0;
  }
  if (trans_committed_id (fs->trans) != generation
      || volume_supers_current (fs->volume, generation))
    return 0;
  return volume_write_supers (fs->volume, sb, SUPER_ALL);
}

int
fs_close (struct fs *fs)
{
  int r = 0;

  if (fs == NULL)
    return 0;
  if (!fs->read_only) {
    regroup_stop (fs);
    commit_thread_stop (fs);
    r = fs_commit (fs);
    if (r == 0)
      space_discard (fs->space);
    if (r == 0)
      r = refresh_supers (fs);
  }
  undo_all (fs);
  return r;
}

void
fs_kill (struct fs *fs)
{
  if (fs == NULL)
    return;
  if (!fs->read_only) {
    regroup_stop (fs);
    commit_thread_stop (fs);
    trans_fail (fs->trans, err_new (ERR_shutdown, "killed"));
    volume_set_read_only (fs->volume);
    err_clear ();
  }
  undo_all (fs);
}
