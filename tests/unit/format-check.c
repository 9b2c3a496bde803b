/* format/check: for each kind of item one healthy leaf, and mutations that
 * the checker must refuse with the right code.
 */
#include "unit/test.h"

#include <sys/stat.h>

#include "base/err.h"
#include "base/math.h"
#include "format/check.h"
#include "format/names.h"
#include "format/tree_block.h"

#define NODESIZE 16384
#define GOOD_INCOMPAT                                                   \
  (BTRFS_INCOMPAT_MIXED_BACKREF | BTRFS_INCOMPAT_SKINNY_METADATA |      \
   BTRFS_INCOMPAT_NO_HOLES | BTRFS_INCOMPAT_EXTENDED_IREF)

static struct format_info info = { .nodesize = NODESIZE, .sectorsize = 4096,
  .csum_type = 0, .csum_size = 4, .incompat = GOOD_INCOMPAT };
static uint8_t leaf[NODESIZE], scratch[NODESIZE];
static const uint8_t uuid[16] = { 1, 2, 3 };

static void
begin (uint64_t owner)
{
  struct tb_ident id = { .fsid = uuid, .chunk_tree_uuid = uuid,
    .bytenr = 65536, .generation = 10, .owner = owner };

  tb_init (leaf, NODESIZE, &id);
}

static void *
add (struct key key, uint32_t size)
{
  void *p = tb_leaf_append (leaf, NODESIZE, key, size);

  assert_non_null (p);
  return p;
}

static void
healthy_at (int line)
{
  int r = tree_check_contents (&info, leaf);

  if (r < 0)
    print_error ("# line %d: %s\n", line, err_text (r));
  assert_int_equal (r, 0);
}
#define healthy() healthy_at (__LINE__)

static void
refused_at (int line, const void *buf, int code)
{
  int r = tree_check_contents (&info, buf);

  if (r != -code)
    print_error ("# line %d: got %s, expected %s\n", line,
                 r == 0 ? "no error" : btrnbd_error_name (r),
                 btrnbd_error_name (code));
  assert_int_equal (r, -code);
}

/* Overwrite bytes of the last item's data in a copy. */
static void
poke_at (int line, int code, size_t offset, size_t size, uint64_t value)
{
  le64 v = le64_make (value);
  uint8_t *data;

  memcpy (scratch, leaf, NODESIZE);
  data = tb_item_data (scratch, tb_nritems (scratch) - 1);
  memcpy (data + offset, &v, size);
  if (code != 0)
    refused_at (line, scratch, code);
  else
    assert_int_equal (tree_check_contents (&info, scratch), 0);
}
#define FIELD(type, field) offsetof (struct type, field),       \
    sizeof (((struct type *) 0)->field)
#define POKE(type, field, value)                                        \
  poke_at (__LINE__, ERR_item_format, FIELD (type, field), value)
#define POKE_CODE(code, type, field, value)                             \
  poke_at (__LINE__, code, FIELD (type, field), value)
#define POKE_OK(type, field, value)                     \
  poke_at (__LINE__, 0, FIELD (type, field), value)

/* Another key for the last item. */
static void
rekey_at (int line, struct key key)
{
  memcpy (scratch, leaf, NODESIZE);
  tb_item (scratch, tb_nritems (scratch) - 1)->key = key_to_disk (key);
  refused_at (line, scratch, ERR_item_format);
}
#define REKEY(o, t, f) rekey_at (__LINE__, KEY (o, t, f))

/* Give the last item another size; the data stays at the end. */
static void
resize_at (int line, int code, uint32_t size)
{
  struct btrfs_item *item;
  uint32_t old;

  memcpy (scratch, leaf, NODESIZE);
  item = tb_item (scratch, tb_nritems (scratch) - 1);
  old = le32_get (item->size);
  item->offset = le32_make (le32_get (item->offset) + old - size);
  item->size = le32_make (size);
  /* The head of the structure moves along. */
  memcpy (tb_item_data (scratch, tb_nritems (scratch) - 1),
          tb_item_data (leaf, tb_nritems (leaf) - 1), MIN (old, size));
  refused_at (line, scratch, code);
}
#define RESIZE(size) resize_at (__LINE__, ERR_item_format, size)

/* --- structure --- */

static void
put_root_items (unsigned n)
{
  begin (BTRFS_ROOT_TREE);
  for (unsigned i = 0; i < n; ++i)
    add (KEY (256 + i, BTRFS_ROOT_ITEM, 0), sizeof (struct btrfs_root_item));
}

static void
refused (int code)
{
  refused_at (0, leaf, code);
}

static void
leaf_structure (void **state)
{
  (void) state;
  put_root_items (3);
  healthy ();
  tb_item (leaf, 1)->key = tb_item (leaf, 0)->key;
  refused (ERR_leaf_format);
  put_root_items (3);
  tb_item (leaf, 1)->offset = le32_make (5000);
  refused (ERR_leaf_format);
  put_root_items (3);
  tb_item (leaf, 1)->size = le32_make (440);
  refused (ERR_leaf_format);
  put_root_items (3);
  tb_item (leaf, 0)->size = le32_make (UINT32_MAX);
  refused (ERR_leaf_format);
  put_root_items (3);
  tb_header (leaf)->nritems = le32_make (4);
  refused (ERR_leaf_format);
  tb_header (leaf)->nritems = le32_make (UINT32_MAX);
  refused (ERR_leaf_format);
  tb_header (leaf)->level = 8;
  refused (ERR_block_header);
  put_root_items (0);
  refused (ERR_leaf_format);
  begin (0);
  refused (ERR_leaf_format);
  begin (BTRFS_CSUM_TREE);
  healthy ();
  begin (257);
  healthy ();
}

/* Data that runs into the item array. */
static void
leaf_too_full (void **state)
{
  struct btrfs_item *item;
  uint32_t end = tb_leaf_data_size (NODESIZE);

  (void) state;
  begin (BTRFS_UUID_TREE);
  for (unsigned i = 0; i < 2; ++i) {
    item = tb_item (leaf, i);
    item->key = key_to_disk (KEY (i, BTRFS_UUID_SUBVOL, 0));
    item->size = le32_make (i == 0 ? 8 : end - 49);
    end -= le32_get (item->size);
    item->offset = le32_make (end);
  }
  tb_header (leaf)->nritems = le32_make (2);
  refused (ERR_leaf_format);
}

static void
node_structure (void **state)
{
  struct btrfs_key_ptr *p;

  (void) state;
  begin (BTRFS_FS_TREE);
  tb_header (leaf)->level = 1;
  refused (ERR_node_format);
  tb_header (leaf)->nritems = le32_make (tb_node_max_ptrs (NODESIZE));
  for (unsigned i = 0; i < tb_node_max_ptrs (NODESIZE); ++i) {
    p = tb_ptr (leaf, i);
    p->key = key_to_disk (KEY (256, BTRFS_EXTENT_DATA, i * 4096));
    p->blockptr = le64_make (4096 * (i + 1));
    p->generation = le64_make (9);
  }
  healthy ();
  tb_header (leaf)->nritems = le32_make (tb_node_max_ptrs (NODESIZE) + 1);
  refused (ERR_node_format);
  tb_header (leaf)->nritems = le32_make (10);
  healthy ();
  tb_ptr (leaf, 3)->blockptr = le64_make (0);
  refused (ERR_node_format);
  tb_ptr (leaf, 3)->blockptr = le64_make (4097);
  refused (ERR_node_format);
  tb_ptr (leaf, 3)->blockptr = le64_make (4096);
  healthy ();
  tb_ptr (leaf, 3)->key = tb_ptr (leaf, 4)->key;
  refused (ERR_node_format);
}

static void
block_against_pointer (void **state)
{
  struct tree_expect e = { .bytenr = 65536, .generation = 10, .owner = 1,
    .max_generation = 10, .first_key = KEY (256, BTRFS_ROOT_ITEM, 0),
    .has_first_key = true, .has_level = true };
  struct tree_expect x;

  (void) state;
  memcpy (info.metadata_uuid, uuid, 16);
  put_root_items (2);
  tb_set_csum (leaf, NODESIZE, 0);
  assert_int_equal (tree_check_block (&info, leaf, &e), 0);

  x = e, x.bytenr += 4096;
  assert_int_equal (tree_check_block (&info, leaf, &x), -ERR_block_header);
  x = e, x.generation = 9;
  assert_int_equal (tree_check_block (&info, leaf, &x), -ERR_block_parent);
  x = e, x.max_generation = 8;
  assert_int_equal (tree_check_block (&info, leaf, &x), -ERR_block_header);
  x = e, x.owner = 2;
  assert_int_equal (tree_check_block (&info, leaf, &x), -ERR_block_parent);
  x = e, x.owner = 257;
  assert_int_equal (tree_check_block (&info, leaf, &x), -ERR_block_parent);
  x = e, x.owner = BTRFS_TREE_RELOC;
  assert_int_equal (tree_check_block (&info, leaf, &x), 0);
  x = e, x.level = 1;
  assert_int_equal (tree_check_block (&info, leaf, &x), -ERR_block_parent);
  x = e, x.first_key.objectid = 255;
  assert_int_equal (tree_check_block (&info, leaf, &x), -ERR_block_parent);
  x = (struct tree_expect) { .bytenr = 65536 };
  assert_int_equal (tree_check_block (&info, leaf, &x), 0);

  info.metadata_uuid[5] ^= 1;
  assert_int_equal (tree_check_block (&info, leaf, &e), -ERR_block_header);
  info.metadata_uuid[5] ^= 1;
  leaf[NODESIZE - 1] ^= 1;
  assert_int_equal (tree_check_block (&info, leaf, &e), -ERR_block_csum);
  leaf[NODESIZE - 1] ^= 1;

  /* Snapshots share blocks: any subvolume may be the owner. */
  begin (300);
  tb_set_csum (leaf, NODESIZE, 0);
  x = (struct tree_expect) { .bytenr = 65536, .owner = 257 };
  assert_int_equal (tree_check_block (&info, leaf, &x), 0);
  x.owner = 5;
  assert_int_equal (tree_check_block (&info, leaf, &x), 0);
  x.has_first_key = true;
  assert_int_equal (tree_check_block (&info, leaf, &x), -ERR_block_parent);
}

/* --- inodes --- */

static void
inode_item (void **state)
{
  struct btrfs_inode_item *i;

  (void) state;
  begin (5);
  i = add (KEY (257, BTRFS_INODE_ITEM, 0), sizeof *i);
  i->mode = le32_make (S_IFREG | 0644);
  i->nlink = le32_make (7);
  i->flags = le64_make (BTRFS_INODE_NODATACOW | BTRFS_INODE_NODATASUM |
                        BTRFS_INODE_ROOT_ITEM_INIT);
  healthy ();
  REKEY (255, BTRFS_INODE_ITEM, 0);
  REKEY ((uint64_t) -255, BTRFS_INODE_ITEM, 0);
  REKEY (257, BTRFS_INODE_ITEM, 1);
  RESIZE (159);
  RESIZE (161);
  POKE (btrfs_inode_item, mode, 0644);
  POKE (btrfs_inode_item, mode, S_IFREG | 0200000);
  POKE (btrfs_inode_item, mode, 0130000);
  POKE (btrfs_inode_item, mode, S_IFDIR | 0755); /* with 7 links */
  POKE_OK (btrfs_inode_item, mode, S_IFLNK | 0777);
  POKE_OK (btrfs_inode_item, mode, S_IFSOCK | 07755);
  POKE (btrfs_inode_item, flags, UINT64_C (1) << 12);
  POKE (btrfs_inode_item, flags, UINT64_C (1) << 33);
  POKE (btrfs_inode_item, size, UINT64_C (1) << 63);
}

static void
inode_ref (void **state)
{
  struct btrfs_inode_ref *r;
  struct btrfs_inode_item *i;

  (void) state;
  begin (5);
  i = add (KEY (257, BTRFS_INODE_ITEM, 0), sizeof *i);
  i->mode = le32_make (S_IFREG);
  r = add (KEY (257, BTRFS_INODE_REF, 256), 2 * sizeof *r + 9);
  r->name_len = le16_make (4);
  r = (void *) ((uint8_t *) (r + 1) + 4);
  r->name_len = le16_make (5);
  healthy ();
  POKE (btrfs_inode_ref, name_len, 3);
  POKE (btrfs_inode_ref, name_len, 0);
  POKE (btrfs_inode_ref, name_len, 400);
  POKE (btrfs_inode_ref, name_len, 65535);
  RESIZE (sizeof *r + 3);
  RESIZE (0);
  REKEY (258, BTRFS_INODE_REF, 256);
}

static void
inode_extref (void **state)
{
  struct btrfs_inode_extref *r;

  (void) state;
  begin (257);
  r = add (KEY (257, BTRFS_INODE_EXTREF, 77), sizeof *r + 9);
  r->name_len = le16_make (9);
  healthy ();
  POKE (btrfs_inode_extref, name_len, 10);
  POKE (btrfs_inode_extref, name_len, 8);
  POKE (btrfs_inode_extref, name_len, 0);
  RESIZE (sizeof *r - 1);
}

static struct btrfs_dir_item *
add_dir_item (uint8_t type, const char *name, uint16_t data_len)
{
  size_t len = strlen (name);
  struct btrfs_dir_item *d;

  d = add (KEY (256, type, type == BTRFS_DIR_INDEX ? 2
                : name_hash (name, len)), sizeof *d + len + data_len);
  d->name_len = le16_make (len);
  d->data_len = le16_make (data_len);
  memcpy (d + 1, name, len);
  if (type == BTRFS_XATTR_ITEM) {
    d->type = BTRFS_FT_XATTR;
  }
  else {
    d->type = BTRFS_FT_REG_FILE;
    d->location = key_to_disk (KEY (257, BTRFS_INODE_ITEM, 0));
  }
  return d;
}

static void
dir_item (void **state)
{
  struct btrfs_dir_item *d;

  (void) state;
  begin (5);
  d = add_dir_item (BTRFS_DIR_ITEM, "name", 0);
  healthy ();
  REKEY (256, BTRFS_DIR_ITEM, 5);
  POKE (btrfs_dir_item, type, 0);
  POKE (btrfs_dir_item, type, BTRFS_FT_XATTR);
  POKE (btrfs_dir_item, type, BTRFS_FT_MAX);
  POKE (btrfs_dir_item, data_len, 1);
  POKE (btrfs_dir_item, name_len, 3);
  POKE (btrfs_dir_item, name_len, 5);
  POKE (btrfs_dir_item, name_len, 0);
  POKE (btrfs_dir_item, location.objectid, 1);
  POKE (btrfs_dir_item, location.offset, 1);
  POKE (btrfs_dir_item, location.type, BTRFS_EXTENT_DATA);
  POKE_OK (btrfs_dir_item, location.type, BTRFS_ROOT_ITEM);
  RESIZE (sizeof *d);
  RESIZE (0);
  memcpy (scratch, leaf, NODESIZE);
  ++((uint8_t *) tb_item_data (scratch, 0))[sizeof *d];
  refused_at (__LINE__, scratch, ERR_item_format);

  begin (5);
  d = add_dir_item (BTRFS_DIR_INDEX, "name", 0);
  healthy ();
  POKE (btrfs_dir_item, name_len, 256);
  d->location = key_to_disk (KEY (300, BTRFS_ROOT_ITEM, UINT64_MAX));
  healthy ();
  d->location = key_to_disk (KEY (7, BTRFS_ROOT_ITEM, UINT64_MAX));
  refused (ERR_item_format);

  begin (5);
  d = add_dir_item (BTRFS_XATTR_ITEM, "user.x", 100);
  healthy ();
  POKE (btrfs_dir_item, type, BTRFS_FT_REG_FILE);
  POKE (btrfs_dir_item, data_len, 101);
  POKE (btrfs_dir_item, data_len, 99);
  POKE (btrfs_dir_item, location.type, BTRFS_INODE_ITEM);
}

static void
log_and_orphans (void **state)
{
  (void) state;
  begin (BTRFS_TREE_LOG);
  add (KEY (256, BTRFS_DIR_LOG_INDEX, 2), 8);
  healthy ();
  RESIZE (7);
  begin (5);
  add (KEY (BTRFS_ORPHAN_OBJECTID, BTRFS_ORPHAN_ITEM, 300), 0);
  healthy ();
  RESIZE (1);
  REKEY (300, BTRFS_ORPHAN_ITEM, 300);
}

/* --- file extents, checksums --- */

static struct btrfs_file_extent *
add_extent (uint64_t start, uint64_t len)
{
  struct btrfs_file_extent *f;

  f = add (KEY (257, BTRFS_EXTENT_DATA, start), sizeof *f);
  f->type = BTRFS_FILE_EXTENT_REG;
  f->generation = le64_make (7);
  f->ram_bytes = f->num_bytes = f->disk_num_bytes = le64_make (len);
  f->disk_bytenr = le64_make (1 << 20);
  return f;
}

static void
file_extent (void **state)
{
  struct btrfs_file_extent *f;

  (void) state;
  begin (5);
  add_extent (0, 8192);
  f = add_extent (8192, 65536);
  healthy ();
  POKE (btrfs_file_extent, type, 3);
  POKE (btrfs_file_extent, type, BTRFS_FILE_EXTENT_INLINE);
  POKE (btrfs_file_extent, compression, 4);
  POKE (btrfs_file_extent, encryption, 1);
  POKE (btrfs_file_extent, ram_bytes, 65537);
  POKE (btrfs_file_extent, num_bytes, 65000);
  POKE (btrfs_file_extent, num_bytes, 0);
  POKE (btrfs_file_extent, num_bytes, 69632);
  POKE (btrfs_file_extent, num_bytes, (uint64_t) -4096);
  POKE (btrfs_file_extent, offset, 4096);
  POKE (btrfs_file_extent, offset, 1);
  POKE (btrfs_file_extent, disk_bytenr, 5);
  POKE (btrfs_file_extent, disk_bytenr, (uint64_t) -4096);
  POKE (btrfs_file_extent, disk_num_bytes, 0);
  POKE (btrfs_file_extent, disk_num_bytes, 4096);
  POKE (btrfs_file_extent, disk_num_bytes, 100);
  POKE_OK (btrfs_file_extent, ram_bytes, 4096); /* old kernels */
  POKE_OK (btrfs_file_extent, disk_bytenr, 0);  /* a hole */
  POKE_OK (btrfs_file_extent, type, BTRFS_FILE_EXTENT_PREALLOC);
  RESIZE (52);
  RESIZE (20);
  REKEY (257, BTRFS_EXTENT_DATA, 4096 + 1);
  REKEY (257, BTRFS_EXTENT_DATA, 4096); /* overlaps */
  REKEY (258, BTRFS_EXTENT_DATA, 8192);
  f->type = BTRFS_FILE_EXTENT_PREALLOC;
  POKE (btrfs_file_extent, compression, BTRFS_COMPRESS_ZSTD);

  begin (5);
  f = add_extent (0, 131072);
  f->compression = BTRFS_COMPRESS_ZSTD;
  f->disk_num_bytes = le64_make (4096);
  healthy ();
  POKE (btrfs_file_extent, ram_bytes, 65536);
  POKE (btrfs_file_extent, ram_bytes, 262144);
  POKE (btrfs_file_extent, disk_num_bytes, 262144);
}

static void
inline_extent (void **state)
{
  struct btrfs_file_extent *f;

  (void) state;
  begin (5);
  f = add (KEY (257, BTRFS_EXTENT_DATA, 0), 121);
  f->ram_bytes = le64_make (100);
  healthy ();
  POKE (btrfs_file_extent, ram_bytes, 99);
  POKE (btrfs_file_extent, ram_bytes, UINT64_MAX);
  RESIZE (120);
  REKEY (257, BTRFS_EXTENT_DATA, 4096);
  f->compression = BTRFS_COMPRESS_ZLIB;
  f->ram_bytes = le64_make (2000);
  healthy ();
  POKE (btrfs_file_extent, ram_bytes, 1 << 20);
}

static void
csum_item (void **state)
{
  (void) state;
  begin (BTRFS_CSUM_TREE);
  add (KEY (BTRFS_EXTENT_CSUM_OBJECTID, BTRFS_EXTENT_CSUM, 8192), 16);
  add (KEY (BTRFS_EXTENT_CSUM_OBJECTID, BTRFS_EXTENT_CSUM, 24576), 16);
  healthy ();
  RESIZE (15);
  RESIZE (0);
  REKEY (BTRFS_EXTENT_CSUM_OBJECTID, BTRFS_EXTENT_CSUM, 24577);
  REKEY (BTRFS_EXTENT_CSUM_OBJECTID, BTRFS_EXTENT_CSUM, 20480);
  REKEY (BTRFS_EXTENT_CSUM_OBJECTID, BTRFS_EXTENT_CSUM, (uint64_t) -4096);
  REKEY ((uint64_t) -9, BTRFS_EXTENT_CSUM, 24576);
}

/* --- roots --- */

static void
root_item (void **state)
{
  struct btrfs_root_item *r;
  struct btrfs_root_ref *ref;

  (void) state;
  begin (BTRFS_ROOT_TREE);
  r = add (KEY (257, BTRFS_ROOT_ITEM, 0), sizeof *r);
  r->bytenr = le64_make (4096);
  healthy ();
  POKE (btrfs_root_item, bytenr, 4097);
  POKE (btrfs_root_item, level, 8);
  POKE (btrfs_root_item, drop_level, 8);
  POKE (btrfs_root_item, flags, 2);
  POKE (btrfs_root_item, drop_progress.objectid, 256);
  POKE_OK (btrfs_root_item, flags,
           BTRFS_ROOT_SUBVOL_RDONLY | BTRFS_ROOT_SUBVOL_DEAD);
  RESIZE (438);
  RESIZE (238);
  RESIZE (0);
  REKEY (0, BTRFS_ROOT_ITEM, 0);
  REKEY (BTRFS_TREE_RELOC, BTRFS_ROOT_ITEM, 0);
  begin (BTRFS_ROOT_TREE);
  add (KEY (257, BTRFS_ROOT_ITEM, 0), BTRFS_ROOT_ITEM_SIZE_V0);
  healthy ();

  begin (BTRFS_ROOT_TREE);
  ref = add (KEY (5, BTRFS_ROOT_REF, 257), sizeof *ref + 3);
  ref->name_len = le16_make (3);
  healthy ();
  POKE (btrfs_root_ref, name_len, 2);
  POKE (btrfs_root_ref, name_len, 4);
  POKE (btrfs_root_ref, name_len, 0);
  RESIZE (17);
  begin (BTRFS_UUID_TREE);
  add (KEY (5, BTRFS_UUID_SUBVOL, 257), 16);
  healthy ();
  RESIZE (15);
  RESIZE (0);
}

/* Generations above that of the superblock plus one (a log). */
static void
generations (void **state)
{
  struct tree_expect e = { .bytenr = 65536, .max_generation = 10 };
  struct btrfs_root_item *r;
  struct btrfs_inode_item *i;
  struct btrfs_extent_item *x;

  (void) state;
  memcpy (info.metadata_uuid, uuid, 16);
  begin (BTRFS_ROOT_TREE);
  r = add (KEY (257, BTRFS_ROOT_ITEM, 0), sizeof *r);
  r->generation = le64_make (11);
  tb_set_csum (leaf, NODESIZE, 0);
  assert_int_equal (tree_check_block (&info, leaf, &e), 0);
  r->generation = le64_make (12);
  tb_set_csum (leaf, NODESIZE, 0);
  assert_int_equal (tree_check_block (&info, leaf, &e), -ERR_item_format);
  r->generation = le64_make (1);
  r->last_snapshot = le64_make (12);
  tb_set_csum (leaf, NODESIZE, 0);
  assert_int_equal (tree_check_block (&info, leaf, &e), -ERR_item_format);
  begin (5);
  i = add (KEY (257, BTRFS_INODE_ITEM, 0), sizeof *i);
  i->mode = le32_make (S_IFREG);
  i->transid = le64_make (12);
  tb_set_csum (leaf, NODESIZE, 0);
  assert_int_equal (tree_check_block (&info, leaf, &e), -ERR_item_format);
  begin (2);
  x = add (KEY (1 << 20, BTRFS_METADATA_ITEM, 0), sizeof *x);
  x->refs = le64_make (1);
  x->flags = le64_make (BTRFS_EXTENT_FLAG_TREE_BLOCK);
  x->generation = le64_make (12);
  tb_set_csum (leaf, NODESIZE, 0);
  assert_int_equal (tree_check_block (&info, leaf, &e), -ERR_item_format);
}

/* --- extents --- */

static uint8_t *
add_tree_ref (uint8_t *p, uint8_t type, uint64_t value)
{
  struct btrfs_extent_inline_ref *r = (void *) p;

  r->type = type;
  r->offset = le64_make (value);
  return p + sizeof *r;
}

static void
metadata_item (void **state)
{
  struct btrfs_extent_item *e;
  uint8_t *p;

  (void) state;
  begin (2);
  e = add (KEY (1 << 20, BTRFS_METADATA_ITEM, 0), sizeof *e);
  e->refs = le64_make (1);
  e->flags = le64_make (BTRFS_EXTENT_FLAG_TREE_BLOCK);
  e = add (KEY ((1 << 20) + NODESIZE, BTRFS_METADATA_ITEM, 1),
           sizeof *e + 27);
  e->refs = le64_make (3);
  e->flags = le64_make (BTRFS_EXTENT_FLAG_TREE_BLOCK |
                        BTRFS_EXTENT_FLAG_FULL_BACKREF);
  p = add_tree_ref ((void *) (e + 1), BTRFS_TREE_BLOCK_REF, 259);
  p = add_tree_ref (p, BTRFS_TREE_BLOCK_REF, 258);
  add_tree_ref (p, BTRFS_SHARED_BLOCK_REF, 4096);
  healthy ();
  POKE (btrfs_extent_item, refs, 2);
  POKE (btrfs_extent_item, refs, 0);
  POKE_OK (btrfs_extent_item, refs, 100);
  POKE (btrfs_extent_item, flags, 0);
  POKE (btrfs_extent_item, flags, 3);
  POKE (btrfs_extent_item, flags, 1);
  POKE (btrfs_extent_item, flags, 6);
  REKEY ((1 << 20) + NODESIZE + 1, BTRFS_METADATA_ITEM, 1);
  REKEY ((1 << 20) + NODESIZE, BTRFS_METADATA_ITEM, 8);
  REKEY ((1 << 20) + 4096, BTRFS_METADATA_ITEM, 1);
  RESIZE (23);
  RESIZE (24 + 26);
  poke_at (__LINE__, ERR_item_format, 24 + 1, 8, 257); /* order */
  poke_at (__LINE__, ERR_item_format, 24, 1, BTRFS_SHARED_BLOCK_REF);
  poke_at (__LINE__, ERR_item_format, 24, 1, BTRFS_SHARED_DATA_REF);
  poke_at (__LINE__, ERR_item_format, 24, 1, 0);
  poke_at (__LINE__, ERR_item_format, 24 + 19, 8, 4097);
  info.incompat &= ~BTRFS_INCOMPAT_SKINNY_METADATA;
  refused (ERR_item_format);
  info.incompat = GOOD_INCOMPAT;
}

static void
old_tree_extent (void **state)
{
  struct btrfs_extent_item *e;
  struct btrfs_tree_block_info *t;

  (void) state;
  begin (2);
  e = add (KEY (1 << 20, BTRFS_EXTENT_ITEM, NODESIZE),
           sizeof *e + sizeof *t + 9);
  e->refs = le64_make (1);
  e->flags = le64_make (BTRFS_EXTENT_FLAG_TREE_BLOCK);
  t = (void *) (e + 1);
  add_tree_ref ((void *) (t + 1), BTRFS_TREE_BLOCK_REF, 5);
  healthy ();
  t->level = 8;
  refused (ERR_item_format);
  t->level = 7;
  healthy ();
  REKEY (1 << 20, BTRFS_EXTENT_ITEM, 2 * NODESIZE);
  RESIZE (sizeof *e + 17);
  RESIZE (sizeof *e + sizeof *t + 8);
}

static void
data_extent (void **state)
{
  struct btrfs_extent_item *e;
  struct btrfs_extent_data_ref *d;
  uint8_t *p;
  const size_t at = sizeof *e + 1;

  (void) state;
  begin (2);
  e = add (KEY (1 << 20, BTRFS_EXTENT_ITEM, 8192),
           sizeof *e + 1 + sizeof *d + 1 + 8 + 4);
  e->refs = le64_make (3);
  e->flags = le64_make (BTRFS_EXTENT_FLAG_DATA);
  p = (void *) (e + 1);
  *p++ = BTRFS_EXTENT_DATA_REF;
  d = (void *) p;
  d->root = le64_make (5);
  d->objectid = le64_make (257);
  d->count = le32_make (2);
  p += sizeof *d;
  *p++ = BTRFS_SHARED_DATA_REF;
  ((struct btrfs_shared_data_ref *) (p + 8))->count = le32_make (1);
  healthy ();
  POKE (btrfs_extent_item, refs, 2);
  POKE (btrfs_extent_item, flags, BTRFS_EXTENT_FLAG_TREE_BLOCK);
  POKE (btrfs_extent_item, flags, BTRFS_EXTENT_FLAG_DATA |
        BTRFS_EXTENT_FLAG_FULL_BACKREF);
  poke_at (__LINE__, ERR_item_format, at, 8, 2);        /* root */
  poke_at (__LINE__, ERR_item_format, at, 8, 0);
  poke_at (__LINE__, ERR_item_format, at + 8, 8, 9);    /* objectid */
  poke_at (__LINE__, ERR_item_format, at + 16, 8, 9);   /* offset */
  poke_at (__LINE__, 0, at + 16, 8, (uint64_t) -4096);
  poke_at (__LINE__, ERR_item_format, at + 24, 4, 0);   /* count */
  poke_at (__LINE__, ERR_item_format, at + 24, 4, 3);
  poke_at (__LINE__, ERR_item_format, at + 29, 8, 7);   /* parent */
  poke_at (__LINE__, ERR_item_format, at + 37, 4, 0);
  poke_at (__LINE__, ERR_item_format, at - 1, 1, BTRFS_TREE_BLOCK_REF);
  poke_at (__LINE__, ERR_item_format, at - 1, 1, BTRFS_EXTENT_OWNER_REF);
  RESIZE (sizeof *e + 1 + sizeof *d + 1 + 8 + 3);
  REKEY (1 << 20, BTRFS_EXTENT_ITEM, 8193);
  REKEY (1 << 20, BTRFS_EXTENT_ITEM, 0);
  REKEY ((uint64_t) -4096, BTRFS_EXTENT_ITEM, 8192);
  REKEY (1 << 20, BTRFS_METADATA_ITEM, 1);
}

static void
keyed_refs (void **state)
{
  struct btrfs_extent_data_ref *d;
  struct btrfs_shared_data_ref *s;

  (void) state;
  begin (2);
  d = add (KEY (1 << 20, BTRFS_EXTENT_DATA_REF, 77), sizeof *d);
  d->root = le64_make (257);
  d->objectid = le64_make (300);
  d->count = le32_make (1);
  healthy ();
  POKE (btrfs_extent_data_ref, root, 3);
  POKE (btrfs_extent_data_ref, objectid, 255);
  POKE (btrfs_extent_data_ref, offset, 1);
  POKE (btrfs_extent_data_ref, count, 0);
  RESIZE (27);
  REKEY ((1 << 20) + 1, BTRFS_EXTENT_DATA_REF, 77);
  begin (2);
  s = add (KEY (1 << 20, BTRFS_SHARED_DATA_REF, 4096), sizeof *s);
  s->count = le32_make (1);
  healthy ();
  POKE (btrfs_shared_data_ref, count, 0);
  REKEY (1 << 20, BTRFS_SHARED_DATA_REF, 4095);
  RESIZE (0);
  begin (2);
  add (KEY (1 << 20, BTRFS_TREE_BLOCK_REF, 257), 0);
  add (KEY (1 << 20, BTRFS_SHARED_BLOCK_REF, 4096), 0);
  healthy ();
  REKEY (1 << 20, BTRFS_SHARED_BLOCK_REF, 4095);
  REKEY ((1 << 20) + 1, BTRFS_SHARED_BLOCK_REF, 4096);
  RESIZE (4);
}

/* --- space and devices --- */

static void
block_group (void **state)
{
  struct btrfs_block_group_item *b;

  (void) state;
  begin (2);
  b = add (KEY (1 << 20, BTRFS_BLOCK_GROUP_ITEM, 1 << 23), sizeof *b);
  b->used = le64_make (4096);
  b->chunk_objectid = le64_make (256);
  b->flags = le64_make (BTRFS_BG_METADATA | BTRFS_BG_DUP);
  healthy ();
  POKE (btrfs_block_group_item, used, (1 << 23) + 1);
  POKE (btrfs_block_group_item, chunk_objectid, 255);
  POKE (btrfs_block_group_item, flags, 0);
  POKE (btrfs_block_group_item, flags, BTRFS_BG_DUP);
  POKE (btrfs_block_group_item, flags,
        BTRFS_BG_DATA | BTRFS_BG_DUP | BTRFS_BG_RAID1);
  POKE (btrfs_block_group_item, flags, BTRFS_BG_DATA | BTRFS_BG_METADATA);
  POKE (btrfs_block_group_item, flags, BTRFS_BG_DATA | BTRFS_BG_SYSTEM);
  POKE (btrfs_block_group_item, flags, BTRFS_BG_DATA | 1 << 11);
  RESIZE (23);
  REKEY (1 << 20, BTRFS_BLOCK_GROUP_ITEM, 0);
  info.incompat |= BTRFS_INCOMPAT_MIXED_GROUPS;
  POKE_OK (btrfs_block_group_item, flags, BTRFS_BG_DATA | BTRFS_BG_METADATA);
  info.incompat = GOOD_INCOMPAT;
}

static void
free_space (void **state)
{
  struct btrfs_free_space_info *i;

  (void) state;
  begin (BTRFS_FREE_SPACE_TREE);
  i = add (KEY (1 << 20, BTRFS_FREE_SPACE_INFO, 1 << 20), sizeof *i);
  i->extent_count = le32_make (3);
  healthy ();
  POKE (btrfs_free_space_info, flags, 2);
  POKE (btrfs_free_space_info, extent_count, 257);
  RESIZE (7);
  REKEY (1 << 20, BTRFS_FREE_SPACE_INFO, 0);
  add (KEY (1 << 20, BTRFS_FREE_SPACE_EXTENT, 8192), 0);
  add (KEY ((1 << 20) + 8192, BTRFS_FREE_SPACE_EXTENT, 8192), 0);
  healthy ();
  RESIZE (1);
  REKEY ((1 << 20) + 4096, BTRFS_FREE_SPACE_EXTENT, 8192);
  REKEY ((1 << 20) + 8192, BTRFS_FREE_SPACE_EXTENT, 8191);
  REKEY ((1 << 20) + 8191, BTRFS_FREE_SPACE_EXTENT, 8192);
  REKEY ((1 << 20) + 8192, BTRFS_FREE_SPACE_EXTENT, 0);
  add (KEY (2 << 20, BTRFS_FREE_SPACE_BITMAP, 9 * 4096), 2);
  healthy ();
  RESIZE (1);
  RESIZE (3);
}

static void
chunk_item (void **state)
{
  struct btrfs_chunk *c;
  struct btrfs_stripe *s;

  (void) state;
  begin (BTRFS_CHUNK_TREE);
  c = add (KEY (256, BTRFS_CHUNK_ITEM, 1 << 22), sizeof *c + 2 * sizeof *s);
  c->length = le64_make (8 << 20);
  c->stripe_len = le64_make (65536);
  c->type = le64_make (BTRFS_BG_METADATA | BTRFS_BG_DUP);
  c->sector_size = le32_make (4096);
  c->num_stripes = le16_make (2);
  c->sub_stripes = le16_make (1);
  s = c->stripes;
  s[0].devid = s[1].devid = le64_make (1);
  s[1].offset = le64_make (1 << 24);
  healthy ();
#define BAD(field, v) POKE_CODE (ERR_chunk_format, btrfs_chunk, field, v)
  BAD (length, 0);
  BAD (length, 4097);
  BAD (length, UINT64_C (1) << 63);
  BAD (length, UINT64_C (65536) * UINT32_MAX);
  BAD (stripe_len, 4096);
  BAD (type, BTRFS_BG_DUP);
  BAD (type, BTRFS_BG_METADATA | BTRFS_BG_RAID1C3);
  BAD (type, BTRFS_BG_METADATA);
  BAD (type, BTRFS_BG_METADATA | BTRFS_BG_RAID6);
  BAD (type, BTRFS_BG_METADATA | BTRFS_BG_RAID10);
  BAD (type, BTRFS_BG_METADATA | BTRFS_BG_DUP | BTRFS_BG_RAID0);
  BAD (type, BTRFS_BG_METADATA | BTRFS_BG_DATA | BTRFS_BG_DUP);
  BAD (type, BTRFS_BG_METADATA | BTRFS_BG_SYSTEM | BTRFS_BG_DUP);
  BAD (type, BTRFS_BG_METADATA | BTRFS_BG_DUP | 1 << 11);
  BAD (sector_size, 512);
  BAD (num_stripes, 0);
  BAD (num_stripes, 1);
  BAD (num_stripes, 65535);
  BAD (stripes[1].devid, 0);
  BAD (stripes[1].offset, 17);
  BAD (stripes[1].offset, (uint64_t) -4096);
  resize_at (__LINE__, ERR_chunk_format, 79);
  resize_at (__LINE__, ERR_chunk_format, 113);
  POKE_OK (btrfs_chunk, type, BTRFS_BG_METADATA | BTRFS_BG_RAID1);
  POKE_OK (btrfs_chunk, type, BTRFS_BG_DATA | BTRFS_BG_RAID0);
  REKEY (255, BTRFS_CHUNK_ITEM, 1 << 22);
#undef BAD
}

static void
devices (void **state)
{
  struct btrfs_dev_item *d;
  struct btrfs_dev_extent *e;

  (void) state;
  begin (BTRFS_CHUNK_TREE);
  d = add (KEY (1, BTRFS_DEV_ITEM, 1), sizeof *d);
  d->devid = le64_make (1);
  d->total_bytes = le64_make (1 << 30);
  healthy ();
  POKE (btrfs_dev_item, devid, 2);
  POKE (btrfs_dev_item, bytes_used, UINT64_C (1) << 31);
  RESIZE (97);
  REKEY (2, BTRFS_DEV_ITEM, 1);
  begin (BTRFS_DEV_TREE);
  for (unsigned i = 1; i < 3; ++i) {
    e = add (KEY (1, BTRFS_DEV_EXTENT, i << 20), sizeof *e);
    e->chunk_tree = le64_make (3);
    e->chunk_objectid = le64_make (256);
    e->chunk_offset = le64_make (i << 20);
    e->length = le64_make (1 << 20);
  }
  healthy ();
  POKE (btrfs_dev_extent, chunk_tree, 2);
  POKE (btrfs_dev_extent, chunk_objectid, 1);
  POKE (btrfs_dev_extent, chunk_offset, 1);
  POKE (btrfs_dev_extent, length, 0);
  POKE (btrfs_dev_extent, length, 1);
  POKE (btrfs_dev_extent, length, (uint64_t) -4096);
  RESIZE (47);
  REKEY (1, BTRFS_DEV_EXTENT, (2 << 20) - 4096);
  REKEY (1, BTRFS_DEV_EXTENT, (2 << 20) + 1);
}

static void
quota_and_others (void **state)
{
  (void) state;
  begin (BTRFS_QUOTA_TREE);
  add (KEY (0, BTRFS_QGROUP_STATUS, 0), 32);
  healthy ();
  RESIZE (31);
  add (KEY (0, BTRFS_QGROUP_INFO, 5), 40);
  healthy ();
  RESIZE (39);
  add (KEY (5, BTRFS_QGROUP_RELATION, 7), 0);
  healthy ();
  RESIZE (1);
  begin (BTRFS_RAID_STRIPE_TREE);
  add (KEY (4096, BTRFS_RAID_STRIPE, 4096), 16);
  refused (ERR_item_format);
  begin (BTRFS_ROOT_TREE);
  add (KEY (BTRFS_FREE_SPACE_OBJECTID, 0, 4096), 41);
  add (KEY (BTRFS_FREE_SPACE_OBJECTID, 222, 4096), 3); /* from the future */
  healthy ();
  begin (BTRFS_ROOT_TREE);
  add (KEY (BTRFS_FREE_SPACE_OBJECTID, 0, 4096), 41);
  RESIZE (40);
}

/* The text names tree, block, slot, key, field, value, expectation. */
static void
messages (void **state)
{
  struct btrfs_inode_item *i;
  int r;

  (void) state;
  begin (5);
  i = add (KEY (257, BTRFS_INODE_ITEM, 0), sizeof *i);
  i->mode = le32_make (S_IFDIR);
  i->nlink = le32_make (2);
  r = tree_check_contents (&info, leaf);
  assert_string_equal (err_text (r), "tree item is malformed: tree FS_TREE "
    "block 65536 slot 0 key (257 INODE_ITEM 0): nlink of a directory is 2, "
    "expected at most 1");
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (leaf_structure),
    cmocka_unit_test (leaf_too_full),
    cmocka_unit_test (node_structure),
    cmocka_unit_test (block_against_pointer),
    cmocka_unit_test (inode_item),
    cmocka_unit_test (inode_ref),
    cmocka_unit_test (inode_extref),
    cmocka_unit_test (dir_item),
    cmocka_unit_test (log_and_orphans),
    cmocka_unit_test (file_extent),
    cmocka_unit_test (inline_extent),
    cmocka_unit_test (csum_item),
    cmocka_unit_test (root_item),
    cmocka_unit_test (generations),
    cmocka_unit_test (metadata_item),
    cmocka_unit_test (old_tree_extent),
    cmocka_unit_test (data_extent),
    cmocka_unit_test (keyed_refs),
    cmocka_unit_test (block_group),
    cmocka_unit_test (free_space),
    cmocka_unit_test (chunk_item),
    cmocka_unit_test (devices),
    cmocka_unit_test (quota_and_others),
    cmocka_unit_test (messages),
  };
  return cmocka_run_group_tests_name ("format-check", tests, NULL, NULL);
}
