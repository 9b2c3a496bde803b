/* base: ranked locks.
 *
 * With BTRNBD_LOCK_DEBUG each thread has a table, behind a pthread key, of
 * how often it holds each rank, and a bitmap of ranks with a non-zero count,
 * so the check before a lock is one comparison with the highest bit.  A
 * thread whose table cannot be allocated goes unchecked for the rest of its
 * life: a table made later would not know what it holds.
 */
#include <config.h>

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/lock.h"

#ifdef BTRNBD_LOCK_DEBUG

_Static_assert (RANK_COUNT <= 64, "the bitmap of held ranks is 64 bits wide");

struct held_table {
  uint64_t ranks;               /* bit R: count[R] > 0 */
  uint16_t count[RANK_COUNT];
};

static pthread_key_t held_key;
static bool have_key;
static struct held_table unchecked; /* stands for no table */

static void
free_held_table (void *h)
{
  if (h != &unchecked)
    free (h);
}

/* When the library is loaded, before any lock is taken: the check for it on
 * each use would cost as much as the rest.
 */
__attribute__ ((constructor))
static void
make_key (void)
{
  have_key = pthread_key_create (&held_key, free_held_table) == 0;
}

__attribute__ ((noinline, cold))
static struct held_table *
make_held_table (void)
{
  struct held_table *h;

  if (!have_key)
    return NULL;
  h = calloc (1, sizeof *h);
  if (h != NULL && pthread_setspecific (held_key, h) != 0) {
    free (h);
    h = NULL;
  }
  if (h == NULL)
    pthread_setspecific (held_key, &unchecked);
  return h;
}

static inline struct held_table *
held_table (void)
{
  struct held_table *h = have_key ? pthread_getspecific (held_key) : NULL;

  if (__builtin_expect (h == NULL, false))
    h = make_held_table ();
  return __builtin_expect (h != &unchecked, true) ? h : NULL;
}

static bool
rank_is_ladder (enum lock_rank rank)
{
  return rank == RANK_INODE || rank == RANK_TREE_FS;
}

static unsigned
highest (uint64_t ranks)
{
  return ranks == 0 ? RANK_NONE : 63 - __builtin_clzll (ranks);
}

__attribute__ ((noreturn, cold))
static void
order_violation (const char *what, unsigned rank, unsigned held)
{
  fprintf (stderr, "btrnbd: lock order: %s rank %u while holding rank %u\n",
           what, rank, held);
  abort ();
}

/* Returns the thread's table, for after_lock. */
static inline struct held_table *
before_lock (enum lock_rank rank)
{
  struct held_table *h = held_table ();
  unsigned top;

  if (h == NULL || h->ranks >> rank == 0)
    return h;
  top = highest (h->ranks);
  if (top > rank || !rank_is_ladder (rank))
    order_violation ("taking", rank, top);
  return h;
}

static inline void
after_lock (struct held_table *h, enum lock_rank rank)
{
  if (h == NULL)
    return;
  h->ranks |= UINT64_C (1) << rank;
  ++h->count[rank];
}

static inline void
before_unlock (enum lock_rank rank)
{
  struct held_table *h = held_table ();

  if (h == NULL)
    return;
  if (h->count[rank] == 0)
    order_violation ("releasing", rank, highest (h->ranks));
  if (--h->count[rank] == 0)
    h->ranks &= ~(UINT64_C (1) << rank);
}

void
lock_assert_below (enum lock_rank rank)
{
  struct held_table *h = held_table ();

  if (h != NULL && h->ranks != 0 && highest (h->ranks) >= rank)
    order_violation ("blocking below", rank, highest (h->ranks));
}

#else /* !BTRNBD_LOCK_DEBUG */

struct held_table;

static inline struct held_table *
before_lock (enum lock_rank rank)
{
  (void) rank;
  return NULL;
}

static inline void
after_lock (struct held_table *h, enum lock_rank rank)
{
  (void) h;
  (void) rank;
}

static inline void before_unlock (enum lock_rank rank) { (void) rank; }
void lock_assert_below (enum lock_rank rank) { (void) rank; }

#endif

/* The calls of pthread fail only when we misuse them. */
static inline void
must (int err)
{
  if (err != 0)
    abort ();
}

/* `owner` and `held` are written by the holder only; other threads read them
 * in *_is_mine, where any torn or old value differs from the reader itself.
 */
static inline void
set_owner (pthread_t *owner, bool *held, bool on)
{
  if (on)
    __atomic_store_n (owner, pthread_self (), __ATOMIC_RELAXED);
  __atomic_store_n (held, on, __ATOMIC_RELAXED);
}

static inline bool
is_owner (const pthread_t *owner, const bool *held)
{
  return __atomic_load_n (held, __ATOMIC_RELAXED) &&
    pthread_equal (__atomic_load_n (owner, __ATOMIC_RELAXED),
                   pthread_self ());
}

void
mutex_init (struct mutex *m, enum lock_rank rank)
{
  must (pthread_mutex_init (&m->m, NULL));
  m->rank = rank;
  m->held = false;
}

void
mutex_done (struct mutex *m)
{
  must (pthread_mutex_destroy (&m->m));
}

void
mutex_lock (struct mutex *m)
{
  struct held_table *h = before_lock (m->rank);

  must (pthread_mutex_lock (&m->m));
  set_owner (&m->owner, &m->held, true);
  after_lock (h, m->rank);
}

/* A trylock cannot deadlock, so its rank is not checked against those held;
 * the lock counts for later ones.
 */
bool
mutex_trylock (struct mutex *m)
{
  int r = pthread_mutex_trylock (&m->m);

  if (r == EBUSY)
    return false;
  must (r);
  set_owner (&m->owner, &m->held, true);
#ifdef BTRNBD_LOCK_DEBUG
  after_lock (held_table (), m->rank);
#endif
  return true;
}

void
mutex_unlock (struct mutex *m)
{
  before_unlock (m->rank);
  set_owner (&m->owner, &m->held, false);
  must (pthread_mutex_unlock (&m->m));
}

bool
mutex_is_mine (const struct mutex *m)
{
#ifdef BTRNBD_LOCK_DEBUG
  return is_owner (&m->owner, &m->held);
#else
  (void) m;
  return true;
#endif
}

void
rwlock_init (struct rwlock *l, enum lock_rank rank)
{
  pthread_rwlockattr_t attr;

  /* Writers first: a stream of readers must not starve a commit.  No thread
   * takes a shared lock twice, the ranks forbid it (ladders: other locks).
   */
  must (pthread_rwlockattr_init (&attr));
  must (pthread_rwlockattr_setkind_np
        (&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP));
  must (pthread_rwlock_init (&l->l, &attr));
  must (pthread_rwlockattr_destroy (&attr));
  l->rank = rank;
  l->held = false;
}

void
rwlock_done (struct rwlock *l)
{
  must (pthread_rwlock_destroy (&l->l));
}

void
rwlock_rdlock (struct rwlock *l)
{
  struct held_table *h = before_lock (l->rank);

  must (pthread_rwlock_rdlock (&l->l));
  after_lock (h, l->rank);
}

void
rwlock_wrlock (struct rwlock *l)
{
  struct held_table *h = before_lock (l->rank);

  must (pthread_rwlock_wrlock (&l->l));
  set_owner (&l->owner, &l->held, true);
  after_lock (h, l->rank);
}

void
rwlock_unlock (struct rwlock *l)
{
  before_unlock (l->rank);
  if (is_owner (&l->owner, &l->held))
    set_owner (&l->owner, &l->held, false);
  must (pthread_rwlock_unlock (&l->l));
}

bool
rwlock_is_mine (const struct rwlock *l)
{
#ifdef BTRNBD_LOCK_DEBUG
  return is_owner (&l->owner, &l->held);
#else
  (void) l;
  return true;
#endif
}

void
cond_init (struct cond *c)
{
  pthread_condattr_t attr;

  must (pthread_condattr_init (&attr));
  must (pthread_condattr_setclock (&attr, CLOCK_MONOTONIC));
  must (pthread_cond_init (&c->c, &attr));
  must (pthread_condattr_destroy (&attr));
}

void
cond_done (struct cond *c)
{
  must (pthread_cond_destroy (&c->c));
}

/* While waiting the mutex is free: the rank is dropped and checked anew, so
 * waiting with an inner lock held is a violation, as it must be.
 */
void
cond_wait (struct cond *c, struct mutex *m)
{
  struct held_table *h;

  before_unlock (m->rank);
  h = before_lock (m->rank);
  set_owner (&m->owner, &m->held, false);
  must (pthread_cond_wait (&c->c, &m->m));
  set_owner (&m->owner, &m->held, true);
  after_lock (h, m->rank);
}

bool
cond_timedwait (struct cond *c, struct mutex *m, unsigned timeout_ms)
{
  return cond_timedwait_ns (c, m, timeout_ms * UINT64_C (1000000));
}

bool
cond_timedwait_ns (struct cond *c, struct mutex *m, uint64_t timeout_ns)
{
  struct held_table *h;
  struct timespec ts;
  int r;

  clock_gettime (CLOCK_MONOTONIC, &ts);
  ts.tv_sec += timeout_ns / 1000000000;
  ts.tv_nsec += timeout_ns % 1000000000;
  if (ts.tv_nsec >= 1000000000) {
    ts.tv_nsec -= 1000000000;
    ++ts.tv_sec;
  }
  before_unlock (m->rank);
  h = before_lock (m->rank);
  set_owner (&m->owner, &m->held, false);
  r = pthread_cond_timedwait (&c->c, &m->m, &ts);
  set_owner (&m->owner, &m->held, true);
  after_lock (h, m->rank);
  if (r == ETIMEDOUT)
    return false;
  must (r);
  return true;
}

void
cond_signal (struct cond *c)
{
  must (pthread_cond_signal (&c->c));
}

void
cond_broadcast (struct cond *c)
{
  must (pthread_cond_broadcast (&c->c));
}
