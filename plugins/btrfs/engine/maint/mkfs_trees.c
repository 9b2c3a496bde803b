/* maint: the trees of a new pool.
 *
 * Each tree is a list of items, sorted and packed into leaves (under one node
 * when there is more than one leaf, as with the root tree in 4 KiB nodes).
 * Some items tell how many blocks there are and where (extent items, free
 * space, block groups, root items), so items are made, counted and placed
 * until the counts no longer change; two or three rounds.
 */
#include <config.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/math.h"
#include "format/check.h"
#include "format/names.h"
#include "format/super.h"
#include "format/tree_block.h"
#include "maint/mkfs_priv.h"

#define ITEMS_MAX 64
#define ARENA_SIZE 8192
#define LEAVES_MAX 8
#define ROUNDS_MAX 8

struct mkfs_item {
  struct key key;
  uint32_t size, at;              /* at: in the arena */
};

struct mkfs_tree {
  uint64_t id;
  unsigned chunk;                 /* where its blocks are */
  struct mkfs_item items[ITEMS_MAX];
  unsigned nitems;
  uint8_t arena[ARENA_SIZE];
  uint32_t used;                  /* of the arena */

  /* Set by pack and place: blocks are the leaves, then the root node when
   * there is more than one leaf, at bytenr, bytenr + nodesize, ...
   */
  unsigned leaf_first[LEAVES_MAX + 1]; /* item numbers; [leaves]: nitems */
  unsigned leaves, blocks;
  uint64_t bytenr;
};

enum { T_ROOT, T_EXTENT, T_CHUNK, T_DEV, T_FS, T_CSUM, T_UUID, T_RELOC,
       T_FST, T_BGT, T_COUNT };

static const uint64_t tree_ids[T_COUNT] = {
  [T_ROOT] = BTRFS_ROOT_TREE,
  [T_EXTENT] = BTRFS_EXTENT_TREE,
  [T_CHUNK] = BTRFS_CHUNK_TREE,
  [T_DEV] = BTRFS_DEV_TREE,
  [T_FS] = BTRFS_FS_TREE,
  [T_CSUM] = BTRFS_CSUM_TREE,
  [T_UUID] = BTRFS_UUID_TREE,
  [T_RELOC] = BTRFS_DATA_RELOC_TREE,
  [T_FST] = BTRFS_FREE_SPACE_TREE,
  [T_BGT] = BTRFS_BLOCK_GROUP_TREE,
};

struct mkfs_trees {
  struct mkfs_tree t[T_COUNT];    /* id 0: not in this pool */
};

/* SIZE zero bytes under KEY; the arena is sized for all that is added. */
static void *
add (struct mkfs_tree *t, struct key key, uint32_t size)
{
  struct mkfs_item *item = &t->items[t->nitems++];

  assert (t->nitems <= ITEMS_MAX && t->used + size <= ARENA_SIZE);
  *item = (struct mkfs_item) { .key = key, .size = size, .at = t->used };
  t->used += size;
  memset (t->arena + item->at, 0, size);
  return t->arena + item->at;
}

static int
item_cmp (const void *a, const void *b)
{
  return key_cmp (((const struct mkfs_item *) a)->key,
                  ((const struct mkfs_item *) b)->key);
}

/* Sort the items and cut them into leaves. */
static void
pack (struct mkfs_tree *t, uint32_t nodesize)
{
  uint32_t room = tb_leaf_data_size (nodesize);

  qsort (t->items, t->nitems, sizeof t->items[0], item_cmp);
  t->leaves = 1;
  t->leaf_first[0] = 0;
  for (unsigned i = 0; i < t->nitems; i++) {
    const uint32_t need = t->items[i].size + sizeof (struct btrfs_item);

    if (need > room) {
      assert (t->leaves < LEAVES_MAX && t->leaf_first[t->leaves - 1] < i);
      t->leaf_first[t->leaves++] = i;
      room = tb_leaf_data_size (nodesize);
    }
    room -= need;
  }
  t->leaf_first[t->leaves] = t->nitems;
  t->blocks = t->leaves + (t->leaves > 1);
}

static unsigned
tree_level (const struct mkfs_tree *t)
{
  return t->leaves > 1;
}

static uint64_t
tree_root_bytenr (const struct mkfs_tree *t, uint32_t nodesize)
{
  return t->bytenr + (uint64_t) (t->blocks - 1) * nodesize;
}

/* First key of block I; of an empty tree the lowest key. */
static struct key
block_first_key (const struct mkfs_tree *t, unsigned i)
{
  if (t->nitems == 0)
    return KEY_MIN;
  return t->items[i < t->leaves ? t->leaf_first[i] : 0].key;
}

/* --- items of each tree --- */

static void
put_timespec (struct btrfs_timespec *out, const struct timespec *ts)
{
  out->sec = le64_make (ts->tv_sec);
  out->nsec = le32_make (ts->tv_nsec);
}

static void
fill_dir_inode (const struct mkfs_params *p, struct btrfs_inode_item *i)
{
  i->generation = le64_make (MKFS_GENERATION);
  i->transid = le64_make (MKFS_GENERATION);
  i->nlink = le32_make (1);
  i->mode = le32_make (0040755);
  put_timespec (&i->atime, &p->now);
  put_timespec (&i->ctime, &p->now);
  put_timespec (&i->mtime, &p->now);
  put_timespec (&i->otime, &p->now);
}

static void
add_inode_ref (struct mkfs_tree *t, uint64_t ino, uint64_t parent,
               const char *name)
{
  const size_t len = strlen (name);
  struct btrfs_inode_ref *ref =
    add (t, KEY (ino, BTRFS_INODE_REF, parent), sizeof *ref + len);

  ref->name_len = le16_make (len);
  memcpy (ref + 1, name, len);
}

/* The top directory of a subvolume. */
static void
fill_top_dir (const struct mkfs_params *p, struct mkfs_tree *t)
{
  const uint64_t ino = BTRFS_FIRST_FREE_OBJECTID;

  fill_dir_inode (p, add (t, KEY (ino, BTRFS_INODE_ITEM, 0),
                          sizeof (struct btrfs_inode_item)));
  add_inode_ref (t, ino, ino, "..");
}

static void
add_root_item (const struct mkfs_params *p, struct mkfs_tree *root,
               const struct mkfs_tree *t)
{
  struct btrfs_root_item *ri =
    add (root, KEY (t->id, BTRFS_ROOT_ITEM, 0), sizeof *ri);

  ri->inode.generation = le64_make (1);
  ri->inode.size = le64_make (3);
  ri->inode.nbytes = le64_make (p->nodesize);
  ri->inode.nlink = le32_make (1);
  ri->inode.mode = le32_make (0040755);
  ri->generation = le64_make (MKFS_GENERATION);
  ri->generation_v2 = le64_make (MKFS_GENERATION);
  ri->bytenr = le64_make (tree_root_bytenr (t, p->nodesize));
  ri->bytes_used = le64_make ((uint64_t) t->blocks * p->nodesize);
  ri->refs = le32_make (1);
  ri->level = tree_level (t);
  if (t->id == BTRFS_FS_TREE || t->id == BTRFS_DATA_RELOC_TREE)
    ri->root_dirid = le64_make (BTRFS_FIRST_FREE_OBJECTID);
  if (t->id == BTRFS_FS_TREE) {
    ri->inode.flags = le64_make (BTRFS_INODE_ROOT_ITEM_INIT);
    memcpy (ri->uuid, p->fs_tree_uuid, sizeof ri->uuid);
    put_timespec (&ri->ctime, &p->now);
    put_timespec (&ri->otime, &p->now);
  }
}

/* Root items of all trees that are not rooted in the superblock, and the
 * directory whose entry "default" names the subvolume to mount.
 */
static void
fill_root_tree (const struct mkfs_params *p, struct mkfs_trees *trees)
{
  static const char name[] = "default";
  const size_t len = sizeof name - 1;
  struct mkfs_tree *root = &trees->t[T_ROOT];
  struct btrfs_dir_item *di;

  for (unsigned i = 0; i < T_COUNT; i++)
    if (i != T_ROOT && i != T_CHUNK && trees->t[i].id != 0)
      add_root_item (p, root, &trees->t[i]);

  fill_dir_inode (p, add (root,
                          KEY (BTRFS_ROOT_TREE_DIR, BTRFS_INODE_ITEM, 0),
                          sizeof (struct btrfs_inode_item)));
  add_inode_ref (root, BTRFS_ROOT_TREE_DIR, BTRFS_ROOT_TREE_DIR, "..");
  add_inode_ref (root, BTRFS_FS_TREE, BTRFS_ROOT_TREE_DIR, name);
  di = add (root, KEY (BTRFS_ROOT_TREE_DIR, BTRFS_DIR_ITEM,
                       name_hash (name, len)), sizeof *di + len);
  di->location = key_to_disk (KEY (BTRFS_FS_TREE, BTRFS_ROOT_ITEM,
                                   UINT64_MAX));
  di->transid = le64_make (MKFS_GENERATION);
  di->name_len = le16_make (len);
  di->type = BTRFS_FT_DIR;
  memcpy (di + 1, name, len);
}

/* An extent item with one back reference to the owning tree.  Without
 * skinny-metadata it also tells the first key, which is filled in later.
 */
static void
add_extent_item (const struct mkfs_params *p, struct mkfs_tree *extent,
                 const struct mkfs_tree *t, unsigned block)
{
  const uint64_t bytenr = t->bytenr + (uint64_t) block * p->nodesize;
  const unsigned level = block < t->leaves ? 0 : 1;
  const uint32_t ref_size = sizeof (struct btrfs_extent_inline_ref);
  struct btrfs_extent_item *ei;
  struct btrfs_extent_inline_ref *ref;

  if (p->incompat & BTRFS_INCOMPAT_SKINNY_METADATA) {
    ei = add (extent, KEY (bytenr, BTRFS_METADATA_ITEM, level),
              sizeof *ei + ref_size);
    ref = (void *) (ei + 1);
  }
  else {
    struct btrfs_tree_block_info *info;

    ei = add (extent, KEY (bytenr, BTRFS_EXTENT_ITEM, p->nodesize),
              sizeof *ei + sizeof *info + ref_size);
    info = (void *) (ei + 1);
    info->level = level;
    ref = (void *) (info + 1);
  }
  ei->refs = le64_make (1);
  ei->generation = le64_make (MKFS_GENERATION);
  ei->flags = le64_make (BTRFS_EXTENT_FLAG_TREE_BLOCK);
  ref->type = BTRFS_TREE_BLOCK_REF;
  ref->offset = le64_make (t->id);
}

/* The extent items describe the extent tree too, hence after its packing. */
static void
fill_first_keys (const struct mkfs_params *p, struct mkfs_trees *trees)
{
  struct mkfs_tree *extent = &trees->t[T_EXTENT];

  for (unsigned i = 0; i < extent->nitems; i++) {
    struct mkfs_item *item = &extent->items[i];

    if (item->key.type != BTRFS_EXTENT_ITEM)
      continue;
    for (unsigned k = 0; k < T_COUNT; k++) {
      const struct mkfs_tree *t = &trees->t[k];
      const uint64_t off = item->key.objectid - t->bytenr;
      struct btrfs_tree_block_info *info = (void *)
        (extent->arena + item->at + sizeof (struct btrfs_extent_item));

      if (t->id != 0 && item->key.objectid >= t->bytenr &&
          off / p->nodesize < t->blocks)
        info->key = key_to_disk (block_first_key (t, off / p->nodesize));
    }
  }
}

static void
fill_block_groups (const struct mkfs_params *p, struct mkfs_trees *trees)
{
  struct mkfs_tree *t =
    &trees->t[trees->t[T_BGT].id != 0 ? T_BGT : T_EXTENT];

  for (unsigned i = 0; i < p->num_chunks; i++) {
    const struct mkfs_chunk *c = &p->chunks[i];
    struct btrfs_block_group_item *bg =
      add (t, KEY (c->logical, BTRFS_BLOCK_GROUP_ITEM, c->length),
           sizeof *bg);

    bg->used = le64_make (c->run_len);
    bg->chunk_objectid = le64_make (BTRFS_FIRST_CHUNK_TREE_OBJECTID);
    bg->flags = le64_make (c->type);
  }
}

/* Superblock copies inside a block group are not left out of the tree; who
 * loads it leaves them out.
 */
static void
fill_free_space (const struct mkfs_params *p, struct mkfs_tree *t)
{
  for (unsigned i = 0; i < p->num_chunks; i++) {
    const struct mkfs_chunk *c = &p->chunks[i];
    const uint64_t end = c->logical + c->length;
    const uint64_t run_end = c->run_start + c->run_len;
    struct btrfs_free_space_info *info =
      add (t, KEY (c->logical, BTRFS_FREE_SPACE_INFO, c->length),
           sizeof *info);
    uint32_t count = 0;

    if (c->run_start > c->logical) {
      add (t, KEY (c->logical, BTRFS_FREE_SPACE_EXTENT,
                   c->run_start - c->logical), 0);
      count++;
    }
    if (run_end < end) {
      add (t, KEY (run_end, BTRFS_FREE_SPACE_EXTENT, end - run_end), 0);
      count++;
    }
    info->extent_count = le32_make (count);
  }
}

static void
fill_chunk_tree (const struct mkfs_params *p, struct mkfs_tree *t)
{
  mkfs_dev_item (p, add (t, KEY (BTRFS_DEV_ITEMS_OBJECTID, BTRFS_DEV_ITEM,
                                 MKFS_DEVID),
                         sizeof (struct btrfs_dev_item)));
  for (unsigned i = 0; i < p->num_chunks; i++) {
    uint8_t item[MKFS_CHUNK_ITEM_MAX];
    const uint32_t size = mkfs_chunk_item (p, i, item);

    memcpy (add (t, KEY (BTRFS_FIRST_CHUNK_TREE_OBJECTID, BTRFS_CHUNK_ITEM,
                         p->chunks[i].logical), size), item, size);
  }
}

static void
fill_dev_tree (const struct mkfs_params *p, struct mkfs_tree *t)
{
  add (t, KEY (BTRFS_DEV_STATS_OBJECTID, BTRFS_PERSISTENT_ITEM, MKFS_DEVID),
       sizeof (struct btrfs_dev_stats));
  for (unsigned i = 0; i < p->num_chunks; i++)
    for (unsigned k = 0; k < p->chunks[i].copies; k++) {
      const struct mkfs_chunk *c = &p->chunks[i];
      struct btrfs_dev_extent *de =
        add (t, KEY (MKFS_DEVID, BTRFS_DEV_EXTENT, c->phys[k]), sizeof *de);

      de->chunk_tree = le64_make (BTRFS_CHUNK_TREE);
      de->chunk_objectid = le64_make (BTRFS_FIRST_CHUNK_TREE_OBJECTID);
      de->chunk_offset = le64_make (c->logical);
      de->length = le64_make (c->length);
      memcpy (de->chunk_tree_uuid, p->chunk_tree_uuid, BTRFS_UUID_SIZE);
    }
}

/* Key of a UUID: its two halves as little-endian numbers. */
static void
fill_uuid_tree (const struct mkfs_params *p, struct mkfs_tree *t)
{
  le64 half[2], *id;

  memcpy (half, p->fs_tree_uuid, sizeof half);
  id = add (t, KEY (le64_get (half[0]), BTRFS_UUID_SUBVOL,
                    le64_get (half[1])), sizeof *id);
  *id = le64_make (BTRFS_FS_TREE);
}

/* --- placing --- */

/* The start of RUN_LEN bytes in C no copy of which touches the 64 KiB that
 * surround a superblock copy.
 */
static int
find_run (struct mkfs_chunk *c)
{
  uint64_t start = 0;
  bool moved = true;

  while (moved) {
    moved = false;
    for (unsigned k = 0; k < c->copies; k++)
      for (unsigned s = 0; s < BTRFS_SUPER_COPIES; s++) {
        const uint64_t super = super_offset (s);
        const uint64_t phys = c->phys[k] + start;

        if (phys < super + BTRFS_STRIPE_LEN && super < phys + c->run_len) {
          start = super + BTRFS_STRIPE_LEN - c->phys[k];
          moved = true;
        }
      }
    if (start + c->run_len > c->length)
      return err_new (ERR_too_small, "no room for the first tree blocks");
  }
  c->run_start = c->logical + start;
  return 0;
}

static int
place (struct mkfs_params *p, struct mkfs_trees *trees)
{
  int r;

  for (unsigned i = 0; i < p->num_chunks; i++) {
    struct mkfs_chunk *c = &p->chunks[i];
    uint64_t bytenr;

    c->run_start = c->logical;
    c->run_len = 0;
    for (unsigned k = 0; k < T_COUNT; k++)
      if (trees->t[k].id != 0 && trees->t[k].chunk == i)
        c->run_len += (uint64_t) trees->t[k].blocks * p->nodesize;
    if (c->run_len == 0)
      continue;
    r = find_run (c);
    if (r < 0)
      return r;
    bytenr = c->run_start;
    for (unsigned k = 0; k < T_COUNT; k++)
      if (trees->t[k].id != 0 && trees->t[k].chunk == i) {
        trees->t[k].bytenr = bytenr;
        bytenr += (uint64_t) trees->t[k].blocks * p->nodesize;
      }
  }
  return 0;
}

static void
fill (const struct mkfs_params *p, struct mkfs_trees *trees)
{
  for (unsigned i = 0; i < T_COUNT; i++)
    trees->t[i].nitems = trees->t[i].used = 0;

  fill_chunk_tree (p, &trees->t[T_CHUNK]);
  fill_dev_tree (p, &trees->t[T_DEV]);
  fill_top_dir (p, &trees->t[T_FS]);
  fill_top_dir (p, &trees->t[T_RELOC]);
  fill_uuid_tree (p, &trees->t[T_UUID]);
  if (trees->t[T_FST].id != 0)
    fill_free_space (p, &trees->t[T_FST]);
  fill_block_groups (p, trees);
  fill_root_tree (p, trees);
  for (unsigned i = 0; i < T_COUNT; i++)
    for (unsigned k = 0; trees->t[i].id != 0 && k < trees->t[i].blocks; k++)
      add_extent_item (p, &trees->t[T_EXTENT], &trees->t[i], k);
}

static bool
in_pool (const struct mkfs_params *p, unsigned tree)
{
  if (tree == T_FST)
    return p->compat_ro & BTRFS_COMPAT_RO_FREE_SPACE_TREE;
  if (tree == T_BGT)
    return p->compat_ro & BTRFS_COMPAT_RO_BLOCK_GROUP_TREE;
  return true;
}

int
mkfs_trees_new (struct mkfs_params *p, struct mkfs_trees **ret)
{
  struct mkfs_trees *trees = calloc (1, sizeof *trees);
  bool stable = false;
  int r = 0;

  if (!trees)
    return err_new (ERR_nomem, "trees of a new pool");
  for (unsigned i = 0; i < T_COUNT; i++) {
    trees->t[i].id = in_pool (p, i) ? tree_ids[i] : 0;
    trees->t[i].chunk = i == T_CHUNK ? 0 : 1;
    trees->t[i].leaves = trees->t[i].blocks = 1;
  }
  for (unsigned round = 0; !stable && round < ROUNDS_MAX; round++) {
    r = place (p, trees);
    if (r < 0)
      break;
    fill (p, trees);
    stable = true;
    for (unsigned i = 0; i < T_COUNT; i++) {
      const unsigned before = trees->t[i].blocks;

      pack (&trees->t[i], p->nodesize);
      if (trees->t[i].blocks != before)
        stable = false;
    }
    fill_first_keys (p, trees);
  }
  assert (r < 0 || stable);
  if (r < 0) {
    free (trees);
    return r;
  }
  *ret = trees;
  return 0;
}

void
mkfs_trees_free (struct mkfs_trees *trees)
{
  free (trees);
}

/* --- blocks --- */

static void
render_leaf (const struct mkfs_tree *t, unsigned leaf, uint32_t nodesize,
             uint8_t *block)
{
  for (unsigned i = t->leaf_first[leaf]; i < t->leaf_first[leaf + 1]; i++) {
    const struct mkfs_item *item = &t->items[i];
    void *data = tb_leaf_append (block, nodesize, item->key, item->size);

    assert (data);
    memcpy (data, t->arena + item->at, item->size);
  }
}

static void
render_node (const struct mkfs_tree *t, uint32_t nodesize, uint8_t *block)
{
  tb_header (block)->nritems = le32_make (t->leaves);
  for (unsigned i = 0; i < t->leaves; i++)
    *tb_ptr (block, i) = (struct btrfs_key_ptr) {
      .key = key_to_disk (block_first_key (t, i)),
      .blockptr = le64_make (t->bytenr + (uint64_t) i * nodesize),
      .generation = le64_make (MKFS_GENERATION),
    };
}

int
mkfs_trees_render (const struct mkfs_params *p,
                   const struct mkfs_trees *trees, mkfs_block_fn fn,
                   void *opaque)
{
  CLEANUP_FREE uint8_t *block = malloc (p->nodesize);

  if (!block)
    return err_new (ERR_nomem, "tree block");
  for (unsigned i = 0; i < T_COUNT; i++) {
    const struct mkfs_tree *t = &trees->t[i];

    for (unsigned k = 0; t->id != 0 && k < t->blocks; k++) {
      const struct tb_ident ident = {
        .fsid = p->fsid,
        .chunk_tree_uuid = p->chunk_tree_uuid,
        .bytenr = t->bytenr + (uint64_t) k * p->nodesize,
        .generation = MKFS_GENERATION,
        .owner = t->id,
        .level = k < t->leaves ? 0 : 1,
      };
      struct btrfs_header *h = tb_header (block);
      int r;

      tb_init (block, p->nodesize, &ident);
      h->flags = le64_make (le64_get (h->flags) | BTRFS_HEADER_FLAG_WRITTEN);
      if (k < t->leaves)
        render_leaf (t, k, p->nodesize, block);
      else
        render_node (t, p->nodesize, block);
      tb_set_csum (block, p->nodesize, p->csum_type);
      r = fn (opaque, &p->chunks[t->chunk], ident.bytenr, block);
      if (r < 0)
        return r;
    }
  }
  return 0;
}

struct mkfs_root
mkfs_trees_root (const struct mkfs_trees *trees, const struct mkfs_params *p,
                 uint64_t id)
{
  for (unsigned i = 0; i < T_COUNT; i++)
    if (trees->t[i].id == id)
      return (struct mkfs_root) {
        .bytenr = tree_root_bytenr (&trees->t[i], p->nodesize),
        .level = tree_level (&trees->t[i]),
      };
  assert (!"a tree of the new pool");
  return (struct mkfs_root) { 0 };
}
