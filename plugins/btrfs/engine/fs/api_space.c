/* The public API: what files occupy, and giving dead space back. */
#include <config.h>

#include <time.h>

#include "base/math.h"
#include "data/usage.h"
#include "fs/api_priv.h"
#include "fs/root_ids.h"

static void
fill_usage (struct btrnbd_usage *ret, const struct data_usage *u)
{
  *ret = (struct btrnbd_usage) {
    .extents = u->extents, .allocated = u->allocated,
    .exclusive = u->exclusive, .shared = u->allocated - u->exclusive,
    .dead = u->dead, .inline_bytes = u->inline_bytes,
  };
}

/* What is dirty counts, too. */
static int
write_out (struct btrnbd_pool *p)
{
  return p->fs->read_only ? 0 : data_write_out_all (p->fs->data);
}

int
btrnbd_usage (struct btrnbd_pool *p, const char *name,
              struct btrnbd_usage *ret)
{
  struct inode *in = NULL;
  struct data_usage u;
  bool volume;
  int r;

  r = export_resolve (p, name, &in, &volume);
  if (r < 0)
    return r;
  r = write_out (p);
  if (r == 0)
    r = data_usage (p->fs->data, in, &u);
  inode_put (in);
  if (r == 0)
    fill_usage (ret, &u);
  return r;
}

/* --- the pool --- */

struct all_roots {
  struct fs *fs;
  struct root_ids ids;
  size_t next;
};

/* Those that have been deleted since are passed over. */
static int
next_root (void *opaque, bool restart, struct root **ret)
{
  struct all_roots *a = opaque;
  int r = 0;

  if (restart)
    a->next = 0;
  *ret = NULL;
  while (r == 0 && *ret == NULL && a->next < a->ids.n) {
    r = roots_get (a->fs->roots, a->ids.v[a->next++], ret);
    if (r == -ERR_subvol_missing) {
      err_clear ();
      r = 0;
    }
  }
  return r;
}

int
btrnbd_pool_usage (struct btrnbd_pool *p, struct btrnbd_usage *ret)
{
  struct all_roots all = { .fs = p->fs };
  const struct data_roots roots = { .next = next_root, .opaque = &all };
  struct data_usage u;
  int r;

  r = write_out (p);
  if (r == 0)
    r = root_ids_get (p->fs, true, &all.ids);
  if (r == 0)
    r = data_usage_of_roots (p->fs->data, &roots, &u);
  root_ids_done (&all.ids);
  if (r < 0)
    return r;
  fill_usage (ret, &u);
  ret->shared = 0;
  return 0;
}

/* --- regrouping --- */

#define BUSY_TRIES 100         /* of BUSY_NS, at one place */
#define BUSY_NS 10000000

static int
regroup_file (struct btrnbd_pool *p, struct inode *in, uint64_t size,
              btrnbd_progress_fn fn, void *opaque, uint64_t *ret_moved)
{
  const struct timespec ts = { .tv_nsec = BUSY_NS };
  unsigned tries = 0;
  uint64_t pos = 0;
  int r = 0;

  while (pos < size && r == 0) {
    struct data_regrouped done;

    r = data_regroup (p->fs->data, in, &pos, UINT64_MAX, &done);
    *ret_moved += done.moved;
    tries = done.busy ? tries + 1 : 0;
    if (tries > BUSY_TRIES)
      r = err_new (ERR_busy, "it is being written at %llu",
                   (unsigned long long) pos);
    else if (tries > 0)
      nanosleep (&ts, NULL);
    if (r == 0 && fn != NULL)
      r = fn (opaque, MIN (pos, size), size);
  }
  return r;
}

int
btrnbd_regroup (struct btrnbd_pool *p, const char *name,
                btrnbd_progress_fn fn, void *opaque, uint64_t *ret_moved)
{
  struct inode *in = NULL;
  uint64_t size;
  bool volume;
  int r;

  *ret_moved = 0;
  r = pool_check_writable (p);
  if (r == 0)
    r = export_resolve (p, name, &in, &volume);
  if (r < 0)
    return r;
  mutex_lock (&in->lock);
  size = in->size;
  mutex_unlock (&in->lock);
  if (api_root_read_only (in->root))
    r = err_new (ERR_inode_readonly, "%s", name);
  if (r == 0)
    r = write_out (p);
  if (r == 0)
    r = regroup_file (p, in, size, fn, opaque, ret_moved);
  inode_put (in);
  return r;
}
