/* fs: chunks for the volume's map, from the chunk tree.
 *
 * The tree is the one that the superblock leads to.  Nobody changes it before
 * the map is whole, so it is read without its lock; past the cache, where a
 * read might wait for one that waits for a chunk; and by addresses that are
 * mapped already, which those of chunk trees are, for the superblock has all
 * system chunks.
 *
 * A leaf that was read gives all of its chunks: so an overlap within it is
 * found, and no leaf is read twice but for an address that no chunk covers.
 */
#include <config.h>

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "fs/chunk_source.h"

static int
add_leaf (struct fs *fs, const void *leaf)
{
  uint32_t i;
  int r = 0;

  for (i = 0; i < tb_nritems (leaf) && r == 0; i++) {
    const struct key key = tb_item_key (leaf, i);

    /* It has been checked with its leaf. */
    if (key.type == BTRFS_CHUNK_ITEM)
      r = volume_add_chunk (fs->volume, key.offset,
                            tb_item_data_c (leaf, i));
  }
  return r;
}

/* What lies below a node: keys from that of its pointer to END (exclusive,
 * NULL: no end).  Levels descend and keys grow, so a walk of a damaged tree
 * ends.
 */
static int
read_child (struct fs *fs, const void *node, uint32_t slot,
            const struct key *end, void *buf)
{
  const struct tree_expect expect =
    tree_expect_child (node, slot, BTRFS_CHUNK_TREE);
  char last[KEY_STR_MAX], bound[KEY_STR_MAX];
  struct key key;
  int r;

  r = block_read_mapped (fs->cache, &expect, buf);
  if (r < 0)
    return err_note (r, "the chunk tree, block %llu level %u",
                     (unsigned long long) expect.bytenr, expect.level);
  key = tb_key (buf, tb_nritems (buf) - 1);
  if (end == NULL || key_cmp (key, *end) < 0)
    return 0;
  return err_new (ERR_block_parent, "the chunk tree, block %llu: last key is "
                  "%s, expected below %s",
                  (unsigned long long) expect.bytenr, key_str (key, last),
                  key_str (*end, bound));
}

/* The child whose keys begin at or before that of the chunk at LOGICAL. */
static uint32_t
child_for (const void *node, uint64_t logical)
{
  bool exact;
  uint32_t slot = tb_search (node, KEY (BTRFS_FIRST_CHUNK_TREE_OBJECTID,
                                        BTRFS_CHUNK_ITEM, logical), &exact);

  return exact || slot == 0 ? slot : slot - 1;
}

/* Leaves below BLOCK that may have chunks that begin in FIRST .. LAST, and the
 * one before these.
 */
static int
add_below (struct fs *fs, const void *block, const struct key *end,
           uint64_t first, uint64_t last)
{
  CLEANUP_FREE void *child = NULL;
  uint32_t slot, stop;
  struct key next;
  int r = 0;

  if (tb_level (block) == 0)
    return add_leaf (fs, block);
  child = io_alloc (block_cache_format (fs->cache)->nodesize);
  if (child == NULL)
    return err_new (ERR_nomem, "a block of the chunk tree");
  stop = child_for (block, last);
  for (slot = child_for (block, first); slot <= stop && r == 0; slot++) {
    const bool inner = slot + 1 < tb_nritems (block);

    if (inner)
      next = tb_key (block, slot + 1);
    r = read_child (fs, block, slot, inner ? &next : end, child);
    if (r == 0)
      r = add_below (fs, child, inner ? &next : end, first, last);
  }
  return r;
}

static int
add_around (void *opaque, uint64_t logical)
{
  struct fs *fs = opaque;

  return add_below (fs, fs->chunk_root->data, NULL, logical, logical);
}

static int
add_all (void *opaque)
{
  struct fs *fs = opaque;

  return add_below (fs, fs->chunk_root->data, NULL, 0, UINT64_MAX);
}

int
chunk_source_open (struct fs *fs)
{
  const struct chunk_source source = {
    .opaque = fs, .around = add_around, .all = add_all,
  };
  struct tree *tree;
  int r;

  r = roots_open_chunk_tree (fs->roots, volume_super (fs->volume));
  if (r < 0)
    return r;
  tree = roots_pool_tree (fs->roots, BTRFS_CHUNK_TREE)->tree;
  fs->chunk_root = block_get (tree->root);
  volume_set_chunk_tree_uuid (fs->volume,
                              tb_header_c (tree->root->data)->chunk_tree_uuid);
  volume_set_chunk_source (fs->volume, &source);
  return 0;
}

void
chunk_source_close (struct fs *fs)
{
  volume_set_chunk_source (fs->volume, NULL);
  block_put (fs->chunk_root);
  fs->chunk_root = NULL;
}
