/* Reflinks and dedupe, by the rules of Linux, judged by `btrfs check` and the
 * kernel.  Names with a number are hard cases.
 */
#include <config.h>

#include "snap_help.h"

#define KIB 1024

static void
make (struct btrnbd_pool *p, const char *path, size_t size, uint32_t seed,
      bool nocow)
{
  struct btrnbd_file *f;
  uint8_t *buf = malloc (size + 1);
  size_t i;

  for (i = 0; i < size; ++i) {
    seed = seed * 1664525 + 1013904223;
    buf[i] = seed >> 24;
  }
  pool_ok (btrnbd_create (p, path, 0644, nocow));
  pool_ok (btrnbd_file_open (p, path, 0, &f));
  pool_ok (btrnbd_truncate (f, size));
  pool_ok (btrnbd_pwrite (f, buf, size, 0, 0));
  btrnbd_file_close (f);
  free (buf);
}

/* Contents of PATH, zeroes behind its end. */
static uint8_t *
contents (struct btrnbd_pool *p, const char *path, size_t room,
          size_t *ret_size)
{
  uint8_t *buf = calloc (1, room + 1);
  struct btrnbd_file *f;

  pool_ok (btrnbd_file_open (p, path, BTRNBD_OPEN_RDONLY, &f));
  *ret_size = btrnbd_file_size (f);
  assert_true (*ret_size <= room);
  pool_ok (btrnbd_pread (f, buf, *ret_size, 0));
  btrnbd_file_close (f);
  return buf;
}

#define ROOM (512 * KIB)

/* Clone, and compare with what the same copy of bytes gives. */
static void
clone_like_copy (struct btrnbd_pool *p, const char *from, uint64_t offset,
                 uint64_t len, const char *to, uint64_t to_offset)
{
  size_t from_size, size, want_size;
  uint8_t *src = contents (p, from, ROOM, &from_size);
  uint8_t *want = contents (p, to, ROOM, &want_size), *got;
  const size_t n = len == 0 ? from_size - offset : len;

  pool_ok (btrnbd_clone_range (p, from, offset, len, to, to_offset));
  memmove (want + to_offset, src + offset, n);
  want_size = MAX (want_size, to_offset + n);
  got = contents (p, to, ROOM, &size);
  assert_int_equal (size, want_size);
  if (memcmp (got, want, size) != 0)
    fail_msg ("%s %llu+%llu -> %s %llu", from, (unsigned long long) offset,
              (unsigned long long) len, to, (unsigned long long) to_offset);
  free (src);
  free (want);
  free (got);
}

static uint64_t
nbytes (struct btrnbd_pool *p, const char *path)
{
  struct btrnbd_stat st;

  pool_ok (btrnbd_stat (p, path, &st));
  return st.nbytes;
}

static uint64_t
used (struct btrnbd_pool *p)
{
  struct btrnbd_pool_info info;

  pool_ok (btrnbd_pool_sync (p));
  pool_ok (btrnbd_pool_get_info (p, &info));
  return info.data.used;
}

static void
judge (struct btrnbd_pool **p, struct image *im)
{
  pool_ok (btrnbd_pool_close (*p));
  image_check (im);
  if (have_kernel ()) {
    image_mount (im, "subvolid=5");
    assert_int_equal (run ("btrfs scrub start -Bq %s", im->mnt), 0);
    image_umount (im);
  }
  *p = pool_open_at (im->path, 0);
}

static void
test_ranges (void **state)
{
  static const char *const opts[] = { "", "-O ^no-holes -n 4096" };
  struct btrnbd_pool *p;
  struct image im;
  unsigned k;

  (void) state;
  for (k = 0; k < ARRAY_SIZE (opts); ++k) {
    image_make (&im, opts[k], 512);
    p = pool_open_at (im.path, 0);
    make (p, "a", 300 * KIB, 1, false);
    make (p, "b", 300 * KIB, 2, false);
    make (p, "tail", 70001, 3, false);
    make (p, "empty", 0, 4, false);
    make (p, "self", 70001, 5, false);
    clone_like_copy (p, "self", 0, 0, "self", 80 * KIB);
    clone_like_copy (p, "a", 0, 300 * KIB, "b", 0);
    clone_like_copy (p, "a", 8 * KIB, 64 * KIB, "a", 100 * KIB);
    clone_like_copy (p, "a", 100 * KIB, 4 * KIB, "a", 0);
    clone_like_copy (p, "b", 16 * KIB, 4 * KIB, "a", 296 * KIB);
    clone_like_copy (p, "tail", 0, 0, "empty", 0);
    judge (&p, &im);
    /* Beyond the end of the target: a hole, and growth. */
    clone_like_copy (p, "a", 0, 16 * KIB, "tail", 400 * KIB);
    clone_like_copy (p, "a", 0, 64 * KIB, "empty", 64 * KIB);
    clone_like_copy (p, "tail", 80 * KIB, 60 * KIB, "b", 4 * KIB);
    judge (&p, &im);
    assert_int_equal (nbytes (p, "b"), 300 * KIB - 60 * KIB);
    /* What is shared and what is written does not mix. */
    {
      struct btrnbd_file *f;

      pool_ok (btrnbd_file_open (p, "a", 0, &f));
      pool_ok (btrnbd_pwrite (f, "changed", 7, 1000, 0));
      clone_like_copy (p, "a", 0, 8 * KIB, "b", 12 * KIB);
      pool_ok (btrnbd_pwrite (f, "again", 5, 1000, 0));
      btrnbd_file_close (f);
      clone_like_copy (p, "b", 0, 100 * KIB, "empty", 20 * KIB);
    }
    judge (&p, &im);
    pool_ok (btrnbd_pool_close (p));
    image_remove (&im);
  }
}

/* 186: lengths, ends, and places that are refused. */
static void
test_186_refused (void **state)
{
  struct btrnbd_pool *p;
  struct image im;
  uint64_t n;

  (void) state;
  image_make (&im, "", 256);
  p = pool_open_at (im.path, 0);
  make (p, "a", 40001, 1, false);
  make (p, "b", 100 * KIB, 2, false);
  make (p, "nocow", 100 * KIB, 2, true);
  pool_fails (btrnbd_clone_range (p, "a", 0, 40002, "b", 0), ERR_file_range);
  pool_fails (btrnbd_clone_range (p, "a", 45056, 0, "b", 0), ERR_file_range);
  pool_fails (btrnbd_clone_range (p, "a", UINT64_MAX - 4095, 4096, "b", 0),
              ERR_file_range);
  pool_fails (btrnbd_clone_range (p, "a", 0, 4096, "b", UINT64_MAX - 4095),
              ERR_file_big);
  pool_fails (btrnbd_clone_range (p, "a", 0, 4096, "b", 100), ERR_invalid);
  pool_fails (btrnbd_clone_range (p, "a", 100, 4096, "b", 0), ERR_invalid);
  pool_fails (btrnbd_clone_range (p, "a", 0, 4000, "b", 0), ERR_invalid);
  /* The end of the source, but not of the target. */
  pool_fails (btrnbd_clone_range (p, "a", 0, 0, "b", 0), ERR_invalid);
  pool_fails (btrnbd_clone_range (p, "b", 0, 8192, "b", 4096), ERR_invalid);
  pool_fails (btrnbd_clone_range (p, "b", 0, 4096, "nocow", 0), ERR_invalid);
  pool_fails (btrnbd_clone_range (p, "nocow", 0, 4096, "b", 0), ERR_invalid);
  pool_fails (btrnbd_dedupe_range (p, "a", 0, 8192, "b", 0, &n), ERR_differs);
  pool_fails (btrnbd_dedupe_range (p, "a", 36864, 0, "b", 36864, &n),
              ERR_invalid);
  pool_fails (btrnbd_reflink (p, "a", "a"), ERR_invalid);
  pool_fails (btrnbd_reflink (p, "c", "d"), ERR_not_found);
  /* Both ends are ends. */
  clone_like_copy (p, "a", 36864, 0, "b", 102400);
  clone_like_copy (p, "b", 0, 0, "a", 0);
  clone_like_copy (p, "b", 102400, 0, "a", 102400);
  judge (&p, &im);
  pool_ok (btrnbd_pool_close (p));
  image_remove (&im);
}

/* 178, 184, 168, 176: what Linux made: inline, compressed, preallocated,
 * holes that have no items.
 */
static void
test_linux_files (void **state)
{
  static const char *const files[] = {
    "inline", "one", "zstd", "zlib", "lzo", "prealloc", "sparse",
  };
  static const char *const opts[] = { "", "-O ^no-holes" };
  struct btrnbd_pool *p;
  struct image im;
  char name[64];
  unsigned i, k, round = 0;

  (void) state;
  need_kernel ();
  for (k = 0; k < 2; ++k) {
    image_make (&im, opts[k], 512);
    image_mount (&im, "max_inline=2048");
    assert_int_equal (run (
      "cd %s && head -c 1500 /dev/urandom >inline && echo x >one && "
      "for c in zstd zlib lzo; do : >$c; btrfs property set $c compression "
      "$c; yes 'some text to compress' | head -c 300000 >>$c; done && "
      "fallocate -l 200000 prealloc && "
      "echo data | dd of=prealloc conv=notrunc bs=4k seek=10 status=none && "
      "truncate -s 400000 sparse && "
      "echo data | dd of=sparse conv=notrunc bs=4k seek=40 status=none && "
      "sync -f .", im.mnt), 0);
    image_umount (&im);
    p = pool_open_at (im.path, 0);
    for (i = 0; i < ARRAY_SIZE (files); ++i) {
      size_t size;

      free (contents (p, files[i], ROOM, &size));
      snprintf (name, sizeof name, "copy-%s", files[i]);
      pool_ok (btrnbd_reflink (p, files[i], name));
      clone_like_copy (p, files[i], 0, 0, name, 0);
      /* To another offset, into a file that is in use there. */
      snprintf (name, sizeof name, "at-%s", files[i]);
      make (p, name, 48 * KIB, i, false);
      clone_like_copy (p, files[i], 0, 0, name, 48 * KIB);
      clone_like_copy (p, name, 4 * KIB, 8 * KIB, name, 56 * KIB);
      snprintf (name, sizeof name, "mid-%s", files[i]);
      make (p, name, 90 * KIB, i, false);
      if (size > 100000) {
        clone_like_copy (p, files[i], 20 * KIB, 40 * KIB, name, 12 * KIB);
        clone_like_copy (p, name, 16 * KIB, 8 * KIB, files[i], 80 * KIB);
      }
      ++round;
    }
    judge (&p, &im);
    pool_ok (btrnbd_pool_close (p));
    image_remove (&im);
  }
  assert_int_equal (round, 2 * ARRAY_SIZE (files));
}

/* 91, 69, 93: references beyond the inline ones, dropped in random order. */
static void
test_91_keyed (void **state)
{
  const unsigned refs = getenv ("BTRNBD_QUICK") != NULL ? 700 : 3000;
  struct btrnbd_pool *p;
  struct btrnbd_file *f;
  struct image im;
  uint64_t seed = 3, before, full;
  unsigned i, left = refs;
  uint8_t *there = malloc (refs);
  char name[32];

  (void) state;
  image_make (&im, "", 512);
  p = pool_open_at (im.path, 0);
  before = used (p);
  make (p, "src", 16 * KIB, 1, false);
  full = used (p);
  for (i = 0; i < refs; ++i) {
    snprintf (name, sizeof name, "f%u", i / 50);
    if (i % 50 == 0)
      pool_ok (btrnbd_create (p, name, 0644, false));
    /* Slices of one extent, at offsets of their own. */
    pool_ok (btrnbd_clone_range (p, "src", i % 4 * BLK, BLK, name,
                                 (uint64_t) i % 50 * BLK));
    there[i] = 1;
    if (i == refs / 2)
      judge (&p, &im);
  }
  assert_int_equal (used (p), full);
  judge (&p, &im);
  while (left > 0) {
    const unsigned k = snap_rnd (&seed, refs);

    if (!there[k])
      continue;
    there[k] = 0;
    snprintf (name, sizeof name, "f%u", k / 50);
    pool_ok (btrnbd_file_open (p, name, 0, &f));
    pool_ok (btrnbd_trim (f, (uint64_t) k % 50 * BLK, BLK, 0));
    btrnbd_file_close (f);
    if (left == refs)
      pool_ok (btrnbd_unlink (p, "src"));
    if (--left % (refs / 3) == 1) {
      assert_int_equal (used (p), full);
      judge (&p, &im);
    }
  }
  assert_int_equal (used (p), before);
  judge (&p, &im);
  pool_ok (btrnbd_pool_close (p));
  free (there);
  image_remove (&im);
}

static void
test_dedupe (void **state)
{
  struct btrnbd_pool *p;
  struct btrnbd_file *f;
  struct image im;
  uint64_t shared, one, two;

  (void) state;
  image_make (&im, "", 512);
  p = pool_open_at (im.path, 0);
  make (p, "a", 400001, 1, false);
  one = used (p);
  make (p, "b", 400001, 1, false);
  two = used (p);
  pool_ok (btrnbd_dedupe (p, "a", "b", &shared));
  assert_int_equal (shared, round_up (400001, BLK));
  assert_true (used (p) == one && two > one);
  pool_ok (btrnbd_dedupe (p, "a", "b", &shared));
  assert_int_equal (shared, 0);
  /* One byte is different: that piece stays. */
  pool_ok (btrnbd_file_open (p, "b", 0, &f));
  pool_ok (btrnbd_pwrite (f, "x", 1, 200000, 0));
  pool_fails (btrnbd_dedupe_range (p, "a", 0, 0, "b", 0, &shared),
              ERR_differs);
  {
    size_t n;
    uint8_t *buf = contents (p, "b", ROOM, &n);

    assert_int_equal (buf[200000], 'x');
    free (buf);
  }
  btrnbd_file_close (f);
  pool_ok (btrnbd_dedupe (p, "a", "b", &shared));
  assert_int_equal (shared, 0);
  pool_ok (btrnbd_dedupe_range (p, "a", 0, 64 * KIB, "a", 128 * KIB, &shared)
           == -ERR_differs ? 0 : -ERR_busy);
  judge (&p, &im);
  pool_ok (btrnbd_pool_close (p));
  image_remove (&im);
}

static uint64_t
in_place (struct btrnbd_pool *p)
{
  struct btrnbd_pool_stats st;

  btrnbd_pool_get_stats (p, &st);
  return st.data_nocow_bytes;
}

/* Bytes that a write of 64 KiB at OFFSET and a flush overwrite in place. */
static uint64_t
written_in_place (struct btrnbd_pool *p, struct btrnbd_file *f,
                  uint64_t offset)
{
  static uint8_t buf[64 * KIB];
  const uint64_t before = in_place (p);

  ++buf[77];
  pool_ok (btrnbd_pwrite (f, buf, sizeof buf, offset, BTRNBD_FUA));
  return in_place (p) - before;
}

static uint64_t
searches (struct btrnbd_pool *p)
{
  struct btrnbd_pool_stats st;

  btrnbd_pool_get_stats (p, &st);
  return st.data_extent_searches;
}

/* 67, 63, 69: what is shared is copied, once; what is alone again is not. */
static void
test_67_nocow (void **state)
{
  const struct btrnbd_volume_opts o = { .size = 1 << 20, .nocow = true };
  const char *name = "vm";
  struct btrnbd_pool *p;
  struct btrnbd_file *f;
  struct image im;
  uint8_t *buf = calloc (1, 1 << 20);
  uint64_t n;

  (void) state;
  image_make (&im, "", 256);
  p = pool_open_at (im.path, 0);
  pool_ok (btrnbd_volume_create (p, "vm", &o));
  f = open_export (p, "vm");
  n = searches (p);
  pool_ok (btrnbd_pwrite (f, buf, 1 << 20, 0, BTRNBD_FUA));
  assert_int_equal (written_in_place (p, f, 0), 64 * KIB);
  /* Of what was just made, and once known, nothing is asked. */
  assert_int_equal (written_in_place (p, f, 0), 64 * KIB);
  assert_int_equal (written_in_place (p, f, 700 * KIB), 64 * KIB);
  assert_int_equal (searches (p), n);
  pool_ok (btrnbd_clone_range (p, "vm", 0, 64 * KIB, "vm", 512 * KIB));
  assert_int_equal (written_in_place (p, f, 0), 0);
  assert_int_equal (written_in_place (p, f, 0), 64 * KIB);
  assert_int_equal (written_in_place (p, f, 512 * KIB), 0);
  assert_int_equal (written_in_place (p, f, 512 * KIB), 64 * KIB);
  /* After snapshots: once copied, in place from then on. */
  pool_ok (btrnbd_volume_snapshot (p, &name, 1, "a"));
  n = searches (p);
  assert_int_equal (written_in_place (p, f, 128 * KIB), 0);
  assert_int_equal (searches (p), n); /* too old: no need to ask */
  assert_int_equal (written_in_place (p, f, 128 * KIB), 64 * KIB);
  assert_int_equal (searches (p), n); /* the copy is ours */
  pool_ok (btrnbd_volume_snapshot (p, &name, 1, "b"));
  assert_int_equal (written_in_place (p, f, 128 * KIB), 0);
  /* Gone are the snapshots, alone are the blocks that were shared. */
  pool_ok (btrnbd_volume_remove (p, "vm@a"));
  assert_int_equal (written_in_place (p, f, 256 * KIB), 0);
  pool_ok (btrnbd_volume_remove (p, "vm@b"));
  pool_ok (btrnbd_pool_sync (p));
  assert_int_equal (written_in_place (p, f, 768 * KIB), 64 * KIB);
  assert_int_equal (written_in_place (p, f, 832 * KIB), 64 * KIB);
  /* A grandchild keeps them. */
  pool_ok (btrnbd_volume_snapshot (p, &name, 1, "c"));
  pool_ok (btrnbd_volume_clone (p, "vm@c", "clone"));
  pool_ok (btrnbd_volume_remove (p, "vm@c"));
  pool_ok (btrnbd_pool_sync (p));
  assert_int_equal (written_in_place (p, f, 896 * KIB), 0);
  pool_ok (btrnbd_volume_remove (p, "clone"));
  pool_ok (btrnbd_pool_sync (p));
  assert_int_equal (written_in_place (p, f, 960 * KIB), 64 * KIB);
  btrnbd_file_close (f);
  judge (&p, &im);
  pool_ok (btrnbd_pool_close (p));
  free (buf);
  image_remove (&im);
}

/* 67 with prealloc: what is known of it holds for the parts that are written,
 * until one of them is shared.
 */
static void
test_67_prealloc (void **state)
{
  const struct btrnbd_volume_opts o = { .size = 1 << 20, .nocow = true };
  const char *name = "vm";
  struct btrnbd_pool *p;
  struct btrnbd_file *f;
  struct image im;
  uint64_t n;

  (void) state;
  image_make (&im, "", 256);
  p = pool_open_at (im.path, 0);
  pool_ok (btrnbd_volume_create (p, "vm", &o));
  f = open_export (p, "vm");
  pool_ok (btrnbd_zero (f, 0, 1 << 20, 0));
  pool_ok (btrnbd_pool_sync (p));
  assert_int_equal (written_in_place (p, f, 256 * KIB), 64 * KIB);
  n = searches (p);
  assert_int_equal (written_in_place (p, f, 256 * KIB), 64 * KIB);
  assert_int_equal (written_in_place (p, f, 704 * KIB), 64 * KIB);
  assert_int_equal (written_in_place (p, f, 704 * KIB), 64 * KIB);
  assert_int_equal (searches (p), n);
  /* The extent of all of them has another reference: none is alone. */
  pool_ok (btrnbd_clone_range (p, "vm", 704 * KIB, 64 * KIB, "vm", 0));
  assert_int_equal (written_in_place (p, f, 256 * KIB), 0);
  assert_int_equal (written_in_place (p, f, 704 * KIB), 0);
  assert_int_equal (written_in_place (p, f, 0), 0);
  assert_int_equal (written_in_place (p, f, 0), 64 * KIB);
  pool_ok (btrnbd_volume_snapshot (p, &name, 1, "a"));
  assert_int_equal (written_in_place (p, f, 256 * KIB), 0);
  assert_int_equal (written_in_place (p, f, 512 * KIB), 0);
  btrnbd_file_close (f);
  judge (&p, &im);
  pool_ok (btrnbd_pool_close (p));
  image_remove (&im);
}

static uint64_t
data_used (struct btrnbd_pool *p)
{
  struct btrnbd_pool_info info;

  pool_ok (btrnbd_pool_get_info (p, &info));
  return info.data.used;
}

/* 87: an extent gets a reference and loses the one it had, in one
 * transaction; 89: one that is made and freed in a transaction leaves nothing.
 */
static void
test_87_89_one_transaction (void **state)
{
  const struct btrnbd_volume_opts o = { .size = 4 << 20 };
  uint8_t *buf = malloc (1 << 20), *got = malloc (1 << 20);
  struct btrnbd_pool *p;
  struct btrnbd_file *f;
  struct image im;
  uint64_t used;

  (void) state;
  image_make (&im, "", 256);
  p = pool_open_at (im.path, 0);
  pool_ok (btrnbd_volume_create (p, "vm", &o));
  f = open_export (p, "vm");
  memset (buf, 0x5a, 1 << 20);
  pool_ok (btrnbd_pwrite (f, buf, 1 << 20, 0, 0));
  pool_ok (btrnbd_pool_sync (p));
  used = data_used (p);
  assert_true (used >= 1 << 20);
  pool_ok (btrnbd_clone_range (p, "vm", 0, 1 << 20, "vm", 2 << 20));
  pool_ok (btrnbd_trim (f, 0, 1 << 20, 0));
  pool_ok (btrnbd_pool_sync (p));
  assert_int_equal (data_used (p), used);
  btrnbd_file_close (f);
  judge (&p, &im);
  f = open_export (p, "vm");
  pool_ok (btrnbd_pread (f, got, 1 << 20, 2 << 20));
  assert_memory_equal (got, buf, 1 << 20);
  /* Three times at the same place, each flushed, and gone before a commit. */
  for (unsigned i = 0; i < 3; ++i)
    pool_ok (btrnbd_pwrite (f, buf, 1 << 20, 1 << 20, BTRNBD_FUA));
  pool_ok (btrnbd_trim (f, 1 << 20, 1 << 20, 0));
  pool_ok (btrnbd_pool_sync (p));
  assert_int_equal (data_used (p), used);
  btrnbd_file_close (f);
  judge (&p, &im);
  pool_ok (btrnbd_pool_close (p));
  free (buf);
  free (got);
  image_remove (&im);
}

/* 65: a pool that is full; what was accepted before a snapshot goes in place,
 * what comes after it is refused, not lost.
 */
static void
test_65_full (void **state)
{
  const struct btrnbd_volume_opts o = { .size = 64 << 20, .nocow = true };
  const char *name = "vm";
  struct btrnbd_pool *p;
  struct btrnbd_file *f, *g;
  struct image im;
  uint8_t *buf = calloc (1, 1 << 20);
  uint64_t at;
  int r = 0;

  (void) state;
  image_make (&im, "", 256);
  p = pool_open_at (im.path, 0);
  pool_ok (btrnbd_volume_create (p, "vm", &o));
  f = open_export (p, "vm");
  for (at = 0; at < o.size; at += 1 << 20)
    pool_ok (btrnbd_pwrite (f, buf, 1 << 20, at, 0));
  pool_ok (btrnbd_pool_sync (p));
  pool_ok (btrnbd_create (p, "fill", 0644, true));
  pool_ok (btrnbd_file_open (p, "fill", 0, &g));
  pool_ok (btrnbd_truncate (g, 1 << 30));
  for (at = 0; r == 0; at += 65536)
    r = btrnbd_pwrite (g, buf, 65536, at, 0);
  assert_int_equal (btrnbd_error_errno (r), ENOSPC);
  btrnbd_file_close (g);
  pool_ok (btrnbd_pool_sync (p));
  memset (buf, 7, 1 << 20);
  for (at = 0; at < o.size / 2; at += 1 << 20)
    pool_ok (btrnbd_pwrite (f, buf, 1 << 20, at, 0));
  pool_ok (btrnbd_volume_snapshot (p, &name, 1, "a"));
  memset (buf, 9, 1 << 20);
  r = btrnbd_pwrite (f, buf, 1 << 20, 40 << 20, 0);
  assert_int_equal (btrnbd_error_errno (r), ENOSPC);
  pool_ok (btrnbd_flush (f));
  pool_ok (btrnbd_pread (f, buf, 1 << 20, 40 << 20));
  assert_true (buf[0] == 0 && buf[(1 << 20) - 1] == 0);
  pool_ok (btrnbd_pread (f, buf, 1 << 20, 31 << 20));
  assert_true (buf[0] == 7 && buf[(1 << 20) - 1] == 7);
  btrnbd_file_close (f);
  pool_ok (btrnbd_volume_remove (p, "vm@a"));
  pool_ok (btrnbd_pool_close (p));
  image_check (&im);
  free (buf);
  image_remove (&im);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_ranges),
    cmocka_unit_test (test_186_refused),
    cmocka_unit_test (test_linux_files),
    cmocka_unit_test (test_91_keyed),
    cmocka_unit_test (test_dedupe),
    cmocka_unit_test (test_67_nocow),
    cmocka_unit_test (test_67_prealloc),
    cmocka_unit_test (test_87_89_one_transaction),
    cmocka_unit_test (test_65_full),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
