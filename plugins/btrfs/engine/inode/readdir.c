/* inode: listing directories, reading symbolic links. */
#include <config.h>

#include <sys/stat.h>

#include "inode/priv.h"

#define BATCH_ENTRIES 128
#define BATCH_BYTES 8192

struct batch {
  unsigned n;
  size_t bytes;
  uint64_t next;               /* index to continue at */
  bool end;
  struct dir_entry entries[BATCH_ENTRIES];
  char names[BATCH_BYTES];
};

/* Copy the entry at CUR; false when the batch is full. */
static int
batch_add (struct batch *b, struct inode *dir, const struct cursor *cur,
           bool *ret_full)
{
  struct pack_rec rec = { .head = NULL };
  const struct btrfs_dir_item *d;
  struct dir_entry *e;
  struct key loc;
  bool found;
  int r;

  r = pack_next (PACK_DIR, cursor_data (cur), cursor_size (cur), &rec,
                 &found);
  if (r < 0)
    return r;
  if (!found || rec.name_len == 0 || rec.name_len > BTRFS_NAME_MAX)
    return err_new (ERR_dir_format, "index %llu has no good name",
                    (unsigned long long) cursor_key (cur).offset);
  *ret_full = b->n == BATCH_ENTRIES ||
    rec.name_len > BATCH_BYTES - b->bytes;
  if (*ret_full)
    return 0;
  d = rec.head;
  loc = key_from_disk (&d->location);
  e = &b->entries[b->n++];
  *e = (struct dir_entry) {
    .name = memcpy (b->names + b->bytes, rec.name, rec.name_len),
    .name_len = rec.name_len,
    .index = cursor_key (cur).offset,
    .is_subvol = loc.type == BTRFS_ROOT_ITEM,
    .type = d->type,
  };
  b->bytes += rec.name_len;
  e->root_id = e->is_subvol ? loc.objectid : dir->root->id;
  e->ino = e->is_subvol ? BTRFS_FIRST_FREE_OBJECTID : loc.objectid;
  return 0;
}

/* Tree lock held shared. */
static int
batch_fill (struct batch *b, struct inode *dir, uint64_t first)
{
  CLEANUP_CURSOR struct cursor cur = CURSOR_INIT;
  bool full = false;
  struct key k;
  int r;

  b->n = 0;
  b->bytes = 0;
  b->end = false;
  r = tree_find (dir->root->tree, KEY (dir->ino, BTRFS_DIR_INDEX, first),
                 &cur, NULL);
  while (r == 0) {
    if (!cursor_at_item (&cur))
      break;
    k = cursor_key (&cur);
    if (k.objectid != dir->ino || k.type != BTRFS_DIR_INDEX)
      break;
    r = batch_add (b, dir, &cur, &full);
    if (r < 0)
      return r;
    if (full) {
      b->next = k.offset;
      return 0;
    }
    r = cursor_next (&cur);
  }
  b->end = true;
  return r;
}

int
inode_readdir (struct inode *dir, uint64_t first, dir_entry_fn fn,
               void *opaque)
{
  CLEANUP_FREE struct batch *b = NULL;
  unsigned i;
  int r;

  if (!S_ISDIR (dir->mode))
    return err_new (ERR_not_dir, "inode %llu", (unsigned long long) dir->ino);
  if (dir->priv->empty_dir)
    return 0;
  b = malloc (sizeof *b);
  if (b == NULL)
    return err_new (ERR_nomem, "entries of a directory");
  do {
    rwlock_rdlock (&dir->root->tree->lock);
    r = batch_fill (b, dir, first);
    rwlock_unlock (&dir->root->tree->lock);
    if (r < 0)
      return err_note (r, "directory %llu of subvolume %llu",
                       (unsigned long long) dir->ino,
                       (unsigned long long) dir->root->id);
    for (i = 0; i < b->n; ++i) {
      r = fn (opaque, &b->entries[i]);
      if (r != 0)
        return r;
    }
    first = b->next;
  } while (!b->end);
  return 0;
}

/* Tree lock held shared. */
static int
read_target (struct inode *in, char **ret)
{
  CLEANUP_CURSOR struct cursor cur = CURSOR_INIT;
  const struct btrfs_file_extent *fe;
  uint32_t size;
  bool exact;
  int r;

  r = tree_find (in->root->tree, KEY (in->ino, BTRFS_EXTENT_DATA, 0), &cur,
                 &exact);
  if (r < 0)
    return r;
  size = exact ? cursor_size (&cur) : 0;
  if (size < BTRFS_FILE_EXTENT_INLINE_HEAD)
    return err_new (ERR_file_extent, "symbolic link without a target");
  fe = cursor_data (&cur);
  size -= BTRFS_FILE_EXTENT_INLINE_HEAD;
  if (fe->type != BTRFS_FILE_EXTENT_INLINE ||
      fe->compression != BTRFS_COMPRESS_NONE)
    return err_new (ERR_unsupported, "target of a symbolic link is not plain");
  size = MIN (in->size, (uint64_t) size);
  *ret = strndup ((const char *) fe + BTRFS_FILE_EXTENT_INLINE_HEAD, size);
  return *ret == NULL ? err_new (ERR_nomem, "symbolic link") : 0;
}

int
inode_readlink (struct inode *in, char **ret)
{
  int r;

  if (!S_ISLNK (in->mode))
    return err_new (ERR_invalid, "inode %llu is no symbolic link",
                    (unsigned long long) in->ino);
  rwlock_rdlock (&in->root->tree->lock);
  r = read_target (in, ret);
  rwlock_unlock (&in->root->tree->lock);
  return r < 0 ? err_note (r, "inode %llu of subvolume %llu",
                           (unsigned long long) in->ino,
                           (unsigned long long) in->root->id) : 0;
}
