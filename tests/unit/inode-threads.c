/* Names changed by several threads at once, with commits in between. */
#include <config.h>

#include <pthread.h>
#include <sched.h>

#include "inode_help.h"

#include "inode/priv.h"
#include "subvol/subvol.h"

#define THREADS 4
#define DIRS 3
#define NAMES 12

struct worker {
  struct image *im;
  unsigned n, steps;
  uint64_t seed;
  unsigned done[8];            /* successes by kind */
  const char *failure;
  pthread_t thread;
};

/* BTRNBD_SEED chooses another run. */
static uint64_t
seed_base (void)
{
  const char *s = getenv ("BTRNBD_SEED");

  return s == NULL ? 0 : strtoull (s, NULL, 0) * 1000;
}

static unsigned
rnd (struct worker *w, unsigned below)
{
  w->seed = w->seed * UINT64_C (6364136223846793005) + 1442695040888963407;
  return (w->seed >> 33) % below;
}

/* What two threads may do to each other. */
static bool
expected (int r)
{
  switch (-r) {
  case 0:
  case ERR_exists:
  case ERR_not_found:
  case ERR_not_empty:
  case ERR_not_dir:
  case ERR_is_dir:
  case ERR_invalid:
  case ERR_is_subvol:
  case ERR_not_file:
    return true;
  default:
    return false;
  }
}

static size_t
pick_name (struct worker *w, char s[16])
{
  return snprintf (s, 16, "n%u", rnd (w, NAMES));
}

static int
step (struct worker *w, struct inode **dirs, unsigned kind)
{
  struct inode *a = dirs[rnd (w, DIRS)], *b = dirs[rnd (w, DIRS)];
  char an[16], bn[16];
  const size_t al = pick_name (w, an), bl = pick_name (w, bn);
  struct inode *in;
  int r;

  switch (kind) {
  case 0:
    return inode_create (a, an, al, &(struct inode_new) {
        .mode = S_IFREG | 0644 }, NULL);
  case 1:
    return inode_create (a, an, al, &(struct inode_new) {
        .mode = S_IFDIR | 0755 }, NULL);
  case 2:
    return inode_unlink (a, an, al);
  case 3:
    return inode_rename (a, an, al, b, bn, bl, rnd (w, 3));
  case 4:
    r = inode_lookup (a, an, al, &in);
    if (r == 0) {
      r = inode_link (in, b, bn, bl);
      inode_put (in);
    }
    return r;
  case 5:
    r = inode_lookup (a, an, al, &in);
    if (r == 0) {
      r = inode_setxattr (in, "user.x", an, al);
      inode_put (in);
    }
    return r;
  case 6:
    /* Open while others take the name away. */
    r = inode_lookup (a, an, al, &in);
    if (r == 0) {
      r = inode_unlink (a, an, al);
      inode_put (in);
    }
    return r;
  default:
    r = trans_commit (w->im->fs->trans, NULL);
    return r;
  }
}

static void *
work (void *opaque)
{
  struct worker *w = opaque;
  struct inode *dirs[DIRS];
  unsigned i, kind;
  char name[16];
  int r;

  for (i = 0; i < DIRS; ++i) {
    snprintf (name, sizeof name, "d%u", i);
    dirs[i] = walk_to (w->im, name);
  }
  for (i = 0; i < w->steps && w->failure == NULL; ++i) {
    kind = rnd (w, 50) == 0 ? 7 : rnd (w, 7);
    r = step (w, dirs, kind);
    if (r == 0)
      ++w->done[kind];
    if (!expected (r))
      w->failure = strdup (err_text (r));
    err_clear ();
  }
  for (i = 0; i < DIRS; ++i)
    inode_put (dirs[i]);
  return NULL;
}

static void
test_threads (void **state)
{
  struct worker w[THREADS];
  struct image im;
  unsigned i, k;
  char name[16];

  (void) state;
  image_make (&im, "-n 4096 -s 4096", 256);
  image_open (&im);
  for (i = 0; i < DIRS; ++i) {
    snprintf (name, sizeof name, "d%u", i);
    ok (make_dir (&im, name));
  }
  for (i = 0; i < THREADS; ++i) {
    w[i] = (struct worker) { .im = &im, .n = i, .steps = 1500,
      .seed = 12345 + i + seed_base () };
    assert_int_equal (pthread_create (&w[i].thread, NULL, work, &w[i]), 0);
  }
  for (i = 0; i < THREADS; ++i) {
    pthread_join (w[i].thread, NULL);
    if (w[i].failure != NULL)
      fail_msg ("thread %u: %s", i, w[i].failure);
    for (k = 0; k < 8; ++k)
      assert_true (w[i].done[k] > 0);
  }
  image_judge (&im);
  image_close (&im);
  image_remove (&im);
}

/* Subvolumes made, used, deleted and dropped while others do the same. */
static void *
subvol_work (void *opaque)
{
  struct worker *w = opaque;
  const struct subvol_new new = { .mode = 0755, .file = "disk",
    .file_mode = 0600, .file_size = 1 << 20 };
  struct inode *top = walk_to (w->im, ""), *sub;
  char name[16], file[16];
  unsigned i, k;
  int r;

  for (i = 0; i < w->steps && w->failure == NULL; ++i) {
    snprintf (name, sizeof name, "s%u-%u", w->n, rnd (w, 3));
    r = subvol_create (w->im->fs->subvols, top, name, strlen (name), &new,
                       NULL);
    if (r == 0)
      r = inode_lookup (top, name, strlen (name), &sub);
    if (r == 0) {
      for (k = rnd (w, 60); k > 0 && r == 0; --k) {
        snprintf (file, sizeof file, "f%u", k);
        r = inode_create (sub, file, strlen (file), &(struct inode_new) {
            .mode = S_IFREG | 0644 }, NULL);
      }
      inode_put (sub);
    }
    if (r == 0 && rnd (w, 5) == 0)
      r = trans_commit (w->im->fs->trans, NULL);
    if (r == 0 && rnd (w, 4) > 0)
      r = subvol_delete (w->im->fs->subvols, top, name, strlen (name));
    if (r == 0)
      r = subvols_drop_dead (w->im->fs->subvols, NULL, NULL);
    if (!expected (r))
      w->failure = strdup (err_text (r));
    err_clear ();
  }
  inode_put (top);
  return NULL;
}

static void
test_subvol_threads (void **state)
{
  struct worker w[THREADS];
  struct image im;
  unsigned i;

  (void) state;
  image_make (&im, "-n 4096 -s 4096", 256);
  image_open (&im);
  for (i = 0; i < THREADS; ++i) {
    w[i] = (struct worker) { .im = &im, .n = i, .steps = 60,
      .seed = 99 + i + seed_base () };
    assert_int_equal (pthread_create (&w[i].thread, NULL, subvol_work,
                                      &w[i]), 0);
  }
  for (i = 0; i < THREADS; ++i) {
    pthread_join (w[i].thread, NULL);
    if (w[i].failure != NULL)
      fail_msg ("thread %u: %s", i, w[i].failure);
  }
  ok (subvols_drop_dead (im.fs->subvols, NULL, NULL));
  image_judge (&im);
  image_close (&im);
  image_remove (&im);
}

/* --- a subvolume leaves --- */

static struct {
  struct image im;
  uint64_t root_id, ino;
  int (*evict) (void *, struct inode *);
  bool held, evicting, leaving, tried, got, stop; /* atomic */
  const char *failure;         /* of a thread */
  unsigned visits;             /* atomic */
} leave;

static void
set (bool *flag, bool value)
{
  __atomic_store_n (flag, value, __ATOMIC_SEQ_CST);
}

static bool
is_set (const bool *flag)
{
  return __atomic_load_n (flag, __ATOMIC_SEQ_CST);
}

static void
wait_for (const bool *flag, bool value)
{
  unsigned i;

  for (i = 0; is_set (flag) != value && i < 30000; ++i)
    usleep (1000);
}

/* Takes as long as the test wants. */
static int
slow_evict (void *opaque, struct inode *in)
{
  set (&leave.evicting, true);
  while (is_set (&leave.held))
    usleep (100);
  return leave.evict (opaque, in);
}

static void
leave_begin (void)
{
  const struct subvol_new new = { .mode = 0755, .file = "disk",
    .file_mode = 0600, .file_size = 1 << 20 };
  struct inode *top, *in;

  memset (&leave, 0, sizeof leave);
  image_make (&leave.im, "", 256);
  image_open (&leave.im);
  top = walk_to (&leave.im, "");
  ok (subvol_create (leave.im.fs->subvols, top, "s", 1, &new, NULL));
  inode_put (top);
  in = walk_to (&leave.im, "s/disk");
  leave.root_id = in->root->id;
  leave.ino = in->ino;
  inode_put (in);
}

static void
leave_end (void)
{
  image_judge (&leave.im);
  image_close (&leave.im);
  image_remove (&leave.im);
}

static void
note_failure (int r)
{
  if (r < 0)
    leave.failure = strdup (err_text (r));
  err_clear ();
}

static void *
use_and_put (void *opaque)
{
  struct inodes *ii = leave.im.fs->inodes;
  struct inode *in = NULL;
  int r = inode_get (ii, leave.root_id, leave.ino, &in);

  (void) opaque;
  if (r == 0)
    r = data_write (leave.im.fs->data, in, "x", 1, 0);
  inode_put (in);
  note_failure (r);
  return NULL;
}

static void *
look_up (void *opaque)
{
  struct inode *in = NULL;
  const int r = inode_get (leave.im.fs->inodes, leave.root_id, leave.ino,
                           &in);

  (void) opaque;
  set (&leave.got, true);
  wait_for (&leave.tried, true);
  inode_put (in);
  note_failure (r);
  return NULL;
}

static void *
make_leave (void *opaque)
{
  struct inodes *ii = leave.im.fs->inodes;
  const int r = inodes_root_leave (ii, leave.root_id);

  (void) opaque;
  if (r == 0) {
    usleep (20000);
    if (is_set (&leave.got))
      leave.failure = "somebody came into a subvolume that was leaving";
    inodes_root_left (ii);
    set (&leave.leaving, true);
  }
  else if (r != -ERR_busy)
    note_failure (r);
  err_clear ();
  set (&leave.tried, true);
  return NULL;
}

/* Who waited for an inode to go away while its subvolume begins to leave may
 * be first, or has to wait for that, too.
 */
static void
test_leave_look_up (void **state)
{
  struct inodes *ii;
  pthread_t t[3];
  unsigned i, k, first = 0;

  (void) state;
  leave_begin ();
  ii = leave.im.fs->inodes;
  leave.evict = ii->env.evict_data;
  ii->env.evict_data = slow_evict;
  for (i = 0; i < 30; ++i) {
    set (&leave.held, true);
    leave.evicting = leave.leaving = leave.tried = leave.got = false;
    assert_int_equal (pthread_create (&t[0], NULL, use_and_put, NULL), 0);
    wait_for (&leave.evicting, true);
    assert_int_equal (pthread_create (&t[1], NULL, look_up, NULL), 0);
    usleep (5000);
    assert_int_equal (pthread_create (&t[2], NULL, make_leave, NULL), 0);
    usleep (5000);
    set (&leave.held, false);
    for (k = 0; k < ARRAY_SIZE (t); ++k)
      pthread_join (t[k], NULL);
    if (leave.failure != NULL)
      fail_msg ("%s", leave.failure);
    first += leave.leaving;
  }
  print_message ("# the subvolume was first %u times\n", first);
  ii->env.evict_data = leave.evict;
  leave_end ();
}

static void *
visit (void *opaque)
{
  struct inodes *ii = leave.im.fs->inodes;
  struct inode *in;
  int r = 0;

  (void) opaque;
  while (!is_set (&leave.stop) && r == 0) {
    r = inode_visit (ii, leave.root_id, leave.ino, &in);
    if (r == 0)
      inode_leave (in);
    __atomic_fetch_add (&leave.visits, 1, __ATOMIC_RELAXED);
  }
  note_failure (r);
  return NULL;
}

/* Visitors are waited for, and nobody hears of them. */
static void
test_leave_visits (void **state)
{
  struct inodes *ii;
  pthread_t t[4];
  unsigned i, n = 0;
  int r = 0;

  (void) state;
  leave_begin ();
  ii = leave.im.fs->inodes;
  for (i = 0; i < ARRAY_SIZE (t); ++i)
    assert_int_equal (pthread_create (&t[i], NULL, visit, NULL), 0);
  while (r == 0
         && __atomic_load_n (&leave.visits, __ATOMIC_RELAXED) < 300000) {
    r = inodes_root_leave (ii, leave.root_id);
    if (r == 0)
      inodes_root_left (ii);
    if (++n % 4 == 0)
      sched_yield ();
  }
  set (&leave.stop, true);
  for (i = 0; i < ARRAY_SIZE (t); ++i)
    pthread_join (t[i], NULL);
  ok (r);
  if (leave.failure != NULL)
    fail_msg ("%s", leave.failure);
  leave_end ();
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_threads),
    cmocka_unit_test (test_subvol_threads),
    cmocka_unit_test (test_leave_look_up),
    cmocka_unit_test (test_leave_visits),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
