/* Snapshots and clones of volumes, judged by `btrfs check` and the kernel. */
#include <config.h>

#include "snap_help.h"

#define BLOCKS 2048            /* of a volume: 8 MiB */

struct vm {
  const char *name;
  bool nocow;
  struct model m, at[4];       /* now, and in its snapshots */
};

static void
make_volumes (struct btrnbd_pool *p, struct vm *v, unsigned n)
{
  unsigned i;

  for (i = 0; i < n; ++i) {
    const struct btrnbd_volume_opts o = { .size = BLOCKS * BLK,
      .nocow = v[i].nocow, .description = v[i].name };

    pool_ok (btrnbd_volume_create (p, v[i].name, &o));
    model_init (&v[i].m, BLOCKS);
  }
}

static void
scribble (struct btrnbd_pool *p, struct vm *v, unsigned writes,
          uint64_t *seed, uint32_t *seq)
{
  struct btrnbd_file *f = open_export (p, v->name);
  unsigned i;

  for (i = 0; i < writes; ++i) {
    const unsigned n = 1 + snap_rnd (seed, 8);

    disk_write (f, &v->m, snap_rnd (seed, BLOCKS - n), n, seq);
  }
  btrnbd_file_close (f);
}

/* As the kernel reads it. */
static void
kernel_compare (struct image *im, const char *name, const struct model *m)
{
  char path[PATH_MAX + 32];

  snprintf (path, sizeof path, "%s/want", im->dir);
  model_dump (m, path);
  assert_int_equal (run ("cmp %s %s/%s/disk", path, im->mnt, name), 0);
}

/* Linux reads, writes and snapshots again, and scrubs. */
static void
kernel_turn (struct image *im, struct vm *v, unsigned n, unsigned snaps,
             unsigned turn)
{
  char name[64];
  unsigned i, k;

  if (!have_kernel ())
    return;
  image_mount (im, "subvolid=5");
  for (i = 0; i < n; ++i) {
    kernel_compare (im, v[i].name, &v[i].m);
    for (k = 0; k < snaps; ++k) {
      snprintf (name, sizeof name, "%s@t%u", v[i].name, k);
      kernel_compare (im, name, &v[i].at[k]);
    }
    assert_int_equal (run ("btrfs -q subvolume snapshot %s/%s %s/linux%u-%u "
                           "&& echo x >%s/linux%u-%u/x && dd if=/dev/urandom "
                           "of=%s/linux%u-%u/disk bs=4k count=40 seek=100 "
                           "conv=notrunc status=none", im->mnt, v[i].name,
                           im->mnt, turn, i, im->mnt, turn, i, im->mnt, turn,
                           i), 0);
  }
  assert_int_equal (run ("sync -f %s; btrfs scrub start -Bq %s", im->mnt,
                         im->mnt), 0);
  image_umount (im);
  image_check (im);
}

static void
test_snapshots (void **state)
{
  static const char *const opts[] = {
    "", "-n 4096 -O ^no-holes,^skinny-metadata", "--mixed",
    "--csum xxhash -n 65536 -R ^free-space-tree",
  };
  static const char *const names[] = { "vm1", "vm2", "vm3" };
  struct vm v[3];
  struct image im;
  struct btrnbd_pool *p;
  uint64_t seed = 1;
  uint32_t seq = 0;
  unsigned k, i, t;
  char name[64], tag[8];

  (void) state;
  for (k = 0; k < ARRAY_SIZE (opts); ++k) {
    image_make (&im, opts[k], 512);
    memset (v, 0, sizeof v);
    for (i = 0; i < 3; ++i) {
      v[i].name = names[i];
      v[i].nocow = i == 1;
    }
    p = pool_open_at (im.path, 0);
    make_volumes (p, v, 3);
    for (t = 0; t < 4; ++t) {
      for (i = 0; i < 3; ++i)
        scribble (p, &v[i], 60, &seed, &seq);
      snprintf (tag, sizeof tag, "t%u", t);
      pool_ok (btrnbd_volume_snapshot (p, names, 3, tag));
      for (i = 0; i < 3; ++i) {
        v[i].at[t] = model_clone (&v[i].m);
        scribble (p, &v[i], 60, &seed, &seq);
        snprintf (name, sizeof name, "%s@t%u", v[i].name, t);
        export_compare (p, name, &v[i].at[t]);
        export_compare (p, v[i].name, &v[i].m);
      }
      if (t % 2 == 1) {
        pool_ok (btrnbd_pool_close (p));
        image_check (&im);
        kernel_turn (&im, v, 3, t + 1, t);
        p = pool_open_at (im.path, 0);
      }
    }
    for (i = 0; i < 3; ++i)
      for (t = 0; t < 4; ++t) {
        snprintf (name, sizeof name, "%s@t%u", v[i].name, (t + 2) % 4);
        export_compare (p, name, &v[i].at[(t + 2) % 4]);
        pool_ok (btrnbd_volume_remove (p, name));
      }
    for (i = 0; i < 3; ++i)
      export_compare (p, v[i].name, &v[i].m);
    pool_ok (btrnbd_pool_close (p));
    image_check (&im);
    kernel_turn (&im, v, 3, 0, 9);
    for (i = 0; i < 3; ++i) {
      for (t = 0; t < 4; ++t)
        free (v[i].at[t].v);
      free (v[i].m.v);
    }
    image_remove (&im);
  }
}

/* A snapshot that was acknowledged is there after a crash, another is not. */
static void
test_durable (void **state)
{
  const char *name = "vm";
  struct vm v = { .name = name };
  struct btrnbd_pool *p;
  struct image im;
  uint64_t seed = 2;
  uint32_t seq = 0;

  (void) state;
  image_make (&im, "", 256);
  p = pool_open_at (im.path, 0);
  make_volumes (p, &v, 1);
  scribble (p, &v, 100, &seed, &seq);
  pool_ok (btrnbd_volume_snapshot (p, &name, 1, "a"));
  v.at[0] = model_clone (&v.m);
  scribble (p, &v, 100, &seed, &seq);
  btrnbd_pool_kill (p);
  image_check (&im);
  p = pool_open_at (im.path, 0);
  export_compare (p, "vm@a", &v.at[0]);
  pool_ok (btrnbd_pool_close (p));
  image_check (&im);
  free (v.at[0].v);
  free (v.m.v);
  image_remove (&im);
}

static void
test_names (void **state)
{
  static const char *const two[] = { "a", "b" }, *const twice[] = { "a", "a" };
  const struct btrnbd_volume_opts o = { .size = 1 << 20, .nocow = true,
    .description = "golden" };
  struct btrnbd_pool *p;
  struct btrnbd_file *f;
  struct btrnbd_stat st;
  struct image im;

  (void) state;
  image_make (&im, "", 256);
  p = pool_open_at (im.path, 0);
  pool_ok (btrnbd_volume_create (p, "a", &o));
  pool_fails (btrnbd_volume_snapshot (p, two, 2, "t"), ERR_not_found);
  pool_fails (btrnbd_volume_snapshot (p, twice, 2, "t"), ERR_exists);
  pool_fails (btrnbd_volume_snapshot (p, two, 1, ""), ERR_name_bad);
  pool_fails (btrnbd_volume_snapshot (p, two, 1, "a/b"), ERR_name_bad);
  pool_fails (btrnbd_volume_snapshot (p, two, 1, "a@b"), ERR_name_bad);
  pool_fails (btrnbd_volume_snapshot (p, two, 1, "\xff"), ERR_name_bad);
  pool_ok (btrnbd_mkdir (p, "b", 0755));
  pool_fails (btrnbd_volume_snapshot (p, two, 2, "t"), ERR_not_file);
  pool_fails (btrnbd_stat (p, "a@t", &st), ERR_not_found);
  pool_ok (btrnbd_volume_snapshot (p, two, 1, "t"));
  pool_fails (btrnbd_volume_snapshot (p, two, 1, "t"), ERR_exists);
  pool_fails (btrnbd_volume_clone (p, "a", "b"), ERR_exists);
  pool_fails (btrnbd_volume_clone (p, "a", "x@y"), ERR_name_bad);
  pool_fails (btrnbd_volume_clone (p, "c", "d"), ERR_not_found);
  pool_ok (btrnbd_volume_clone (p, "a@t", "c"));
  f = open_export (p, "c");
  assert_string_equal (btrnbd_file_description (f), "golden");
  assert_int_equal (btrnbd_file_size (f), 1 << 20);
  assert_false (btrnbd_file_read_only (f));
  pool_fails (btrnbd_subvol_set_read_only (p, "c", true), ERR_busy);
  btrnbd_file_close (f);
  pool_ok (btrnbd_stat (p, "c/disk", &st));
  assert_true (st.is_nocow);
  f = open_export (p, "a@t");
  assert_true (btrnbd_file_read_only (f));
  pool_fails (btrnbd_pwrite (f, "x", 1, 0, 0), ERR_inode_readonly);
  btrnbd_file_close (f);
  pool_fails (btrnbd_create (p, "a@t/f", 0644, false), ERR_inode_readonly);
  pool_ok (btrnbd_subvol_set_read_only (p, "c", true));
  f = open_export (p, "c");
  assert_true (btrnbd_file_read_only (f));
  btrnbd_file_close (f);
  pool_fails (btrnbd_subvol_set_read_only (p, "", true), ERR_invalid);
  pool_fails (btrnbd_subvol_set_read_only (p, "b", true), ERR_not_dir);
  pool_ok (btrnbd_subvol_set_read_only (p, "a@t", false));
  pool_ok (btrnbd_create (p, "a@t/f", 0644, false));
  pool_fails (btrnbd_volume_remove (p, "c"), ERR_inode_readonly);
  pool_ok (btrnbd_subvol_set_read_only (p, "c", false));
  pool_ok (btrnbd_subvol_set_default (p, "c"));
  pool_fails (btrnbd_volume_remove (p, "c"), ERR_busy);
  pool_ok (btrnbd_pool_close (p));
  image_check (&im);
  if (have_kernel ()) {
    image_mount (&im, "ro");
    assert_int_equal (run ("test -e %s/disk", im.mnt), 0);
    image_umount (&im);
  }
  p = pool_open_at (im.path, 0);
  pool_ok (btrnbd_subvol_set_default (p, ""));
  pool_ok (btrnbd_volume_remove (p, "c"));
  pool_ok (btrnbd_pool_close (p));
  image_check (&im);
  image_remove (&im);
}

/* Snapshots of the top, of snapshots, of what holds subvolumes, and many in
 * one transaction of one subvolume, changed in between.
 */
static void
test_trees (void **state)
{
  static const struct btrnbd_snapshot_opts
    top[] = { { "", "top1", true }, { "", "dir/top2", false } },
    second[] = { { "top1", "top1b", false }, { "dir/top2", "t2", true } },
    third[] = { { "t2", "t3", false }, { "t3x", "no", false } };
  struct btrnbd_pool *p;
  struct btrnbd_stat st;
  struct image im;
  char name[64];
  unsigned i;

  (void) state;
  image_make (&im, "-n 4096 -s 4096", 512);
  p = pool_open_at (im.path, 0);
  pool_ok (btrnbd_mkdir (p, "dir", 0755));
  for (i = 0; i < 600; ++i) {
    snprintf (name, sizeof name, "dir/a-file-that-is-one-of-many-%u", i);
    pool_ok (btrnbd_create (p, name, 0644, false));
  }
  pool_ok (btrnbd_subvol_snapshot (p, top, 2));
  pool_fails (btrnbd_stat (p, "top1/top1", &st), ERR_not_found);
  pool_fails (btrnbd_stat (p, "top1/dir/top2", &st), ERR_not_found);
  pool_ok (btrnbd_create (p, "dir/top2/mine", 0644, false));
  pool_ok (btrnbd_subvol_snapshot (p, second, 2));
  pool_fails (btrnbd_subvol_snapshot (p, third, 2), ERR_not_found);
  pool_ok (btrnbd_stat (p, "t2/mine", &st));
  pool_fails (btrnbd_stat (p, "top1b/mine", &st), ERR_not_found);
  for (i = 0; i < 600; i += 3) {
    snprintf (name, sizeof name, "top1b/dir/a-file-that-is-one-of-many-%u",
              i);
    pool_ok (btrnbd_unlink (p, name));
    snprintf (name, sizeof name, "dir/a-file-that-is-one-of-many-%u", i + 1);
    pool_ok (btrnbd_unlink (p, name));
  }
  pool_ok (btrnbd_pool_close (p));
  image_check (&im);
  if (have_kernel ()) {
    image_mount (&im, "subvolid=5");
    assert_int_equal (run ("test $(ls %s/dir | wc -l) = 401 && "
                           "test $(ls %s/top1/dir | wc -l) = 600 && "
                           "test $(ls %s/top1b/dir | wc -l) = 400 && "
                           "test $(ls %s/t2/dir | wc -l) = 600",
                           im.mnt, im.mnt, im.mnt, im.mnt), 0);
    assert_int_equal (run ("btrfs -q subvolume snapshot %s/top1b %s/k && "
                           "btrfs -q subvolume delete %s/top1 %s/dir/top2 && "
                           "btrfs subvolume sync %s >%s/log",
                           im.mnt, im.mnt, im.mnt, im.mnt, im.mnt, im.dir),
                      0);
    image_umount (&im);
    image_check (&im);
  }
  p = pool_open_at (im.path, 0);
  pool_ok (btrnbd_subvol_remove (p, "t2"));
  pool_fails (btrnbd_subvol_remove (p, "dir"), ERR_not_dir);
  pool_ok (btrnbd_pool_close (p));
  image_check (&im);
  image_remove (&im);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_snapshots),
    cmocka_unit_test (test_durable),
    cmocka_unit_test (test_names),
    cmocka_unit_test (test_trees),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
