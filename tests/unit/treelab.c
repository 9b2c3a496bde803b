/* See treelab.h. */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "format/super.h"
#include "unit/treelab.h"

#define CHUNK_LOGICAL UINT64_C (16777216)
#define PHYSICAL UINT64_C (1048576)

void
lab_ok (int r, const char *what)
{
  if (r == 0)
    return;
  fprintf (stderr, "%s: %s\n", what, err_text (r));
  abort ();
}

uint64_t
lab_random (uint64_t *state)
{
  uint64_t x = *state;

  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return *state = x;
}

/* --- the pool --- */

static uint64_t
chunk_length (const struct lab *lab)
{
  return (uint64_t) lab->opts.blocks * lab->opts.nodesize;
}

uint64_t
lab_physical (const struct lab *lab, uint64_t bytenr, unsigned mirror)
{
  return PHYSICAL + (mirror - 1) * chunk_length (lab) +
    bytenr - CHUNK_LOGICAL;
}

static void
add_chunk (const struct lab *lab, struct btrfs_super *sb)
{
  union {
    struct btrfs_chunk c;
    uint8_t space[sizeof (struct btrfs_chunk) +
                  2 * sizeof (struct btrfs_stripe)];
  } u = { .c = {
    .length = le64_make (chunk_length (lab)),
    .owner = le64_make (BTRFS_EXTENT_TREE),
    .stripe_len = le64_make (BTRFS_STRIPE_LEN),
    .type = le64_make (BTRFS_BG_SYSTEM | BTRFS_BG_DUP),
    .io_align = le32_make (BTRFS_STRIPE_LEN),
    .io_width = le32_make (BTRFS_STRIPE_LEN),
    .sector_size = le32_make (4096),
    .num_stripes = le16_make (2),
    .sub_stripes = le16_make (1),
  } };
  unsigned i;

  for (i = 0; i < 2; i++) {
    u.c.stripes[i] = (struct btrfs_stripe) {
      .devid = le64_make (1),
      .offset = le64_make (lab_physical (lab, CHUNK_LOGICAL, i + 1)) };
    memcpy (u.c.stripes[i].dev_uuid, sb->dev_item.uuid, BTRFS_UUID_SIZE);
  }
  lab_ok (super_sys_chunk_add (sb, KEY (BTRFS_FIRST_CHUNK_TREE_OBJECTID,
                                        BTRFS_CHUNK_ITEM, CHUNK_LOGICAL),
                               &u.c, sizeof u), "sys array");
}

static void
write_super (struct lab *lab, uint64_t device_size)
{
  struct btrfs_super *sb = io_alloc (sizeof *sb);

  *sb = (struct btrfs_super) {
    .bytenr = le64_make (super_offset (0)),
    .magic = le64_make (BTRFS_MAGIC),
    .generation = le64_make (1 << 20) /* above all of a test */,
    .root = le64_make (CHUNK_LOGICAL),
    .chunk_root = le64_make (CHUNK_LOGICAL),
    .chunk_root_generation = le64_make (1),
    .total_bytes = le64_make (device_size),
    .bytes_used = le64_make (lab->opts.nodesize * 8),
    .root_dir_objectid = le64_make (BTRFS_ROOT_TREE_DIR),
    .num_devices = le64_make (1),
    .sectorsize = le32_make (4096),
    .stripesize = le32_make (4096),
    .nodesize = le32_make (lab->opts.nodesize),
    .unused_leafsize = le32_make (lab->opts.nodesize),
    .incompat_flags = le64_make (BTRFS_INCOMPAT_MIXED_BACKREF),
    .dev_item = {
      .devid = le64_make (1),
      .total_bytes = le64_make (device_size),
      .bytes_used = le64_make (2 * chunk_length (lab)),
      .io_align = le32_make (4096),
      .io_width = le32_make (4096),
      .sector_size = le32_make (4096),
    },
  };
  memset (sb->fsid, 0x11, sizeof sb->fsid);
  memset (sb->dev_item.fsid, 0x11, sizeof sb->dev_item.fsid);
  memset (sb->dev_item.uuid, 0x22, sizeof sb->dev_item.uuid);
  add_chunk (lab, sb);
  super_seal (sb);
  lab_ok (device_write (lab->dev, super_offset (0), sb, sizeof *sb),
          "write super");
  free (sb);
}

/* --- the allocator --- */

static uint32_t
index_of (const struct lab *lab, uint64_t bytenr)
{
  return (bytenr - CHUNK_LOGICAL) / lab->opts.nodesize;
}

static struct lab *
lab_of (struct tree_txn *txn)
{
  return (struct lab *) txn;
}

static int
lab_alloc (struct tree_txn *txn, struct tree *t, unsigned level,
           uint64_t hint, uint64_t *ret_bytenr)
{
  struct lab *lab = lab_of (txn);
  uint32_t i;

  (void) t;
  (void) level;
  (void) hint;
  if (lab->fail_alloc > 0 && --lab->fail_alloc == 0)
    return err_new (ERR_nospace_meta, "as the test wants it");
  if (lab->nr_free > 0)
    i = lab->free_list[--lab->nr_free];
  else if (lab->next < lab->opts.blocks)
    i = lab->next++;
  else
    return err_new (ERR_nospace_meta, "the lab has %" PRIu32 " blocks",
                    lab->opts.blocks);
  if (lab->refs[i] != 0)
    abort ();
  lab->refs[i] = 1;
  *ret_bytenr = CHUNK_LOGICAL + (uint64_t) i * lab->opts.nodesize;
  return 0;
}

static void
drop_ref (struct lab *lab, uint64_t bytenr)
{
  uint32_t i = index_of (lab, bytenr);

  if (lab->refs[i] == 0) {
    fprintf (stderr, "block %" PRIu64 " freed twice\n", bytenr);
    abort ();
  }
  if (--lab->refs[i] == 0)
    lab->pinned[lab->nr_pinned++] = i;
}

static int
lab_cow (struct tree_txn *txn, struct tree *t, struct block *old,
         struct block *copy, enum tree_cow_action *ret_action)
{
  struct lab *lab = lab_of (txn);
  uint32_t i, n = tb_nritems (copy->data);
  bool shared = lab->refs[index_of (lab, old->bytenr)] > 1;

  (void) t;
  if (shared && tb_level (copy->data) > 0)
    for (i = 0; i < n; i++)
      lab->refs[index_of (lab, le64_get (tb_ptr (copy->data, i)->blockptr))]
        ++;
  drop_ref (lab, old->bytenr);
  *ret_action = shared ? TREE_COW_KEEP_OLD : TREE_COW_FREE_OLD;
  return 0;
}

static int
lab_free (struct tree_txn *txn, struct tree *t, struct block *b)
{
  struct lab *lab = lab_of (txn);

  (void) t;
  if (tb_nritems (b->data) != 0 ||
      lab->refs[index_of (lab, b->bytenr)] != 1) {
    fprintf (stderr, "free of block %" PRIu64 " with %" PRIu32 " items, %"
             PRIu32 " references\n", b->bytenr, tb_nritems (b->data),
             lab->refs[index_of (lab, b->bytenr)]);
    abort ();
  }
  drop_ref (lab, b->bytenr);
  return 0;
}

static void
lab_abort (struct tree_txn *txn, int err)
{
  (void) err;
  lab_of (txn)->nr_aborts++;
}

static int
lab_dirtied (struct tree_txn *txn, struct tree *t)
{
  if (tb_generation (t->root->data) != txn->transid)
    abort ();
  lab_of (txn)->nr_dirtied++;
  return 0;
}

static const struct tree_alloc_ops lab_ops = {
  .alloc = lab_alloc,
  .cow = lab_cow,
  .free = lab_free,
  .abort = lab_abort,
  .dirtied = lab_dirtied,
};

/* --- life --- */

void
lab_open (struct lab *lab, const struct lab_opts *opts)
{
  uint64_t size;

  *lab = (struct lab) { .opts = *opts,
    .txn = { .transid = 2, .ops = &lab_ops } };
  if (lab->opts.blocks == 0)
    lab->opts.blocks = 16384;
  lab->opts.blocks = lab->opts.blocks / 64 * 64;
  size = PHYSICAL + 2 * chunk_length (lab) + PHYSICAL;
  lab->refs = calloc (lab->opts.blocks, sizeof *lab->refs);
  lab->pinned = calloc (lab->opts.blocks, sizeof *lab->pinned);
  lab->free_list = calloc (lab->opts.blocks, sizeof *lab->free_list);
  lab->next = 1;                /* address 0 of the chunk is the super's */
  lab_ok (device_mem_new ("lab", size, &lab->dev), "device");
  write_super (lab, size);
  lab_ok (volume_open (&lab->dev, 1, false, &lab->vol), "volume_open");
  lab_ok (block_cache_new (lab->vol, lab->opts.cache_bytes, &lab->cache),
          "block_cache_new");
}

void
lab_close (struct lab *lab)
{
  block_cache_free (lab->cache);
  volume_close (lab->vol);
  free (lab->refs);
  free (lab->pinned);
  free (lab->free_list);
}

uint32_t
lab_switch (struct lab *lab)
{
  lab->txn.transid++;
  return lab->nr_pinned;
}

void
lab_release (struct lab *lab, uint32_t n)
{
  uint32_t i;

  for (i = 0; i < n; i++) {
    block_forget (lab->cache, CHUNK_LOGICAL +
                  (uint64_t) lab->pinned[i] * lab->opts.nodesize);
    lab->free_list[lab->nr_free++] = lab->pinned[i];
  }
  lab->nr_pinned -= n;
  memmove (lab->pinned, lab->pinned + n,
           lab->nr_pinned * sizeof *lab->pinned);
}

void
lab_commit (struct lab *lab)
{
  uint32_t n = lab_switch (lab);

  lab_ok (block_write_out (lab->cache, lab->txn.transid - 1, NULL),
          "write-out");
  lab_release (lab, n);
}

void
lab_drop_cache (struct lab *lab)
{
  block_cache_free (lab->cache);
  lab_ok (block_cache_new (lab->vol, lab->opts.cache_bytes, &lab->cache),
          "block_cache_new");
}

static struct tree_expect
expect_root (const struct tree *t)
{
  return (struct tree_expect) {
    .bytenr = t->root->bytenr,
    .generation = tb_generation (t->root->data),
    .owner = t->id,
    .level = tb_level (t->root->data),
    .has_level = true,
  };
}

struct tree *
lab_reopen_tree (struct lab *lab, struct tree *t)
{
  const struct tree_expect expect = expect_root (t);
  uint64_t id = t->id;
  bool shareable = t->shareable;
  struct tree *anew;

  tree_free (t);
  lab_drop_cache (lab);
  lab_ok (tree_open (lab->cache, id, &expect, RANK_TREE_FS, shareable,
                     &anew), "tree_open");
  return anew;
}

void
lab_save (struct lab *lab, struct tree *t, struct lab_state *s)
{
  size_t size = lab->opts.blocks * sizeof *lab->refs;

  s->root = expect_root (t);
  s->refs = malloc (size);
  memcpy (s->refs, lab->refs, size);
  s->nr_free = lab->nr_free;
}

struct tree *
lab_roll_back (struct lab *lab, struct tree *t, struct lab_state *s)
{
  uint64_t id = t->id;
  bool shareable = t->shareable;

  memcpy (lab->refs, s->refs, lab->opts.blocks * sizeof *lab->refs);
  free (s->refs);
  lab->nr_free = s->nr_free;
  lab->nr_pinned = 0;
  lab->nr_aborts = 0;
  tree_free (t);
  block_drop_all (lab->cache, lab->txn.transid);
  lab_ok (tree_open (lab->cache, id, &s->root, RANK_TREE_FS, shareable, &t),
          "tree_open");
  return t;
}

/* --- snapshots --- */

struct block *
lab_snapshot (struct lab *lab, struct tree *t)
{
  lab->refs[index_of (lab, t->root->bytenr)]++;
  /* Blocks of the running transaction are shared from now on too. */
  ++t->epoch;
  return block_get (t->root);
}

static struct block *
read_child (struct lab *lab, struct block *b, uint32_t slot,
            uint64_t tree_id)
{
  const struct tree_expect expect = tree_expect_child (b->data, slot, tree_id);
  struct block *child;

  lab_ok (block_read (lab->cache, &expect, &child), "read child");
  return child;
}

void
lab_drop (struct lab *lab, struct block *root, uint64_t tree_id)
{
  struct block *child;
  uint32_t i;

  if (lab->refs[index_of (lab, root->bytenr)] == 1 &&
      tb_level (root->data) > 0) {
    for (i = 0; i < tb_nritems (root->data); i++) {
      child = read_child (lab, root, i, tree_id);
      lab_drop (lab, child, tree_id);
    }
  }
  if (lab->refs[index_of (lab, root->bytenr)] == 1)
    block_drop (lab->cache, root);
  drop_ref (lab, root->bytenr);
  block_put (root);
}

/* One reference by each pointer in each distinct block, one by each root. */
static void
count_refs (struct lab *lab, struct block *b, uint64_t tree_id,
            uint32_t *seen)
{
  struct block *child;
  uint32_t i;

  if (seen[index_of (lab, b->bytenr)]++ > 0 || tb_level (b->data) == 0)
    return;
  for (i = 0; i < tb_nritems (b->data); i++) {
    child = read_child (lab, b, i, tree_id);
    count_refs (lab, child, tree_id, seen);
    block_put (child);
  }
}

void
lab_check_refs (struct lab *lab, struct block **roots, size_t n,
                uint64_t tree_id)
{
  uint32_t *seen = calloc (lab->opts.blocks, sizeof *seen), i;

  for (i = 0; i < n; i++)
    count_refs (lab, roots[i], tree_id, seen);
  for (i = 0; i < lab->opts.blocks; i++) {
    if (seen[i] != lab->refs[i]) {
      fprintf (stderr, "block %" PRIu32 ": %" PRIu32 " references, but %"
               PRIu32 " were counted\n", i, seen[i], lab->refs[i]);
      abort ();
    }
  }
  free (seen);
}
