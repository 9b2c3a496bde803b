/* format/super: a healthy superblock, each field broken, feature gates, the
 * system chunk array; format/key, format/names: known values.
 */
#include "unit/test.h"

#include "base/err.h"
#include "format/check.h"
#include "format/names.h"
#include "format/super.h"
#include "format/tree_block.h"

static struct btrfs_super sb;

static void
sys_chunk (uint64_t logical)
{
  struct {
    struct btrfs_chunk c;
    struct btrfs_stripe s;
  } x = { 0 };

  x.c.length = le64_make (8 << 20);
  x.c.stripe_len = le64_make (65536);
  x.c.type = le64_make (BTRFS_BG_SYSTEM);
  x.c.sector_size = le32_make (4096);
  x.c.num_stripes = le16_make (1);
  x.s.devid = le64_make (1);
  x.s.offset = le64_make (logical);
  assert_int_equal (super_sys_chunk_add (&sb, KEY (256, BTRFS_CHUNK_ITEM,
                                                   logical), &x.c, sizeof x),
                    0);
}

static void
fill (void)
{
  memset (&sb, 0, sizeof sb);
  sb.magic = le64_make (BTRFS_MAGIC);
  sb.bytenr = le64_make (65536);
  sb.generation = le64_make (7);
  sb.chunk_root_generation = le64_make (6);
  sb.root = le64_make (1 << 20);
  sb.chunk_root = le64_make (2 << 20);
  sb.total_bytes = le64_make (1 << 30);
  sb.bytes_used = le64_make (131072);
  sb.root_dir_objectid = le64_make (6);
  sb.num_devices = le64_make (1);
  sb.sectorsize = sb.stripesize = le32_make (4096);
  sb.nodesize = sb.unused_leafsize = le32_make (16384);
  sb.incompat_flags = le64_make (0x361);
  sb.compat_ro_flags = le64_make (0xb);
  memset (sb.fsid, 9, 16);
  sb.dev_item.devid = le64_make (1);
  sb.dev_item.total_bytes = le64_make (1 << 30);
  memset (sb.dev_item.fsid, 9, 16);
  sys_chunk (1 << 20);
  super_seal (&sb);
}

static int
sealed_check (void)
{
  super_seal (&sb);
  return super_check (&sb, 65536);
}

#define BAD(field, value)                                               \
  do {                                                                  \
    fill ();                                                            \
    sb.field = value;                                                   \
    assert_int_equal (sealed_check (), -ERR_super_field);               \
  } while (0)

static void
fields (void **state)
{
  (void) state;
  fill ();
  assert_int_equal (super_check (&sb, 65536), 0);
  assert_int_equal (super_check (&sb, 64 << 20), -ERR_super_field);
  sb.label[0] ^= 1;
  assert_int_equal (super_check (&sb, 65536), -ERR_super_csum);
  fill ();
  sb.magic.b[0] ^= 1;
  assert_int_equal (sealed_check (), -ERR_super_magic);
  fill ();
  sb.csum_type = le16_make (4);
  assert_int_equal (super_check (&sb, 65536), -ERR_csum_type);
  for (unsigned t = 0; t < 4; ++t) {
    fill ();
    sb.csum_type = le16_make (t);
    assert_int_equal (sealed_check (), 0);
  }
  BAD (sectorsize, le32_make (512));
  BAD (sectorsize, le32_make (5000));
  BAD (sectorsize, le32_make (131072));
  BAD (nodesize, le32_make (2048));
  BAD (nodesize, le32_make (12288));
  BAD (nodesize, le32_make (131072));
  BAD (unused_leafsize, le32_make (4096));
  BAD (stripesize, le32_make (0));
  BAD (root, le64_make (1));
  BAD (root, le64_make (0));
  BAD (chunk_root, le64_make (1));
  BAD (log_root, le64_make (1));
  BAD (root_level, 8);
  BAD (chunk_root_level, 8);
  BAD (log_root_level, 8);
  BAD (generation, le64_make (0));
  BAD (chunk_root_generation, le64_make (8));
  BAD (root_dir_objectid, le64_make (5));
  BAD (bytes_used, le64_make (UINT64_C (2) << 30));
  BAD (bytes_used, le64_make (16384));
  BAD (num_devices, le64_make (0));
  BAD (num_devices, le64_make (UINT64_MAX));
  BAD (dev_item.devid, le64_make (0));
  BAD (dev_item.bytes_used, le64_make (UINT64_C (2) << 30));
  BAD (dev_item.fsid[3], 1);
  BAD (sys_chunk_array_size, le32_make (0));
  BAD (sys_chunk_array_size, le32_make (2049));
  BAD (sys_chunk_array_size, le32_make (96));
  BAD (sys_chunk_array_size, le32_make (98));
  fill ();
  memset (sb.label, 'x', 256);
  assert_int_equal (sealed_check (), -ERR_super_field);
}

static void
sys_array (void **state)
{
  struct btrfs_disk_key *k = (void *) sb.sys_chunk_array;
  struct btrfs_chunk *c = (void *) (k + 1);

  (void) state;
  fill ();
  k->type = BTRFS_DEV_ITEM;
  assert_int_equal (sealed_check (), -ERR_super_field);
  fill ();
  k->objectid = le64_make (1);
  assert_int_equal (sealed_check (), -ERR_super_field);
  fill ();
  c->num_stripes = le16_make (2);
  assert_int_equal (sealed_check (), -ERR_super_field);
  c->num_stripes = le16_make (0);
  assert_int_equal (sealed_check (), -ERR_super_field);
  fill ();
  c->type = le64_make (BTRFS_BG_DATA);
  assert_int_equal (sealed_check (), -ERR_super_field);
  fill ();
  c->length = le64_make (1);
  assert_int_equal (sealed_check (), -ERR_chunk_format);
}

static int
sum (void *opaque, struct key key, const struct btrfs_chunk *c,
     uint32_t size)
{
  assert_int_equal (le16_get (c->num_stripes), 1);
  assert_int_equal (size, 80);
  *(uint64_t *) opaque += key.offset >> 20;
  return key.offset == 99 << 20 ? 5 : 0;
}

static void
sys_array_changes (void **state)
{
  struct btrfs_super before;
  uint64_t total = 0;
  unsigned n = 1;

  (void) state;
  fill ();
  sys_chunk (2 << 20);
  before = sb;
  sys_chunk (4 << 20);
  assert_int_equal (super_sys_chunks (&sb, sum, &total), 0);
  assert_int_equal (total, 7);
  super_sys_chunk_del (&sb, 4 << 20);
  assert_memory_equal (&sb, &before, sizeof sb);
  super_sys_chunk_del (&sb, 8 << 20);
  assert_memory_equal (&sb, &before, sizeof sb);
  super_sys_chunk_del (&sb, 1 << 20);
  total = 0;
  assert_int_equal (super_sys_chunks (&sb, sum, &total), 0);
  assert_int_equal (total, 2);
  sys_chunk (99 << 20);
  sys_chunk (100 << 20);
  total = 0;
  assert_int_equal (super_sys_chunks (&sb, sum, &total), 5);
  assert_int_equal (total, 101);

  /* 21 of 97 bytes fit. */
  fill ();
  while (super_sys_chunk_add (&sb, KEY (256, BTRFS_CHUNK_ITEM, n << 24),
                              (void *) (sb.sys_chunk_array + 17), 80) == 0)
    ++n;
  assert_int_equal (n, 21);
  assert_int_equal (sealed_check (), 0);
}

static int
access_of (uint64_t incompat, uint64_t ro, uint64_t flags, const char *name)
{
  enum super_access a = SUPER_READ_WRITE;
  char why[SUPER_WHY_MAX];
  int r;

  fill ();
  sb.incompat_flags = le64_make (0x361 | incompat);
  sb.compat_ro_flags = le64_make (0xb | ro);
  sb.flags = le64_make (flags);
  r = super_access (&sb, &a, why);
  if (r < 0) {
    assert_non_null (strstr (err_text (r), name));
    return r;
  }
  assert_string_equal (why, name);
  return a;
}

static void
features (void **state)
{
  enum super_access a;
  char why[SUPER_WHY_MAX];

  (void) state;
  assert_int_equal (access_of (0, 0, 1, ""), SUPER_READ_WRITE);
  assert_int_equal (access_of (BTRFS_INCOMPAT_ZONED, 0, 0, "zoned"),
                    -ERR_feature_incompat);
  assert_int_equal (access_of (BTRFS_INCOMPAT_EXTENT_TREE_V2, 0, 0,
                               "extent-tree-v2"), -ERR_feature_incompat);
  assert_int_equal (access_of (BTRFS_INCOMPAT_RAID_STRIPE_TREE, 0, 0,
                               "raid-stripe-tree"), -ERR_feature_incompat);
  assert_int_equal (access_of (BTRFS_INCOMPAT_REMAP_TREE, 0, 0,
                               "remap-tree"), -ERR_feature_incompat);
  assert_int_equal (access_of (UINT64_C (1) << 40, 0, 0, "bit 40"),
                    -ERR_feature_incompat);
  assert_int_equal (access_of (BTRFS_INCOMPAT_SIMPLE_QUOTA, 0, 0,
                               "incompatible feature squota"),
                    SUPER_READ_ONLY);
  assert_int_equal (access_of (0, BTRFS_COMPAT_RO_VERITY, 0,
                               "read-only compatible feature verity"),
                    SUPER_READ_ONLY);
  assert_int_equal (access_of (0, UINT64_C (1) << 9, 0,
                               "read-only compatible feature bit 9"),
                    SUPER_READ_ONLY);
  assert_int_equal (access_of (0, 0, BTRFS_SUPER_FLAG_ERROR,
                               "superblock flag error"), SUPER_READ_ONLY);
  assert_int_equal (access_of (0, 0, BTRFS_SUPER_FLAG_SEEDING,
                               "superblock flag seeding"), SUPER_READ_ONLY);
  assert_int_equal (access_of (0, 0, BTRFS_SUPER_FLAG_CHANGING_FSID_V2,
                               "changing-fsid-v2"), -ERR_feature_incompat);
  fill ();
  sb.incompat_flags = le64_make (0x360);
  assert_int_equal (super_access (&sb, &a, why), 0);
  assert_int_equal (a, SUPER_READ_ONLY);

  BAD (incompat_flags, le64_make (0x161)); /* BGT without no-holes */
  BAD (compat_ro_flags, le64_make (0x8));
  BAD (incompat_flags, le64_make (0x365)); /* mixed, nodesize 16K */
  assert_string_equal (super_incompat_name (BTRFS_INCOMPAT_NO_HOLES),
                       "no-holes");
  assert_null (super_incompat_name (UINT64_C (1) << 40));
  assert_string_equal (super_compat_ro_name (8), "block-group-tree");
}

static void
metadata_uuid (void **state)
{
  struct format_info info;

  (void) state;
  fill ();
  sb.incompat_flags = le64_make (0x361 | BTRFS_INCOMPAT_METADATA_UUID);
  assert_int_equal (sealed_check (), -ERR_super_field);
  memset (sb.metadata_uuid, 4, 16);
  memset (sb.dev_item.fsid, 4, 16);
  assert_int_equal (sealed_check (), 0);
  format_info_init (&info, &sb);
  assert_int_equal (info.metadata_uuid[0], 4);
  assert_int_equal (info.fsid[0], 9);
  assert_int_equal (info.csum_size, 4);
}

static void
addresses (void **state)
{
  (void) state;
  assert_int_equal (super_offset (0), 64 << 10);
  assert_int_equal (super_offset (1), 64 << 20);
  assert_true (super_offset (2) == UINT64_C (256) << 30);
}

static void
keys (void **state)
{
  char buf[KEY_STR_MAX], tree[TREE_STR_MAX];
  struct key k;

  (void) state;
  assert_true (key_next (KEY (1, 2, 3), &k));
  assert_int_equal (key_cmp (k, KEY (1, 2, 4)), 0);
  assert_true (key_next (KEY (1, 2, UINT64_MAX), &k));
  assert_int_equal (key_cmp (k, KEY (1, 3, 0)), 0);
  assert_true (key_next (KEY (1, 255, UINT64_MAX), &k));
  assert_int_equal (key_cmp (k, KEY (2, 0, 0)), 0);
  assert_false (key_next (KEY_MAX, &k));
  assert_string_equal (key_str (KEY (256, 1, 0), buf), "(256 INODE_ITEM 0)");
  assert_string_equal (key_str (KEY (BTRFS_ORPHAN_OBJECTID, 3, UINT64_MAX),
                                buf), "(ORPHAN 3 18446744073709551615)");
  assert_string_equal (tree_str (2, tree), "EXTENT_TREE");
  assert_string_equal (tree_str (257, tree), "257");
}

/* Seen in images of mkfs.btrfs and Linux. */
static void
hashes (void **state)
{
  (void) state;
  assert_true (name_hash ("default", 7) == UINT64_C (2378154706));
  assert_true (extref_hash (256, "x", 1) != extref_hash (257, "x", 1));
  assert_true (data_ref_hash (5, 257, 0) != data_ref_hash (5, 257, 4096));
}

static void
leaf_building (void **state)
{
  static uint8_t buf[4096];
  struct tb_ident id = { .fsid = sb.fsid, .chunk_tree_uuid = sb.fsid,
    .bytenr = 4096, .generation = 3, .owner = 9 };
  bool exact;
  unsigned n = 0;

  (void) state;
  tb_init (buf, sizeof buf, &id);
  assert_int_equal (tb_leaf_free (buf, 4096), 4096 - 101);
  assert_null (tb_leaf_append (buf, 4096, KEY (1, 1, 1),
                               tb_max_item_size (4096) + 1));
  while (tb_leaf_append (buf, 4096, KEY (n * 2, 1, 0), 100) != NULL)
    ++n;
  assert_int_equal (n, (4096 - 101) / 125);
  assert_int_equal (tb_leaf_free (buf, 4096), (4096 - 101) % 125);
  assert_int_equal (tb_search (buf, KEY (6, 1, 0), &exact), 3);
  assert_true (exact);
  assert_int_equal (tb_search (buf, KEY (5, 1, 0), &exact), 3);
  assert_false (exact);
  assert_int_equal (tb_search (buf, KEY_MAX, &exact), n);
  for (unsigned t = 0; t < 4; ++t) {
    tb_set_csum (buf, 4096, t);
    assert_true (tb_csum_ok (buf, 4096, t));
    buf[4095] ^= 1;
    assert_false (tb_csum_ok (buf, 4096, t));
  }
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (fields),
    cmocka_unit_test (sys_array),
    cmocka_unit_test (sys_array_changes),
    cmocka_unit_test (features),
    cmocka_unit_test (metadata_uuid),
    cmocka_unit_test (addresses),
    cmocka_unit_test (keys),
    cmocka_unit_test (hashes),
    cmocka_unit_test (leaf_building),
  };
  return cmocka_run_group_tests_name ("format-super", tests, NULL, NULL);
}
