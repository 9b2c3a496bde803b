/* format: root items, references between subvolumes, the uuid tree. */
#include <config.h>

#include "format/check_internal.h"

#define ROOT_FLAGS_KNOWN (BTRFS_ROOT_SUBVOL_RDONLY | BTRFS_ROOT_SUBVOL_DEAD)

static int
check_generations (const struct item_check *c,
                   const struct btrfs_root_item *r)
{
  int e;

  e = item_want_generation (c, "generation", le64_get (r->generation));
  if (e == 0)
    e = item_want_generation (c, "last_snapshot",
                              le64_get (r->last_snapshot));
  if (e == 0 && c->size >= sizeof *r)
    e = item_want_generation (c, "generation_v2",
                              le64_get (r->generation_v2));
  return e;
}

int
check_root_item (const struct item_check *c)
{
  const struct btrfs_root_item *r = (const void *) c->data;
  int e;

  if (c->key.objectid == 0)
    return item_bad (c, "objectid is 0");
  if (c->key.objectid == BTRFS_TREE_RELOC && c->key.offset == 0)
    return item_bad (c, "relocation tree of no tree");
  if (c->size != sizeof *r && c->size != BTRFS_ROOT_ITEM_SIZE_V0)
    return item_bad (c, "item size is %" PRIu32 ", expected %zu or %d",
                     c->size, sizeof *r, BTRFS_ROOT_ITEM_SIZE_V0);
  e = check_generations (c, r);
  if (e == 0)
    e = item_want_aligned (c, "bytenr", le64_get (r->bytenr));
  if (e < 0)
    return e;
  if (r->level >= BTRFS_MAX_LEVEL)
    return item_bad (c, "level is %u, expected below %d", r->level,
                     BTRFS_MAX_LEVEL);
  if (r->drop_level >= BTRFS_MAX_LEVEL)
    return item_bad (c, "drop_level is %u, expected below %d", r->drop_level,
                     BTRFS_MAX_LEVEL);
  if (le64_get (r->drop_progress.objectid) != 0 && r->drop_level == 0)
    return item_bad (c, "drop_progress is set, but drop_level is 0");
  if ((le64_get (r->flags) & ~ROOT_FLAGS_KNOWN) != 0)
    return item_bad (c, "flags are 0x%" PRIx64, le64_get (r->flags));
  return 0;
}

int
check_root_ref (const struct item_check *c)
{
  const struct btrfs_root_ref *r = (const void *) c->data;
  uint32_t len;

  if (c->size < sizeof *r)
    return item_bad (c, "item size is %" PRIu32 ", expected at least %zu",
                     c->size, sizeof *r);
  len = le16_get (r->name_len);
  if (len == 0 || len > BTRFS_NAME_MAX || len != c->size - sizeof *r)
    return item_bad (c, "name_len is %" PRIu32 ", expected %zu", len,
                     c->size - sizeof *r);
  return 0;
}

/* Tree ids of the subvolumes with one uuid. */
int
check_uuid_item (const struct item_check *c)
{
  if (c->size == 0 || c->size % sizeof (le64) != 0)
    return item_bad (c, "item size is %" PRIu32 ", expected a multiple of 8",
                     c->size);
  return 0;
}
