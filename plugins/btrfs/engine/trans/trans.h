/* trans: transactions.
 *
 * One transaction runs at a time, its id is the last committed generation
 * + 1.  Threads join it with txn_begin and leave with txn_end; everything
 * that joiners changed becomes visible on disk by one superblock write, or
 * not at all.
 *
 *   RUNNING -> COMMITTING (joins wait, joiners have left) -> WRITING (the
 *   next transaction may run) -> DONE, or ABORTED from any of them.
 *
 * Commit is a table of named steps (fs/ fills it in, because the steps run
 * rooms above this one).  Steps before `shut` run beside joiners, steps from
 * `shut` to `unblock` with joins shut out; the rest run while the next
 * transaction fills up.  A step that fails aborts:
 * no superblock is written any more by anybody, the pool answers
 * -ERR_aborted, the disk keeps the previous commit.
 */
#ifndef BTRNBD_TRANS_TRANS_H
#define BTRNBD_TRANS_TRANS_H

#include "btree/tree.h"

struct trans;
struct extents;
struct space;
struct roots;

struct txn {
  struct tree_txn tree;        /* .transid is the running transaction */
  struct trans *trans;
  struct extents *extents;     /* of the hooks */
  struct space *space;
  struct roots *roots;
  uint64_t reserved_bytes;     /* metadata bytes still promised to it */
  unsigned nested;             /* txn_begin calls above the first */
  bool committer;              /* of a commit, or joined without promise */
  bool alone;                  /* see txn_begin_alone */
};

static inline struct txn *
txn_of (struct tree_txn *t)
{
  return (struct txn *) t;     /* embedded first */
}

struct commit_step {
  const char *name;
  int (*run) (void *opaque, struct txn *);
};

struct trans_hooks {
  void *opaque;
  /* Promise metadata space for ITEMS item insertions, and the delayed
   * references that they cause: *ret_bytes.  May commit, flush, allocate a
   * chunk: called before the join, with no lock of rank >= RANK_RESERVE held.
   * -ERR_nospace_meta when there is none.
   */
  int (*reserve) (void *opaque, unsigned items, uint64_t *ret_bytes);
  /* Operations that free space (unlink, truncate, trim) may use the last
   * resort.
   */
  int (*reserve_to_free) (void *opaque, unsigned items, uint64_t *ret_bytes);
  void (*release) (void *opaque, uint64_t bytes);
  const struct tree_alloc_ops *alloc_ops;
  /* Put into every handle for the rooms above. */
  struct extents *extents;
  struct space *space;
  struct roots *roots;
  /* NULL-name terminated; `shut` is the index of the first step that runs
   * with joins shut out, `unblock` of the first that runs with joins allowed
   * again.
   */
  const struct commit_step *steps;
  unsigned shut, unblock;
  /* After a commit, successful or not. */
  void (*finished) (void *opaque, uint64_t transid, int err);
};

extern int trans_new (uint64_t committed_generation,
                      const struct trans_hooks *, struct trans **ret);
extern void trans_free (struct trans *);

/* Join the running transaction; waits while a commit shuts joins out.  No
 * tree lock may be held.  A handle belongs to one thread; the thread may
 * commit nothing while it holds one.  A thread that holds a handle already
 * gets it again (and must end it as often); nothing more is promised then.
 */
extern int txn_begin (struct trans *, unsigned items, struct txn **ret);
/* For operations that free space, and for write-out of data, whose metadata
 * space_data_reserve has promised in advance: may use the last resort.
 */
extern int txn_begin_to_free (struct trans *, unsigned items,
                              struct txn **ret);
/* Join without any promise: for the machinery itself (delayed references,
 * chunks), which lives on the global reserve.
 */
extern int txn_join (struct trans *, struct txn **ret);
/* As txn_begin, with nobody else in the transaction until this handle is
 * ended: all that others have begun to change is complete, and those who come
 * wait.  Locks that the holder of a handle may wait for must not be held.
 */
extern int txn_begin_alone (struct trans *, unsigned items,
                            struct txn **ret);
/* Leave.  Returns -ERR_aborted if the transaction died meanwhile. */
extern int txn_end (struct txn *);
/* An error in the middle of a change: the transaction cannot be committed.
 * Latches the pool read-only with ERR's text as reason.  The handle must
 * still be ended.  Returns ERR.
 */
extern int txn_abort (struct txn *, int err);
/* Leave with outcome R, which is returned if it is an error, with its notes;
 * CHANGED: the trees were touched, so an error cannot be taken back.
 */
extern int txn_leave (struct txn *, int r, bool changed);

/* A long operation may call this between steps that leave the trees
 * consistent: true when it should end its handle and begin a new one
 * (a commit waits for it, or the reservation runs low).
 */
extern bool txn_should_end (const struct txn *);

/* Commit everything that was done by txn_end before the call; concurrent
 * callers share commits.  Returns when durable.  *ret_transid may be NULL.
 */
extern int trans_commit (struct trans *, uint64_t *ret_transid);
/* The same for the transaction TRANSID and those before it only: what has
 * been joined since is not waited for.
 */
extern int trans_commit_of (struct trans *, uint64_t transid);

/* Something was changed since the last commit. */
extern bool trans_is_dirty (struct trans *);
/* The calling thread holds a handle. */
extern bool trans_in_txn (struct trans *);
extern uint64_t trans_running_id (struct trans *);
extern uint64_t trans_committed_id (struct trans *);
/* 0, -ERR_aborted or -ERR_readonly (trans_new was never given for writing). */
extern int trans_check (struct trans *);
/* The reason of the abort, for `info` and messages; NULL when healthy. */
extern const char *trans_abort_reason (struct trans *);
/* Abort from outside a handle (a background failure). */
extern void trans_fail (struct trans *, int err);

#endif /* BTRNBD_TRANS_TRANS_H */
