/* Fuzz target: open a pool, walk all its trees and read all its files.
 *
 * The image is the one of tests/corrupt, or $FUZZ_BASE; an input changes its
 * metadata, or, of an image with a log, the log, and checksums are made good
 * again, so that damage gets past them.  Input: any
 * number of records: block (1: index into the tree blocks, 255: superblock),
 * offset (2), length (1), bytes.
 */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/math.h"
#include "fuzz/fuzz.h"
#include "lib/imagedev.h"
#include "lib/rawimg.h"
#include "lib/readall.h"
#include "lib/sparse.h"

#define MAX_BLOCKS 255
#define SUPER 255

static uint8_t *base;
static uint64_t base_size;
static struct rawimg healthy;
static struct device *device;   /* the healthy image */
static uint64_t blocks[MAX_BLOCKS];
static unsigned nr_blocks;

/* One block or superblock, all copies, and what was in it. */
struct area {
  uint8_t *copies[BTRFS_SUPER_COPIES];
  unsigned nr_copies;
  uint32_t len;
  uint8_t *old;
  bool used;
};
static struct area areas[MAX_BLOCKS + 1];

static int
collect (void *opaque, const void *buf, const struct rawimg_root *root)
{
  (void) opaque;
  if (le64_get (healthy.super->log_root) != 0 && root->id != BTRFS_TREE_LOG)
    return 0;
  for (unsigned i = 0; i < nr_blocks; ++i)
    if (blocks[i] == tb_bytenr (buf))
      return 0;
  if (nr_blocks < MAX_BLOCKS)
    blocks[nr_blocks++] = tb_bytenr (buf);
  return 0;
}

static void
set_up_areas (void)
{
  struct area *a;

  for (unsigned i = 0; i < nr_blocks; ++i) {
    a = &areas[i];
    a->nr_copies = rawimg_copies (&healthy, blocks[i]);
    for (unsigned k = 0; k < a->nr_copies; ++k)
      a->copies[k] = rawimg_block (&healthy, blocks[i], k);
    a->len = healthy.info.nodesize;
  }
  a = &areas[SUPER];
  a->len = BTRFS_SUPER_SIZE;
  for (unsigned i = 0; i < BTRFS_SUPER_COPIES; ++i)
    if (super_offset (i) + BTRFS_SUPER_SIZE <= base_size)
      a->copies[a->nr_copies++] = base + super_offset (i);
}

static void
no_log (void *opaque, int level, const char *line)
{
  (void) opaque;
  (void) level;
  (void) line;
}

int
LLVMFuzzerInitialize (int *argc, char ***argv)
{
  const char *path = getenv ("FUZZ_BASE");

  (void) argc;
  (void) argv;
  if (path == NULL)
    path = FUZZ_BASE_DEFAULT;
  if (sparse_load (path, &base, &base_size) < 0)
    exit (2);
  rawimg_attach (base, base_size, &healthy);
  if (rawimg_load (&healthy) < 0 ||
      rawimg_walk_all (&healthy, collect, NULL) < 0) {
    fprintf (stderr, "%s is not healthy\n", path);
    exit (2);
  }
  set_up_areas ();
  btrnbd_set_log (no_log, NULL, 0);
  if (imagedev_new (base, base_size, &device) < 0)
    exit (2);
  return 0;
}

/* A place in block INDEX that means something: a field of the header, of an
 * item's head or near the start of its data.
 */
static uint32_t
choose_offset (unsigned index, unsigned rnd, uint32_t *ret_len)
{
  static const uint8_t head[][2] = { { 0, 8 }, { 8, 1 }, { 9, 8 }, { 17, 4 },
                                     { 21, 4 } };
  static const uint8_t header[][2] = { { 48, 8 }, { 80, 8 }, { 88, 8 },
                                       { 96, 4 }, { 100, 1 } };
  static const uint8_t lens[] = { 1, 2, 4, 8 };
  const uint8_t *buf = areas[index].copies[0];
  uint32_t n, slot, at;

  *ret_len = lens[rnd % 4];
  if (index == SUPER)
    return 32 + (rnd >> 4) % 3500;
  n = tb_nritems (buf);
  if (rnd % 16 == 0 || n == 0) {
    *ret_len = header[(rnd >> 8) % 5][1];
    return header[(rnd >> 8) % 5][0];
  }
  slot = (rnd >> 8) % n;
  if (tb_level (buf) > 0)
    return TB_HEADER_SIZE + slot * sizeof (struct btrfs_key_ptr) +
      (rnd >> 20) % 33;
  if (rnd % 3 == 0) {
    *ret_len = head[(rnd >> 20) % 5][1];
    return TB_HEADER_SIZE + slot * sizeof (struct btrfs_item) +
      head[(rnd >> 20) % 5][0];
  }
  at = (const uint8_t *) tb_item_data_c (buf, slot) - buf;
  n = MIN (tb_item_size (buf, slot), 64);
  return n == 0 ? at : at + (rnd >> 20) % n;
}

/* Adds a record, or changes bytes of those there are. */
size_t
LLVMFuzzerCustomMutator (uint8_t *data, size_t size, size_t max_size,
                         unsigned seed)
{
  unsigned index, rnd = seed * 2654435761u;
  uint32_t offset, len;
  le64 value;

  if (size > 0 && seed % 4 == 0)
    return LLVMFuzzerMutate (data, size, max_size);
  if (size + 12 > max_size)
    size = 0;
  index = seed % 29 == 0 ? SUPER : (seed >> 8) % nr_blocks;
  offset = choose_offset (index, rnd, &len);
  offset = MIN (offset, areas[index].len - len);
  memset (&value, 0, sizeof value);
  memcpy (&value, areas[index].copies[0] + offset, len);
  switch (rnd >> 29) {
  case 0:
    value = le64_make (0);
    break;
  case 1:
    value = le64_make (UINT64_MAX);
    break;
  case 2:
    value = le64_make (le64_get (value) ^ UINT64_C (1) << (rnd >> 12) % 64);
    break;
  case 3:
    value = le64_make (le64_get (value) + 1);
    break;
  case 4:
    value = le64_make (le64_get (value) - 1);
    break;
  case 5:
    value = le64_make (le64_get (value) + 4096);
    break;
  case 6:
    value = le64_make (le64_get (value) - 4096);
    break;
  default:
    value = le64_make (rnd * UINT64_C (0x9e3779b97f4a7c15));
    if (rnd & 0x800) /* an inode, or an index */
      value = le64_make ((rnd >> 4) % 128 + (rnd & 0x400 ? 256 : 0));
    break;
  }
  data[size] = index;
  data[size + 1] = offset;
  data[size + 2] = offset >> 8;
  data[size + 3] = len;
  memcpy (data + size + 4, &value, len);
  return size + 4 + len;
}

static void
apply (const uint8_t *data, size_t size)
{
  size_t pos = 0;

  while (size - pos >= 4) {
    unsigned block = data[pos];
    uint32_t offset = data[pos + 1] | data[pos + 2] << 8;
    uint32_t len = data[pos + 3];
    struct area *a = &areas[block == SUPER ? SUPER : block % nr_blocks];

    pos += 4;
    offset %= a->len;
    len = MIN (len, size - pos);
    len = MIN (len, a->len - offset);
    if (!a->used) {
      a->old = malloc (a->len);
      if (a->old == NULL)
        return;
      memcpy (a->old, a->copies[0], a->len);
      a->used = true;
    }
    for (unsigned i = 0; i < a->nr_copies; ++i)
      memcpy (a->copies[i] + offset, data + pos, len);
    pos += len;
  }
  for (unsigned i = 0; i <= MAX_BLOCKS; ++i)
    for (unsigned k = 0; areas[i].used && k < areas[i].nr_copies; ++k)
      tb_set_csum (areas[i].copies[k], areas[i].len, healthy.info.csum_type);
}

static void
undo (void)
{
  for (unsigned i = 0; i <= MAX_BLOCKS; ++i) {
    struct area *a = &areas[i];

    if (!a->used)
      continue;
    /* Copies of a superblock differ in their address and checksum. */
    for (unsigned k = 0; k < a->nr_copies; ++k) {
      memcpy (a->copies[k], a->old, a->len);
      if (i == SUPER) {
        struct btrfs_super *sb = (struct btrfs_super *) a->copies[k];

        sb->bytenr = le64_make (super_offset (k));
        super_seal (sb);
      }
    }
    free (a->old);
    a->old = NULL;
    a->used = false;
  }
}

static void
walk (void)
{
  struct rawimg img;

  rawimg_attach (base, base_size, &img);
  if (rawimg_load (&img) == 0)
    rawimg_walk_all (&img, NULL, NULL);
  rawimg_close (&img);
}

static struct device *
damaged (void)
{
  struct imagedev_patch patches[(MAX_BLOCKS + 1) * BTRFS_SUPER_COPIES];
  struct device *dev;
  unsigned n = 0;

  for (unsigned i = 0; i <= MAX_BLOCKS; ++i)
    for (unsigned k = 0; areas[i].used && k < areas[i].nr_copies; ++k)
      patches[n++] = (struct imagedev_patch) { areas[i].copies[k],
                                               areas[i].len };
  return imagedev_overlay (device, base, patches, n, &dev) < 0 ? NULL : dev;
}

/* Through the engine: read all, or open for writing and make changes. */
static void
use_pool (bool write)
{
  struct device *dev = damaged ();
  char what[READALL_TEXT];
  bool writable;

  if (dev == NULL)
    return;
  if (write)
    imagedev_write_pool (dev, &writable);
  else
    imagedev_read_pool (dev, what);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  unsigned sum = 0;

  apply (data, size);
  walk ();
  /* One of the two, by the input. */
  for (size_t i = 0; i < size; ++i)
    sum += data[i];
  use_pool (sum % 2 != 0);
  undo ();
  err_clear ();
  return 0;
}
