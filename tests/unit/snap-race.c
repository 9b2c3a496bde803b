/* Snapshots of two volumes while clients write, trim and reflink in both: each
 * is the state after some whole number of each client's operations, at least
 * those that were acknowledged before the call and at most those begun when
 * it returned.  One of the volumes is written in place where that is right.
 */
#include <config.h>

#include <pthread.h>
#include <unistd.h>

#include "snap_help.h"

#define CLIENTS 4
#define SLOTS 600              /* blocks of each client in each volume */
#define KEPT 5                 /* snapshots kept */

static const char *const names[] = { "cow", "inplace" };

struct client {
  struct race *r;
  unsigned number;
  uint64_t seed;
  uint32_t begun, done;        /* operations (atomic) */
  pthread_t thread;
};

struct race {
  struct btrnbd_pool *pool;
  struct client c[CLIENTS];
  bool stop;
  uint64_t seed;
  pthread_t regrouper;
  uint64_t regrouped;          /* bytes */
};

enum kind { WRITE, TRIM, CLONE };
struct op {
  enum kind kind;
  unsigned vol, blk;
  unsigned from;               /* of CLONE */
};

/* Operation S of client C. */
static struct op
operation (const struct race *r, unsigned c, uint32_t s)
{
  struct op op;
  uint64_t x = r->seed + c * UINT64_C (0x9e3779b97f4a7c15) + s;

  x = (x ^ (x >> 30)) * UINT64_C (0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C (0x94d049bb133111eb);
  x ^= x >> 31;
  op.vol = x % 2;
  op.blk = c * SLOTS + x / 2 % SLOTS;
  op.from = c * SLOTS + (x >> 20) % SLOTS;
  op.kind = (x >> 40) % 16 == 0 ? TRIM
    : (x >> 40) % 256 == 1 && op.from != op.blk ? CLONE : WRITE;
  return op;
}

static void
do_write (struct client *c, struct btrnbd_file *f, uint64_t offset,
          const uint8_t *buf)
{
  pool_ok (btrnbd_pwrite (f, buf, BLK, offset, 0));
  /* Again a part: a sector that is read and changed. */
  if (snap_rnd (&c->seed, 2))
    pool_ok (btrnbd_pwrite (f, buf + 700, 900, offset + 700, 0));
}

/* Dead space is given back and fragments are put together all the while. */
static void *
regroup_main (void *opaque)
{
  struct race *r = opaque;
  unsigned v = 0;

  while (!__atomic_load_n (&r->stop, __ATOMIC_RELAXED)) {
    uint64_t moved;
    const int e = btrnbd_regroup (r->pool, names[v], NULL, NULL, &moved);

    if (e != -ERR_busy)
      pool_ok (e);
    r->regrouped += moved;
    v = 1 - v;
    usleep (1000);
  }
  return NULL;
}

static void *
client_main (void *opaque)
{
  struct client *c = opaque;
  struct btrnbd_pool *p = c->r->pool;
  struct btrnbd_file *f[2] = { open_export (p, names[0]),
                               open_export (p, names[1]) };
  uint8_t buf[BLK];
  uint32_t s;

  for (s = 1; !__atomic_load_n (&c->r->stop, __ATOMIC_RELAXED); ++s) {
    const struct op op = operation (c->r, c->number, s);
    const uint64_t offset = (uint64_t) op.blk * BLK;

    __atomic_store_n (&c->begun, s, __ATOMIC_RELEASE);
    blk_fill (buf, s * CLIENTS + c->number);
    if (op.kind == TRIM)
      pool_ok (btrnbd_trim (f[op.vol], offset, BLK, 0));
    else if (op.kind == CLONE)
      pool_ok (btrnbd_clone_range (p, names[op.vol],
                                   (uint64_t) op.from * BLK, BLK,
                                   names[op.vol], offset));
    else
      do_write (c, f[op.vol], offset, buf);
    if (snap_rnd (&c->seed, 300) == 0)
      pool_ok (btrnbd_flush (f[op.vol]));
    __atomic_store_n (&c->done, s, __ATOMIC_RELEASE);
  }
  btrnbd_file_close (f[0]);
  btrnbd_file_close (f[1]);
  return NULL;
}

/* Client C's part of both volumes, IMG, after exactly M operations? */
static bool
is_after (const struct race *r, unsigned c, uint32_t m, uint8_t *const img[2])
{
  static const uint8_t zero[BLK];
  uint32_t *last = calloc (2 * SLOTS, sizeof *last);
  bool same = true;
  uint8_t want[BLK];
  uint32_t s;
  unsigned i;

  for (s = 1; s <= m; ++s) {
    const struct op op = operation (r, c, s);
    uint32_t *v = last + op.vol * SLOTS;

    v[op.blk - c * SLOTS] = op.kind == WRITE ? s
      : op.kind == TRIM ? 0 : v[op.from - c * SLOTS];
  }
  for (i = 0; i < 2 * SLOTS && same; ++i) {
    const uint8_t *got = img[i / SLOTS] + (c * SLOTS + i % SLOTS) * BLK;

    if (last[i] != 0)
      blk_fill (want, last[i] * CLIENTS + c);
    same = memcmp (got, last[i] != 0 ? want : zero, BLK) == 0;
  }
  free (last);
  return same;
}

/* The newest operation of C that can be seen in IMG. */
static uint32_t
newest (unsigned c, uint8_t *const img[2])
{
  uint32_t max = 0, seq;
  unsigned i;

  for (i = 0; i < 2 * SLOTS; ++i) {
    memcpy (&seq, img[i / SLOTS] + (c * SLOTS + i % SLOTS) * BLK, 4);
    max = MAX (max, seq / CLIENTS);
  }
  return max;
}

static void
judge (struct race *r, const char *tag, const uint32_t *least,
       const uint32_t *most)
{
  const size_t size = (size_t) CLIENTS * SLOTS * BLK;
  uint8_t *img[2] = { malloc (size), malloc (size) };
  char name[64];
  unsigned v, c;

  for (v = 0; v < 2; ++v) {
    struct btrnbd_file *f;

    snprintf (name, sizeof name, "%s@%s", names[v], tag);
    f = open_export (r->pool, name);
    pool_ok (btrnbd_pread (f, img[v], size, 0));
    btrnbd_file_close (f);
  }
  for (c = 0; c < CLIENTS; ++c) {
    uint32_t m = MAX (newest (c, img), least[c]);
    const uint32_t from = m;

    /* Trims and clones that followed leave no number. */
    while (m < most[c] && !is_after (r, c, m, img))
      ++m;
    if (!is_after (r, c, m, img) || m > most[c])
      fail_msg ("snapshot %s is no state of client %u: acknowledged %u, seen "
                "%u, begun %u", tag, c, least[c], from, most[c]);
  }
  free (img[0]);
  free (img[1]);
}

static void
remove_both (struct race *r, unsigned number)
{
  char name[64];
  unsigned v;

  for (v = 0; v < 2; ++v) {
    snprintf (name, sizeof name, "%s@s%u", names[v], number);
    pool_ok (btrnbd_volume_remove (r->pool, name));
  }
}

static unsigned
take_snapshots (struct race *r, unsigned ms, unsigned every_ms)
{
  struct timespec t0, t;
  unsigned n = 0, c;
  char tag[16];

  clock_gettime (CLOCK_MONOTONIC, &t0);
  do {
    uint32_t least[CLIENTS], most[CLIENTS];

    usleep (every_ms * 1000);
    snprintf (tag, sizeof tag, "s%u", n);
    for (c = 0; c < CLIENTS; ++c)
      least[c] = __atomic_load_n (&r->c[c].done, __ATOMIC_ACQUIRE);
    pool_ok (btrnbd_volume_snapshot (r->pool, names, 2, tag));
    for (c = 0; c < CLIENTS; ++c)
      most[c] = __atomic_load_n (&r->c[c].begun, __ATOMIC_ACQUIRE);
    judge (r, tag, least, most);
    if (n >= KEPT)
      remove_both (r, n - KEPT);
    ++n;
    clock_gettime (CLOCK_MONOTONIC, &t);
  } while (n < KEPT + 2
           || (t.tv_sec - t0.tv_sec) * 1000
           + (t.tv_nsec - t0.tv_nsec) / 1000000 < ms);
  return n;
}

static void
test_clients (void **state)
{
  const unsigned ms = getenv ("BTRNBD_FULL") != NULL ? 60000
    : getenv ("BTRNBD_QUICK") != NULL ? 1500 : 5000;
  const char *text = getenv ("BTRNBD_SEED");
  struct race r = { .seed = text ? strtoull (text, NULL, 0) : 1 };
  struct image im;
  unsigned i, n;

  (void) state;
  image_make (&im, "", 1024);
  r.pool = pool_open_at (im.path, 24 << 20);
  for (i = 0; i < 2; ++i) {
    const struct btrnbd_volume_opts o = {
      .size = (uint64_t) CLIENTS * SLOTS * BLK, .nocow = i };

    pool_ok (btrnbd_volume_create (r.pool, names[i], &o));
  }
  for (i = 0; i < CLIENTS; ++i) {
    r.c[i] = (struct client) { .r = &r, .number = i,
                               .seed = r.seed * 77 + i };
    assert_int_equal (pthread_create (&r.c[i].thread, NULL, client_main,
                                      &r.c[i]), 0);
  }
  assert_int_equal (pthread_create (&r.regrouper, NULL, regroup_main, &r),
                    0);
  n = take_snapshots (&r, ms, 200);
  __atomic_store_n (&r.stop, true, __ATOMIC_RELAXED);
  for (i = 0; i < CLIENTS; ++i)
    pthread_join (r.c[i].thread, NULL);
  pthread_join (r.regrouper, NULL);
  pool_ok (btrnbd_pool_close (r.pool));
  image_check (&im);
  print_message ("# %u snapshots, seed %llu, %u operations of client 0\n", n,
                 (unsigned long long) r.seed, r.c[0].done);
  print_message ("# %llu bytes were moved meanwhile\n",
                 (unsigned long long) r.regrouped);
  assert_true (r.c[0].done > 0);
  assert_true (r.regrouped > 0);
  image_remove (&im);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_clients),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
