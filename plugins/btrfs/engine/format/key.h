/* format: tree keys in CPU form. */
#ifndef BTRNBD_FORMAT_KEY_H
#define BTRNBD_FORMAT_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <btrnbd/ondisk.h>

struct key {
  uint64_t objectid;
  uint8_t type;
  uint64_t offset;
};

#define KEY(o, t, f)                                                    \
  ((struct key) { .objectid = (o), .type = (t), .offset = (f) })
#define KEY_MIN KEY (0, 0, 0)
#define KEY_MAX KEY (UINT64_MAX, UINT8_MAX, UINT64_MAX)

static inline struct key
key_from_disk (const struct btrfs_disk_key *d)
{
  return KEY (le64_get (d->objectid), d->type, le64_get (d->offset));
}

static inline struct btrfs_disk_key
key_to_disk (struct key k)
{
  return (struct btrfs_disk_key) { .objectid = le64_make (k.objectid),
    .type = k.type, .offset = le64_make (k.offset) };
}

/* <0, 0, >0 in tree order. */
static inline int
key_cmp (struct key a, struct key b)
{
  if (a.objectid != b.objectid)
    return a.objectid < b.objectid ? -1 : 1;
  if (a.type != b.type)
    return a.type < b.type ? -1 : 1;
  if (a.offset != b.offset)
    return a.offset < b.offset ? -1 : 1;
  return 0;
}

/* The next key in tree order; false when K is KEY_MAX. */
extern bool key_next (struct key k, struct key *ret_next);

/* "(256 INODE_ITEM 0)" into BUF, which is returned. */
#define KEY_STR_MAX 96
extern const char *key_str (struct key, char buf[KEY_STR_MAX]);
/* "EXTENT_TREE", "257", ... into BUF, which is returned. */
#define TREE_STR_MAX 32
extern const char *tree_str (uint64_t tree_id, char buf[TREE_STR_MAX]);
extern const char *key_type_name (uint8_t type); /* NULL when unknown */

#endif /* BTRNBD_FORMAT_KEY_H */
