/* Fuzz target: the checks of a superblock, a block, a leaf made of items, a
 * chunk.  No input may crash or hang, and the readers that rely on a check
 * may be used after it.
 *
 * Input: byte 0 chooses the subject, byte 1 the features, then
 *   'S' a superblock (its checksum is made good)
 *   'B' a block of 4 KiB
 *   'C' a chunk item
 *   'I' items: owner (1), then for each its key (17), size (2), data
 */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/math.h"
#include "format/check.h"
#include "format/super.h"
#include "format/tree_block.h"
#include "fuzz/fuzz.h"

#define NODESIZE 4096

static const uint8_t uuid[BTRFS_UUID_SIZE];

int
LLVMFuzzerInitialize (int *argc, char ***argv)
{
  (void) argc;
  (void) argv;
  return 0;
}

size_t
LLVMFuzzerCustomMutator (uint8_t *data, size_t size, size_t max_size,
                         unsigned seed)
{
  static const char subjects[] = "SBIIIC";

  if (size < 2 && max_size >= 2) {
    data[0] = subjects[seed % (sizeof subjects - 1)];
    data[1] = seed >> 8;
    size = 2;
  }
  return LLVMFuzzerMutate (data, size, max_size);
}

static struct format_info
make_info (uint8_t bits)
{
  struct format_info info = { .nodesize = NODESIZE, .sectorsize = 4096 };

  info.csum_type = bits & 1;
  info.csum_size = info.csum_type == 0 ? 4 : 8;
  info.incompat = BTRFS_INCOMPAT_MIXED_BACKREF;
  if (bits & 2)
    info.incompat |= BTRFS_INCOMPAT_SKINNY_METADATA;
  if (bits & 4)
    info.incompat |= BTRFS_INCOMPAT_MIXED_GROUPS;
  if (bits & 8)
    info.incompat |= BTRFS_INCOMPAT_SIMPLE_QUOTA;
  if (bits & 16)
    info.incompat |= BTRFS_INCOMPAT_RAID_STRIPE_TREE;
  return info;
}

/* Each chunk of an array that has passed: inside, and stays so. */
static int
visit_chunk (void *opaque, struct key key, const struct btrfs_chunk *c,
             uint32_t size)
{
  struct format_info info;

  format_info_init (&info, opaque);
  if (chunk_check (&info, c, size, key.offset) != 0)
    abort ();
  return 0;
}

static void
fuzz_super (const uint8_t *data, size_t size)
{
  static struct btrfs_super sb, copy;
  enum super_access access;
  char why[SUPER_WHY_MAX];
  unsigned type;

  memset (&sb, 0, sizeof sb);
  memcpy (&sb, data, MIN (size, sizeof sb));
  type = le16_get (sb.csum_type);
  if (type < 4)
    super_seal (&sb);
  super_access (&sb, &access, why);
  if (super_check (&sb, super_offset (0)) < 0)
    return;
  if (super_sys_chunks (&sb, visit_chunk, &sb) < 0)
    abort ();
  copy = sb;
  super_sys_chunk_del (&copy, le64_get (sb.root));
  super_sys_chunk_del (&copy, 1 << 20);
}

/* What passed as a leaf has its items inside, apart and in order. */
static void
rely_on (const uint8_t *buf)
{
  struct key prev = KEY_MIN;
  bool exact;

  for (uint32_t i = 0; i < tb_nritems (buf); ++i) {
    struct key key = tb_key (buf, i);

    if ((i > 0 && key_cmp (prev, key) >= 0) ||
        tb_search (buf, key, &exact) != i || !exact)
      abort ();
    prev = key;
    if (tb_level (buf) > 0)
      continue;
    const uint8_t *p = tb_item_data_c (buf, i);

    if (p < (const uint8_t *) tb_item_c (buf, tb_nritems (buf)) ||
        p + tb_item_size (buf, i) > buf + NODESIZE)
      abort ();
  }
  if (tb_level (buf) == 0)
    tb_leaf_free (buf, NODESIZE);
}

static void
check_both_ways (const struct format_info *info, uint8_t *buf)
{
  struct tree_expect e = { .bytenr = tb_bytenr (buf), .max_generation = 100,
    .owner = tb_owner (buf), .has_level = true, .level = 0 };

  if (tree_check_contents (info, buf) == 0)
    rely_on (buf);
  tb_set_csum (buf, NODESIZE, info->csum_type);
  tree_check_block (info, buf, &e);
}

static void
fuzz_block (const struct format_info *info, const uint8_t *data, size_t size)
{
  uint8_t *buf = calloc (1, NODESIZE);

  if (buf == NULL)
    return;
  memcpy (buf, data, MIN (size, NODESIZE));
  check_both_ways (info, buf);
  free (buf);
}

static void
fuzz_items (const struct format_info *info, const uint8_t *data, size_t size)
{
  static const uint64_t owners[] = { 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 256,
    BTRFS_TREE_LOG, BTRFS_TREE_RELOC, BTRFS_DATA_RELOC_TREE };
  struct tb_ident id = { .fsid = uuid, .chunk_tree_uuid = uuid,
    .bytenr = 65536, .generation = 9 };
  uint8_t *buf = calloc (1, NODESIZE);
  uint32_t n = 0, end = tb_leaf_data_size (NODESIZE);

  if (buf == NULL || size < 1) {
    free (buf);
    return;
  }
  id.owner = owners[data[0] % ARRAY_SIZE (owners)];
  tb_init (buf, NODESIZE, &id);
  for (size_t pos = 1; size - pos >= sizeof (struct btrfs_disk_key) + 2; ) {
    struct btrfs_item *item = tb_item (buf, n);
    uint32_t len;

    if (end < (n + 1) * sizeof *item)
      break;
    memcpy (&item->key, data + pos, sizeof item->key);
    pos += sizeof item->key;
    len = data[pos] | data[pos + 1] << 8;
    pos += 2;
    len = MIN (len, size - pos);
    len = MIN (len, end - (n + 1) * sizeof *item);
    end -= len;
    item->offset = le32_make (end);
    item->size = le32_make (len);
    memcpy (tb_item_data (buf, n), data + pos, len);
    pos += len;
    tb_header (buf)->nritems = le32_make (++n);
  }
  check_both_ways (info, buf);
  free (buf);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  struct format_info info;

  if (size < 2)
    return 0;
  info = make_info (data[1]);
  if (data[0] == 'S')
    fuzz_super (data + 2, size - 2);
  else if (data[0] == 'B')
    fuzz_block (&info, data + 2, size - 2);
  else if (data[0] == 'I')
    fuzz_items (&info, data + 2, size - 2);
  else if (data[0] == 'C' && size >= 10)
    chunk_check (&info, (const struct btrfs_chunk *) (data + 10), size - 10,
                 le64_get (*(const le64 *) (data + 2)));
  err_clear ();
  return 0;
}
