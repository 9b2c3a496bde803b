/* inode: the table of inodes in memory.
 *
 * One struct inode per (subvolume, number).  An inode is read once, by the
 * look-up that misses; others wait for it.  Unused inodes stay on a short LRU
 * list, except those with file data and those without links.
 *
 *   absent -> LOADING -> READY <-> READY, unused -> LEAVING -> absent
 */
#include <config.h>

#include <sys/stat.h>

#include "base/log.h"
#include "inode/priv.h"

#define LRU_MAX 1024

struct inode_mem {
  struct inode inode;
  struct inode_priv priv;
};

static int
priv_cmp (const struct inode_priv *a, const struct inode_priv *b)
{
  const struct inode *x = a->inode, *y = b->inode;

  if (x->root->id != y->root->id)
    return x->root->id < y->root->id ? -1 : 1;
  if (x->ino != y->ino)
    return x->ino < y->ino ? -1 : 1;
  return 0;
}

RB_GENERATE_INTERNAL (inode_table, inode_priv, entry, priv_cmp,
                      static __attribute__ ((unused)))

int
inodes_new (const struct inodes_env *env, struct inodes **ret)
{
  struct inodes *ii = calloc (1, sizeof *ii);

  if (ii == NULL)
    return err_new (ERR_nomem, "inode table");
  ii->env = *env;
  mutex_init (&ii->names, RANK_NAMESPACE);
  mutex_init (&ii->lock, RANK_ICACHE);
  cond_init (&ii->changed);
  RB_INIT (&ii->table);
  TAILQ_INIT (&ii->lru);
  SLIST_INIT (&ii->changes.roots);
  *ret = ii;
  return 0;
}

static struct inode *
find (struct inodes *ii, struct root *root, uint64_t ino)
{
  struct inode want = { .root = root, .ino = ino };
  struct inode_priv key = { .inode = &want };
  struct inode_priv *p = RB_FIND (inode_table, &ii->table, &key);

  return p == NULL ? NULL : p->inode;
}

/* Takes the reference on ROOT. */
static struct inode *
make (struct inodes *ii, struct root *root, uint64_t ino)
{
  struct inode_mem *m = calloc (1, sizeof *m);

  if (m == NULL)
    return NULL;
  m->inode.inodes = ii;
  m->inode.root = root;
  m->inode.ino = ino;
  m->inode.priv = &m->priv;
  mutex_init (&m->inode.lock, RANK_INODE);
  m->priv.inode = &m->inode;
  m->priv.refs = 1;
  return &m->inode;
}

static void
destroy (struct inode *in)
{
  roots_put (in->inodes->env.roots, in->root);
  mutex_done (&in->lock);
  free (container_of (in, struct inode_mem, inode));
}

static void
insert (struct inodes *ii, struct inode *in)
{
  RB_INSERT (inode_table, &ii->table, in->priv);
  in->priv->in_table = true;
}

static void
remove_from_table (struct inodes *ii, struct inode *in)
{
  if (in->priv->in_table)
    RB_REMOVE (inode_table, &ii->table, in->priv);
  in->priv->in_table = false;
  cond_broadcast (&ii->changed);
}

/* Locked: one more reference to an inode of the table; VISIT: 1, or 0. */
static void
grab (struct inodes *ii, struct inode *in, unsigned visit)
{
  if (in->priv->refs++ == 0) {
    TAILQ_REMOVE (&ii->lru, in->priv, lru);
    --ii->lru_len;
  }
  in->priv->visits += visit;
}

static int
load (struct inode *in)
{
  struct tree *tree = in->root->tree;
  struct btrfs_inode_item item;
  uint32_t size = 0;
  bool found = false;
  int r = 0;

  if (in->ino == INODE_EMPTY_DIR_INO) {
    in->priv->empty_dir = true;
    in->mode = S_IFDIR | 0755;
    in->nlink = 1;
    return 0;
  }
  rwlock_rdlock (&tree->lock);
  if (le32_get (in->root->item.refs) == 0)
    r = err_new (ERR_subvol_missing, "subvolume %llu has been deleted",
                 (unsigned long long) in->root->id);
  else
    r = tree_get (tree, KEY (in->ino, BTRFS_INODE_ITEM, 0), &item,
                  sizeof item, &size, &found);
  rwlock_unlock (&tree->lock);
  if (r < 0)
    return r;
  if (!found || size < sizeof item)
    return err_new (ERR_inode_missing, "inode %llu of subvolume %llu",
                    (unsigned long long) in->ino,
                    (unsigned long long) in->root->id);
  inode_decode (in, &item);
  in->priv->unlinked = in->nlink == 0;
  return 0;
}

/* Locked: wait until a present inode can be used; NULL when it went away (then
 * look again).
 */
static int
use_present (struct inodes *ii, struct inode *in, unsigned visit,
             struct inode **ret)
{
  int e;

  *ret = NULL;
  if (in->priv->state == INODE_LEAVING) {
    cond_wait (&ii->changed, &ii->lock);
    return 0;
  }
  grab (ii, in, visit);
  while (in->priv->state == INODE_LOADING)
    cond_wait (&ii->changed, &ii->lock);
  e = in->priv->load_err;
  if (e == 0) {
    *ret = in;
    return 0;
  }
  if (--in->priv->refs == 0) {
    mutex_unlock (&ii->lock);
    destroy (in);
    mutex_lock (&ii->lock);
  }
  return err_new (-e, "reading an inode failed in another thread");
}

/* Locked.  Read the new inode IN. */
static int
load_new (struct inodes *ii, struct inode *in)
{
  bool last;
  int r;

  insert (ii, in);
  mutex_unlock (&ii->lock);
  r = load (in);
  mutex_lock (&ii->lock);
  in->priv->state = INODE_READY;
  if (r == 0) {
    cond_broadcast (&ii->changed);
    return 0;
  }
  in->priv->load_err = r;
  remove_from_table (ii, in);
  last = --in->priv->refs == 0;
  mutex_unlock (&ii->lock);
  if (last)
    destroy (in);
  mutex_lock (&ii->lock);
  return r;
}

/* Locked.  Nobody comes into a subvolume that is leaving, however long he has
 * waited for somebody else in it.
 */
static struct inode *
wait_and_find (struct inodes *ii, struct root *root, uint64_t ino)
{
  while (ii->leaving_root == root->id)
    cond_wait (&ii->changed, &ii->lock);
  return find (ii, root, ino);
}

/* Takes the reference on ROOT. */
static int
get_in_root (struct inodes *ii, struct root *root, uint64_t ino,
             unsigned visit, struct inode **ret)
{
  struct inode *in;
  int r = 0;

  *ret = NULL;
  mutex_lock (&ii->lock);
  while ((in = wait_and_find (ii, root, ino)) != NULL) {
    r = use_present (ii, in, visit, ret);
    if (r < 0 || *ret != NULL)
      break;
  }
  if (in == NULL) {
    in = make (ii, root, ino);
    if (in == NULL)
      r = err_new (ERR_nomem, "inode");
    else {
      root = NULL;              /* IN has it now */
      in->priv->visits = visit;
      r = load_new (ii, in);
      if (r == 0)
        *ret = in;
    }
  }
  mutex_unlock (&ii->lock);
  roots_put (ii->env.roots, root);
  return r;
}

static int
get (struct inodes *ii, uint64_t root_id, uint64_t ino, unsigned visit,
     struct inode **ret)
{
  struct root *root;
  int r;

  if (ino != INODE_EMPTY_DIR_INO &&
      (ino < BTRFS_FIRST_FREE_OBJECTID || ino > BTRFS_LAST_FREE_OBJECTID))
    return err_new (ERR_inode_missing, "%llu is no inode number",
                    (unsigned long long) ino);
  r = roots_get (ii->env.roots, root_id, &root);
  if (r < 0)
    return r;
  return get_in_root (ii, root, ino, visit, ret);
}

int
inode_get (struct inodes *ii, uint64_t root_id, uint64_t ino,
           struct inode **ret)
{
  return get (ii, root_id, ino, 0, ret);
}

int
inode_visit (struct inodes *ii, uint64_t root_id, uint64_t ino,
             struct inode **ret)
{
  return get (ii, root_id, ino, 1, ret);
}

int
inode_adopt (struct inodes *ii, struct root *root, uint64_t ino,
             const struct btrfs_inode_item *item, struct inode **ret)
{
  struct inode *in = NULL;
  struct root *again;
  int r;

  r = roots_get (ii->env.roots, root->id, &again);
  if (r < 0)
    return r;
  mutex_lock (&ii->lock);
  if (find (ii, again, ino) == NULL) {
    in = make (ii, again, ino);
    if (in != NULL) {
      inode_decode (in, item);
      in->priv->state = INODE_READY;
      insert (ii, in);
    }
  }
  mutex_unlock (&ii->lock);
  if (in == NULL)
    return get_in_root (ii, again, ino, 0, ret);
  *ret = in;
  return 0;
}

struct inode *
inode_ref (struct inode *in)
{
  SCOPED_LOCK (&in->inodes->lock);
  assert (in->priv->refs > 0);
  ++in->priv->refs;
  return in;
}

void
inode_set_unlinked (struct inode *in)
{
  SCOPED_LOCK (&in->inodes->lock);
  in->priv->unlinked = true;
}

static void
tell (const char *what, const struct inode *in, int r)
{
  log_error ("inode %llu of subvolume %llu %s: %s",
             (unsigned long long) in->ino,
             (unsigned long long) in->root->id, what, err_text (r));
}

static void
delete_items (const struct inodes_env *env, struct inode *in)
{
  int r = orphan_delete (in);

  if (r == 0)
    return;
  if (env->drop_data != NULL)
    env->drop_data (env->opaque, in); /* of a truncate cut short */
  tell ("is left for the next open", in, r);
}

/* Locked, and again on return: take IN, unused, out of memory.  It stays when
 * it has data that cannot be written and is not going to be deleted.
 */
static void
evict (struct inodes *ii, struct inode *in, bool forced)
{
  const struct inodes_env *env = &ii->env;
  const bool unlinked = in->priv->unlinked;
  int r = 0;

  assert (in->priv->refs == 0);
  in->priv->state = INODE_LEAVING;
  mutex_unlock (&ii->lock);
  if (env->evict_data != NULL)
    r = env->evict_data (env->opaque, in);
  if (r < 0) {
    tell (forced ? "loses data" : "keeps data in memory", in, r);
    if (forced)
      env->drop_data (env->opaque, in);
  }
  else if (unlinked && !env->read_only)
    delete_items (env, in);
  mutex_lock (&ii->lock);
  if (r < 0 && !forced) {
    in->priv->state = INODE_READY;
    TAILQ_INSERT_TAIL (&ii->lru, in->priv, lru);
    ++ii->lru_len;
    cond_broadcast (&ii->changed);
    return;
  }
  remove_from_table (ii, in);
  mutex_unlock (&ii->lock);
  destroy (in);
  mutex_lock (&ii->lock);
}

/* Locked. */
static struct inode *
lru_pop (struct inodes *ii)
{
  struct inode_priv *p = TAILQ_FIRST (&ii->lru);

  TAILQ_REMOVE (&ii->lru, p, lru);
  --ii->lru_len;
  return p->inode;
}

/* Locked, and again on return. */
static void
put_locked (struct inodes *ii, struct inode *in)
{
  assert (in->priv->refs > 0);
  if (--in->priv->refs > 0)
    return;
  if (in->priv->unlinked || in->data != NULL || ii->closing)
    evict (ii, in, ii->closing);
  else {
    TAILQ_INSERT_TAIL (&ii->lru, in->priv, lru);
    if (++ii->lru_len > LRU_MAX)
      evict (ii, lru_pop (ii), false);
  }
}

void
inode_put (struct inode *in)
{
  struct inodes *ii;

  if (in == NULL)
    return;
  ii = in->inodes;
  mutex_lock (&ii->lock);
  put_locked (ii, in);
  mutex_unlock (&ii->lock);
}

/* In one step: in between this would be the reference of somebody who stays,
 * for whoever waits for visits to end.
 */
void
inode_leave (struct inode *in)
{
  struct inodes *ii = in->inodes;

  mutex_lock (&ii->lock);
  --in->priv->visits;
  put_locked (ii, in);
  cond_broadcast (&ii->changed);
  mutex_unlock (&ii->lock);
}

/* Locked; drop the unused inodes of a subvolume. */
static int
forget_root (struct inodes *ii, uint64_t root_id)
{
  struct inode_priv *p, *next;

 again:
  RB_FOREACH_SAFE (p, inode_table, &ii->table, next) {
    if (p->inode->root->id != root_id)
      continue;
    if (p->state == INODE_LEAVING) {
      cond_wait (&ii->changed, &ii->lock);
      goto again;
    }
    if (p->refs > 0 && p->refs == p->visits) {
      cond_wait (&ii->changed, &ii->lock);
      goto again;
    }
    if (p->refs > 0)
      return err_new (ERR_busy, "inode %llu of subvolume %llu",
                      (unsigned long long) p->inode->ino,
                      (unsigned long long) root_id);
    TAILQ_REMOVE (&ii->lru, p, lru);
    --ii->lru_len;
    evict (ii, p->inode, true);
    goto again;
  }
  return 0;
}

int
inodes_root_leave (struct inodes *ii, uint64_t root_id)
{
  int r;

  mutex_lock (&ii->lock);
  assert (ii->leaving_root == 0);
  ii->leaving_root = root_id;
  r = forget_root (ii, root_id);
  mutex_unlock (&ii->lock);
  if (r < 0)
    inodes_root_left (ii);
  return r;
}

void
inodes_root_left (struct inodes *ii)
{
  SCOPED_LOCK (&ii->lock);
  ii->leaving_root = 0;
  cond_broadcast (&ii->changed);
}

void
inodes_names_lock (struct inodes *ii)
{
  mutex_lock (&ii->names);
}

void
inodes_names_unlock (struct inodes *ii)
{
  mutex_unlock (&ii->names);
}

int
inodes_free (struct inodes *ii)
{
  int r = 0;

  if (ii == NULL)
    return 0;
  mutex_lock (&ii->lock);
  ii->closing = true;
  while (!TAILQ_EMPTY (&ii->lru))
    evict (ii, lru_pop (ii), true);
  if (!RB_EMPTY (&ii->table))
    r = err_new (ERR_busy, "an inode is still in use");
  mutex_unlock (&ii->lock);
  if (r < 0)
    return r;
  inode_changes_reset (&ii->changes);
  cond_done (&ii->changed);
  mutex_done (&ii->lock);
  mutex_done (&ii->names);
  free (ii);
  return 0;
}

/* Order of inode locks: by number, then by root. */
static bool
locks_before (const struct inode *a, const struct inode *b)
{
  if (a->ino != b->ino)
    return a->ino < b->ino;
  return a->root->id < b->root->id;
}

void
inode_lock_all (struct inode **v, size_t n)
{
  size_t i, j;

  for (i = 1; i < n; ++i)
    for (j = i; j > 0; --j) {
      struct inode *x = v[j - 1], *y = v[j];

      if (y == NULL || (x != NULL && !locks_before (y, x)))
        break;
      v[j - 1] = y;
      v[j] = x;
    }
  for (i = 0; i < n; ++i)
    if (v[i] != NULL && (i == 0 || v[i] != v[i - 1]))
      mutex_lock (&v[i]->lock);
}

void
inode_unlock_all (struct inode **v, size_t n)
{
  size_t i;

  for (i = 0; i < n; ++i)
    if (v[i] != NULL && (i == 0 || v[i] != v[i - 1]))
      mutex_unlock (&v[i]->lock);
}
