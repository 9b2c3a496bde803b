/* base: ranked locks.
 *
 * Every lock has a rank from the one order below.  A thread may take a lock
 * only when its rank is higher than that of every lock it holds; ranks marked
 * "ladder" may be taken more than once, the caller having an order of its own
 * (written beside the rank).  In builds that run tests (BTRNBD_LOCK_DEBUG)
 * the helpers assert this, and who owns what; `*_is_mine` is for assertions
 * only and answers true in builds without the bookkeeping.
 */
#ifndef BTRNBD_BASE_LOCK_H
#define BTRNBD_BASE_LOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* The order, outermost first. */
enum lock_rank {
  RANK_NONE = 0,
  RANK_FS_OPEN,        /* fs: open, close, list of open files */
  RANK_IMAGE,          /* fs: the image of the pool, its clients */
  RANK_NAMESPACE,      /* inode: rename and other operations on two names */
  RANK_INODE,          /* inode.lock, ladder by inode number then root id:
                          one operation on the inode's metadata */
  RANK_FLUSH,          /* data: group commit of FLUSH */
  RANK_FILE_RANGE,     /* data: byte ranges of a file locked by I/O */
  RANK_GATE,           /* base: counts of a gate */
  RANK_RESERVE,        /* space: tickets of reservations */
  RANK_COMMIT,         /* trans: one commit at a time */
  RANK_TREE_FS,        /* tree.lock of subvolumes, ladder by root id */
  RANK_TREE_LOG,       /* log trees, reserved for log/ */
  RANK_TREE_ROOT,      /* tree.lock of the root tree, uuid, quota */
  RANK_TREE_CSUM,
  RANK_EXTENT_SHARE,   /* extent: references of shared tree blocks */
  RANK_TREE_EXTENT,
  RANK_TREE_BG,
  RANK_TREE_FST,
  RANK_TREE_DEV,
  RANK_TREE_CHUNK,
  RANK_COMMIT_ROOTS,   /* space/trans: committed roots and unpinning */
  RANK_TRANS,          /* trans: state, joiners */
  RANK_DELAYED_REFS,   /* extent: pending references */
  RANK_SPACE,          /* space: space_info counters, list of block groups */
  RANK_BLOCK_GROUP,    /* space: one block group's free space */
  RANK_ICACHE,         /* inode: table of in-memory inodes */
  RANK_SUBVOLS,        /* subvol: list of subvolumes to drop */
  RANK_CONVOY,         /* data: who reads where */
  RANK_EXTENT_MAP,     /* data: extent map of one file */
  RANK_DIRTY,          /* data: dirty ranges of one file */
  RANK_REGROUP,        /* data: where extents have changed */
  RANK_DATA,           /* data: list of dirty files, throttling */
  RANK_DATA_CACHE,     /* data: clean cache shard, ladder never */
  RANK_DATA_PAGES,     /* data: free pages */
  RANK_BLOCK_WRITE,    /* block: one write-out at a time */
  RANK_BLOCK_CACHE,    /* block: cache shard */
  RANK_CHUNK_SOURCE,   /* volume: chunks are being read */
  RANK_MEND,           /* volume: writes against the repair of copies */
  RANK_VOLUME,         /* volume: chunk map, devices */
  RANK_DEVICE,         /* io: one device */
  RANK_WORKERS,        /* base: queue of the worker pool */
  RANK_LOG,            /* base: log sink */
  RANK_COUNT
};

struct mutex {
  pthread_mutex_t m;
  enum lock_rank rank;
  pthread_t owner;     /* meaningful while held is true */
  bool held;
};

struct rwlock {
  pthread_rwlock_t l;
  enum lock_rank rank;
  pthread_t owner;     /* of the exclusive side */
  bool held;           /* exclusively */
};

struct cond {
  pthread_cond_t c;    /* on CLOCK_MONOTONIC */
};

extern void mutex_init (struct mutex *, enum lock_rank);
extern void mutex_done (struct mutex *);
extern void mutex_lock (struct mutex *);
extern bool mutex_trylock (struct mutex *);
extern void mutex_unlock (struct mutex *);
extern bool mutex_is_mine (const struct mutex *);

extern void rwlock_init (struct rwlock *, enum lock_rank);
extern void rwlock_done (struct rwlock *);
extern void rwlock_rdlock (struct rwlock *);
extern void rwlock_wrlock (struct rwlock *);
extern void rwlock_unlock (struct rwlock *);
extern bool rwlock_is_mine (const struct rwlock *); /* exclusively */

extern void cond_init (struct cond *);
extern void cond_done (struct cond *);
extern void cond_wait (struct cond *, struct mutex *);
/* False when TIMEOUT_MS passed. */
extern bool cond_timedwait (struct cond *, struct mutex *,
                            unsigned timeout_ms);
extern bool cond_timedwait_ns (struct cond *, struct mutex *,
                               uint64_t timeout_ns);
extern void cond_signal (struct cond *);
extern void cond_broadcast (struct cond *);

/* Assert that this thread holds no lock of rank >= RANK (blocking calls). */
extern void lock_assert_below (enum lock_rank);

static inline void
scoped_mutex_unlock (struct mutex **m)
{
  mutex_unlock (*m);
}

#define SCOPED_LOCK_CAT_(a, b) a##b
#define SCOPED_LOCK_NAME_(line) SCOPED_LOCK_CAT_ (scoped_lock_, line)
/* Hold the mutex until the end of the enclosing block. */
#define SCOPED_LOCK(mutexp)                                             \
  struct mutex *SCOPED_LOCK_NAME_ (__LINE__)                            \
    __attribute__ ((cleanup (scoped_mutex_unlock), unused)) =           \
    (mutex_lock (mutexp), (mutexp))

#endif /* BTRNBD_BASE_LOCK_H */
