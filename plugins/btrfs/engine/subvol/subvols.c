/* subvol: the room's context and the list of subvolumes to drop. */
#include <config.h>

#include "base/log.h"
#include "subvol/priv.h"

int
subvols_new (const struct subvols_env *env, struct subvols **ret)
{
  struct subvols *ss = calloc (1, sizeof *ss);

  if (ss == NULL)
    return err_new (ERR_nomem, "subvolumes");
  ss->env = *env;
  ss->drop_batch = DROP_BATCH;
  mutex_init (&ss->lock, RANK_SUBVOLS);
  STAILQ_INIT (&ss->dead);
  *ret = ss;
  return 0;
}

void
subvols_free (struct subvols *ss)
{
  struct dead *d;

  if (ss == NULL)
    return;
  while ((d = STAILQ_FIRST (&ss->dead)) != NULL) {
    STAILQ_REMOVE_HEAD (&ss->dead, entry);
    free (d);
  }
  mutex_done (&ss->lock);
  free (ss);
}

int
dead_new (struct dead **ret)
{
  *ret = malloc (sizeof **ret);
  return *ret ? 0 : err_new (ERR_nomem, "list of subvolumes to drop");
}

void
subvols_link_dead (struct subvols *ss, struct dead *d, uint64_t id)
{
  d->id = id;
  SCOPED_LOCK (&ss->lock);
  STAILQ_INSERT_TAIL (&ss->dead, d, entry);
}

void
subvols_set_drop_batch (struct subvols *ss, unsigned blocks)
{
  ss->drop_batch = blocks;
}

int
subvols_add_dead (struct subvols *ss, uint64_t id)
{
  struct dead *d;
  int r = dead_new (&d);

  if (r == 0)
    subvols_link_dead (ss, d, id);
  return r;
}

bool
subvols_have_dead (struct subvols *ss)
{
  SCOPED_LOCK (&ss->lock);
  return ss->dropping || !STAILQ_EMPTY (&ss->dead);
}

/* The first of the list, left in it; false when there is none. */
static bool
first_dead (struct subvols *ss, uint64_t *ret_id)
{
  SCOPED_LOCK (&ss->lock);
  if (STAILQ_EMPTY (&ss->dead))
    return false;
  *ret_id = STAILQ_FIRST (&ss->dead)->id;
  return true;
}

static void
forget_first (struct subvols *ss)
{
  struct dead *d;

  SCOPED_LOCK (&ss->lock);
  d = STAILQ_FIRST (&ss->dead);
  STAILQ_REMOVE_HEAD (&ss->dead, entry);
  free (d);
}

int
subvols_drop_dead (struct subvols *ss, bool (*stop) (void *opaque),
                   void *opaque)
{
  bool done = true;
  uint64_t id;
  int r = 0;

  if (ss->env.trans == NULL)
    return 0;
  {
    SCOPED_LOCK (&ss->lock);
    if (ss->dropping)
      return 0;
    ss->dropping = true;
  }
  while (r == 0 && done && first_dead (ss, &id)) {
    r = drop_run (ss, id, stop, opaque, &done);
    if (r < 0)
      r = err_note (r, "dropping subvolume %llu", (unsigned long long) id);
    else if (done)
      forget_first (ss);
  }
  SCOPED_LOCK (&ss->lock);
  ss->dropping = false;
  return r;
}

/* --- after an open --- */

/* The first ORPHAN item of the root tree from *ID on. */
static int
next_orphan (struct tree *rt, uint64_t *id, bool *ret_found)
{
  CLEANUP_CURSOR struct cursor cur = CURSOR_INIT;
  struct key k;
  int r;

  *ret_found = false;
  r = tree_find (rt, KEY (BTRFS_ORPHAN_OBJECTID, BTRFS_ORPHAN_ITEM, *id),
                 &cur, NULL);
  if (r < 0 || !cursor_at_item (&cur))
    return r;
  k = cursor_key (&cur);
  *ret_found = k.objectid == BTRFS_ORPHAN_OBJECTID &&
    k.type == BTRFS_ORPHAN_ITEM;
  *id = k.offset;
  return 0;
}

/* Has subvolume ID a root item, and is it deleted? */
static int
root_state (struct tree *rt, uint64_t id, bool *ret_found, bool *ret_dead)
{
  CLEANUP_CURSOR struct cursor cur = CURSOR_INIT;
  struct btrfs_root_item item;
  struct key k;
  int r;

  *ret_found = *ret_dead = false;
  r = tree_find_le (rt, KEY (id, BTRFS_ROOT_ITEM, UINT64_MAX), &cur, NULL);
  if (r < 0 || !cursor_at_item (&cur))
    return r;
  k = cursor_key (&cur);
  if (k.objectid != id || k.type != BTRFS_ROOT_ITEM)
    return 0;
  if (cursor_size (&cur) < BTRFS_ROOT_ITEM_SIZE_V0)
    return err_new (ERR_item_format, "root item of %u bytes",
                    cursor_size (&cur));
  memcpy (&item, cursor_data (&cur), BTRFS_ROOT_ITEM_SIZE_V0);
  *ret_found = true;
  *ret_dead = le32_get (item.refs) == 0;
  return 0;
}

static int
delete_orphan (struct subvols *ss, struct tree *rt, uint64_t id)
{
  struct txn *txn;
  int r;

  r = txn_begin_to_free (ss->env.trans, 1, &txn);
  if (r < 0)
    return r;
  rwlock_wrlock (&rt->lock);
  r = tree_delete (&txn->tree, rt,
                   KEY (BTRFS_ORPHAN_OBJECTID, BTRFS_ORPHAN_ITEM, id));
  rwlock_unlock (&rt->lock);
  return txn_leave (txn, r, true);
}

int
subvols_find_dead (struct subvols *ss)
{
  struct root *root = roots_pool_tree (ss->env.roots, BTRFS_ROOT_TREE);
  bool found, have = false, dead = false;
  uint64_t id = 0;
  int r;

  if (root == NULL)
    return err_new (ERR_invalid, "the root tree is not open");
  for (;;) {
    rwlock_rdlock (&root->tree->lock);
    r = next_orphan (root->tree, &id, &found);
    if (r == 0 && found)
      r = root_state (root->tree, id, &have, &dead);
    rwlock_unlock (&root->tree->lock);
    if (r < 0 || !found)
      return r;
    if (!have && ss->env.trans != NULL)
      r = delete_orphan (ss, root->tree, id);
    else if (dead)
      r = subvols_add_dead (ss, id);
    if (r < 0)
      return err_note (r, "deleted subvolume %llu", (unsigned long long) id);
    if (id++ == UINT64_MAX)
      return 0;
  }
}
