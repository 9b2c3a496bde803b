/* trans: joining, leaving, the commit driver and the abort latch. */
#include <config.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "trans/trans.h"

enum commit_phase {
  PHASE_NONE,                  /* no commit */
  PHASE_EARLY,                 /* joins allowed, transaction still runs */
  PHASE_SHUT,                  /* joins wait */
  PHASE_WRITING,               /* next transaction runs */
};

struct trans {
  struct trans_hooks hooks;
  pthread_key_t key;           /* the thread's handle */

  struct mutex lock;           /* RANK_TRANS; protects all below */
  struct cond cond;            /* any change */
  uint64_t running, committed;
  enum commit_phase phase;
  unsigned joiners;            /* handles of the running transaction, without
                                  the committer's */
  bool dirty;                  /* somebody joined the running transaction */
  bool shut_wanted;            /* a commit waits for joiners to leave */
  bool alone;                  /* somebody is alone, or wants to be */
  int abort_err;
  char *abort_text;
};

int
trans_new (uint64_t committed, const struct trans_hooks *hooks,
           struct trans **ret)
{
  struct trans *t = calloc (1, sizeof *t);

  if (t == NULL)
    return err_new (ERR_nomem, "transactions");
  if (pthread_key_create (&t->key, NULL) != 0) {
    free (t);
    return err_new (ERR_nomem, "thread key");
  }
  t->hooks = *hooks;
  t->committed = committed;
  t->running = committed + 1;
  mutex_init (&t->lock, RANK_TRANS);
  cond_init (&t->cond);
  *ret = t;
  return 0;
}

void
trans_free (struct trans *t)
{
  if (t == NULL)
    return;
  assert (t->joiners == 0 && t->phase == PHASE_NONE);
  pthread_key_delete (t->key);
  cond_done (&t->cond);
  mutex_done (&t->lock);
  free (t->abort_text);
  free (t);
}

static int
aborted_error (struct trans *t)
{
  return err_new (ERR_aborted, "%s",
                  t->abort_text ? t->abort_text : "unknown reason");
}

static void
latch_abort (struct trans *t, int err)
{
  char *text;

  SCOPED_LOCK (&t->lock);
  if (t->abort_err != 0)
    return;
  text = strdup (err_text (err));
  t->abort_err = err;
  t->abort_text = text;
  log_msg (err == -ERR_shutdown ? LOG_LEVEL_DEBUG : LOG_LEVEL_ERROR,
           "transaction %llu aborted, the pool is read-only now: %s",
           (unsigned long long) t->running, text ? text : "");
  cond_broadcast (&t->cond);
}

int
trans_check (struct trans *t)
{
  if (t == NULL)
    return err_new (ERR_readonly, "no transactions");
  SCOPED_LOCK (&t->lock);
  return t->abort_err ? aborted_error (t) : 0;
}

const char *
trans_abort_reason (struct trans *t)
{
  if (t == NULL)
    return NULL;
  SCOPED_LOCK (&t->lock);
  if (t->abort_err == 0)
    return NULL;
  return t->abort_text ? t->abort_text : btrnbd_error_text (t->abort_err);
}

void
trans_fail (struct trans *t, int err)
{
  latch_abort (t, err);
}

static void
fill_handle (struct trans *t, struct txn *txn, uint64_t transid)
{
  txn->tree.transid = transid;
  txn->tree.ops = t->hooks.alloc_ops;
  txn->trans = t;
  txn->extents = t->hooks.extents;
  txn->space = t->hooks.space;
  txn->roots = t->hooks.roots;
}

/* t->lock held; also after an abort, which the caller meets soon. */
static void
wait_alone (struct trans *t)
{
  t->alone = true;
  while (t->joiners > 0 || t->phase == PHASE_SHUT)
    cond_wait (&t->cond, &t->lock);
}

static int
join (struct trans *t, uint64_t bytes, bool promised, bool alone,
      struct txn **ret)
{
  struct txn *txn = calloc (1, sizeof *txn);

  if (txn == NULL)
    return err_new (ERR_nomem, "transaction handle");
  {
    SCOPED_LOCK (&t->lock);
    while ((t->phase == PHASE_SHUT || t->alone) && t->abort_err == 0)
      cond_wait (&t->cond, &t->lock);
    if (t->abort_err != 0) {
      free (txn);
      return aborted_error (t);
    }
    if (alone)
      wait_alone (t);
    t->joiners++;
    t->dirty = true;
    fill_handle (t, txn, t->running);
  }
  txn->reserved_bytes = bytes;
  txn->committer = !promised;
  txn->alone = alone;
  pthread_setspecific (t->key, txn);
  *ret = txn;
  return 0;
}

static bool
nested (struct trans *t, struct txn **ret)
{
  struct txn *txn = pthread_getspecific (t->key);

  if (txn == NULL)
    return false;
  txn->nested++;
  *ret = txn;
  return true;
}

static int
begin (struct trans *t, unsigned items, bool alone, struct txn **ret,
       int (*reserve) (void *, unsigned, uint64_t *))
{
  uint64_t bytes = 0;
  int r;

  if (t == NULL)
    return err_new (ERR_readonly, "no transactions");
  assert (!alone || !trans_in_txn (t));
  if (nested (t, ret))
    return 0;
  r = trans_check (t);
  if (r < 0)
    return r;
  r = reserve (t->hooks.opaque, items, &bytes);
  if (r < 0)
    return r;
  r = join (t, bytes, true, alone, ret);
  if (r < 0)
    t->hooks.release (t->hooks.opaque, bytes);
  return r;
}

int
txn_begin (struct trans *t, unsigned items, struct txn **ret)
{
  return begin (t, items, false, ret, t ? t->hooks.reserve : NULL);
}

int
txn_begin_alone (struct trans *t, unsigned items, struct txn **ret)
{
  return begin (t, items, true, ret, t ? t->hooks.reserve : NULL);
}

int
txn_begin_to_free (struct trans *t, unsigned items, struct txn **ret)
{
  return begin (t, items, false, ret, t ? t->hooks.reserve_to_free : NULL);
}

int
txn_join (struct trans *t, struct txn **ret)
{
  if (t == NULL)
    return err_new (ERR_readonly, "no transactions");
  if (nested (t, ret))
    return 0;
  return join (t, 0, false, false, ret);
}

int
txn_end (struct txn *txn)
{
  struct trans *t;
  bool alone;
  int err;

  if (txn->nested > 0) {
    txn->nested--;
    return trans_check (txn->trans);
  }
  t = txn->trans;
  if (txn->reserved_bytes > 0)
    t->hooks.release (t->hooks.opaque, txn->reserved_bytes);
  pthread_setspecific (t->key, NULL);
  alone = txn->alone;
  free (txn);

  SCOPED_LOCK (&t->lock);
  assert (t->joiners > 0);
  if (alone)
    t->alone = false;
  if (--t->joiners == 0 && (t->shut_wanted || t->alone || alone))
    cond_broadcast (&t->cond);
  err = t->abort_err;
  return err ? aborted_error (t) : 0;
}

int
txn_leave (struct txn *txn, int r, bool changed)
{
  char *notes = NULL;
  int e;

  if (r < 0 && changed)
    r = txn_abort (txn, r);
  if (r < 0)
    notes = err_take ();
  e = txn_end (txn);
  if (r >= 0)
    return e;
  err_put (notes);
  return r;
}

int
txn_abort (struct txn *txn, int err)
{
  assert (err < 0);
  latch_abort (txn->trans, err);
  return err;
}

bool
txn_should_end (const struct txn *txn)
{
  struct trans *t = txn->trans;

  if (!txn->committer && txn->reserved_bytes == 0)
    return true;
  SCOPED_LOCK (&t->lock);
  return t->shut_wanted || t->alone || t->abort_err != 0;
}

bool
trans_in_txn (struct trans *t)
{
  return pthread_getspecific (t->key) != NULL;
}

bool
trans_is_dirty (struct trans *t)
{
  SCOPED_LOCK (&t->lock);
  return t->dirty;
}

uint64_t
trans_running_id (struct trans *t)
{
  SCOPED_LOCK (&t->lock);
  return t->running;
}

uint64_t
trans_committed_id (struct trans *t)
{
  SCOPED_LOCK (&t->lock);
  return t->committed;
}

/* --- commit --- */

/* All joiners out, joins wait. */
static void
shut (struct trans *t)
{
  SCOPED_LOCK (&t->lock);
  t->shut_wanted = true;
  t->phase = PHASE_SHUT;
  while (t->joiners > 0)
    cond_wait (&t->cond, &t->lock);
  t->shut_wanted = false;
}

/* The transaction has taken its final shape: the next one may run. */
static void
unblock (struct trans *t)
{
  SCOPED_LOCK (&t->lock);
  t->phase = PHASE_WRITING;
  t->running++;
  t->dirty = false;
  cond_broadcast (&t->cond);
}

static int
run_steps (struct trans *t, struct txn *txn)
{
  const struct commit_step *s = t->hooks.steps;
  unsigned i;
  int r;

  for (i = 0; s[i].name != NULL; i++) {
    if (i == t->hooks.shut)
      shut (t);
    if (i == t->hooks.unblock)
      unblock (t);
    r = trans_check (t);
    if (r == 0)
      r = s[i].run (t->hooks.opaque, txn);
    if (r < 0)
      return err_note (r, "commit of transaction %llu, step '%s'",
                       (unsigned long long) txn->tree.transid, s[i].name);
  }
  return 0;
}

/* Runs without the lock; this thread is the one committer. */
static int
commit_now (struct trans *t, uint64_t transid)
{
  struct txn txn = { .committer = true };
  int r;

  fill_handle (t, &txn, transid);
  pthread_setspecific (t->key, &txn);
  r = run_steps (t, &txn);
  pthread_setspecific (t->key, NULL);
  if (r < 0)
    latch_abort (t, r);
  if (t->hooks.finished)
    t->hooks.finished (t->hooks.opaque, transid, r);

  SCOPED_LOCK (&t->lock);
  if (r == 0)
    t->committed = transid;
  t->phase = PHASE_NONE;
  cond_broadcast (&t->cond);
  return r;
}

/* The transaction whose commit makes what was done so far durable; 0 when
 * everything is.
 */
static uint64_t
wanted (const struct trans *t)
{
  if (t->phase == PHASE_NONE)
    return t->dirty ? t->running : 0;
  if (t->phase == PHASE_WRITING && !t->dirty)
    return t->running - 1;
  return t->running;
}

/* Wait for, or run, commits until TARGET is done; t->lock held. */
static int
commit_until (struct trans *t, uint64_t target)
{
  int r;

  assert (mutex_is_mine (&t->lock));
  while (t->abort_err == 0 && t->committed < target) {
    if (t->phase != PHASE_NONE) {
      cond_wait (&t->cond, &t->lock);
      continue;
    }
    assert (t->running == target);
    t->phase = PHASE_EARLY;
    mutex_unlock (&t->lock);
    r = commit_now (t, target);
    mutex_lock (&t->lock);
    if (r < 0)
      return r;
  }
  return t->abort_err ? aborted_error (t) : 0;
}

int
trans_commit (struct trans *t, uint64_t *ret_transid)
{
  uint64_t target;

  if (t == NULL)
    return err_new (ERR_readonly, "no transactions");
  lock_assert_below (RANK_COMMIT);
  assert (!trans_in_txn (t));

  SCOPED_LOCK (&t->lock);
  target = wanted (t);
  if (ret_transid)
    *ret_transid = target ? target : t->committed;
  return commit_until (t, target);
}

int
trans_commit_of (struct trans *t, uint64_t transid)
{
  if (t == NULL)
    return err_new (ERR_readonly, "no transactions");
  lock_assert_below (RANK_COMMIT);
  assert (!trans_in_txn (t));

  SCOPED_LOCK (&t->lock);
  /* A number from a disk can be anything. */
  return commit_until (t, transid > t->running ? wanted (t) : transid);
}
