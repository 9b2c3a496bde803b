/* Names changed by several threads at once, with commits in between. */
#include <config.h>

#include <pthread.h>

#include "inode_help.h"

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

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_threads),
    cmocka_unit_test (test_subvol_threads),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
