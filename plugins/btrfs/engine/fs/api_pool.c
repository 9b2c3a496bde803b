/* The public API: opening, closing and syncing pools, errors, messages.
 *
 * Durability of a file is decided by numbers: every change of a file's
 * metadata stamps its inode with the running transaction, so what a FLUSH
 * has to wait for is the commit of that one, or nothing when it is on disk
 * already.
 */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "format/super.h"
#include "fs/api_priv.h"

#define DEVICES_MAX 1024

struct btrnbd_claim {
  size_t n;
  struct device *devices[];
};

const char *
btrnbd_last_error (int code)
{
  return err_text (code);
}

/* --- messages --- */

static struct {
  void (*fn) (void *opaque, int level, const char *line);
  void *opaque;
} user_log; /* set before threads start */

static void
pass_log (void *opaque, enum log_level level, const char *line)
{
  (void) opaque;
  user_log.fn (user_log.opaque, level, line);
}

void
btrnbd_set_log (void (*fn) (void *opaque, int level, const char *line),
                void *opaque, int max_level)
{
  user_log.fn = fn;
  user_log.opaque = opaque;
  log_set_sink (fn == NULL ? NULL : pass_log, NULL, max_level);
}

/* --- opening --- */

static struct btrnbd_pool *
pool_new (void)
{
  struct btrnbd_pool *p = calloc (1, sizeof *p);

  if (p == NULL)
    return NULL;
  mutex_init (&p->open_lock, RANK_FS_OPEN);
  RB_INIT (&p->open);
  mutex_init (&p->flushes.lock, RANK_FLUSH);
  cond_init (&p->flushes.done);
  return p;
}

static void
pool_free (struct btrnbd_pool *p)
{
  if (p == NULL)
    return;
  cond_done (&p->flushes.done);
  mutex_done (&p->flushes.lock);
  mutex_done (&p->open_lock);
  free (p);
}

static void
close_devices (struct device **devs, size_t n)
{
  size_t i;

  for (i = 0; i < n; i++)
    device_close (devs[i]);
}

int
btrnbd_pool_open_devices (struct device **devs, size_t n,
                          const struct btrnbd_open_opts *opts,
                          struct btrnbd_pool **ret)
{
  static const struct btrnbd_open_opts defaults;
  struct btrnbd_pool *p = pool_new ();
  struct fs_opts fo;
  int r;

  if (p == NULL) {
    close_devices (devs, n);
    return err_new (ERR_nomem, "pool");
  }
  if (opts == NULL)
    opts = &defaults;
  fo = (struct fs_opts) {
    .read_only = opts->read_only,
    .cache_size = opts->cache_size,
    .commit_interval = opts->commit_interval,
    .discard = opts->discard,
    .no_regroup = opts->no_regroup,
    .regroup_scan_after = opts->regroup_scan_after,
    .workers = opts->workers,
    .super_copy = opts->super_copy,
    .ignore_log = opts->ignore_log,
    .no_image = opts->no_image,
    .image_reserve = opts->image_reserve,
    .image_ended = opts->image_ended,
    .image_ended_opaque = opts->image_ended_opaque,
    .nocow_no_early = opts->nocow_no_early,
    .nocow_no_cache = opts->nocow_no_cache,
  };
  r = fs_open (devs, n, &fo, &p->fs);
  if (r < 0) {
    pool_free (p);
    return r;
  }
  *ret = p;
  return 0;
}

/* Enough of a look to tell a user what is wrong before a server goes into
 * the background.  One plain read per device: nothing that would not survive
 * a fork.
 */
static int
check_super (struct device *dev, unsigned copy)
{
  CLEANUP_FREE struct btrfs_super *super = io_alloc (sizeof *super);
  enum super_access access;
  char why[SUPER_WHY_MAX];
  int r;

  if (super == NULL)
    return err_new (ERR_nomem, "superblock");
  if (copy > 0)
    return 0; /* the first one is known to be bad */
  if (device_get_info (dev)->size < super_offset (0) + sizeof *super)
    return err_new (ERR_no_super, "%s: too small",
                    device_get_info (dev)->name);
  r = device_read (dev, super_offset (0), super, sizeof *super);
  /* A damaged first copy: opening tells what the others look like. */
  if (r < 0 || super_check (super, super_offset (0)) < 0) {
    if (r == 0 && le64_get (super->magic) != BTRFS_MAGIC)
      return err_new (ERR_no_super, "%s", device_get_info (dev)->name);
    err_clear ();
    return 0;
  }
  r = super_access (super, &access, why);
  if (r < 0)
    return err_note (r, "%s", device_get_info (dev)->name);
  return 0;
}

int
btrnbd_pool_claim (const char *const *names, size_t n,
                   const struct btrnbd_open_opts *opts,
                   struct btrnbd_claim **ret)
{
  struct device_open_opts dopts = {
    .read_only = opts != NULL && opts->read_only,
    .no_lock = opts != NULL && opts->no_lock,
  };
  struct btrnbd_claim *c;
  int r = 0;

  if (n == 0 || n > DEVICES_MAX)
    return err_new (ERR_invalid, "%zu devices", n);
  c = calloc (1, sizeof *c + n * sizeof c->devices[0]);
  if (c == NULL)
    return err_new (ERR_nomem, "devices");
  while (c->n < n && r == 0) {
    r = device_open (names[c->n], &dopts, &c->devices[c->n]);
    if (r == 0)
      r = check_super (c->devices[c->n++],
                       opts != NULL ? opts->super_copy : 0);
  }
  if (r < 0) {
    btrnbd_claim_free (c);
    return r;
  }
  *ret = c;
  return 0;
}

#define TRY_CACHE (8 << 20)

int
btrnbd_pool_try (const char *const *names, size_t n,
                 const struct btrnbd_open_opts *opts)
{
  struct btrnbd_open_opts o = { 0 };
  struct btrnbd_pool *pool;
  size_t i;
  int r;

  for (i = 0; i < n; i++)
    if (strstr (names[i], "://") != NULL)
      return 0;
  if (opts != NULL)
    o = *opts;
  /* The claim has the lock, and the log is a matter of the real opening. */
  o.read_only = o.no_lock = o.ignore_log = true;
  o.cache_size = TRY_CACHE;
  o.workers = 1;
  r = btrnbd_pool_open (names, n, &o, &pool);
  return r < 0 ? r : btrnbd_pool_close (pool);
}

int
btrnbd_claim_open (struct btrnbd_claim *c,
                   const struct btrnbd_open_opts *opts,
                   struct btrnbd_pool **ret)
{
  int r;

  r = btrnbd_pool_open_devices (c->devices, c->n, opts, ret);
  free (c);
  return r;
}

void
btrnbd_claim_free (struct btrnbd_claim *c)
{
  if (c == NULL)
    return;
  close_devices (c->devices, c->n);
  free (c);
}

int
btrnbd_pool_open (const char *const *names, size_t n,
                  const struct btrnbd_open_opts *opts,
                  struct btrnbd_pool **ret)
{
  struct btrnbd_claim *c = NULL;
  int r;

  r = btrnbd_pool_claim (names, n, opts, &c);
  if (r < 0)
    return r;
  return btrnbd_claim_open (c, opts, ret);
}

/* --- closing --- */

int
btrnbd_pool_close (struct btrnbd_pool *p)
{
  int r;

  if (p == NULL)
    return 0;
  assert (RB_EMPTY (&p->open));
  r = fs_close (p->fs);
  pool_free (p);
  return r;
}

void
btrnbd_pool_kill (struct btrnbd_pool *p)
{
  if (p == NULL)
    return;
  assert (RB_EMPTY (&p->open));
  fs_kill (p->fs);
  pool_free (p);
}

/* --- durability --- */

int
pool_check_writable (struct btrnbd_pool *p)
{
  if (p->fs->read_only || p->fs->trans == NULL)
    return err_new (ERR_readonly, "%s", p->fs->read_only_reason[0] != '\0'
                    ? p->fs->read_only_reason : "as asked for");
  return trans_check (p->fs->trans);
}

int
btrnbd_pool_sync (struct btrnbd_pool *p)
{
  int r;

  if (p->fs->read_only)
    return 0;
  r = pool_check_writable (p);
  return r < 0 ? r : fs_commit (p->fs);
}

/* Whoever finds no flush running leads the next one; those who come while it
 * runs need a later one, because theirs must start after their call.
 */
int
pool_flush_devices (struct btrnbd_pool *p)
{
  struct device_flushes *g = &p->flushes;
  uint64_t want;
  int r = 0;

  mutex_lock (&g->lock);
  want = g->started + 1;
  while (g->finished < want && r == 0) {
    if (g->running) {
      cond_wait (&g->done, &g->lock);
      continue;
    }
    g->running = true;
    g->started++;
    mutex_unlock (&g->lock);
    r = fs_flush_devices (p->fs);
    /* What the device may have lost can be anybody's: nothing is told to be
     * durable any more.  Waiters learn it from trans_check.
     */
    if (r < 0)
      trans_fail (p->fs->trans, r);
    mutex_lock (&g->lock);
    g->running = false;
    g->finished = g->started;
    cond_broadcast (&g->done);
  }
  mutex_unlock (&g->lock);
  return r < 0 ? r : trans_check (p->fs->trans);
}
