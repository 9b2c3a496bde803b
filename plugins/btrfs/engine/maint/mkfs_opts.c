/* maint: the options of mkfs and the sizes of the first chunks.
 *
 * Defaults follow current mkfs.btrfs: 16 KiB nodes, crc32c, data single,
 * metadata DUP, and the features extref, skinny-metadata, no-holes,
 * free-space-tree and block-group-tree.
 */
#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <uuid/uuid.h>

#include "base/err.h"
#include "base/math.h"
#include "maint/mkfs_priv.h"

#define MiB (UINT64_C (1) << 20)
#define GiB (UINT64_C (1) << 30)

static const struct mkfs_feature {
  const char *name;
  uint64_t incompat, compat_ro;
  bool on;                    /* by default */
} features[] = {
  { "mixed-bg", BTRFS_INCOMPAT_MIXED_GROUPS, 0, false },
  { "extref", BTRFS_INCOMPAT_EXTENDED_IREF, 0, true },
  { "skinny-metadata", BTRFS_INCOMPAT_SKINNY_METADATA, 0, true },
  { "no-holes", BTRFS_INCOMPAT_NO_HOLES, 0, true },
  { "free-space-tree", 0, BTRFS_COMPAT_RO_FREE_SPACE_TREE |
    BTRFS_COMPAT_RO_FREE_SPACE_TREE_VALID, true },
  { "block-group-tree", 0, BTRFS_COMPAT_RO_BLOCK_GROUP_TREE, true },
};

static int
apply_feature (struct mkfs_params *p, const char *word, size_t len)
{
  const bool off = len > 0 && word[0] == '^';

  word += off;
  len -= off;
  for (size_t i = 0; i < ARRAY_SIZE (features); i++) {
    const struct mkfs_feature *f = &features[i];

    if (strlen (f->name) != len || memcmp (f->name, word, len) != 0)
      continue;
    if (off) {
      p->incompat &= ~f->incompat;
      p->compat_ro &= ~f->compat_ro;
    }
    else {
      p->incompat |= f->incompat;
      p->compat_ro |= f->compat_ro;
    }
    return 0;
  }
  return err_new (ERR_invalid, "unknown feature \"%.*s\"; known are extref, "
                  "skinny-metadata, no-holes, free-space-tree, "
                  "block-group-tree and mixed-bg, with ^ in front to switch "
                  "one off", (int) MIN (len, (size_t) 64), word);
}

static int
apply_features (struct mkfs_params *p, const char *list)
{
  for (size_t i = 0; i < ARRAY_SIZE (features); i++)
    if (features[i].on) {
      p->incompat |= features[i].incompat;
      p->compat_ro |= features[i].compat_ro;
    }

  while (list && *list) {
    const size_t len = strcspn (list, ",");
    int r = apply_feature (p, list, len);

    if (r < 0)
      return r;
    list += len;
    list += *list == ',';
  }

  if (p->mixed)
    p->incompat |= BTRFS_INCOMPAT_MIXED_GROUPS;
  p->mixed = p->incompat & BTRFS_INCOMPAT_MIXED_GROUPS;

  if (!(p->compat_ro & BTRFS_COMPAT_RO_BLOCK_GROUP_TREE))
    return 0;
  if (!(p->compat_ro & BTRFS_COMPAT_RO_FREE_SPACE_TREE))
    return err_new (ERR_invalid, "block-group-tree needs free-space-tree; "
                    "switch it off too with ^block-group-tree");
  if (!(p->incompat & BTRFS_INCOMPAT_NO_HOLES))
    return err_new (ERR_invalid, "block-group-tree needs no-holes; "
                    "switch it off too with ^block-group-tree");
  return 0;
}

static int
check_sizes (struct mkfs_params *p, const struct btrnbd_mkfs_opts *o)
{
  p->sectorsize = o->sectorsize ? o->sectorsize : 4096;
  if (!is_power_of_2 (p->sectorsize) || p->sectorsize < 4096 ||
      p->sectorsize > BTRFS_NODESIZE_MAX)
    return err_new (ERR_invalid, "sectorsize %" PRIu32 " is not a power of "
                    "two from 4096 to %d", p->sectorsize,
                    BTRFS_NODESIZE_MAX);

  if (o->nodesize)
    p->nodesize = o->nodesize;
  else if (p->mixed)
    p->nodesize = p->sectorsize;
  else
    p->nodesize = MAX (UINT32_C (16384), p->sectorsize);
  if (!is_power_of_2 (p->nodesize) || p->nodesize < BTRFS_NODESIZE_MIN ||
      p->nodesize > BTRFS_NODESIZE_MAX)
    return err_new (ERR_invalid, "nodesize %" PRIu32 " is not a power of "
                    "two from %d to %d", p->nodesize, BTRFS_NODESIZE_MIN,
                    BTRFS_NODESIZE_MAX);
  if (p->nodesize < p->sectorsize)
    return err_new (ERR_invalid, "nodesize %" PRIu32 " is smaller than "
                    "sectorsize %" PRIu32, p->nodesize, p->sectorsize);
  if (p->mixed && p->nodesize != p->sectorsize)
    return err_new (ERR_invalid, "mixed block groups need nodesize == "
                    "sectorsize, not %" PRIu32 " and %" PRIu32,
                    p->nodesize, p->sectorsize);
  if (p->nodesize > 4096)
    p->incompat |= BTRFS_INCOMPAT_BIG_METADATA;
  return 0;
}

static int
parse_profile (const char *what, const char *s, unsigned *ret_copies)
{
  if (strcmp (s, "single") == 0)
    *ret_copies = 1;
  else if (strcasecmp (s, "dup") == 0)
    *ret_copies = 2;
  else
    return err_new (ERR_invalid, "%s profile \"%s\" is not single or dup",
                    what, s);
  return 0;
}

static int
check_profiles (struct mkfs_params *p, const struct btrnbd_mkfs_opts *o)
{
  const char *data = o->data_profile, *metadata = o->metadata_profile;
  int r;

  if (p->mixed) {
    if (!data)
      data = metadata ? metadata : "single";
    if (!metadata)
      metadata = data;
  }
  r = parse_profile ("data", data ? data : "single", &p->data_copies);
  if (r < 0)
    return r;
  r = parse_profile ("metadata", metadata ? metadata : "dup",
                     &p->metadata_copies);
  if (r < 0)
    return r;
  if (p->mixed && p->data_copies != p->metadata_copies)
    return err_new (ERR_invalid, "mixed block groups need one profile for "
                    "data and metadata");
  return 0;
}

static int
check_names (struct mkfs_params *p, const struct btrnbd_mkfs_opts *o)
{
  if (!csum_type_by_name (o->csum ? o->csum : "crc32c", &p->csum_type))
    return err_new (ERR_invalid, "unknown checksum \"%s\"; known are crc32c, "
                    "xxhash, sha256 and blake2b", o->csum);
  if (o->label) {
    if (strlen (o->label) >= BTRFS_LABEL_SIZE)
      return err_new (ERR_invalid, "the label is longer than %d bytes",
                      BTRFS_LABEL_SIZE - 1);
    if (strchr (o->label, '\n'))
      return err_new (ERR_invalid, "the label contains a newline");
    strcpy (p->label, o->label);
  }
  if (o->uuid) {
    if (uuid_parse (o->uuid, p->fsid) < 0)
      return err_new (ERR_invalid, "\"%s\" is not a UUID", o->uuid);
    if (uuid_is_null (p->fsid))
      return err_new (ERR_invalid, "the UUID must not be all zero");
  }
  else
    uuid_generate (p->fsid);
  return 0;
}

int
mkfs_params_init (struct mkfs_params *p, const struct btrnbd_mkfs_opts *o)
{
  int r;

  memset (p, 0, sizeof *p);
  p->mixed = o->mixed;
  p->incompat = BTRFS_INCOMPAT_MIXED_BACKREF;
  r = apply_features (p, o->features);
  if (r < 0)
    return r;
  r = check_sizes (p, o);
  if (r < 0)
    return r;
  r = check_profiles (p, o);
  if (r < 0)
    return r;
  r = check_names (p, o);
  if (r < 0)
    return r;
  uuid_generate (p->dev_uuid);
  uuid_generate (p->chunk_tree_uuid);
  uuid_generate (p->fs_tree_uuid);
  clock_gettime (CLOCK_REALTIME, &p->now);
  return 0;
}

/* A tenth of the device in whole MiB, within [MIN, MAX]. */
static uint64_t
tenth (uint64_t total, uint64_t min, uint64_t max)
{
  return MAX (min, MIN (max, round_down (total / 10, MiB)));
}

static void
add_chunk (struct mkfs_params *p, uint64_t type, unsigned copies,
           uint64_t length, uint64_t *phys)
{
  struct mkfs_chunk *c = &p->chunks[p->num_chunks++];

  c->type = type | (copies == 2 ? BTRFS_BG_DUP : 0);
  c->copies = copies;
  c->length = length;
  c->logical = p->num_chunks == 1 ? MiB : c[-1].logical + c[-1].length;
  for (unsigned i = 0; i < copies; i++) {
    c->phys[i] = *phys;
    *phys += length;
  }
}

/* Chunks of later life are bounded by a tenth of the pool, 1 GiB of data and
 * 256 MiB or (beyond 50 GiB) 1 GiB of metadata; the first ones are made by
 * the same rule, with floors that let small pools live.
 */
int
mkfs_plan_chunks (struct mkfs_params *p)
{
  const uint64_t total = p->total_bytes;
  const uint64_t meta_max = total > 50 * GiB ? GiB : 256 * MiB;
  const uint64_t meta_min = MAX (4 * MiB, UINT64_C (64) * p->nodesize);
  const uint64_t min = p->mixed ? MKFS_MIN_SIZE_MIXED
    : MAX (MKFS_MIN_SIZE, UINT64_C (2048) * p->nodesize);
  uint64_t phys = BTRFS_DEV_RESERVED;

  if (total < min)
    return err_new (ERR_too_small, "%" PRIu64 " bytes, at least %" PRIu64
                    " are needed%s", total, min,
                    p->mixed ? "" : " (fewer with mixed block groups)");

  p->num_chunks = 0;
  add_chunk (p, BTRFS_BG_SYSTEM, p->metadata_copies,
             MAX (MiB, MIN (8 * MiB, round_down (total / 32, MiB))), &phys);
  if (p->mixed)
    add_chunk (p, BTRFS_BG_DATA | BTRFS_BG_METADATA, p->metadata_copies,
               tenth (total, meta_min, GiB), &phys);
  else {
    add_chunk (p, BTRFS_BG_METADATA, p->metadata_copies,
               tenth (total, meta_min, meta_max), &phys);
    add_chunk (p, BTRFS_BG_DATA, p->data_copies, tenth (total, MiB, GiB),
               &phys);
  }
  if (phys > total)
    return err_new (ERR_too_small, "%" PRIu64 " bytes, at least %" PRIu64
                    " are needed", total, phys);
  return 0;
}
