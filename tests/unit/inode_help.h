/* For tests of names and subvolumes: a pool in a file made by mkfs.btrfs,
 * opened by the engine, judged by `btrfs check` and, with root, the kernel.
 */
#ifndef BTRNBD_TESTS_UNIT_INODE_HELP_H
#define BTRNBD_TESTS_UNIT_INODE_HELP_H

#include <dirent.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/math.h"
#include "fs/core.h"
#include "inode/inode.h"

#define TOP_DIR_INO 256

struct image {
  char dir[PATH_MAX];          /* private, removed at the end */
  char path[PATH_MAX + 16];
  char mnt[PATH_MAX + 16];
  struct fs *fs;
  bool no_lowmem;              /* the lowmem check would complain of what
                                  Linux makes as well */
};

/* Fail with the engine's reason. */
#define ok(expr)                                                        \
  do {                                                                  \
    int ok_ = (expr);                                                   \
    if (ok_ != 0)                                                       \
      fail_msg ("%s: %s", #expr, err_text (ok_));                       \
  } while (0)
#define fails(expr, code)                                               \
  do {                                                                  \
    int fails_ = (expr);                                                \
    if (fails_ != -(code))                                              \
      fail_msg ("%s: %d %s, expected %s", #expr, fails_,                \
                fails_ == 0 ? "success" : err_text (fails_),            \
                btrnbd_error_name (code));                              \
  } while (0)

/* The exit status of a shell command. */
static int __attribute__ ((format (printf, 1, 2), unused))
run (const char *fmt, ...)
{
  char cmd[3 * PATH_MAX];
  va_list ap;
  int st;

  va_start (ap, fmt);
  vsnprintf (cmd, sizeof cmd, fmt, ap);
  va_end (ap);
  fflush (stdout);
  st = system (cmd);
  return WIFEXITED (st) ? WEXITSTATUS (st) : 255;
}

static bool __attribute__ ((unused))
have_kernel (void)
{
  return geteuid () == 0 &&
    run ("grep -qw btrfs /proc/filesystems || modprobe btrfs 2>/dev/null") ==
    0 && access ("/dev/loop-control", F_OK) == 0;
}

#define need_kernel()                                   \
  do {                                                  \
    if (!have_kernel ())                                \
      lacks ("the kernel's btrfs, and root");           \
  } while (0)

static void __attribute__ ((unused))
image_make (struct image *im, const char *mkfs_opts, unsigned mib)
{
  const char *tmp = getenv ("TMPDIR");

  memset (im, 0, sizeof *im);
  snprintf (im->dir, sizeof im->dir, "%s/btrnbd-inode-XXXXXX",
            tmp == NULL ? "/tmp" : tmp);
  assert_non_null (mkdtemp (im->dir));
  snprintf (im->path, sizeof im->path, "%s/pool", im->dir);
  snprintf (im->mnt, sizeof im->mnt, "%s/mnt", im->dir);
  assert_int_equal (mkdir (im->mnt, 0700), 0);
  assert_int_equal (run ("truncate -s %uM %s && mkfs.btrfs -q %s %s", mib,
                         im->path, mkfs_opts, im->path), 0);
}

static int __attribute__ ((unused))
image_try_open (struct image *im, bool read_only)
{
  const struct device_open_opts dopts = { .read_only = read_only };
  const struct fs_opts fopts = {
    .read_only = read_only, .commit_interval = UINT_MAX, .workers = 2,
  };
  struct device *dev;
  int r;

  ok (device_open (im->path, &dopts, &dev));
  r = fs_open (&dev, 1, &fopts, &im->fs);
  if (r < 0)
    im->fs = NULL;
  else if (!read_only)
    commit_thread_stop (im->fs); /* nothing happens by itself */
  return r;
}

static void __attribute__ ((unused))
image_open (struct image *im)
{
  ok (image_try_open (im, false));
}

static void __attribute__ ((unused))
image_close (struct image *im)
{
  int r = fs_close (take (im->fs));

  ok (r);
}

static void __attribute__ ((unused))
image_kill (struct image *im)
{
  fs_kill (take (im->fs));
}

static void __attribute__ ((unused))
image_check (struct image *im)
{
  static const char *const modes[] = { "original", "lowmem" };
  unsigned i;

  for (i = 0; i < (im->no_lowmem ? 1 : ARRAY_SIZE (modes)); ++i) {
    if (run ("btrfs check --readonly --mode=%s %s >%s/log 2>&1", modes[i],
             im->path, im->dir) == 0)
      continue;
    run ("cat %s/log >&2", im->dir);
    fail_msg ("btrfs check (%s) has found errors", modes[i]);
  }
}

static void __attribute__ ((unused))
image_reopen (struct image *im)
{
  image_close (im);
  image_check (im);
  image_open (im);
}

static void __attribute__ ((unused))
image_mount (struct image *im, const char *opts)
{
  if (run ("mount -t btrfs -o loop,%s %s %s", opts, im->path, im->mnt) != 0)
    fail_msg ("the kernel does not mount the pool");
}

static void __attribute__ ((unused))
image_umount (struct image *im)
{
  assert_int_equal (run ("umount %s", im->mnt), 0);
}

static void __attribute__ ((unused))
image_remove (struct image *im)
{
  if (im->fs != NULL)
    fs_kill (take (im->fs));
  run ("mountpoint -q %s && umount %s; rm -rf %s", im->mnt, im->mnt, im->dir);
}

/* --- listings: one line per name, sorted, in the same form from both --- */

struct text {
  char *s;
  size_t len, room;
};

static void __attribute__ ((format (printf, 2, 3), unused))
text_add (struct text *t, const char *fmt, ...)
{
  va_list ap;
  int n;

  if (t->room - t->len < 3 * PATH_MAX) {
    t->room = 2 * t->room + 4 * PATH_MAX;
    t->s = realloc (t->s, t->room);
    assert_non_null (t->s);
  }
  va_start (ap, fmt);
  n = vsnprintf (t->s + t->len, t->room - t->len, fmt, ap);
  va_end (ap);
  assert_true (n >= 0 && (size_t) n < t->room - t->len);
  t->len += n;
}

/* Subvolume tops have the same number everywhere, the stand-in of a copied
 * entry is 2.
 */
static void __attribute__ ((unused))
text_inode (struct text *t, const char *path, uint64_t ino, uint32_t mode,
            uint32_t nlink, uint64_t size, uint64_t rdev, const char *target)
{
  text_add (t, "%s ino=%llu mode=%o nlink=%u size=%llu rdev=%llx %s\n", path,
            (unsigned long long) ino, mode, nlink, (unsigned long long) size,
            (unsigned long long) rdev, target);
}

static int __attribute__ ((unused))
line_cmp (const void *a, const void *b)
{
  return strcmp (*(char *const *) a, *(char *const *) b);
}

/* Sort the lines; the text stays of the same length. */
static void __attribute__ ((unused))
text_sort (struct text *t)
{
  size_t n = 0, i;
  char **lines, *p, *out, *save = NULL;

  if (t->len == 0)
    return;
  for (p = t->s; *p; ++p)
    n += *p == '\n';
  lines = calloc (n, sizeof *lines);
  out = malloc (t->len + 1);
  assert_true (lines != NULL && out != NULL);
  i = 0;
  for (p = strtok_r (t->s, "\n", &save); p != NULL;
       p = strtok_r (NULL, "\n", &save)) {
    assert_true (i < n);
    lines[i++] = p;
  }
  qsort (lines, i, sizeof *lines, line_cmp);
  p = out;
  for (n = 0; n < i; ++n)
    p += sprintf (p, "%s\n", lines[n]);
  free (lines);
  free (t->s);
  t->s = out;
  t->room = t->len + 1;
}

struct walk_ctx {
  struct text *text;
  struct inode *dir;
  const char *path;
  unsigned depth;
};

static void list_ours_dir (struct text *, struct inode *, const char *path,
                           unsigned depth);

static int __attribute__ ((unused))
list_entry (void *opaque, const struct dir_entry *e)
{
  struct walk_ctx *w = opaque;
  char path[PATH_MAX];
  char *target = NULL;
  struct inode *in;

  snprintf (path, sizeof path, "%s/%.*s", w->path, (int) e->name_len,
            e->name);
  ok (inode_lookup (w->dir, e->name, e->name_len, &in));
  if (S_ISLNK (in->mode))
    ok (inode_readlink (in, &target));
  text_inode (w->text, path, in->ino, in->mode, in->nlink,
              in->size, S_ISCHR (in->mode) || S_ISBLK (in->mode) ? in->rdev
              : 0, target == NULL ? "" : target);
  free (target);
  if (S_ISDIR (in->mode))
    list_ours_dir (w->text, in, path, w->depth + 1);
  inode_put (in);
  return 0;
}

static void __attribute__ ((unused))
list_ours_dir (struct text *t, struct inode *dir, const char *path,
               unsigned depth)
{
  struct walk_ctx w = { t, dir, path, depth };

  assert_true (depth < 64);
  ok (inode_readdir (dir, 0, list_entry, &w));
}

/* Everything below the pool's top, as the engine sees it. */
static struct text __attribute__ ((unused))
list_ours (struct image *im)
{
  struct text t = { NULL };
  struct inode *top;

  ok (inode_top (im->fs->inodes, &top));
  list_ours_dir (&t, top, "", 0);
  inode_put (top);
  text_sort (&t);
  return t;
}

static void __attribute__ ((unused))
list_kernel_dir (struct text *t, const char *base, const char *path)
{
  char full[2 * PATH_MAX], sub[2 * PATH_MAX], target[PATH_MAX];
  struct dirent *de;
  struct stat st;
  ssize_t n;
  DIR *d;

  snprintf (full, sizeof full, "%s%s", base, path);
  d = opendir (full);
  assert_non_null (d);
  while ((de = readdir (d)) != NULL) {
    if (strcmp (de->d_name, ".") == 0 || strcmp (de->d_name, "..") == 0)
      continue;
    snprintf (sub, sizeof sub, "%s/%s", path, de->d_name);
    snprintf (full, sizeof full, "%s%s", base, sub);
    assert_int_equal (lstat (full, &st), 0);
    n = S_ISLNK (st.st_mode) ? readlink (full, target, sizeof target - 1) : 0;
    assert_true (n >= 0);
    target[n] = '\0';
    text_inode (t, sub, st.st_ino, st.st_mode, st.st_nlink, st.st_size,
                S_ISCHR (st.st_mode) || S_ISBLK (st.st_mode) ? st.st_rdev
                : 0, target);
    if (S_ISDIR (st.st_mode))
      list_kernel_dir (t, base, sub);
  }
  closedir (d);
}

static struct text __attribute__ ((unused))
list_kernel (struct image *im)
{
  struct text t = { NULL };

  list_kernel_dir (&t, im->mnt, "");
  text_sort (&t);
  return t;
}

static void __attribute__ ((unused))
text_same (const struct text *a, const struct text *b)
{
  const char *p = a->s == NULL ? "" : a->s, *q = b->s == NULL ? "" : b->s;

  if (strcmp (p, q) == 0)
    return;
  while (*p == *q && *p != '\0')
    ++p, ++q;
  while (p > a->s && p[-1] != '\n')
    --p, --q;
  fail_msg ("listings differ\nours:   %.*s\nkernel: %.*s",
            (int) strcspn (p, "\n"), p, (int) strcspn (q, "\n"), q);
}

/* Close, judge by check, compare listings with the kernel, open again. */
static void __attribute__ ((unused))
image_judge (struct image *im)
{
  struct text ours = list_ours (im), theirs;

  image_close (im);
  image_check (im);
  if (have_kernel ()) {
    image_mount (im, "ro,subvolid=5");
    theirs = list_kernel (im);
    image_umount (im);
    text_same (&ours, &theirs);
    free (theirs.s);
  }
  else if (machine_is_complete ())
    fail_msg ("the kernel's btrfs and root are required");
  free (ours.s);
  image_open (im);
}

/* --- short forms --- */

static struct inode *__attribute__ ((unused))
walk_to (struct image *im, const char *path)
{
  struct inode *top, *in;

  ok (inode_top (im->fs->inodes, &top));
  ok (inode_walk (top, path, &in));
  inode_put (top);
  return in;
}

static int __attribute__ ((unused))
make_mode (struct image *im, const char *path, uint32_t mode,
           const char *target)
{
  const struct inode_new new = { .mode = mode, .symlink = target,
    .rdev = makedev (7, 300) };
  struct inode *top, *dir;
  const char *name;
  size_t len;
  int r;

  ok (inode_top (im->fs->inodes, &top));
  ok (inode_walk_parent (top, path, &dir, &name, &len));
  r = inode_create (dir, name, len, &new, NULL);
  inode_put (dir);
  inode_put (top);
  return r;
}

static int __attribute__ ((unused))
make_file (struct image *im, const char *path)
{
  return make_mode (im, path, S_IFREG | 0644, NULL);
}

static int __attribute__ ((unused))
make_dir (struct image *im, const char *path)
{
  return make_mode (im, path, S_IFDIR | 0755, NULL);
}

static int __attribute__ ((unused))
unlink_path (struct image *im, const char *path)
{
  struct inode *top, *dir;
  const char *name;
  size_t len;
  int r;

  ok (inode_top (im->fs->inodes, &top));
  ok (inode_walk_parent (top, path, &dir, &name, &len));
  r = inode_unlink (dir, name, len);
  inode_put (dir);
  inode_put (top);
  return r;
}

static int __attribute__ ((unused))
link_path (struct image *im, const char *from, const char *to)
{
  struct inode *top, *dir, *in = walk_to (im, from);
  const char *name;
  size_t len;
  int r;

  ok (inode_top (im->fs->inodes, &top));
  ok (inode_walk_parent (top, to, &dir, &name, &len));
  r = inode_link (in, dir, name, len);
  inode_put (dir);
  inode_put (top);
  inode_put (in);
  return r;
}

static int __attribute__ ((unused))
rename_path (struct image *im, const char *from, const char *to,
             enum rename_mode mode)
{
  struct inode *top, *a, *b;
  const char *an, *bn;
  size_t al, bl;
  int r;

  ok (inode_top (im->fs->inodes, &top));
  ok (inode_walk_parent (top, from, &a, &an, &al));
  ok (inode_walk_parent (top, to, &b, &bn, &bl));
  r = inode_rename (a, an, al, b, bn, bl, mode);
  inode_put (a);
  inode_put (b);
  inode_put (top);
  return r;
}

static bool __attribute__ ((unused))
path_exists (struct image *im, const char *path)
{
  struct inode *top, *in = NULL;
  int r;

  ok (inode_top (im->fs->inodes, &top));
  r = inode_walk (top, path, &in);
  inode_put (in);
  inode_put (top);
  if (r != 0 && r != -ERR_not_found)
    fail_msg ("%s: %s", path, err_text (r));
  return r == 0;
}

/* The number behind PATH, 0 if there is none. */
static uint64_t __attribute__ ((unused))
ino_of (struct image *im, const char *path)
{
  struct inode *in;
  uint64_t ino;

  if (!path_exists (im, path))
    return 0;
  in = walk_to (im, path);
  ino = in->ino;
  inode_put (in);
  return ino;
}

/* --- names with equal hashes --- */

/* CRC-32C (reflected 0x82F63B78), one byte at a time, to go backwards. */
static void __attribute__ ((unused))
crc_table (uint32_t t[256], uint8_t rev[256])
{
  unsigned i, j;

  for (i = 0; i < 256; ++i) {
    uint32_t c = i;

    for (j = 0; j < 8; ++j)
      c = c & 1 ? c >> 1 ^ 0x82F63B78 : c >> 1;
    t[i] = c;
    rev[c >> 24] = i;
  }
}

/* A name of LEN + 4 bytes that begins with S and has the (raw) CRC TARGET
 * from SEED; false when it would hold a byte that a name cannot have.
 */
static bool __attribute__ ((unused))
collide (const char *s, size_t len, uint32_t seed, uint32_t target,
         char *ret_name)
{
  static uint32_t t[256];
  static uint8_t rev[256];
  uint32_t c = seed, back = target;
  size_t i;

  if (t[1] == 0)
    crc_table (t, rev);
  for (i = 0; i < len; ++i)
    c = t[(c ^ (uint8_t) s[i]) & 255] ^ c >> 8;
  for (i = 0; i < 4; ++i) {
    uint8_t x = rev[back >> 24];

    back = (back ^ t[x]) << 8 | x;
  }
  back ^= c;
  memcpy (ret_name, s, len);
  for (i = 0; i < 4; ++i) {
    uint8_t b = back >> 8 * i;

    if (b < ' ' || b == '/' || b >= 127)
      return false;
    ret_name[len + i] = b;
  }
  return true;
}

#endif /* BTRNBD_TESTS_UNIT_INODE_HELP_H */
