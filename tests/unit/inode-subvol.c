/* Subvolumes: made, moved, listed, deleted, dropped; those of Linux too. */
#include <config.h>

#include "inode_help.h"

#include "subvol/subvol.h"

static int
make_subvol (struct image *im, const char *path, const struct subvol_new *new)
{
  static const struct subvol_new plain = { .mode = 0755 };
  struct inode *top, *dir;
  const char *name;
  uint64_t id;
  size_t len;
  int r;

  ok (inode_top (im->fs->inodes, &top));
  ok (inode_walk_parent (top, path, &dir, &name, &len));
  r = subvol_create (im->fs->subvols, dir, name, len,
                     new == NULL ? &plain : new, &id);
  inode_put (dir);
  inode_put (top);
  return r;
}

static int
delete_subvol (struct image *im, const char *path)
{
  struct inode *top, *dir;
  const char *name;
  size_t len;
  int r;

  ok (inode_top (im->fs->inodes, &top));
  ok (inode_walk_parent (top, path, &dir, &name, &len));
  r = subvol_delete (im->fs->subvols, dir, name, len);
  inode_put (dir);
  inode_put (top);
  return r;
}

static void
drop_all (struct image *im)
{
  ok (subvols_drop_dead (im->fs->subvols, NULL, NULL));
  assert_false (subvols_have_dead (im->fs->subvols));
}

static void
test_create_delete (void **state)
{
  static const char *const opts[] = {
    "", "-O ^no-holes", "-n 4096 -s 4096 -R ^free-space-tree",
    "--csum xxhash -n 65536",
  };
  const struct subvol_new volume = {
    .mode = 0755, .file = "disk", .file_mode = 0600,
    .file_size = 123 << 20, .file_flags = BTRFS_INODE_NODATACOW,
    .top_xattr = { "user.btrnbd.description", "a disk", 6 },
    .file_xattr = { "user.btrnbd.alloc-unit", "65536", 5 },
  };
  struct image im;
  struct inode *in;
  char buf[16];
  size_t len;
  unsigned k;

  (void) state;
  for (k = 0; k < ARRAY_SIZE (opts); ++k) {
    image_make (&im, opts[k], 256);
    image_open (&im);
    ok (make_subvol (&im, "vm1", &volume));
    ok (make_dir (&im, "dir"));
    ok (make_subvol (&im, "dir/vm2", &volume));
    ok (make_subvol (&im, "dir/vm2/inner", NULL));
    fails (make_subvol (&im, "vm1", NULL), ERR_exists);
    fails (make_dir (&im, "vm1"), ERR_exists);
    ok (make_file (&im, "dir/vm2/inner/f"));
    in = walk_to (&im, "vm1/disk");
    assert_int_equal (in->size, 123 << 20);
    assert_int_equal (in->flags,
                      BTRFS_INODE_NODATACOW | BTRFS_INODE_NODATASUM);
    inode_put (in);
    in = walk_to (&im, "vm1");
    ok (inode_getxattr (in, volume.top_xattr.name, buf, sizeof buf, &len));
    assert_int_equal (len, 6);
    fails (delete_subvol (&im, "vm1"), ERR_busy);
    inode_put (in);
    image_judge (&im);
    fails (delete_subvol (&im, "dir/vm2"), ERR_not_empty);
    fails (delete_subvol (&im, "dir"), ERR_not_dir);
    fails (delete_subvol (&im, "nothing"), ERR_not_found);
    fails (unlink_path (&im, "vm1"), ERR_is_subvol);
    ok (delete_subvol (&im, "vm1"));
    assert_false (path_exists (&im, "vm1"));
    /* The name is free at once; nothing is dropped yet. */
    ok (make_subvol (&im, "vm1", NULL));
    image_reopen (&im);
    drop_all (&im);
    image_judge (&im);
    ok (delete_subvol (&im, "dir/vm2/inner"));
    ok (delete_subvol (&im, "dir/vm2"));
    drop_all (&im);
    /* Made and deleted in one transaction. */
    ok (make_subvol (&im, "short", &volume));
    ok (make_file (&im, "short/f"));
    ok (delete_subvol (&im, "short"));
    drop_all (&im);
    image_judge (&im);
    image_close (&im);
    image_remove (&im);
  }
}

static void
test_rename (void **state)
{
  struct image im;

  (void) state;
  image_make (&im, "", 256);
  image_open (&im);
  ok (make_subvol (&im, "a", NULL));
  ok (make_subvol (&im, "b", NULL));
  ok (make_file (&im, "a/in-a"));
  ok (make_dir (&im, "d"));
  ok (make_dir (&im, "e"));
  ok (make_file (&im, "f"));
  ok (rename_path (&im, "a", "a2", RENAME_NO_REPLACE));
  ok (rename_path (&im, "a2", "d/a-much-longer-name", RENAME_NO_REPLACE));
  assert_true (path_exists (&im, "d/a-much-longer-name/in-a"));
  fails (rename_path (&im, "d", "b", RENAME_REPLACE_OK), ERR_is_subvol);
  fails (rename_path (&im, "b", "f", RENAME_REPLACE_OK), ERR_not_dir);
  fails (rename_path (&im, "b", "d", RENAME_REPLACE_OK), ERR_not_empty);
  fails (rename_path (&im, "f", "d/a-much-longer-name/f",
                      RENAME_NO_REPLACE), ERR_cross_subvol);
  ok (rename_path (&im, "b", "e", RENAME_REPLACE_OK));
  ok (rename_path (&im, "e", "d/a-much-longer-name", RENAME_SWAP));
  assert_true (path_exists (&im, "e/in-a"));
  ok (rename_path (&im, "e", "f", RENAME_SWAP));
  assert_true (path_exists (&im, "f/in-a"));
  image_judge (&im);
  assert_true (path_exists (&im, "f/in-a"));
  ok (delete_subvol (&im, "f"));
  ok (delete_subvol (&im, "d/a-much-longer-name"));
  drop_all (&im);
  image_judge (&im);
  image_close (&im);
  image_remove (&im);
}

static int
add_path (void *opaque, const struct subvol_info *info)
{
  text_add (opaque, "%llu in %llu: %s%s\n", (unsigned long long) info->id,
            (unsigned long long) info->parent,
            info->path == NULL ? "-" : info->path,
            info->read_only ? " ro" : "");
  return 0;
}

static void
test_list (void **state)
{
  struct text t = { NULL };
  struct image im;

  (void) state;
  image_make (&im, "", 256);
  image_open (&im);
  ok (make_subvol (&im, "a", NULL));
  ok (make_dir (&im, "a/d"));
  ok (make_dir (&im, "a/d/e"));
  ok (make_subvol (&im, "a/d/e/b", NULL));
  ok (make_subvol (&im, "a/d/e/b/c", NULL));
  ok (make_subvol (&im, "gone", NULL));
  ok (delete_subvol (&im, "gone"));
  ok (subvols_list (im.fs->subvols, add_path, &t));
  assert_string_equal (t.s, "256 in 5: a\n257 in 256: a/d/e/b\n"
                       "258 in 257: a/d/e/b/c\n");
  free (t.s);
  image_close (&im);
  image_check (&im);
  image_remove (&im);
}

static bool
always (void *opaque)
{
  ++*(unsigned *) opaque;
  return true;
}

static void
fill (struct image *im, const char *dir, unsigned n)
{
  const struct inode_new new = { .mode = S_IFREG | 0644 };
  struct inode *d = walk_to (im, dir);
  char name[128];
  unsigned i;

  for (i = 0; i < n; ++i) {
    snprintf (name, sizeof name, "a-file-with-a-name-of-some-length-to-fill-"
              "leaves-sooner-%06u", i * 7919 % 1000003);
    ok (inode_create (d, name, strlen (name), &new, NULL));
  }
  inode_put (d);
}

/* Dropping is cut after every transaction by a crash, and finished by us or
 * by the kernel.
 */
static void
test_interrupted_drop (void **state)
{
  unsigned stops, n, by_kernel;
  struct image im;

  (void) state;
  for (by_kernel = 0; by_kernel < 2; ++by_kernel) {
    if (by_kernel && !have_kernel ())
      break;
    image_make (&im, "-n 4096 -s 4096", 512);
    im.no_lowmem = true;        /* half dropped trees */
    image_open (&im);
    ok (make_subvol (&im, "big", NULL));
    ok (make_file (&im, "left"));
    fill (&im, "big", 12000);
    ok (fs_commit (im.fs));
    ok (delete_subvol (&im, "big"));
    for (n = 0; n < 100; ++n) {
      stops = 0;
      ok (subvols_drop_dead (im.fs->subvols, always, &stops));
      if (stops == 0)
        break;
      ok (fs_commit (im.fs));
      image_kill (&im);
      if (n < 4)
        image_check (&im);
      if (by_kernel && n == 1)
        break;
      image_open (&im);
    }
    assert_true (by_kernel ? n == 1 : n > 2 && n < 100);
    if (by_kernel) {
      image_mount (&im, "subvolid=5");
      assert_int_equal (run ("btrfs subvolume sync %s >%s/log", im.mnt,
                             im.dir), 0);
      image_umount (&im);
      image_check (&im);
      image_open (&im);
    }
    assert_false (subvols_have_dead (im.fs->subvols));
    assert_true (path_exists (&im, "left"));
    im.no_lowmem = false;
    image_judge (&im);
    image_close (&im);
    image_remove (&im);
  }
}

/* --- what Linux has made --- */

static void
kernel_script (struct image *im, const char *script)
{
  char path[2 * PATH_MAX];
  FILE *fp;

  snprintf (path, sizeof path, "%s/script", im->dir);
  fp = fopen (path, "w");
  assert_non_null (fp);
  fputs (script, fp);
  assert_int_equal (fclose (fp), 0);
  image_mount (im, "subvolid=5");
  if (run ("cd %s && bash -eu %s >%s/log 2>&1", im->mnt, path, im->dir) != 0) {
    run ("cat %s/log >&2", im->dir);
    run ("umount %s", im->mnt);
    fail_msg ("the script has failed");
  }
  image_umount (im);
}

/* Sums of all files below DIR, by the kernel. */
static void
kernel_sums (struct image *im, const char *dir, const char *out)
{
  image_mount (im, "ro,subvolid=5");
  assert_int_equal (run ("cd %s && find %s -type f -exec sha256sum {} + | "
                         "sort -k2 >%s/%s", im->mnt, dir, im->dir, out), 0);
  image_umount (im);
}

static void
test_read_linux (void **state)
{
  struct text ours, theirs, t = { NULL };
  struct image im;
  struct inode *in;
  char buf[64];
  size_t len;

  (void) state;
  need_kernel ();
  image_make (&im, "-n 4096 -s 4096", 512);
  im.no_lowmem = true;          /* entries of subvolumes in snapshots */
  kernel_script (&im,
    "mkdir -p d/e/f; echo hello >d/e/f/file; ln -s ../x d/sym\n"
    "mknod d/chr c 7 300; mknod d/blk b 8 1; mkfifo d/fifo\n"
    "touch many; for i in $(seq 1 600); do ln many many-links-$i; done\n"
    "for i in $(seq 1 2000); do echo; done | split -l 1 -a 4 - d/e/split-\n"
    "setfattr -n user.name -v value d/e/f/file\n"
    "btrfs subvolume create s1; btrfs subvolume create s1/inner\n"
    "touch s1/inner/f; echo data >s1/g; dd if=/dev/urandom of=s1/big "
    "bs=1M count=3 status=none; sync -f .\n"
    "btrfs subvolume snapshot s1 snap; btrfs subvolume snapshot -r s1 ro\n"
    "echo more >>s1/g; chmod 4755 s1/g; touch -d 1969-01-01 s1/old\n"
    "btrfs subvolume set-default $(btrfs inspect-internal rootid s1) .\n");
  image_open (&im);
  ours = list_ours (&im);
  image_close (&im);
  image_mount (&im, "ro,subvolid=5");
  theirs = list_kernel (&im);
  image_umount (&im);
  text_same (&ours, &theirs);
  free (ours.s);
  free (theirs.s);
  image_open (&im);
  in = walk_to (&im, "d/e/f/file");
  ok (inode_getxattr (in, "user.name", buf, sizeof buf, &len));
  assert_int_equal (len, 5);
  inode_put (in);
  in = walk_to (&im, "s1/old");
  assert_true (in->mtime.tv_sec < 0);
  inode_put (in);
  ok (inode_default_top (im.fs->inodes, &in));
  assert_int_equal (in->root->id, 256);
  inode_put (in);
  fails (delete_subvol (&im, "s1"), ERR_busy);
  fails (make_file (&im, "ro/x"), ERR_inode_readonly);
  fails (unlink_path (&im, "ro/g"), ERR_inode_readonly);
  fails (make_file (&im, "snap/inner/x"), ERR_inode_readonly);
  ok (subvols_list (im.fs->subvols, add_path, &t));
  assert_string_equal (t.s, "256 in 5: s1\n257 in 256: s1/inner\n"
                       "258 in 5: snap\n259 in 5: ro ro\n");
  free (t.s);
  /* Changed by us, judged by the kernel. */
  ok (unlink_path (&im, "many-links-300"));
  ok (unlink_path (&im, "many"));
  ok (link_path (&im, "many-links-1", "d/another"));
  ok (rename_path (&im, "d/e", "e", RENAME_NO_REPLACE));
  ok (make_file (&im, "snap/new"));
  ok (make_dir (&im, "s1/inner/new"));
  ok (unlink_path (&im, "snap/g"));
  ok (unlink_path (&im, "snap/big"));
  ok (unlink_path (&im, "d/sym"));
  image_judge (&im);
  image_close (&im);
  image_remove (&im);
}

/* Trees that share blocks, deleted in every order. */
static void
test_drop_shared (void **state)
{
  static const char *const orders[][3] = {
    { "a", "b", "c" }, { "a", "c", "b" }, { "b", "a", "c" },
    { "b", "c", "a" }, { "c", "a", "b" }, { "c", "b", "a" },
  };
  struct image im;
  unsigned i, k, j;
  char dirs[64];

  (void) state;
  need_kernel ();
  for (k = 0; k < ARRAY_SIZE (orders); ++k) {
    image_make (&im, k % 2 ? "-n 4096 -s 4096" : "-n 16384", 512);
    kernel_script (&im,
      "btrfs subvolume create a; mkdir a/d\n"
      "head -c 6300000 /dev/urandom | split -b 9000 -d -a 4 - a/d/f\n"
      "seq 1 700 | split -l 1 -d -a 4 - a/d/inline; sync -f .\n"
      "btrfs subvolume snapshot a b; sync -f .\n"
      "for i in $(seq -f %04g 1 9 699); do echo x >>a/d/f$i; done\n"
      "rm a/d/f007?; sync -f .\n"
      "btrfs subvolume snapshot b c; sync -f .\n"
      "for i in $(seq -f %04g 4 31 699); do echo y >b/d/f$i; done\n"
      "cp --reflink=always c/d/f0005 c/d/clone; sync -f .\n"
      "for i in $(seq -f %04g 1 50 699); do echo z >>c/d/inline$i; done\n"
      "sync -f .\n");
    for (i = 0; i < 3; ++i) {
      dirs[0] = '\0';
      for (j = i + 1; j < 3; ++j)
        snprintf (dirs + strlen (dirs), sizeof dirs - strlen (dirs), " %s",
                  orders[k][j]);
      if (i < 2)
        kernel_sums (&im, dirs, "before");
      image_open (&im);
      ok (delete_subvol (&im, orders[k][i]));
      if (i == 1)
        ok (fs_commit (im.fs));
      drop_all (&im);
      image_close (&im);
      image_check (&im);
      if (i < 2) {
        kernel_sums (&im, dirs, "after");
        assert_int_equal (run ("cmp %s/before %s/after", im.dir, im.dir), 0);
        image_mount (&im, "subvolid=5");
        assert_int_equal (run ("btrfs scrub start -B %s >%s/log", im.mnt,
                               im.dir), 0);
        image_umount (&im);
      }
    }
    image_remove (&im);
  }
}

/* The same with a crash after every small transaction, also in the middle of
 * turning a subtree to references by address.
 */
static void
test_drop_shared_interrupted (void **state)
{
  static const char *const names[] = { "a", "b", "c" };
  unsigned i, n, stops, last;
  struct image im;

  (void) state;
  need_kernel ();
  for (last = 0; last < 3; ++last) {
    image_make (&im, "-n 4096 -s 4096", 512);
    im.no_lowmem = true;        /* half dropped trees */
    kernel_script (&im,
      "btrfs subvolume create a; mkdir a/d\n"
      "head -c 2700000 /dev/urandom | split -b 9000 -d -a 4 - a/d/f\n"
      "seq 1 500 | split -l 1 -d -a 4 - a/d/inline; sync -f .\n"
      "btrfs subvolume snapshot a b; sync -f .\n"
      "for i in $(seq -f %04g 1 90 299); do echo x >>b/d/f$i; done\n"
      "sync -f .\n"
      "btrfs subvolume snapshot b c; sync -f .\n"
      "for i in $(seq -f %04g 1 90 499); do echo y >a/d/inline$i; done\n"
      "sync -f .\n");
    kernel_sums (&im, names[last], "before");
    for (i = 0; i < 3; ++i) {
      if (i == last)
        continue;
      image_open (&im);
      ok (delete_subvol (&im, names[i]));
      for (n = 0; n < 3000; ++n) {
        stops = 0;
        subvols_set_drop_batch (im.fs->subvols, 1 + n % 5);
        ok (subvols_drop_dead (im.fs->subvols, always, &stops));
        ok (fs_commit (im.fs));
        image_kill (&im);
        if (n % 16 == 3)
          image_check (&im);
        if (stops == 0)
          break;
        image_open (&im);
        ok (fs_commit (im.fs));
      }
      assert_true (n > 10 && n < 3000);
      image_check (&im);
    }
    kernel_sums (&im, names[last], "after");
    assert_int_equal (run ("cmp %s/before %s/after", im.dir, im.dir), 0);
    image_open (&im);
    ok (delete_subvol (&im, names[last]));
    drop_all (&im);
    im.no_lowmem = false;
    image_judge (&im);
    image_close (&im);
    image_remove (&im);
  }
}

/* Balance leaves blocks whose children are referenced by address, shared and
 * not.  They are changed by us, then dropped.
 */
static void
test_after_balance (void **state)
{
  static const char *const orders[][3] = {
    { "a", "b", "c" }, { "c", "b", "a" }, { "b", "a", "c" },
  };
  struct image im;
  char path[64];
  unsigned i, k;

  (void) state;
  need_kernel ();
  for (k = 0; k < ARRAY_SIZE (orders); ++k) {
    image_make (&im, "-n 4096 -s 4096", 768);
    kernel_script (&im,
      "btrfs subvolume create a; mkdir a/d\n"
      "head -c 4500000 /dev/urandom | split -b 9000 -d -a 4 - a/d/f\n"
      "seq 1 900 | split -l 1 -d -a 4 - a/d/inline; sync -f .\n"
      "btrfs subvolume snapshot a b; sync -f .\n"
      "for i in $(seq -f %04g 1 9 499); do echo x >>b/d/f$i; done; sync -f .\n"
      "sync -f .; btrfs balance start --full-balance . || "
      "btrfs balance start --full-balance .; sync -f .\n"
      "btrfs subvolume snapshot b c\n"
      "for i in $(seq -f %04g 1 30 899); do echo z >>c/d/inline$i; done\n"
      "sync -f .\n"
      "btrfs balance start -m . || btrfs balance start -m .; sync -f .\n");
    image_check (&im);
    image_open (&im);
    for (i = 1; i < 900; i += 7) {
      snprintf (path, sizeof path, "%s/d/inline%04u", orders[k][i % 3], i);
      ok (unlink_path (&im, path));
      if (i < 500) {
        snprintf (path, sizeof path, "%s/d/f%04u", orders[k][(i + 1) % 3], i);
        ok (unlink_path (&im, path));
      }
      snprintf (path, sizeof path, "%s/d/new%u", orders[k][i % 3], i);
      ok (make_file (&im, path));
    }
    image_judge (&im);
    for (i = 0; i < 3; ++i) {
      ok (delete_subvol (&im, orders[k][i]));
      drop_all (&im);
      image_judge (&im);
    }
    image_close (&im);
    image_remove (&im);
  }
}

/* Linux has begun to drop a tree, or has not even begun. */
static void
test_finish_for_linux (void **state)
{
  struct image im;

  (void) state;
  need_kernel ();
  image_make (&im, "-n 4096 -s 4096", 1024);
  im.no_lowmem = true;          /* half dropped trees */
  kernel_script (&im,
    "btrfs subvolume create big; mkdir big/d; cd big/d\n"
    "seq 1 40000 | sed s/^/a-name-of-some-length-to-fill-leaves-/ | "
    "xargs touch\n"
    "head -c 2700000 /dev/zero | split -b 9000 -d -a 4 - data-\n"
    "cd ../..; btrfs subvolume snapshot big snap; touch big/d/new; sync -f .\n"
    "rm -r snap/d/*1*; sync -f .\n"
    "btrfs subvolume delete -C big; sleep 0.05\n");
  image_check (&im);
  im.no_lowmem = false;
  image_open (&im);
  drop_all (&im);
  image_judge (&im);
  ok (delete_subvol (&im, "snap"));
  drop_all (&im);
  image_judge (&im);
  image_close (&im);
  image_remove (&im);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_create_delete),
    cmocka_unit_test (test_rename),
    cmocka_unit_test (test_list),
    cmocka_unit_test (test_interrupted_drop),
    cmocka_unit_test (test_read_linux),
    cmocka_unit_test (test_drop_shared),
    cmocka_unit_test (test_drop_shared_interrupted),
    cmocka_unit_test (test_after_balance),
    cmocka_unit_test (test_finish_for_linux),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
