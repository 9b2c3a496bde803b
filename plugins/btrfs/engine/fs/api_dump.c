/* The public API: print trees, block by block.
 *
 * The form follows `btrfs inspect-internal dump-tree`, so that the two can be
 * compared.
 */
#include <config.h>

#include <string.h>
#include <uuid/uuid.h>

#include "format/tree_block.h"
#include "fs/api_dump.h"
#include "fs/api_priv.h"

static void
dump_header (const struct format_info *format, const void *buf, FILE *fp)
{
  const struct btrfs_header *h = tb_header_c (buf);
  uint32_t nr = tb_nritems (buf), room;
  char owner[TREE_STR_MAX], fsid[37], chunk_uuid[37];
  const char *kind = tb_level (buf) == 0 ? "leaf" : "node";

  room = tb_level (buf) == 0 ? tb_leaf_free (buf, format->nodesize)
    : tb_node_max_ptrs (format->nodesize) - nr;
  fprintf (fp, "%s %llu ", kind, (unsigned long long) tb_bytenr (buf));
  if (tb_level (buf) > 0)
    fprintf (fp, "level %u ", tb_level (buf));
  fprintf (fp, "items %u free space %u generation %llu owner %s\n", nr, room,
           (unsigned long long) tb_generation (buf),
           tree_str (tb_owner (buf), owner));
  fprintf (fp, "%s %llu flags 0x%llx(%s%s) backref revision %llu\n", kind,
           (unsigned long long) tb_bytenr (buf),
           (unsigned long long) (tb_flags (buf) & 0xffffffffffffff),
           tb_flags (buf) & BTRFS_HEADER_FLAG_WRITTEN ? "WRITTEN" : "",
           tb_flags (buf) & BTRFS_HEADER_FLAG_RELOC ? "|RELOC" : "",
           (unsigned long long)
           (tb_flags (buf) >> BTRFS_HEADER_BACKREF_REV_SHIFT));
  uuid_unparse_lower (h->fsid, fsid);
  uuid_unparse_lower (h->chunk_tree_uuid, chunk_uuid);
  fprintf (fp, "fs uuid %s\nchunk uuid %s\n", fsid, chunk_uuid);
}

static void
dump_leaf (const struct format_info *format, const void *buf, FILE *fp)
{
  char key[KEY_STR_MAX];
  uint32_t i;

  for (i = 0; i < tb_nritems (buf); i++) {
    fprintf (fp, "\titem %u key %s itemoff %u itemsize %u\n", i,
             key_str (tb_item_key (buf, i), key),
             le32_get (tb_item_c (buf, i)->offset), tb_item_size (buf, i));
    dump_item (format, tb_item_key (buf, i), tb_item_data_c (buf, i),
               tb_item_size (buf, i), fp);
  }
}

static void
dump_node (const void *buf, FILE *fp)
{
  char key[KEY_STR_MAX];
  uint32_t i;

  for (i = 0; i < tb_nritems (buf); i++)
    fprintf (fp, "\tkey %s block %llu gen %llu\n",
             key_str (tb_key (buf, i), key),
             (unsigned long long) le64_get (tb_ptr_c (buf, i)->blockptr),
             (unsigned long long) le64_get (tb_ptr_c (buf, i)->generation));
}

static void
dump_block (const struct format_info *format, const void *buf, FILE *fp)
{
  dump_header (format, buf, fp);
  if (tb_level (buf) == 0)
    dump_leaf (format, buf, fp);
  else
    dump_node (buf, fp);
}

/* BUF and everything below it, parents first.  A child is one level lower
 * than its parent, or reading it fails: the recursion ends.
 */
static int
dump_below (struct block_cache *cache, const struct block *b, uint64_t id,
            FILE *fp)
{
  const struct format_info *format = block_cache_format (cache);
  uint32_t i;
  int r;

  dump_block (format, b->data, fp);
  if (tb_level (b->data) == 0)
    return 0;
  for (i = 0; i < tb_nritems (b->data); i++) {
    struct tree_expect expect = tree_expect_child (b->data, i, id);
    CLEANUP_BLOCK_PUT struct block *child = NULL;

    r = block_read (cache, &expect, &child);
    if (r < 0) {
      /* The rest may be readable. */
      fprintf (fp, "ERROR: block %llu: %s\n",
               (unsigned long long) expect.bytenr, err_text (r));
      continue;
    }
    r = dump_below (cache, child, id, fp);
    if (r < 0)
      return r;
  }
  return ferror (fp) ? err_new (ERR_invalid, "cannot write the output") : 0;
}

static int
dump_root (struct btrnbd_pool *p, uint64_t id, FILE *fp)
{
  struct root *root = NULL;
  char name[TREE_STR_MAX];
  int r;

  r = roots_get (p->fs->roots, id, &root);
  if (r < 0)
    return r;
  fprintf (fp, "tree %s\n", tree_str (id, name));
  rwlock_rdlock (&root->tree->lock);
  r = dump_below (p->fs->cache, root->tree->root, id, fp);
  rwlock_unlock (&root->tree->lock);
  roots_put (p->fs->roots, root);
  return r;
}

/* The id of the first tree with a root item above ID. */
static int
next_tree (struct btrnbd_pool *p, uint64_t id, uint64_t *ret_id,
           bool *ret_found)
{
  struct root *root = roots_pool_tree (p->fs->roots, BTRFS_ROOT_TREE);
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  int r;

  *ret_found = false;
  if (root == NULL)
    return err_new (ERR_invalid, "no root tree");
  rwlock_rdlock (&root->tree->lock);
  r = tree_find (root->tree, KEY (id + 1, 0, 0), &c, NULL);
  while (r == 0 && cursor_at_item (&c)) {
    if (cursor_key (&c).type == BTRFS_ROOT_ITEM) {
      *ret_id = cursor_key (&c).objectid;
      *ret_found = true;
      break;
    }
    r = cursor_next (&c);
  }
  rwlock_unlock (&root->tree->lock);
  return r;
}

static int
dump_all (struct btrnbd_pool *p, FILE *fp)
{
  uint64_t id = 0;
  bool found = true;
  int r;

  r = dump_root (p, BTRFS_ROOT_TREE, fp);
  if (r == 0)
    r = dump_root (p, BTRFS_CHUNK_TREE, fp);
  while (r == 0 && found) {
    r = next_tree (p, id, &id, &found);
    if (r < 0 || !found)
      break;
    r = dump_root (p, id, fp);
    if (r < 0 && !ferror (fp)) {
      fprintf (fp, "ERROR: tree %llu: %s\n", (unsigned long long) id,
               err_text (r));
      r = 0;
    }
    if (id == UINT64_MAX)
      break;
  }
  return r;
}

int
btrnbd_dump_tree (struct btrnbd_pool *p, uint64_t id, uint64_t bytenr,
                  FILE *fp)
{
  struct tree_expect expect = { .bytenr = bytenr };
  CLEANUP_BLOCK_PUT struct block *b = NULL;
  int r;

  if (bytenr != 0) {
    r = block_read (p->fs->cache, &expect, &b);
    if (r < 0)
      return r;
    dump_block (block_cache_format (p->fs->cache), b->data, fp);
    return 0;
  }
  return id == 0 ? dump_all (p, fp) : dump_root (p, id, fp);
}
