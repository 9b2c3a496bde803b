/* The public API: print the items of a leaf. */
#include <config.h>

#include <inttypes.h>
#include <string.h>
#include <uuid/uuid.h>

#include "base/math.h"
#include "fs/api_dump.h"

/* An item that is being printed from its front. */
struct dump {
  const struct format_info *format;
  struct key key;
  const uint8_t *p;
  uint32_t left;
  FILE *fp;
};

/* The next SIZE bytes, or NULL (after a remark) when they are not there. */
static const void *
take_bytes (struct dump *d, uint32_t size)
{
  const void *p = d->p;

  if (size > d->left) {
    fprintf (d->fp, "\t\t(item too short: %u bytes left of %u)\n", d->left,
             size);
    d->left = 0;
    return NULL;
  }
  d->p += size;
  d->left -= size;
  return p;
}

static void
print_name (struct dump *d, const char *label, uint32_t len)
{
  const char *name = take_bytes (d, len);
  uint32_t i;

  if (name == NULL)
    return;
  fprintf (d->fp, "%s", label);
  for (i = 0; i < len; i++)
    if ((unsigned char) name[i] < ' ' || name[i] == 0x7f || name[i] == '\\')
      fprintf (d->fp, "\\x%02x", (unsigned char) name[i]);
    else
      fputc (name[i], d->fp);
  fputc ('\n', d->fp);
}

static void
print_time (FILE *fp, const char *label, const struct btrfs_timespec *t)
{
  fprintf (fp, "\t\t%s %" PRId64 ".%09u\n", label,
           (int64_t) le64_get (t->sec), le32_get (t->nsec));
}

static void
print_inode (FILE *fp, const struct btrfs_inode_item *i)
{
  fprintf (fp, "\t\tgeneration %" PRIu64 " transid %" PRIu64 " size %" PRIu64
           " nbytes %" PRIu64 "\n", le64_get (i->generation),
           le64_get (i->transid), le64_get (i->size), le64_get (i->nbytes));
  fprintf (fp, "\t\tblock group %" PRIu64 " mode %o links %u uid %u gid %u "
           "rdev %" PRIu64 "\n", le64_get (i->block_group),
           le32_get (i->mode), le32_get (i->nlink), le32_get (i->uid),
           le32_get (i->gid), le64_get (i->rdev));
  fprintf (fp, "\t\tsequence %" PRIu64 " flags 0x%" PRIx64 "\n",
           le64_get (i->sequence), le64_get (i->flags));
  print_time (fp, "atime", &i->atime);
  print_time (fp, "ctime", &i->ctime);
  print_time (fp, "mtime", &i->mtime);
  print_time (fp, "otime", &i->otime);
}

static void
dump_inode_item (struct dump *d)
{
  const struct btrfs_inode_item *i = take_bytes (d, sizeof *i);

  if (i != NULL)
    print_inode (d->fp, i);
}

static void
dump_inode_ref (struct dump *d)
{
  const struct btrfs_inode_ref *r;

  while (d->left > 0 && (r = take_bytes (d, sizeof *r)) != NULL) {
    fprintf (d->fp, "\t\tindex %" PRIu64 " namelen %u ", le64_get (r->index),
             le16_get (r->name_len));
    print_name (d, "name: ", le16_get (r->name_len));
  }
}

static void
dump_inode_extref (struct dump *d)
{
  const struct btrfs_inode_extref *r;

  while (d->left > 0 && (r = take_bytes (d, sizeof *r)) != NULL) {
    fprintf (d->fp, "\t\tindex %" PRIu64 " parent %" PRIu64 " namelen %u ",
             le64_get (r->index), le64_get (r->parent),
             le16_get (r->name_len));
    print_name (d, "name: ", le16_get (r->name_len));
  }
}

static void
dump_dir_item (struct dump *d)
{
  static const char *const types[] = { "UNKNOWN", "FILE", "DIR", "CHRDEV",
    "BLKDEV", "FIFO", "SOCK", "SYMLINK", "XATTR" };
  const struct btrfs_dir_item *i;
  char key[KEY_STR_MAX];

  while (d->left > 0 && (i = take_bytes (d, sizeof *i)) != NULL) {
    fprintf (d->fp, "\t\tlocation key %s type %s\n",
             key_str (key_from_disk (&i->location), key),
             i->type < ARRAY_SIZE (types) ? types[i->type] : "?");
    fprintf (d->fp, "\t\ttransid %" PRIu64 " data_len %u name_len %u\n",
             le64_get (i->transid), le16_get (i->data_len),
             le16_get (i->name_len));
    print_name (d, "\t\tname: ", le16_get (i->name_len));
    if (le16_get (i->data_len) > 0)
      print_name (d, "\t\tdata ", le16_get (i->data_len));
  }
}

static void
dump_file_extent (struct dump *d)
{
  const struct btrfs_file_extent *e = (const void *) d->p;
  static const char *const types[] = { "inline", "regular", "prealloc" };
  static const char *const packs[] = { "none", "zlib", "lzo", "zstd" };
  const char *pack;

  if (take_bytes (d, BTRFS_FILE_EXTENT_INLINE_HEAD) == NULL)
    return;
  pack = e->compression < ARRAY_SIZE (packs) ? packs[e->compression] : "?";
  fprintf (d->fp, "\t\tgeneration %" PRIu64 " type %u (%s)\n",
           le64_get (e->generation), e->type,
           e->type < ARRAY_SIZE (types) ? types[e->type] : "?");
  if (e->type == BTRFS_FILE_EXTENT_INLINE) {
    fprintf (d->fp, "\t\tinline extent data size %u ram_bytes %" PRIu64
             " compression %u (%s)\n", d->left, le64_get (e->ram_bytes),
             e->compression, pack);
    return;
  }
  if (take_bytes (d, sizeof *e - BTRFS_FILE_EXTENT_INLINE_HEAD) == NULL)
    return;
  fprintf (d->fp, "\t\textent data disk byte %" PRIu64 " nr %" PRIu64 "\n",
           le64_get (e->disk_bytenr), le64_get (e->disk_num_bytes));
  fprintf (d->fp, "\t\textent data offset %" PRIu64 " nr %" PRIu64
           " ram %" PRIu64 "\n", le64_get (e->offset),
           le64_get (e->num_bytes), le64_get (e->ram_bytes));
  fprintf (d->fp, "\t\textent compression %u (%s)\n", e->compression, pack);
}

static void
dump_csum (struct dump *d)
{
  uint64_t sectors = d->left / MAX (d->format->csum_size, 1);
  uint64_t len = sectors * d->format->sectorsize;

  fprintf (d->fp, "\t\trange start %" PRIu64 " end %" PRIu64 " length %" PRIu64
           "\n", d->key.offset, d->key.offset + len, len);
}

static void
dump_root_item (struct dump *d)
{
  const struct btrfs_root_item *i = (const void *) d->p;
  uint32_t size = d->left;
  char uuid[37], key[KEY_STR_MAX];

  if (take_bytes (d, BTRFS_ROOT_ITEM_SIZE_V0) == NULL)
    return;
  fprintf (d->fp, "\t\tgeneration %" PRIu64 " root_dirid %" PRIu64
           " bytenr %" PRIu64 " byte_limit %" PRIu64 " bytes_used %" PRIu64
           "\n", le64_get (i->generation), le64_get (i->root_dirid),
           le64_get (i->bytenr), le64_get (i->byte_limit),
           le64_get (i->bytes_used));
  fprintf (d->fp, "\t\tlast_snapshot %" PRIu64 " flags 0x%" PRIx64
           "(%s) refs %u\n", le64_get (i->last_snapshot),
           le64_get (i->flags),
           le64_get (i->flags) & BTRFS_ROOT_SUBVOL_RDONLY ? "RDONLY" : "none",
           le32_get (i->refs));
  fprintf (d->fp, "\t\tdrop_progress key %s drop_level %u\n",
           key_str (key_from_disk (&i->drop_progress), key), i->drop_level);
  if (size < sizeof *i) {
    fprintf (d->fp, "\t\tlevel %u\n", i->level);
    return;
  }
  fprintf (d->fp, "\t\tlevel %u generation_v2 %" PRIu64 "\n", i->level,
           le64_get (i->generation_v2));
  uuid_unparse_lower (i->uuid, uuid);
  fprintf (d->fp, "\t\tuuid %s\n", uuid);
  uuid_unparse_lower (i->parent_uuid, uuid);
  fprintf (d->fp, "\t\tparent_uuid %s\n", uuid);
  uuid_unparse_lower (i->received_uuid, uuid);
  fprintf (d->fp, "\t\treceived_uuid %s\n", uuid);
  fprintf (d->fp, "\t\tctransid %" PRIu64 " otransid %" PRIu64 " stransid %"
           PRIu64 " rtransid %" PRIu64 "\n", le64_get (i->ctransid),
           le64_get (i->otransid), le64_get (i->stransid),
           le64_get (i->rtransid));
}

static void
dump_root_ref (struct dump *d)
{
  const struct btrfs_root_ref *r = take_bytes (d, sizeof *r);

  if (r == NULL)
    return;
  fprintf (d->fp, "\t\troot %s key dirid %" PRIu64 " sequence %" PRIu64 " ",
           d->key.type == BTRFS_ROOT_REF ? "ref" : "backref",
           le64_get (r->dirid), le64_get (r->sequence));
  print_name (d, "name ", le16_get (r->name_len));
}

static void
print_data_ref (FILE *fp, const char *head,
                const struct btrfs_extent_data_ref *r)
{
  char name[TREE_STR_MAX];

  fprintf (fp, "\t\t%sextent data backref root %s objectid %" PRIu64
           " offset %" PRIu64 " count %u\n", head,
           tree_str (le64_get (r->root), name), le64_get (r->objectid),
           le64_get (r->offset), le32_get (r->count));
}

static void
dump_inline_refs (struct dump *d)
{
  const struct btrfs_extent_data_ref *ref;
  const struct btrfs_shared_data_ref *shared;
  const uint8_t *type;
  const le64 *offset;
  char name[TREE_STR_MAX];

  while (d->left > 0 && (type = take_bytes (d, 1)) != NULL) {
    if (*type == BTRFS_EXTENT_DATA_REF) {
      ref = take_bytes (d, sizeof *ref);
      if (ref != NULL)
        print_data_ref (d->fp, "(178) ", ref);
      continue;
    }
    offset = take_bytes (d, sizeof *offset);
    if (offset == NULL)
      return;
    switch (*type) {
    case BTRFS_TREE_BLOCK_REF:
      fprintf (d->fp, "\t\t(176) tree block backref root %s\n",
               tree_str (le64_get (*offset), name));
      break;
    case BTRFS_SHARED_BLOCK_REF:
      fprintf (d->fp, "\t\t(182) shared block backref parent %" PRIu64 "\n",
               le64_get (*offset));
      break;
    case BTRFS_EXTENT_OWNER_REF:
      fprintf (d->fp, "\t\t(172) extent owner root %" PRIu64 "\n",
               le64_get (*offset));
      break;
    case BTRFS_SHARED_DATA_REF:
      shared = take_bytes (d, sizeof *shared);
      if (shared != NULL)
        fprintf (d->fp, "\t\t(184) shared data backref parent %" PRIu64
                 " count %u\n", le64_get (*offset), le32_get (shared->count));
      break;
    default:
      fprintf (d->fp, "\t\tinline ref of unknown type %u\n", *type);
      return;
    }
  }
}

static void
dump_extent_item (struct dump *d)
{
  const struct btrfs_extent_item *e = take_bytes (d, sizeof *e);
  const struct btrfs_tree_block_info *info;
  char key[KEY_STR_MAX];
  uint64_t flags;

  if (e == NULL)
    return;
  flags = le64_get (e->flags);
  fprintf (d->fp, "\t\trefs %" PRIu64 " gen %" PRIu64 " flags %s%s%s\n",
           le64_get (e->refs), le64_get (e->generation),
           flags & BTRFS_EXTENT_FLAG_DATA ? "DATA" : "",
           flags & BTRFS_EXTENT_FLAG_TREE_BLOCK ? "TREE_BLOCK" : "",
           flags & BTRFS_EXTENT_FLAG_FULL_BACKREF ? "|FULL_BACKREF" : "");
  if (d->key.type == BTRFS_METADATA_ITEM)
    fprintf (d->fp, "\t\ttree block skinny level %" PRIu64 "\n",
             d->key.offset);
  else if (flags & BTRFS_EXTENT_FLAG_TREE_BLOCK) {
    info = take_bytes (d, sizeof *info);
    if (info == NULL)
      return;
    fprintf (d->fp, "\t\ttree block key %s level %u\n",
             key_str (key_from_disk (&info->key), key), info->level);
  }
  dump_inline_refs (d);
}

static void
dump_block_ref (struct dump *d)
{
  fprintf (d->fp, "\t\t%s\n", d->key.type == BTRFS_TREE_BLOCK_REF
           ? "tree block backref" : "shared block backref");
}

static void
dump_data_ref (struct dump *d)
{
  const struct btrfs_extent_data_ref *r = take_bytes (d, sizeof *r);

  if (r != NULL)
    print_data_ref (d->fp, "", r);
}

static void
dump_shared_data_ref (struct dump *d)
{
  const struct btrfs_shared_data_ref *r = take_bytes (d, sizeof *r);

  if (r != NULL)
    fprintf (d->fp, "\t\tshared data backref count %u\n",
             le32_get (r->count));
}

static void
print_bg_type (FILE *fp, uint64_t type)
{
  static const char *const bits[] = { "DATA", "SYSTEM", "METADATA", "RAID0",
    "RAID1", "DUP", "RAID10", "RAID5", "RAID6", "RAID1C3", "RAID1C4" };
  const char *sep = "";
  size_t i;

  for (i = 0; i < ARRAY_SIZE (bits); i++)
    if (type & (UINT64_C (1) << i)) {
      fprintf (fp, "%s%s", sep, bits[i]);
      sep = "|";
    }
  if ((type & BTRFS_BG_PROFILE_MASK) == 0)
    fprintf (fp, "%ssingle", sep);
}

static void
dump_block_group (struct dump *d)
{
  const struct btrfs_block_group_item *b = take_bytes (d, sizeof *b);

  if (b == NULL)
    return;
  fprintf (d->fp, "\t\tblock group used %" PRIu64 " chunk_objectid %" PRIu64
           " flags ", le64_get (b->used), le64_get (b->chunk_objectid));
  print_bg_type (d->fp, le64_get (b->flags));
  fputc ('\n', d->fp);
}

static void
dump_free_space_info (struct dump *d)
{
  const struct btrfs_free_space_info *i = take_bytes (d, sizeof *i);

  if (i != NULL)
    fprintf (d->fp, "\t\tfree space info extent count %u flags %u\n",
             le32_get (i->extent_count), le32_get (i->flags));
}

static void
dump_free_space_extent (struct dump *d)
{
  fprintf (d->fp, "\t\tfree space extent\n");
}

static void
dump_free_space_bitmap (struct dump *d)
{
  unsigned bits = 0;

  for (; d->left > 0; d->p++, d->left--)
    bits += __builtin_popcount (*d->p);
  fprintf (d->fp, "\t\tfree space bitmap, %u bits set\n", bits);
}

static void
dump_dev_extent (struct dump *d)
{
  const struct btrfs_dev_extent *e = take_bytes (d, sizeof *e);

  if (e != NULL)
    fprintf (d->fp, "\t\tdev extent chunk_tree %" PRIu64 " chunk_objectid %"
             PRIu64 " chunk_offset %" PRIu64 " length %" PRIu64 "\n",
             le64_get (e->chunk_tree), le64_get (e->chunk_objectid),
             le64_get (e->chunk_offset), le64_get (e->length));
}

static void
dump_dev_item (struct dump *d)
{
  const struct btrfs_dev_item *i = take_bytes (d, sizeof *i);
  char uuid[37];

  if (i == NULL)
    return;
  uuid_unparse_lower (i->uuid, uuid);
  fprintf (d->fp, "\t\tdevid %" PRIu64 " total_bytes %" PRIu64 " bytes_used %"
           PRIu64 "\n\t\tsector_size %u type %" PRIu64 " generation %" PRIu64
           "\n\t\tuuid %s\n", le64_get (i->devid), le64_get (i->total_bytes),
           le64_get (i->bytes_used), le32_get (i->sector_size),
           le64_get (i->type), le64_get (i->generation), uuid);
}

static void
dump_chunk (struct dump *d)
{
  const struct btrfs_chunk *c = take_bytes (d, sizeof *c);
  const struct btrfs_stripe *s;
  char uuid[37];
  unsigned i;

  if (c == NULL)
    return;
  fprintf (d->fp, "\t\tlength %" PRIu64 " owner %" PRIu64 " stripe_len %"
           PRIu64 " type ", le64_get (c->length), le64_get (c->owner),
           le64_get (c->stripe_len));
  print_bg_type (d->fp, le64_get (c->type));
  fprintf (d->fp, "\n\t\tio_align %u io_width %u sector_size %u\n"
           "\t\tnum_stripes %u sub_stripes %u\n", le32_get (c->io_align),
           le32_get (c->io_width), le32_get (c->sector_size),
           le16_get (c->num_stripes), le16_get (c->sub_stripes));
  for (i = 0; i < le16_get (c->num_stripes); i++) {
    s = take_bytes (d, sizeof *s);
    if (s == NULL)
      return;
    uuid_unparse_lower (s->dev_uuid, uuid);
    fprintf (d->fp, "\t\t\tstripe %u devid %" PRIu64 " offset %" PRIu64
             "\n\t\t\tdev_uuid %s\n", i, le64_get (s->devid),
             le64_get (s->offset), uuid);
  }
}

static void
dump_uuid (struct dump *d)
{
  const le64 *id;

  while (d->left > 0 && (id = take_bytes (d, sizeof *id)) != NULL)
    fprintf (d->fp, "\t\tsubvol_id %" PRIu64 "\n", le64_get (*id));
}

static void
dump_persistent (struct dump *d)
{
  static const char *const names[] = { "write_errs", "read_errs",
    "flush_errs", "corruption_errs", "generation" };
  const le64 *v;
  size_t i;

  if (d->key.objectid != BTRFS_DEV_STATS_OBJECTID)
    return;
  fprintf (d->fp, "\t\tdevice stats\n\t\t");
  for (i = 0; i < ARRAY_SIZE (names) && d->left > 0; i++) {
    v = take_bytes (d, sizeof *v);
    if (v == NULL)
      return;
    fprintf (d->fp, "%s %" PRIu64 " ", names[i], le64_get (*v));
  }
  fputc ('\n', d->fp);
}

static void
dump_qgroup_status (struct dump *d)
{
  const struct btrfs_qgroup_status *s = take_bytes (d, sizeof *s);

  if (s != NULL)
    fprintf (d->fp, "\t\tversion %" PRIu64 " generation %" PRIu64
             " flags 0x%" PRIx64 " scan %" PRIu64 "\n",
             le64_get (s->version), le64_get (s->generation),
             le64_get (s->flags), le64_get (s->rescan));
}

static void
dump_orphan (struct dump *d)
{
  fprintf (d->fp, "\t\torphan item\n");
}

void
dump_item (const struct format_info *format, struct key key,
           const void *data, uint32_t size, FILE *fp)
{
  static void (*const printers[256]) (struct dump *) = {
    [BTRFS_INODE_ITEM] = dump_inode_item,
    [BTRFS_INODE_REF] = dump_inode_ref,
    [BTRFS_INODE_EXTREF] = dump_inode_extref,
    [BTRFS_XATTR_ITEM] = dump_dir_item,
    [BTRFS_ORPHAN_ITEM] = dump_orphan,
    [BTRFS_DIR_ITEM] = dump_dir_item,
    [BTRFS_DIR_INDEX] = dump_dir_item,
    [BTRFS_EXTENT_DATA] = dump_file_extent,
    [BTRFS_EXTENT_CSUM] = dump_csum,
    [BTRFS_ROOT_ITEM] = dump_root_item,
    [BTRFS_ROOT_BACKREF] = dump_root_ref,
    [BTRFS_ROOT_REF] = dump_root_ref,
    [BTRFS_EXTENT_ITEM] = dump_extent_item,
    [BTRFS_METADATA_ITEM] = dump_extent_item,
    [BTRFS_TREE_BLOCK_REF] = dump_block_ref,
    [BTRFS_EXTENT_DATA_REF] = dump_data_ref,
    [BTRFS_SHARED_BLOCK_REF] = dump_block_ref,
    [BTRFS_SHARED_DATA_REF] = dump_shared_data_ref,
    [BTRFS_BLOCK_GROUP_ITEM] = dump_block_group,
    [BTRFS_FREE_SPACE_INFO] = dump_free_space_info,
    [BTRFS_FREE_SPACE_EXTENT] = dump_free_space_extent,
    [BTRFS_FREE_SPACE_BITMAP] = dump_free_space_bitmap,
    [BTRFS_DEV_EXTENT] = dump_dev_extent,
    [BTRFS_DEV_ITEM] = dump_dev_item,
    [BTRFS_CHUNK_ITEM] = dump_chunk,
    [BTRFS_QGROUP_STATUS] = dump_qgroup_status,
    [BTRFS_PERSISTENT_ITEM] = dump_persistent,
    [BTRFS_UUID_SUBVOL] = dump_uuid,
    [BTRFS_UUID_RECEIVED_SUBVOL] = dump_uuid,
  };
  struct dump d = {
    .format = format, .key = key, .p = data, .left = size, .fp = fp,
  };

  if (printers[key.type] != NULL)
    printers[key.type] (&d);
}
