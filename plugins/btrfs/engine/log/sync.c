/* log: who flushes, and how a log becomes durable.
 *
 * A thread that wants an inode flushed queues a request.  The first one
 * becomes the leader: it takes all requests that wait, logs them, syncs once,
 * and tells the others, of whom one leads the next batch.
 *
 * Order of a sync: items are copied to the log trees (inode locks held); root
 * items of the log trees go into the log root tree; all new log blocks are
 * written and waited for, and with them data that FLUSHes have left to the log
 * (data/flush.c), which then enters its file; the devices are flushed (this
 * also covers data that was written before); the superblocks get the address
 * of the log root tree.
 * During all this the leader holds a transaction handle: the transaction
 * cannot be committed, and the last one has been, so the superblock that is
 * on disk stays the right one but for its log.
 */
#include <config.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/err.h"
#include "base/log.h"
#include "base/math.h"
#include "log/log_priv.h"

/* Most inodes logged together, so that nobody's lock is held for long. */
#define BATCH_MAX 64
/* A leader waits for those who were there last time as long as a batch takes,
 * but not longer than so; from the first on, for each a part of that.
 */
#define GATHER_NS_MAX 1000000
#define GATHER_GAPS 4
/* When it was in vain so many of the next leaders, at most, do not. */
#define ALONE_MAX 16

#define NOT_RUN 1              /* result of an operation */

int
logs_new (const struct logs_env *env, struct logs **ret)
{
  const struct format_info *format = block_cache_format (env->cache);
  struct logs *l = calloc (1, sizeof *l);

  if (l == NULL)
    return err_new (ERR_nomem, "log");
  l->env = *env;
  l->sectorsize = format->sectorsize;
  l->csum_size = format->csum_size;
  l->blocks.logs = l;
  l->blocks.txn.ops = &log_alloc_ops;
  mutex_init (&l->lock, RANK_FLUSH);
  cond_init (&l->changed);
  cond_init (&l->arrived);
  TAILQ_INIT (&l->waiting);
  SLIST_INIT (&l->trees);
  *ret = l;
  return 0;
}

void
logs_attach (struct logs *l, struct data *data)
{
  l->data = data;
}

/* Forget the log; TXN, if any, gives its blocks back. */
static int
drop_log (struct logs *l, struct txn *txn)
{
  struct log_tree *t;

  while ((t = SLIST_FIRST (&l->trees)) != NULL) {
    SLIST_REMOVE_HEAD (&l->trees, link);
    tree_free (t->tree);
    free (t);
  }
  tree_free (l->root_tree);
  l->root_tree = NULL;
  l->transid = 0;
  l->closed = false;
  return log_blocks_release (&l->blocks, txn);
}

void
logs_free (struct logs *l)
{
  if (l == NULL)
    return;
  assert (TAILQ_EMPTY (&l->waiting));
  drop_log (l, NULL);
  cond_done (&l->changed);
  cond_done (&l->arrived);
  mutex_done (&l->lock);
  free (l);
}

int
logs_commit (struct logs *l, struct txn *txn)
{
  return drop_log (l, txn);
}

static void
count (uint64_t *counter, uint64_t n)
{
  __atomic_fetch_add (counter, n, __ATOMIC_RELAXED);
}

void
logs_get_stats (struct logs *l, struct logs_stats *ret)
{
  ret->flushes = __atomic_load_n (&l->stats.flushes, __ATOMIC_RELAXED);
  ret->syncs = __atomic_load_n (&l->stats.syncs, __ATOMIC_RELAXED);
  ret->commits = __atomic_load_n (&l->stats.commits, __ATOMIC_RELAXED);
  ret->blocks = __atomic_load_n (&l->stats.blocks, __ATOMIC_RELAXED);
}

/* --- what can be logged --- */

/* INODE's lock is held; TRANSID is running and has changed it. */
static bool
loggable (const struct logs *l, const struct inode *in)
{
  const struct btrfs_root_item *root = &in->root->item;

  return in->nlink > 0 &&
    /* Not of a subvolume that the last commit does not know. */
    le64_get (root->otransid) != l->transid && le32_get (root->refs) > 0;
}

/* Has the transaction changed names that flushing INODE has to keep? */
static bool
names_changed (const struct logs *l, const struct inode *in)
{
  return S_ISDIR (in->mode) || in->generation == l->transid ||
    in->names_transid == l->transid;
}

static int
log_tree_new (struct logs *l, uint64_t root_id, struct log_tree **ret)
{
  struct log_tree *t = calloc (1, sizeof *t);
  int r;

  if (t == NULL)
    return err_new (ERR_nomem, "log tree");
  t->root_id = root_id;
  r = tree_create (&l->blocks.txn, l->env.cache, BTRFS_TREE_LOG,
                   RANK_TREE_LOG, false, &t->tree);
  if (r < 0) {
    free (t);
    return r;
  }
  SLIST_INSERT_HEAD (&l->trees, t, link);
  *ret = t;
  return 0;
}

static int
log_tree_of (struct logs *l, uint64_t root_id, struct log_tree **ret)
{
  struct log_tree *t;
  int r = 0;

  if (l->root_tree == NULL)
    r = tree_create (&l->blocks.txn, l->env.cache, BTRFS_TREE_LOG,
                     RANK_TREE_LOG, false, &l->root_tree);
  if (r < 0)
    return r;
  SLIST_FOREACH (t, &l->trees, link)
    if (t->root_id == root_id) {
      *ret = t;
      return 0;
    }
  return log_tree_new (l, root_id, ret);
}

/* --- sync --- */

/* What Linux puts into the root item of a log tree, the rest being zero. */
static void
root_item_init (struct btrfs_root_item *item, const struct tree *t,
                uint32_t nodesize)
{
  memset (item, 0, sizeof *item);
  item->inode.generation = le64_make (1);
  item->inode.size = le64_make (3);
  item->inode.nlink = le32_make (1);
  item->inode.nbytes = le64_make (nodesize);
  item->inode.mode = le32_make (S_IFDIR | 0755);
  item->generation = le64_make (tb_generation (t->root->data));
  item->generation_v2 = item->generation;
  item->bytenr = le64_make (t->root->bytenr);
  item->level = tree_level (t);
}

static int
write_root_item (struct logs *l, struct log_tree *t)
{
  const struct key key = KEY (BTRFS_TREE_LOG, BTRFS_ROOT_ITEM, t->root_id);
  const uint32_t nodesize = block_cache_format (l->env.cache)->nodesize;
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  struct btrfs_root_item item;
  int r;

  rwlock_rdlock (&t->tree->lock);
  root_item_init (&item, t->tree, nodesize);
  rwlock_unlock (&t->tree->lock);
  rwlock_wrlock (&l->root_tree->lock);
  r = tree_insert (&l->blocks.txn, l->root_tree, key, sizeof item, &c);
  if (r == -ERR_key_exists) {
    err_clear ();
    r = cursor_make_writable (&l->blocks.txn, &c);
  }
  if (r == 0)
    memcpy (cursor_data_rw (&c), &item, sizeof item);
  cursor_done (&c);
  rwlock_unlock (&l->root_tree->lock);
  t->changed = false;
  return r;
}

/* And the N operations DATA beside it. */
static int
write_log (struct logs *l, struct volume_op **data, size_t n)
{
  struct log_tree *t;
  size_t blocks = 0;
  int r = 0;

  SLIST_FOREACH (t, &l->trees, link)
    if (r == 0 && t->changed)
      r = write_root_item (l, t);
  if (r == 0)
    r = log_blocks_write (&l->blocks, data, n, &blocks);
  if (r == 0)
    count (&l->stats.blocks, blocks);
  return r;
}

/* It has been written. */
static int
sync_log (struct logs *l)
{
  int r = l->env.write_super (l->env.opaque, l->root_tree->root->bytenr,
                              tree_level (l->root_tree));

  if (r < 0)
    return r;
  log_blocks_synced (&l->blocks);
  count (&l->stats.syncs, 1);
  return 0;
}

/* --- the leader --- */

struct batch {
  struct request *request[BATCH_MAX]; /* in the order of inode locks */
  size_t n;
};

/* inode.lock is a ladder by inode number, then by tree. */
static int
by_lock (const void *a, const void *b)
{
  const struct inode *x = (*(struct request *const *) a)->inode;
  const struct inode *y = (*(struct request *const *) b)->inode;

  if (x->ino != y->ino)
    return x->ino < y->ino ? -1 : 1;
  if (x->root->id != y->root->id)
    return x->root->id < y->root->id ? -1 : 1;
  /* Of one inode those with data first: only the first is looked at. */
  return ((*(struct request *const *) b)->data != NULL) -
    ((*(struct request *const *) a)->data != NULL);
}

static bool
same_as_last (const struct batch *b, size_t i)
{
  return i > 0 && b->request[i]->inode == b->request[i - 1]->inode;
}

static void
lock_inodes (const struct batch *b)
{
  size_t i;

  for (i = 0; i < b->n; ++i)
    if (!same_as_last (b, i))
      mutex_lock (&b->request[i]->inode->lock);
}

static void
unlock_inodes (const struct batch *b)
{
  size_t i;

  for (i = 0; i < b->n; ++i)
    if (!same_as_last (b, i))
      mutex_unlock (&b->request[i]->inode->lock);
}

/* Do all requests for the inode of request I, which is their first, leave its
 * times alone?
 */
static bool
data_only (const struct batch *b, size_t i)
{
  bool only = b->request[i]->data_only;

  while (++i < b->n && same_as_last (b, i))
    only = only && b->request[i]->data_only;
  return only;
}

/* Requests of inodes that are durable as they are need nothing; the others
 * get the transaction that holds their changes, which for data that is still
 * to be written is the one that RUNS.
 */
static bool
note_transids (struct logs *l, const struct batch *b, uint64_t runs)
{
  const uint64_t committed = trans_committed_id (l->env.trans);
  bool any = false;
  size_t i;

  for (i = 0; i < b->n; ++i) {
    const struct inode *in = b->request[i]->inode;
    const bool durable = in->transid <= committed ||
      (in->log_transid == in->transid && in->log_sequence == in->sequence &&
       (!in->log_times_old || data_only (b, i)));

    if (same_as_last (b, i))
      b->request[i]->transid = b->request[i - 1]->transid;
    else if (b->request[i]->data != NULL)
      b->request[i]->transid = runs;
    else
      b->request[i]->transid = durable ? 0 : in->transid;
    any |= b->request[i]->transid != 0;
  }
  return any;
}

static void
commit_all (const struct batch *b)
{
  size_t i;

  for (i = 0; i < b->n; ++i)
    b->request[i]->commit = b->request[i]->transid != 0;
}

/* The names that request I wants kept.  Those of a subvolume are logged once
 * a batch.
 */
static int
log_names_for (struct logs *l, const struct batch *b, size_t i,
               struct log_tree *t, bool *ret_ok)
{
  const struct inode *in = b->request[i]->inode;
  size_t k;

  for (k = 0; k < i; ++k) {
    const struct request *q = b->request[k];

    if (q->names_logged && q->inode->root == in->root) {
      *ret_ok = true;
      return 0;
    }
  }
  return log_names (l, t, in->inodes, in->root, ret_ok);
}

/* *ret_ok: the log has it. */
static int
log_request (struct logs *l, const struct batch *b, size_t i, bool *ret_ok)
{
  struct request *q = b->request[i];
  struct inode *in = q->inode;
  struct log_tree *t = NULL;
  int r;

  *ret_ok = q->transid == l->transid && loggable (l, in);
  if (!*ret_ok)
    return 0;
  r = log_tree_of (l, in->root->id, &t);
  if (r == 0 && names_changed (l, in)) {
    r = log_names_for (l, b, i, t, ret_ok);
    q->names_logged = r == 0 && *ret_ok;
  }
  if (r < 0 || !*ret_ok)
    return r;
  if (!S_ISREG (in->mode))
    return log_inode (l, t, in);
  r = log_file (l, t, in, data_only (b, i), ret_ok);
  if (r == 0 && *ret_ok && q->data != NULL)
    r = log_extents_to_be (l, t, in, q->data, &q->taken);
  return r;
}

/* Log what the batch holds; requests that the log cannot serve are marked.
 * *ret_any: something was logged.
 */
static int
log_batch (struct logs *l, const struct batch *b, bool *ret_any)
{
  size_t i;
  int r = 0;

  *ret_any = false;
  for (i = 0; i < b->n && r == 0; ++i) {
    struct request *q = b->request[i];
    bool ok;

    if (q->transid == 0)
      continue;
    if (same_as_last (b, i)) {
      q->commit = b->request[i - 1]->commit;
      continue;
    }
    r = log_request (l, b, i, &ok);
    q->commit = !ok;
    *ret_any |= ok;
  }
  return r;
}

/* The changes of the batch are in a log that is durable now, or in a commit
 * that came after it.  Called without a handle: who holds the lock of an inode
 * may wait to join, while a commit waits for handles.
 */
static void
note_logged (const struct batch *b, uint64_t transid,
             const uint64_t *sequence)
{
  size_t i;

  for (i = 0; i < b->n; ++i) {
    struct inode *in = b->request[i]->inode;

    if (b->request[i]->transid == 0 || b->request[i]->commit)
      continue;
    mutex_lock (&in->lock);
    in->log_transid = transid;
    in->log_sequence = sequence[i];
    if (!same_as_last (b, i))
      in->log_times_old = data_only (b, i);
    mutex_unlock (&in->lock);
  }
}

/* --- data beside the log --- */

static size_t
data_of (const struct batch *b, struct volume_op *ret[BATCH_MAX])
{
  size_t i, n = 0;

  for (i = 0; i < b->n; ++i)
    if (b->request[i]->taken) {
      ret[n] = data_flush_op (b->request[i]->data);
      ret[n++]->result = NOT_RUN;
    }
  return n;
}

static void
leave_data (const struct batch *b)
{
  size_t i;

  for (i = 0; i < b->n; ++i)
    b->request[i]->taken = false;
}

/* What has been written enters its file; inode locks are held.  An error: the
 * log says what is not so.
 */
static int
insert_data (const struct batch *b, struct txn *txn,
             uint64_t sequence[BATCH_MAX])
{
  size_t i;
  int r = 0, one;

  for (i = 0; i < b->n; ++i) {
    struct request *q = b->request[i];

    if (!q->taken)
      continue;
    if (data_flush_op (q->data)->result == NOT_RUN) {
      q->taken = false;
      continue;
    }
    one = data_flush_insert (q->data, txn);
    r = r < 0 ? r : one;
    sequence[i] = q->inode->sequence;
  }
  return r;
}

/* The log that was made of B, and its data; inode locks are dropped as soon as
 * nobody needs them.  The answer is also about what is not written at all.
 */
static int
write_batch (struct logs *l, const struct batch *b, struct txn *txn,
             uint64_t sequence[BATCH_MAX])
{
  struct volume_op *data[BATCH_MAX];
  const size_t n = data_of (b, data);
  int r, e = 0;

  if (n == 0)
    unlock_inodes (b);
  /* Whatever has been copied, and the log's own blocks, were allocated before
   * this question is asked.
   */
  r = space_has_new_chunk (l->env.space, l->transid)
    ? err_new (ERR_bg_missing, "a chunk is new") : write_log (l, data, n);
  if (n > 0) {
    e = insert_data (b, txn, sequence);
    unlock_inodes (b);
  }
  return r < 0 ? r : e;
}

/* TXN is the handle of the running transaction; the last one is durable;
 * inode locks are held, and dropped here.  False: nothing is to be noted.
 */
static bool
log_and_sync (struct logs *l, const struct batch *b, struct txn *txn,
              uint64_t sequence[BATCH_MAX])
{
  bool any = false;
  size_t i;
  int r = 0;

  if (l->transid != txn->tree.transid) {
    assert (l->root_tree == NULL && SLIST_EMPTY (&l->trees));
    l->transid = l->blocks.txn.transid = txn->tree.transid;
    l->closed = false;
  }
  for (i = 0; i < b->n; ++i)
    sequence[i] = b->request[i]->inode->sequence;
  if (l->closed)
    commit_all (b);
  else
    r = log_batch (l, b, &any);
  if (r == 0 && any)
    r = write_batch (l, b, txn, sequence);
  else {
    leave_data (b);
    unlock_inodes (b);
  }
  if (r == 0 && any)
    r = sync_log (l);
  if (r < 0) {
    /* The log may lack something from here on: it is never synced again. */
    log_debug ("a flush becomes a commit: %s", err_text (r));
    err_clear ();
    l->closed = true;
    commit_all (b);
  }
  return r == 0;
}

/* A handle, with room for the data that the batch brings; without that room
 * it is left to those who brought it.
 */
static int
join (struct trans *trans, const struct batch *b, struct txn **ret)
{
  unsigned items = 0;
  size_t i;
  int r = -ERR_nospace_meta;

  for (i = 0; i < b->n; ++i)
    if (b->request[i]->data != NULL)
      items += data_flush_items (b->request[i]->data);
  if (items > 0)
    r = txn_begin (trans, items, ret);
  if (r != -ERR_nospace_meta)
    return r;
  if (items > 0)
    err_clear ();
  for (i = 0; i < b->n; ++i)
    b->request[i]->data = NULL;
  return txn_join (trans, ret);
}

/* Join with the transaction before it durable.  Inode locks are held while
 * joining: somebody who holds one may wait for a commit, and that one for us.
 */
static int
run_batch (struct logs *l, struct batch *b)
{
  struct trans *trans = l->env.trans;
  uint64_t sequence[BATCH_MAX], before;
  struct txn *txn;
  bool note;
  int r;

  qsort (b->request, b->n, sizeof *b->request, by_lock);
  for (;;) {
    lock_inodes (b);
    if (!note_transids (l, b, UINT64_MAX)) {
      unlock_inodes (b);
      return trans_check (trans);
    }
    r = join (trans, b, &txn);
    if (r < 0) {
      unlock_inodes (b);
      return r;
    }
    note_transids (l, b, txn->tree.transid);
    before = txn->tree.transid - 1;
    if (trans_committed_id (trans) == before)
      break;
    unlock_inodes (b);
    txn_end (txn);
    r = trans_commit_of (trans, before);
    if (r < 0)
      return r;
  }
  note = log_and_sync (l, b, txn, sequence);
  r = txn_end (txn);
  if (r == 0 && note)
    note_logged (b, before + 1, sequence);
  return r;
}

static void
take_batch (struct logs *l, struct batch *b)
{
  struct request *q;

  b->n = 0;
  while (b->n < BATCH_MAX && (q = TAILQ_FIRST (&l->waiting)) != NULL) {
    TAILQ_REMOVE (&l->waiting, q, link);
    --l->num_waiting;
    q->commit = q->names_logged = q->taken = false;
    q->transid = 0;
    b->request[b->n++] = q;
  }
}

static uint64_t
now_ns (void)
{
  struct timespec ts;

  clock_gettime (CLOCK_MONOTONIC, &ts);
  return ts.tv_sec * UINT64_C (1000000000) + ts.tv_nsec;
}

/* Wait until WANT requests are there, or no more seem to come. */
static void
wait_for (struct logs *l, size_t want)
{
  const uint64_t ns = MIN (l->batch_ns, (uint64_t) GATHER_NS_MAX);
  const uint64_t end = now_ns () + ns;
  const size_t first = l->num_waiting;
  uint64_t now, until = end;

  l->awaited = first + 1;
  while (l->num_waiting < want) {
    if (l->num_waiting > first) {
      l->awaited = want;
      until = MIN (l->arrival + ns / GATHER_GAPS, end);
    }
    now = now_ns ();
    if (now >= until)
      break;
    cond_timedwait_ns (&l->arrived, &l->lock, until - now);
  }
  l->awaited = 0;
}

/* Several threads that each flush, do a little, and flush again, are answered
 * together: the first to be back is the leader, and should not go alone while
 * the others are about to ask, or they would take turns in two groups for
 * ever, each of which waits for the other's sync.  If less than half of them
 * come, they do not flush like that: ever more leaders then do not wait, until
 * some have waited with success.
 */
static void
gather (struct logs *l)
{
  const size_t before = l->num_waiting, want = MIN (l->crowd, BATCH_MAX);

  if (before >= want)
    return;
  if (l->alone > 0) {
    --l->alone;
    return;
  }
  wait_for (l, want);
  if (2 * (l->num_waiting - before) >= want - before)
    l->in_vain /= 2;
  else
    l->alone = l->in_vain = MIN (2 * l->in_vain + 1, ALONE_MAX);
}

/* One batch; l->lock is held on entry and on return. */
static void
lead (struct logs *l)
{
  struct batch b;
  uint64_t start;
  size_t i;
  int r;

  l->busy = true;
  gather (l);
  take_batch (l, &b);
  mutex_unlock (&l->lock);
  start = now_ns ();
  r = run_batch (l, &b);
  start = now_ns () - start;
  mutex_lock (&l->lock);
  l->batch_ns = start;
  l->crowd = b.n + l->num_waiting;
  if (r < 0) {
    err_clear ();
    commit_all (&b); /* which tells the reason to everybody */
  }
  for (i = 0; i < b.n; ++i)
    b.request[i]->done = true;
  l->busy = false;
  cond_broadcast (&l->changed);
}

static void
ask (struct logs *l, struct request *q)
{
  count (&l->stats.flushes, 1);
  mutex_lock (&l->lock);
  TAILQ_INSERT_TAIL (&l->waiting, q, link);
  l->arrival = now_ns ();
  if (++l->num_waiting == l->awaited)
    cond_signal (&l->arrived);
  while (!q->done)
    if (!l->busy)
      lead (l);
    else
      cond_wait (&l->changed, &l->lock);
  mutex_unlock (&l->lock);
}

static int
answer (struct logs *l, const struct request *q)
{
  if (!q->commit)
    return trans_check (l->env.trans);
  count (&l->stats.commits, 1);
  return trans_commit_of (l->env.trans, q->transid);
}

int
logs_flush (struct logs *l, struct inode *in, bool data_only)
{
  struct request q = { .inode = in, .data_only = data_only };

  ask (l, &q);
  return answer (l, &q);
}

int
logs_flush_data (struct logs *l, struct inode *in, struct data_flush *data)
{
  struct request q = { .inode = in, .data_only = true, .data = data };
  int r = 0, e;

  ask (l, &q);
  if (!q.taken)
    r = data_flush_write (data);
  e = data_flush_end (data);
  if (r == 0)
    r = e;
  if (r < 0)
    return r;
  return q.taken ? answer (l, &q) : logs_flush (l, in, true);
}
