/* volume: the table of block group profiles, see profile.h. */
#include <config.h>

#include <string.h>
#include <strings.h>

#include <btrnbd/ondisk.h>

#include "base/math.h"
#include "volume/profile.h"

static const struct profile profiles[] = {
  { .flag = 0, .name = "single", .dev_stripes = 1, .devs_min = 1,
    .devs_max = 1, .devs_increment = 1, .copies = 1, .sub_stripes = 1 },
  { .flag = BTRFS_BG_DUP, .name = "dup", .dev_stripes = 2, .devs_min = 1,
    .devs_max = 1, .devs_increment = 1, .copies = 2, .sub_stripes = 1,
    .tolerated = 1 },
  { .flag = BTRFS_BG_RAID0, .name = "raid0", .dev_stripes = 1,
    .devs_min = 1, .devs_increment = 1, .copies = 1, .sub_stripes = 1,
    .striped = true },
  { .flag = BTRFS_BG_RAID1, .name = "raid1", .dev_stripes = 1,
    .devs_min = 2, .devs_max = 2, .devs_increment = 2, .copies = 2,
    .sub_stripes = 1, .tolerated = 1 },
  { .flag = BTRFS_BG_RAID1C3, .name = "raid1c3", .dev_stripes = 1,
    .devs_min = 3, .devs_max = 3, .devs_increment = 3, .copies = 3,
    .sub_stripes = 1, .tolerated = 2 },
  { .flag = BTRFS_BG_RAID1C4, .name = "raid1c4", .dev_stripes = 1,
    .devs_min = 4, .devs_max = 4, .devs_increment = 4, .copies = 4,
    .sub_stripes = 1, .tolerated = 3 },
  { .flag = BTRFS_BG_RAID10, .name = "raid10", .dev_stripes = 1,
    .devs_min = 2, .devs_increment = 2, .copies = 2, .sub_stripes = 2,
    .tolerated = 1, .striped = true },
  { .flag = BTRFS_BG_RAID5, .name = "raid5", .dev_stripes = 1,
    .devs_min = 2, .devs_increment = 1, .copies = 1, .parity = 1,
    .sub_stripes = 1, .tolerated = 1, .striped = true },
  { .flag = BTRFS_BG_RAID6, .name = "raid6", .dev_stripes = 1,
    .devs_min = 3, .devs_increment = 1, .copies = 1, .parity = 2,
    .sub_stripes = 1, .tolerated = 2, .striped = true },
};

const struct profile *
profile_of (uint64_t type)
{
  for (unsigned i = 0; i < ARRAY_SIZE (profiles); ++i)
    if (profiles[i].flag == (type & BTRFS_BG_PROFILE_MASK))
      return &profiles[i];
  return NULL;
}

const struct profile *
profile_by_name (const char *name)
{
  for (unsigned i = 0; i < ARRAY_SIZE (profiles); ++i)
    if (strcasecmp (profiles[i].name, name) == 0)
      return &profiles[i];
  return NULL;
}
