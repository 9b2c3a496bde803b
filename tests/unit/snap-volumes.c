/* What is done with snapshots of volumes: clones of them, going back to one,
 * renaming and removing with them, listing, telling differences.
 */
#include <config.h>

#include <pthread.h>

#include "fs/api_priv.h"
#include "snap_help.h"

#define BLOCKS 4096

static void
make (struct btrnbd_pool *p, const char *name, bool nocow)
{
  const struct btrnbd_volume_opts o = { .size = BLOCKS * BLK,
    .nocow = nocow, .description = "golden" };

  pool_ok (btrnbd_volume_create (p, name, &o));
}

static void
scribble (struct btrnbd_pool *p, const char *name, struct model *m,
          unsigned writes, unsigned len, uint64_t *seed, uint32_t *seq)
{
  struct btrnbd_file *f = open_export (p, name);
  unsigned i;

  for (i = 0; i < writes; ++i) {
    const unsigned n = 1 + snap_rnd (seed, len);
    const unsigned at = snap_rnd (seed, m->blocks - n);

    if (snap_rnd (seed, 8) == 0) {
      pool_ok (btrnbd_trim (f, (uint64_t) at * BLK, n * BLK, 0));
      memset (m->v + at, 0, n * sizeof *m->v);
    }
    else
      disk_write (f, m, at, n, seq);
  }
  btrnbd_file_close (f);
}

static void
snapshot (struct btrnbd_pool *p, const char *name, const char *tag)
{
  pool_ok (btrnbd_volume_snapshot (p, &name, 1, tag));
}

static bool
exists (struct btrnbd_pool *p, const char *path)
{
  struct btrnbd_stat st;
  int r = btrnbd_stat (p, path, &st);

  if (r < 0 && r != -ERR_not_found)
    fail_msg ("%s: %s", path, btrnbd_last_error (r));
  return r == 0;
}

static int
list_one (void *opaque, const struct btrnbd_volume_snapshot_info *s)
{
  assert_true (s->read_only && s->size == BLOCKS * BLK && s->created.tv_sec);
  assert_int_equal (strlen (s->uuid), 36);
  text_add (opaque, "%s=%s ", s->name, s->tag);
  return 0;
}

static void
expect_list (struct btrnbd_pool *p, const char *name, const char *want)
{
  struct text t = { NULL };

  text_add (&t, "%s", "");
  pool_ok (btrnbd_volume_snapshots (p, name, list_one, &t));
  assert_string_equal (t.s, want);
  free (t.s);
}

static void
test_sets (void **state)
{
  struct model now, at_a, at_b, clone;
  struct btrnbd_pool *p;
  struct btrnbd_file *f;
  struct image im;
  uint64_t seed = 5;
  uint32_t seq = 0;
  unsigned i;
  char tag[16];

  (void) state;
  image_make (&im, "", 512);
  p = pool_open_at (im.path, 0);
  make (p, "vm", false);
  make (p, "vm2", false);
  model_init (&now, BLOCKS);
  scribble (p, "vm", &now, 200, 20, &seed, &seq);
  snapshot (p, "vm", "a");
  at_a = model_clone (&now);
  scribble (p, "vm", &now, 200, 20, &seed, &seq);
  snapshot (p, "vm", "b");
  at_b = model_clone (&now);
  scribble (p, "vm", &now, 200, 20, &seed, &seq);
  expect_list (p, "vm", "vm@a=a vm@b=b ");
  expect_list (p, "vm2", "");

  pool_ok (btrnbd_volume_clone (p, "vm@a", "clone"));
  clone = model_clone (&at_a);
  export_compare (p, "clone", &clone);
  scribble (p, "clone", &clone, 100, 20, &seed, &seq);
  export_compare (p, "vm@a", &at_a);

  f = open_export (p, "vm");
  pool_fails (btrnbd_volume_rollback (p, "vm", "a"), ERR_busy);
  btrnbd_file_close (f);
  pool_fails (btrnbd_volume_rollback (p, "vm", "c"), ERR_not_found);
  pool_fails (btrnbd_volume_rollback (p, "vm", ""), ERR_name_bad);
  pool_fails (btrnbd_volume_rollback (p, "vm@a", "b"), ERR_name_bad);
  pool_ok (btrnbd_volume_rollback (p, "vm", "a"));
  export_compare (p, "vm", &at_a);
  f = open_export (p, "vm");
  assert_string_equal (btrnbd_file_description (f), "golden");
  btrnbd_file_close (f);
  memcpy (now.v, at_a.v, BLOCKS * sizeof *now.v);
  scribble (p, "vm", &now, 50, 20, &seed, &seq);
  btrnbd_pool_kill (p);
  image_check (&im);
  p = pool_open_at (im.path, 0);
  export_compare (p, "vm@a", &at_a);
  export_compare (p, "vm@b", &at_b);
  pool_ok (btrnbd_volume_rollback (p, "vm", "b"));
  export_compare (p, "vm", &at_b);

  pool_fails (btrnbd_volume_rename (p, "vm", "vm2"), ERR_exists);
  f = open_export (p, "vm");
  pool_ok (btrnbd_volume_rename (p, "vm", "other"));
  btrnbd_file_close (f);
  assert_false (exists (p, "vm") || exists (p, "vm@a"));
  expect_list (p, "other", "other@a=a other@b=b ");
  make (p, "vm", true);
  snapshot (p, "vm", "a");
  pool_fails (btrnbd_volume_rename (p, "other", "vm"), ERR_exists);
  pool_ok (btrnbd_volume_remove (p, "vm@a"));
  pool_ok (btrnbd_volume_remove (p, "vm"));
  pool_ok (btrnbd_volume_rename (p, "other", "vm"));

  pool_fails (btrnbd_volume_remove (p, "vm"), ERR_has_snapshots);
  f = open_export (p, "vm@b");
  pool_fails (btrnbd_volume_remove_all (p, "vm"), ERR_busy);
  btrnbd_file_close (f);
  assert_true (exists (p, "vm@a"));
  for (i = 0; i < 150; ++i) {
    snprintf (tag, sizeof tag, "n%u", i);
    snapshot (p, "vm", tag);
  }
  pool_ok (btrnbd_volume_rename (p, "vm", "renamed"));
  assert_true (exists (p, "renamed@n149") && !exists (p, "vm@n149"));
  pool_ok (btrnbd_volume_remove_all (p, "renamed"));
  assert_false (exists (p, "renamed") || exists (p, "renamed@a") ||
                exists (p, "renamed@n77"));
  export_compare (p, "clone", &clone);
  pool_ok (btrnbd_pool_close (p));
  image_check (&im);
  if (have_kernel ()) {
    image_mount (&im, "subvolid=5");
    assert_int_equal (run ("test \"$(ls %s | tr '\\n' ' ')\" = 'clone vm2 ' "
                           "&& btrfs scrub start -Bq %s", im.mnt, im.mnt),
                      0);
    image_umount (&im);
  }
  free (now.v);
  free (at_a.v);
  free (at_b.v);
  free (clone.v);
  image_remove (&im);
}

/* --- differences --- */

struct seen {
  unsigned blocks;
  uint8_t *v;
  uint64_t end;
};

static int
see (void *opaque, uint64_t offset, uint64_t len)
{
  struct seen *s = opaque;

  assert_true (len > 0 && offset % BLK == 0 && len % BLK == 0);
  assert_true (s->end == 0 || offset > s->end);
  s->end = offset + len;
  assert_true (s->end <= (uint64_t) s->blocks * BLK);
  memset (s->v + offset / BLK, 1, len / BLK);
  return 0;
}

static void
expect_diff (struct btrnbd_pool *p, const char *a, const char *b,
             const struct model *x, const struct model *y)
{
  struct seen s = { .blocks = x->blocks, .v = calloc (x->blocks, 1) };
  unsigned i;

  pool_ok (btrnbd_diff (p, a, b, see, &s));
  for (i = 0; i < x->blocks; ++i)
    if (s.v[i] != (x->v[i] != y->v[i]))
      fail_msg ("%s %s: block %u, writes %u and %u, is told as %s", a, b, i,
                x->v[i], y->v[i], s.v[i] ? "different" : "the same");
  free (s.v);
}

static int
stop_at_once (void *opaque, uint64_t offset, uint64_t len)
{
  (void) offset;
  (void) len;
  ++*(unsigned *) opaque;
  return 7;
}

static void
test_diff (void **state)
{
  struct btrnbd_pool *p;
  struct model m[6];
  struct image im;
  uint64_t seed = 9;
  uint32_t seq = 0;
  unsigned i, k, nocow, n = 0;
  char name[8], other[8];

  (void) state;
  for (nocow = 0; nocow < 2; ++nocow) {
    image_make (&im, "-n 4096 -s 4096", 768);
    p = pool_open_at (im.path, 0);
    make (p, "vm", nocow);
    model_init (&m[0], BLOCKS);
    /* Many items, so that there are trees to share. */
    scribble (p, "vm", &m[0], 3000, 1, &seed, &seq);
    for (i = 1; i < 6; ++i) {
      static const unsigned writes[] = { 0, 1, 0, 10, 300, 2000 };

      snprintf (name, sizeof name, "t%u", i);
      snapshot (p, "vm", name);
      m[i] = model_clone (&m[0]);
      scribble (p, "vm", &m[0], writes[i], 1 + i, &seed, &seq);
    }
    for (i = 1; i < 6; ++i)
      for (k = 1; k < 6; ++k) {
        snprintf (name, sizeof name, "vm@t%u", i);
        snprintf (other, sizeof other, "vm@t%u", k);
        expect_diff (p, name, other, &m[i], &m[k]);
      }
    expect_diff (p, "vm", "vm@t1", &m[0], &m[1]);
    expect_diff (p, "vm@t5", "vm", &m[5], &m[0]);
    assert_int_equal (btrnbd_diff (p, "vm", "vm@t1", stop_at_once, &n), 7);
    assert_int_equal (n, 1 + nocow);
    pool_fails (btrnbd_diff (p, "vm", "nothing", see, NULL), ERR_not_found);
    pool_ok (btrnbd_pool_close (p));
    image_check (&im);
    for (i = 0; i < 6; ++i)
      free (m[i].v);
    image_remove (&im);
  }
}

static int
add_range (void *opaque, uint64_t offset, uint64_t len)
{
  text_add (opaque, "%llu+%llu ", (unsigned long long) offset,
            (unsigned long long) len);
  return 0;
}

/* Files of other sizes, with inline extents, without a common ancestor. */
static void
test_diff_sizes (void **state)
{
  static const char *const pairs[][3] = {
    { "small", "small2", "" }, { "small", "other", "0+100 " },
    { "small", "empty", "0+100 " }, { "empty", "empty", "" },
    { "big", "big2", "0+70000 " }, { "small", "big", "0+70000 " },
    { "big", "longer", "0+90000 " },
  };
  static const struct { const char *name; unsigned size, fill; } files[] = {
    { "empty", 0, 0 }, { "small", 100, 1 }, { "small2", 100, 1 },
    { "other", 100, 2 }, { "big", 70000, 1 }, { "big2", 70000, 1 },
    { "longer", 90000, 1 },
  };
  struct btrnbd_pool *p;
  struct image im;
  unsigned i;

  (void) state;
  need_kernel ();
  image_make (&im, "", 256);
  image_mount (&im, "max_inline=2048");
  for (i = 0; i < ARRAY_SIZE (files); ++i)
    assert_int_equal (run ("head -c %u /dev/zero | tr '\\0' '\\%u' >%s/%s",
                           files[i].size, files[i].fill, im.mnt,
                           files[i].name), 0);
  image_umount (&im);
  p = pool_open_at (im.path, 0);
  for (i = 0; i < ARRAY_SIZE (pairs); ++i) {
    struct text t = { NULL };
    text_add (&t, "%s", "");
    pool_ok (btrnbd_diff (p, pairs[i][0], pairs[i][1], add_range, &t));
    if (strcmp (t.s, pairs[i][2]) != 0)
      fail_msg ("%s %s: %s, not %s", pairs[i][0], pairs[i][1], t.s,
                pairs[i][2]);
    free (t.s);
  }
  pool_ok (btrnbd_pool_close (p));
  image_remove (&im);
}

/* --- snapshots that are left over --- */

static int
count_one (void *opaque, const struct btrnbd_volume_snapshot_info *s)
{
  (void) s;
  ++*(unsigned *) opaque;
  return 0;
}

static unsigned
count (struct btrnbd_pool *p, const char *name)
{
  unsigned n = 0;

  pool_ok (btrnbd_volume_snapshots (p, name, count_one, &n));
  return n;
}

/* As Linux does it: the subvolume goes, and nobody looks at names. */
static void
take_away (struct btrnbd_pool *p, const char *name)
{
  struct inode *top = NULL;

  pool_ok (inode_top (p->fs->inodes, &top));
  pool_ok (subvol_delete (p->fs->subvols, top, name, strlen (name)));
  inode_put (top);
}

/* A new volume does not come by the snapshots of an old one; who has been
 * rolled back, twice and from one that is gone, keeps its own.
 */
static void
test_left_over (void **state)
{
  struct btrnbd_volume_opts o = { .size = BLOCKS * BLK };
  struct btrnbd_pool *p;
  struct image im;

  (void) state;
  image_make (&im, "", 256);
  p = pool_open_at (im.path, 0);
  make (p, "a", false);
  make (p, "b", false);
  snapshot (p, "a", "t");
  snapshot (p, "a", "u");
  pool_fails (btrnbd_subvol_remove (p, "a"), ERR_has_snapshots);
  pool_ok (btrnbd_volume_rollback (p, "a", "t"));
  snapshot (p, "a", "v");
  pool_ok (btrnbd_volume_rollback (p, "a", "t"));
  pool_ok (btrnbd_volume_remove (p, "a@t"));
  assert_int_equal (count (p, "a"), 2);
  pool_ok (btrnbd_volume_rollback (p, "a", "v"));

  take_away (p, "a");
  pool_fails (btrnbd_volume_create (p, "a", &o), ERR_exists);
  pool_fails (btrnbd_volume_clone (p, "b", "a"), ERR_exists);
  pool_fails (btrnbd_volume_rename (p, "b", "a"), ERR_exists);
  assert_false (exists (p, "a"));
  pool_ok (btrnbd_rename (p, "b", "a", 0));
  assert_int_equal (count (p, "a"), 0);
  pool_fails (btrnbd_volume_rollback (p, "a", "u"), ERR_invalid);
  snapshot (p, "a", "own");
  assert_int_equal (count (p, "a"), 1);
  pool_fails (btrnbd_volume_remove (p, "a"), ERR_has_snapshots);
  pool_ok (btrnbd_volume_rename (p, "a", "c"));
  assert_true (exists (p, "c@own") && exists (p, "a@u"));
  pool_ok (btrnbd_volume_clone (p, "a@u", "d"));
  pool_ok (btrnbd_volume_remove (p, "a@u"));
  pool_ok (btrnbd_volume_remove (p, "a@v"));
  pool_ok (btrnbd_volume_create (p, "a", &o));
  pool_ok (btrnbd_pool_close (p));
  image_check (&im);
  image_remove (&im);
}

struct finder {
  struct btrnbd_pool *p;
  FILE *out;
  uint64_t next;               /* tree that is made now */
  bool end;
};

static void *
find_next (void *opaque)
{
  struct finder *f = opaque;

  while (!__atomic_load_n (&f->end, __ATOMIC_ACQUIRE))
    btrnbd_dump_tree (f->p, __atomic_load_n (&f->next, __ATOMIC_RELAXED), 0,
                      f->out);
  return NULL;
}

/* A new tree that is looked for while it is made is the maker's. */
static void
test_found_at_once (void **state)
{
  const struct btrnbd_volume_opts o = { .size = 1 << 20 };
  struct finder f = { .out = fopen ("/dev/null", "w"), .next = 256 };
  struct image im;
  pthread_t thread;
  char name[16];
  unsigned i;

  (void) state;
  assert_non_null (f.out);
  image_make (&im, "", 256);
  f.p = pool_open_at (im.path, 0);
  assert_int_equal (pthread_create (&thread, NULL, find_next, &f), 0);
  for (i = 0; i < 300; i++) {
    snprintf (name, sizeof name, "v%u", i);
    pool_ok (btrnbd_volume_create (f.p, name, &o));
    __atomic_fetch_add (&f.next, 1, __ATOMIC_RELAXED);
    snapshot (f.p, name, "s");
    __atomic_fetch_add (&f.next, 1, __ATOMIC_RELAXED);
  }
  __atomic_store_n (&f.end, true, __ATOMIC_RELEASE);
  assert_int_equal (pthread_join (thread, NULL), 0);
  fclose (f.out);
  pool_ok (btrnbd_pool_close (f.p));
  image_check (&im);
  image_remove (&im);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_sets),
    cmocka_unit_test (test_diff),
    cmocka_unit_test (test_diff_sizes),
    cmocka_unit_test (test_left_over),
    cmocka_unit_test (test_found_at_once),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
