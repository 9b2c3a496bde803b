/* Named damages to an image, see mutate.h. */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/math.h"
#include "lib/mutate.h"

static const struct {
  const char *name;
  uint16_t offset, size;
} fields[] = {
#define F(type, field)                                                  \
  { #type "." #field, offsetof (struct btrfs_##type, field),            \
    sizeof (((struct btrfs_##type *) 0)->field) }
  F (super, magic), F (super, bytenr), F (super, flags),
  F (super, generation), F (super, root), F (super, chunk_root),
  F (super, log_root), F (super, total_bytes), F (super, bytes_used),
  F (super, root_dir_objectid), F (super, num_devices),
  F (super, sectorsize), F (super, nodesize), F (super, unused_leafsize),
  F (super, stripesize), F (super, sys_chunk_array_size),
  F (super, chunk_root_generation), F (super, compat_ro_flags),
  F (super, incompat_flags), F (super, csum_type), F (super, root_level),
  F (super, chunk_root_level), F (super, log_root_level),
  F (super, dev_item.devid), F (super, dev_item.total_bytes),
  F (super, dev_item.bytes_used), F (super, dev_item.fsid[0]),
  F (super, dev_item.uuid[0]), F (super, fsid[0]), F (super, csum[0]),
  F (disk_key, objectid), F (disk_key, type), F (disk_key, offset),
  F (header, csum[0]), F (header, fsid[0]), F (header, bytenr),
  F (header, flags), F (header, generation), F (header, owner),
  F (header, nritems), F (header, level),
  F (item, key.objectid), F (item, key.type), F (item, key.offset),
  F (item, offset), F (item, size),
  F (key_ptr, key.objectid), F (key_ptr, key.type), F (key_ptr, key.offset),
  F (key_ptr, blockptr), F (key_ptr, generation),
  F (dev_item, devid), F (dev_item, total_bytes), F (dev_item, bytes_used),
  F (dev_item, uuid[0]),
  F (chunk, length), F (chunk, stripe_len), F (chunk, type),
  F (chunk, sector_size), F (chunk, num_stripes), F (chunk, sub_stripes),
  F (chunk, stripes[0].devid), F (chunk, stripes[0].offset),
  F (chunk, stripes[0].dev_uuid[0]),
  F (dev_extent, chunk_tree), F (dev_extent, chunk_objectid),
  F (dev_extent, chunk_offset), F (dev_extent, length),
  F (block_group_item, used), F (block_group_item, chunk_objectid),
  F (block_group_item, flags),
  F (free_space_info, extent_count), F (free_space_info, flags),
  F (inode_item, generation), F (inode_item, transid), F (inode_item, size),
  F (inode_item, nlink), F (inode_item, mode), F (inode_item, flags),
  F (root_item, bytenr), F (root_item, generation), F (root_item, level),
  F (root_item, flags), F (root_item, drop_level),
  F (root_item, drop_progress.objectid), F (root_item, last_snapshot),
  F (root_ref, name_len), F (inode_ref, name_len),
  F (inode_extref, name_len),
  F (dir_item, location.objectid), F (dir_item, location.type),
  F (dir_item, location.offset), F (dir_item, data_len),
  F (dir_item, name_len), F (dir_item, type),
  F (file_extent, ram_bytes), F (file_extent, compression),
  F (file_extent, encryption), F (file_extent, type),
  F (file_extent, disk_bytenr), F (file_extent, disk_num_bytes),
  F (file_extent, offset), F (file_extent, num_bytes),
  F (extent_item, refs), F (extent_item, generation), F (extent_item, flags),
#undef F
};

static const struct {
  const char *name;
  uint64_t id;
} trees[] = {
  { "root", BTRFS_ROOT_TREE }, { "extent", BTRFS_EXTENT_TREE },
  { "chunk", BTRFS_CHUNK_TREE }, { "dev", BTRFS_DEV_TREE },
  { "fs", BTRFS_FS_TREE }, { "csum", BTRFS_CSUM_TREE },
  { "uuid", BTRFS_UUID_TREE }, { "fst", BTRFS_FREE_SPACE_TREE },
  { "bgt", BTRFS_BLOCK_GROUP_TREE }, { "sub", 256 },
};

bool
mutation_parse (char *line, struct mutation *m)
{
  char *p = line + strspn (line, " \t");
  int n;

  if (*p == '#' || *p == '\n' || *p == '\0')
    return false;
  n = sscanf (p, "%63s %31s %63s %63s %39s %31s %31s %63s", m->name,
              m->place, m->key, m->field, m->value, m->flags, m->expect,
              m->engine);
  if (n != 8) {
    fprintf (stderr, "%d columns, expected 8: %s", n, p);
    exit (2);
  }
  return true;
}

/* The first item or node pointer that matches. */
struct search {
  bool want_obj, want_off;
  uint64_t obj, off;
  int type;                     /* -1: any */
  uint64_t bytenr;              /* the result */
  uint32_t slot;
};

static int
search_block (void *opaque, const void *buf, const struct rawimg_root *root)
{
  struct search *s = opaque;

  (void) root;
  for (uint32_t i = 0; tb_level (buf) == 0 && i < tb_nritems (buf); ++i) {
    struct key k = tb_item_key (buf, i);

    if ((s->want_obj && k.objectid != s->obj) ||
        (s->type >= 0 && k.type != s->type) ||
        (s->want_off && k.offset != s->off))
      continue;
    s->bytenr = tb_bytenr (buf);
    s->slot = i;
    return -ERR_exists;         /* stops the walk */
  }
  return 0;
}

/* OBJECTID:TYPE:OFFSET, "*" for any. */
static int
parse_key (const char *spec, struct search *s)
{
  char obj[32], type[32], off[32];

  if (sscanf (spec, "%31[^:]:%31[^:]:%31s", obj, type, off) != 3)
    return -1;
  *s = (struct search) { .type = -1 };
  if (strcmp (obj, "*") != 0) {
    s->want_obj = true;
    s->obj = strtoull (obj, NULL, 0);
  }
  if (strcmp (off, "*") != 0) {
    s->want_off = true;
    s->off = strtoull (off, NULL, 0);
  }
  if (strcmp (type, "*") == 0)
    return 0;
  for (int t = 0; t < 256; ++t)
    if (key_type_name (t) != NULL && strcmp (key_type_name (t), type) == 0)
      s->type = t;
  return s->type < 0 ? -1 : 0;
}

/* Where the structure is: a block (0: the superblock) and an offset in it. */
struct place {
  uint64_t bytenr;
  uint32_t offset;
};

static int
find_in_tree (const struct rawimg *img, const struct mutation *m,
              struct place *p)
{
  struct rawimg_root root = { 0 };
  const char *key = m->key;
  struct search s;
  const void *buf;
  bool found = false;
  int r;

  for (size_t i = 0; i < ARRAY_SIZE (trees); ++i)
    if (strcmp (trees[i].name, m->place) == 0 &&
        rawimg_find_root (img, trees[i].id, &root, &found) < 0)
      return -1;
  if (!found)
    return -1;
  p->bytenr = root.bytenr;
  p->offset = 0;
  if (strcmp (key, "header") == 0)
    return 0;
  if (strncmp (key, "ptr", 3) == 0) {
    p->offset = TB_HEADER_SIZE +
      atoi (key + 3) * sizeof (struct btrfs_key_ptr);
    return root.level > 0 ? 0 : -1;
  }
  if (strncmp (key, "item@", 5) == 0 || strncmp (key, "leaf@", 5) == 0)
    key += 5;
  if (parse_key (key, &s) < 0)
    return -1;
  r = rawimg_walk (img, &root, search_block, &s);
  if (r != -ERR_exists)
    return -1;
  buf = rawimg_block (img, s.bytenr, 0);
  p->bytenr = s.bytenr;
  if (strncmp (m->key, "leaf@", 5) == 0)
    p->offset = 0;
  else if (strncmp (m->key, "item@", 5) == 0)
    p->offset = (const uint8_t *) tb_item_c (buf, s.slot) -
      (const uint8_t *) buf;
  else
    p->offset = (const uint8_t *) tb_item_data_c (buf, s.slot) -
      (const uint8_t *) buf;
  return 0;
}

static int
find_place (const struct rawimg *img, const struct mutation *m,
            struct place *p)
{
  if (strcmp (m->place, "super") == 0) {
    *p = (struct place) { 0, 0 };
    return 0;
  }
  if (strcmp (m->place, "sys") == 0) {
    p->bytenr = 0;
    p->offset = offsetof (struct btrfs_super, sys_chunk_array) +
      (strcmp (m->key, "chunk") == 0 ? sizeof (struct btrfs_disk_key) : 0);
    return 0;
  }
  return find_in_tree (img, m, p);
}

/* Offset and size of FIELD; raw fields are "OFFSET/SIZE". */
static int
find_field (const char *field, uint32_t *ret_offset, uint32_t *ret_size)
{
  if (sscanf (field, "%u/%u", ret_offset, ret_size) == 2)
    return *ret_size > 8 ? -1 : 0;
  for (size_t i = 0; i < ARRAY_SIZE (fields); ++i) {
    if (strcmp (fields[i].name, field) == 0) {
      *ret_offset = fields[i].offset;
      *ret_size = fields[i].size;
      return 0;
    }
  }
  return -1;
}

/* VALUE: a number, or one to add (+), subtract (-) or flip (^). */
static void
poke (uint8_t *at, uint32_t size, const char *value)
{
  le64 v = { { 0 } };
  uint64_t old, n;

  memcpy (&v, at, size);
  old = le64_get (v);
  n = strtoull (value + (strchr ("+-^", value[0]) != NULL), NULL, 0);
  if (value[0] == '+')
    n = old + n;
  else if (value[0] == '-')
    n = old - n;
  else if (value[0] == '^')
    n = old ^ n;
  v = le64_make (n);
  memcpy (at, &v, size);
}

/* Change one copy of a block or superblock of LEN bytes. */
static int
change (const struct rawimg *img, const struct mutation *m, uint8_t *block,
        uint32_t len, uint32_t offset, struct mutate_undo *u)
{
  unsigned n = u->n;
  uint32_t at, size;

  if (n == MUTATE_MAX_TOUCHED || find_field (m->field, &at, &size) < 0 ||
      offset + at + size > len)
    return -1;
  u->touched[n].at = block;
  u->touched[n].len = len;
  u->touched[n].old = malloc (len);
  if (u->touched[n].old == NULL)
    return -1;
  ++u->n;
  memcpy (u->touched[n].old, block, len);
  poke (block + offset + at, size, m->value);
  if (strstr (m->flags, "nocsum") == NULL)
    tb_set_csum (block, len, img->info.csum_type);
  return 0;
}

int
mutation_apply (const struct rawimg *img, const struct mutation *m,
                struct mutate_undo *u)
{
  bool one = strstr (m->flags, "one") != NULL;
  struct place p;
  int r = -1;

  u->n = 0;
  if (find_place (img, m, &p) < 0)
    return -1;
  if (p.bytenr == 0) {
    for (unsigned i = 0; i < (one ? 1 : BTRFS_SUPER_COPIES); ++i)
      if (super_offset (i) + BTRFS_SUPER_SIZE <= img->size)
        r = change (img, m, img->base + super_offset (i), BTRFS_SUPER_SIZE,
                    p.offset, u);
    return r;
  }
  for (unsigned i = 0; i < (one ? 1 : rawimg_copies (img, p.bytenr)); ++i)
    r = change (img, m, rawimg_block (img, p.bytenr, i), img->info.nodesize,
                p.offset, u);
  return r;
}

void
mutation_undo (struct mutate_undo *u)
{
  while (u->n > 0) {
    --u->n;
    memcpy (u->touched[u->n].at, u->touched[u->n].old,
            u->touched[u->n].len);
    free (u->touched[u->n].old);
  }
}
