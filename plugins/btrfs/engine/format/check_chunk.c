/* format: chunks, devices, device extents and block groups. */
#include <config.h>

#include <string.h>

#include "format/check_internal.h"

/* What a profile demands of its stripes; MAX 0: any number. */
struct profile_rule {
  uint64_t bit;                 /* 0: single */
  unsigned min, max, copies, parity;
};

static const struct profile_rule rules[] = {
  { 0, 1, 1, 1, 0 },
  { BTRFS_BG_DUP, 2, 2, 2, 0 },
  { BTRFS_BG_RAID0, 1, 0, 1, 0 },
  { BTRFS_BG_RAID1, 2, 2, 2, 0 },
  { BTRFS_BG_RAID1C3, 3, 3, 3, 0 },
  { BTRFS_BG_RAID1C4, 4, 4, 4, 0 },
  { BTRFS_BG_RAID10, 2, 0, 2, 0 },
  { BTRFS_BG_RAID5, 2, 0, 1, 1 },
  { BTRFS_BG_RAID6, 3, 0, 1, 2 },
};

static const struct profile_rule *
rule_of (uint64_t type)
{
  for (size_t i = 0; i < ARRAY_SIZE (rules); ++i)
    if (rules[i].bit == (type & BTRFS_BG_PROFILE_MASK))
      return &rules[i];
  return NULL;
}

/* A type that both chunks and block groups may have; NULL or what is wrong. */
static const char *
type_problem (const struct format_info *info, uint64_t type)
{
  uint64_t kind = type & BTRFS_BG_TYPE_MASK;

  if ((type & ~(BTRFS_BG_TYPE_MASK | BTRFS_BG_PROFILE_MASK)) != 0)
    return "known bits only";
  if (rule_of (type) == NULL)
    return "one profile";
  if (kind == 0)
    return "DATA, METADATA or SYSTEM";
  if ((kind & BTRFS_BG_SYSTEM) != 0 && kind != BTRFS_BG_SYSTEM)
    return "SYSTEM alone";
  if (kind == (BTRFS_BG_DATA | BTRFS_BG_METADATA) &&
      (info->incompat & BTRFS_INCOMPAT_MIXED_GROUPS) == 0)
    return "DATA or METADATA, without feature mixed-bg";
  return NULL;
}

static int
chunk_bad (uint64_t logical, const char *field, uint64_t value,
           const char *want)
{
  return err_new (ERR_chunk_format, "chunk %" PRIu64 ": %s is %" PRIu64
                  ", expected %s", logical, field, value, want);
}

/* Bytes of each stripe.  LENGTH need not divide evenly. */
static uint64_t
stripe_bytes (const struct profile_rule *rule, uint64_t length, unsigned n)
{
  return length / ((n - rule->parity) / rule->copies);
}

static int
check_stripes (const struct format_info *info, const struct btrfs_chunk *c,
               const struct profile_rule *rule, uint64_t logical)
{
  unsigned n = le16_get (c->num_stripes), sub = le16_get (c->sub_stripes);
  uint64_t length, end;

  if (n < rule->min || (rule->max != 0 && n > rule->max))
    return chunk_bad (logical, "num_stripes", n,
                      "what the profile demands");
  if (rule->bit == BTRFS_BG_RAID10 && (sub != 2 || n % 2 != 0))
    return chunk_bad (logical, "sub_stripes", sub,
                      "2, and an even number of stripes");
  length = stripe_bytes (rule, le64_get (c->length), n);
  for (unsigned i = 0; i < n; ++i) {
    const struct btrfs_stripe *s = &c->stripes[i];

    if (le64_get (s->devid) == 0)
      return chunk_bad (logical, "stripe devid", 0, "at least 1");
    if (!is_aligned (le64_get (s->offset), info->sectorsize))
      return chunk_bad (logical, "stripe offset", le64_get (s->offset),
                        "a multiple of sectorsize");
    if (!add_ok (le64_get (s->offset), length, &end) || end > INT64_MAX)
      return chunk_bad (logical, "stripe offset", le64_get (s->offset),
                        "an end below 2^63");
  }
  return 0;
}

int
chunk_check (const struct format_info *info, const struct btrfs_chunk *c,
             uint32_t size, uint64_t logical)
{
  uint64_t length, type, end;
  const char *want;
  unsigned n;

  if (size < sizeof *c + sizeof (struct btrfs_stripe))
    return chunk_bad (logical, "item size", size, "room for one stripe");
  n = le16_get (c->num_stripes);
  if (n == 0 || size != sizeof *c + n * sizeof (struct btrfs_stripe))
    return chunk_bad (logical, "num_stripes", n, "what the item size says");
  if (!is_aligned (logical, info->sectorsize))
    return chunk_bad (logical, "address", logical,
                      "a multiple of sectorsize");
  if (le32_get (c->sector_size) != info->sectorsize)
    return chunk_bad (logical, "sector_size", le32_get (c->sector_size),
                      "that of the pool");
  length = le64_get (c->length);
  if (length == 0 || !is_aligned (length, info->sectorsize))
    return chunk_bad (logical, "length", length, "a multiple of sectorsize");
  if (!add_ok (logical, length, &end) || end > INT64_MAX)
    return chunk_bad (logical, "length", length, "an end below 2^63");
  if (length >= (uint64_t) BTRFS_STRIPE_LEN * UINT32_MAX)
    return chunk_bad (logical, "length", length, "fewer than 2^32 stripes");
  if (le64_get (c->stripe_len) != BTRFS_STRIPE_LEN)
    return chunk_bad (logical, "stripe_len", le64_get (c->stripe_len),
                      "65536");
  type = le64_get (c->type);
  want = type_problem (info, type);
  if (want != NULL)
    return chunk_bad (logical, "type", type, want);
  return check_stripes (info, c, rule_of (type), logical);
}

int
check_chunk_item (const struct item_check *c)
{
  char tree[TREE_STR_MAX];
  int r;

  if (c->key.objectid != BTRFS_FIRST_CHUNK_TREE_OBJECTID)
    return item_bad (c, "objectid, expected 256");
  r = chunk_check (c->info, (const struct btrfs_chunk *) c->data, c->size,
                   c->key.offset);
  if (r < 0)
    return err_note (r, "tree %s block %" PRIu64 " slot %" PRIu32,
                     tree_str (c->owner, tree), tb_bytenr (c->leaf), c->slot);
  return 0;
}

int
check_dev_item (const struct item_check *c)
{
  const struct btrfs_dev_item *d = (const struct btrfs_dev_item *) c->data;
  int r = item_want_size (c, sizeof *d);

  if (r < 0)
    return r;
  if (c->key.objectid != BTRFS_DEV_ITEMS_OBJECTID)
    return item_bad (c, "objectid, expected 1");
  if (le64_get (d->devid) != c->key.offset)
    return item_bad (c, "devid is %" PRIu64 ", expected the key's offset",
                     le64_get (d->devid));
  if (le64_get (d->bytes_used) > le64_get (d->total_bytes))
    return item_bad (c, "bytes_used is %" PRIu64 ", expected no more than "
                     "total_bytes %" PRIu64, le64_get (d->bytes_used),
                     le64_get (d->total_bytes));
  return 0;
}

int
check_dev_extent (const struct item_check *c)
{
  const struct btrfs_dev_extent *d = (const void *) c->data, *p;
  uint64_t length, end;
  int r = item_want_size (c, sizeof *d);

  if (r < 0)
    return r;
  if (le64_get (d->chunk_tree) != BTRFS_CHUNK_TREE)
    return item_bad (c, "chunk_tree is %" PRIu64 ", expected 3",
                     le64_get (d->chunk_tree));
  if (le64_get (d->chunk_objectid) != BTRFS_FIRST_CHUNK_TREE_OBJECTID)
    return item_bad (c, "chunk_objectid is %" PRIu64 ", expected 256",
                     le64_get (d->chunk_objectid));
  length = le64_get (d->length);
  if (length == 0)
    return item_bad (c, "length is 0");
  r = item_want_aligned (c, "key offset", c->key.offset);
  if (r == 0)
    r = item_want_aligned (c, "chunk_offset", le64_get (d->chunk_offset));
  if (r == 0)
    r = item_want_aligned (c, "length", length);
  if (r < 0)
    return r;
  if (!add_ok (c->key.offset, length, &end))
    return item_bad (c, "length %" PRIu64 " wraps", length);
  if (c->prev.objectid == c->key.objectid && c->prev.type == c->key.type) {
    p = tb_item_data_c (c->leaf, c->slot - 1);
    if (c->prev.offset + le64_get (p->length) > c->key.offset)
      return item_bad (c, "overlaps the device extent before it");
  }
  return 0;
}

int
check_block_group (const struct item_check *c)
{
  const struct btrfs_block_group_item *bg = (const void *) c->data;
  uint64_t flags, end;
  const char *want;
  int r = item_want_size (c, sizeof *bg);

  if (r < 0)
    return r;
  if (c->key.offset == 0)
    return item_bad (c, "length is 0");
  if (!add_ok (c->key.objectid, c->key.offset, &end))
    return item_bad (c, "length wraps");
  if (le64_get (bg->chunk_objectid) != BTRFS_FIRST_CHUNK_TREE_OBJECTID)
    return item_bad (c, "chunk_objectid is %" PRIu64 ", expected 256",
                     le64_get (bg->chunk_objectid));
  if (le64_get (bg->used) > c->key.offset)
    return item_bad (c, "used is %" PRIu64 ", expected no more than the "
                     "length", le64_get (bg->used));
  flags = le64_get (bg->flags);
  want = type_problem (c->info, flags);
  if (want != NULL)
    return item_bad (c, "flags are 0x%" PRIx64 ", expected %s", flags, want);
  return 0;
}
