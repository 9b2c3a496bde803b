/* volume: the table of block group profiles. */
#ifndef BTRNBD_VOLUME_PROFILE_H
#define BTRNBD_VOLUME_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

struct profile {
  uint64_t flag;             /* BTRFS_BG_*, 0 for single */
  const char *name;          /* as mkfs.btrfs spells it */
  unsigned dev_stripes;      /* stripes on one device */
  unsigned devs_min;
  unsigned devs_max;         /* 0: all */
  unsigned devs_increment;
  unsigned copies;           /* of every byte, parity not counted */
  unsigned parity;           /* stripes of it per row */
  unsigned sub_stripes;
  unsigned tolerated;        /* copies that may fail */
  bool striped;              /* consecutive stripes lie on different devices */
};

/* The profile of block group TYPE; NULL when its flags name none. */
extern const struct profile *profile_of (uint64_t type);
/* By name; NULL when unknown. */
extern const struct profile *profile_by_name (const char *name);

#endif /* BTRNBD_VOLUME_PROFILE_H */
