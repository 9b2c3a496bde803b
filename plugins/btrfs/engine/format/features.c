/* format: names of features, and how far each lets us open a pool. */
#include <config.h>

#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"
#include "base/math.h"
#include "format/super.h"

enum gate { GATE_OK, GATE_READ_ONLY, GATE_REFUSE };

struct feature {
  uint64_t bit;
  const char *name;
  enum gate gate;
};

/* Zoned pools keep their superblocks elsewhere; the stripe tree, the remap
 * tree and extent tree v2 change how addresses are resolved: none of them can
 * be read without code for it.  Simple quotas only change what is accounted.
 */
static const struct feature incompat[] = {
  { BTRFS_INCOMPAT_MIXED_BACKREF, "mixed-backref", GATE_OK },
  { BTRFS_INCOMPAT_DEFAULT_SUBVOL, "default-subvol", GATE_OK },
  { BTRFS_INCOMPAT_MIXED_GROUPS, "mixed-bg", GATE_OK },
  { BTRFS_INCOMPAT_COMPRESS_LZO, "compress-lzo", GATE_OK },
  { BTRFS_INCOMPAT_COMPRESS_ZSTD, "compress-zstd", GATE_OK },
  { BTRFS_INCOMPAT_BIG_METADATA, "big-metadata", GATE_OK },
  { BTRFS_INCOMPAT_EXTENDED_IREF, "extref", GATE_OK },
  { BTRFS_INCOMPAT_RAID56, "raid56", GATE_OK },
  { BTRFS_INCOMPAT_SKINNY_METADATA, "skinny-metadata", GATE_OK },
  { BTRFS_INCOMPAT_NO_HOLES, "no-holes", GATE_OK },
  { BTRFS_INCOMPAT_METADATA_UUID, "metadata-uuid", GATE_OK },
  { BTRFS_INCOMPAT_RAID1C34, "raid1c34", GATE_OK },
  { BTRFS_INCOMPAT_ZONED, "zoned", GATE_REFUSE },
  { BTRFS_INCOMPAT_EXTENT_TREE_V2, "extent-tree-v2", GATE_REFUSE },
  { BTRFS_INCOMPAT_RAID_STRIPE_TREE, "raid-stripe-tree", GATE_REFUSE },
  { BTRFS_INCOMPAT_SIMPLE_QUOTA, "squota", GATE_READ_ONLY },
  { BTRFS_INCOMPAT_REMAP_TREE, "remap-tree", GATE_REFUSE },
};

static const struct feature compat_ro[] = {
  { BTRFS_COMPAT_RO_FREE_SPACE_TREE, "free-space-tree", GATE_OK },
  { BTRFS_COMPAT_RO_FREE_SPACE_TREE_VALID, "free-space-tree-valid", GATE_OK },
  { BTRFS_COMPAT_RO_VERITY, "verity", GATE_READ_ONLY },
  { BTRFS_COMPAT_RO_BLOCK_GROUP_TREE, "block-group-tree", GATE_OK },
};

/* Flags of a pool in the middle of an offline conversion, whose metadata is
 * of two kinds, are refused; the rest of those that matter allow reading.
 * Flags that are not listed are left alone, as Linux does.
 */
static const struct feature flags[] = {
  { BTRFS_SUPER_FLAG_ERROR, "error", GATE_READ_ONLY },
  { BTRFS_SUPER_FLAG_SEEDING, "seeding", GATE_READ_ONLY },
  { BTRFS_SUPER_FLAG_METADUMP, "metadump", GATE_READ_ONLY },
  { BTRFS_SUPER_FLAG_METADUMP_V2, "metadump-v2", GATE_READ_ONLY },
  { BTRFS_SUPER_FLAG_CHANGING_FSID, "changing-fsid", GATE_REFUSE },
  { BTRFS_SUPER_FLAG_CHANGING_FSID_V2, "changing-fsid-v2", GATE_REFUSE },
  { BTRFS_SUPER_FLAG_CHANGING_BG_TREE, "changing-bg-tree", GATE_REFUSE },
  { BTRFS_SUPER_FLAG_CHANGING_DATA_CSUM, "changing-data-csum", GATE_REFUSE },
  { BTRFS_SUPER_FLAG_CHANGING_META_CSUM, "changing-metadata-csum",
    GATE_REFUSE },
};

static const struct feature *
find (const struct feature *table, size_t n, uint64_t bit)
{
  for (size_t i = 0; i < n; ++i)
    if (table[i].bit == bit)
      return &table[i];
  return NULL;
}

const char *
super_incompat_name (uint64_t bit)
{
  const struct feature *f = find (incompat, ARRAY_SIZE (incompat), bit);

  return f == NULL ? NULL : f->name;
}

const char *
super_compat_ro_name (uint64_t bit)
{
  const struct feature *f = find (compat_ro, ARRAY_SIZE (compat_ro), bit);

  return f == NULL ? NULL : f->name;
}

/* Judge each bit that is set; WHY keeps the first reason for read-only. */
struct verdict {
  const char *kind;             /* "incompatible feature", ... */
  enum gate unknown;            /* the verdict on bits not in the table */
  enum super_access access;
  char *why;
};

static int
judge (struct verdict *v, const struct feature *table, size_t n,
       uint64_t bits)
{
  while (bits != 0) {
    uint64_t bit = bits & -bits;
    const struct feature *f = find (table, n, bit);
    enum gate gate = f == NULL ? v->unknown : f->gate;
    char name[32];

    bits &= ~bit;
    if (gate == GATE_OK)
      continue;
    if (f != NULL)
      snprintf (name, sizeof name, "%s", f->name);
    else
      snprintf (name, sizeof name, "bit %d", __builtin_ctzll (bit));
    if (gate == GATE_REFUSE)
      return err_new (ERR_feature_incompat, "%s %s", v->kind, name);
    if (v->access == SUPER_READ_WRITE)
      snprintf (v->why, SUPER_WHY_MAX, "%s %s", v->kind, name);
    v->access = SUPER_READ_ONLY;
  }
  return 0;
}

int
super_access (const struct btrfs_super *sb, enum super_access *ret_access,
              char why[SUPER_WHY_MAX])
{
  struct verdict v = { .access = SUPER_READ_WRITE, .why = why };
  uint64_t bits = le64_get (sb->incompat_flags);
  int r;

  why[0] = '\0';
  v.kind = "incompatible feature";
  v.unknown = GATE_REFUSE;
  r = judge (&v, incompat, ARRAY_SIZE (incompat), bits);
  if (r < 0)
    return r;
  if ((bits & BTRFS_INCOMPAT_MIXED_BACKREF) == 0) {
    /* Back references of 2008, which Linux no longer writes either. */
    v.access = SUPER_READ_ONLY;
    snprintf (why, SUPER_WHY_MAX, "missing feature mixed-backref");
  }
  v.kind = "superblock flag";
  v.unknown = GATE_OK;
  r = judge (&v, flags, ARRAY_SIZE (flags), le64_get (sb->flags));
  if (r < 0)
    return r;
  v.kind = "read-only compatible feature";
  v.unknown = GATE_READ_ONLY;
  r = judge (&v, compat_ro, ARRAY_SIZE (compat_ro),
             le64_get (sb->compat_ro_flags));
  if (r < 0)
    return r;
  *ret_access = v.access;
  return 0;
}
