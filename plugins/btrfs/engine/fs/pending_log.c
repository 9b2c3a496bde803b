/* fs: opening a pool with a log: who promised what, and how it is kept.
 *
 * For writing, the log is replayed before anything else is committed.  For
 * reading only, the devices are laid under overlays, the log is replayed into
 * these, and the pool is read-only from then on: what is served is what was
 * promised, and nothing is written.  A log that cannot be read or replayed
 * stays as it is, and the last commit is served: what a replay that failed
 * has left in memory is dropped, and opened anew.
 */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/log.h"
#include "format/super.h"
#include "fs/prepare.h"
#include "io/overlay.h"
#include "log/replay.h"

static bool
log_is_pending (const struct fs *fs)
{
  return le64_get (volume_super (fs->volume)->log_root) != 0;
}

static struct replay_env
replay_env_of (struct fs *fs)
{
  return (struct replay_env) { .cache = fs->cache, .trans = fs->trans,
    .roots = fs->roots, .space = fs->space, .extents = fs->extents,
    .inodes = fs->inodes, .data = fs->data,
    .super = volume_super (fs->volume), .pool = fs,
    .use_incompat = prepare_use_incompat };
}

/* Does superblock COPY on the device lead to a log?  Errors are found again,
 * and told, by volume_open.
 */
static bool
device_has_log (struct device *dev, unsigned copy)
{
  const uint64_t at = super_offset (copy);
  struct btrfs_super *sb = io_alloc (sizeof *sb);
  bool has = sb != NULL && device_read (dev, at, sb, sizeof *sb) == 0 &&
    super_check (sb, at) == 0 && le64_get (sb->log_root) != 0;

  free (sb);
  err_clear ();
  return has;
}

int
prepare_overlays (struct fs *fs, struct device **devs, size_t n)
{
  size_t i;
  int r = 0;

  if (!fs->opts.read_only || fs->opts.ignore_log || n > 1 ||
      fs->opts.super_copy >= BTRFS_SUPER_COPIES)
    return 0;
  for (i = 0; i < n; i++)
    fs->replay_in_memory |= device_has_log (devs[i], fs->opts.super_copy);
  for (i = 0; fs->replay_in_memory && i < n && r == 0; i++)
    r = device_overlay_new (devs[i], &devs[i]);
  return r;
}

/* The last commit is served, and everybody is told what is not in it. */
static void
give_up (struct fs *fs, int err)
{
  char why[sizeof fs->read_only_reason];

  snprintf (why, sizeof why, "%s; in the log: %s", err_text (err),
            fs->log_names[0] ? fs->log_names : "nothing that can be read");
  err_clear ();
  log_warning ("the pool is read-only: %s", why);
  fs_make_read_only (fs, why);
}

int
prepare_log_check (struct fs *fs)
{
  const struct replay_env env = replay_env_of (fs);
  int r;

  if (!log_is_pending (fs))
    return 0;
  if (fs->opts.ignore_log) {
    fs_make_read_only (fs, "the log is ignored, the last commit is served");
    return 0;
  }
  if (fs->read_only) {
    fs_make_read_only (fs, btrnbd_error_text (ERR_log_pending));
    return 0;
  }
  r = replay_check (&env, fs->log_names, sizeof fs->log_names);
  if (r < 0 && r != -ERR_nomem) {
    give_up (fs, r);
    r = 0;
  }
  return r;
}

int
prepare_log_replay (struct fs *fs)
{
  const struct replay_env env = replay_env_of (fs);
  int r;

  if (fs->read_only || !log_is_pending (fs))
    return 0;
  r = replay_run (&env);
  if (r < 0 && r != -ERR_nomem) {
    fs->replay_failed = true;
    give_up (fs, r);
  }
  return r;
}

int
prepare_end_overlays (struct fs *fs)
{
  fs->read_only |= fs->replay_in_memory;
  return 0;
}
