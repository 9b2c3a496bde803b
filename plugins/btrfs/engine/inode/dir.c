/* inode: directory items.
 *
 * A name is in its directory twice: under the hash of the name (DIR_ITEM,
 * shared by names that collide) and under a number that only grows
 * (DIR_INDEX, the order of readdir).
 */
#include <config.h>

#include <sys/stat.h>

#include "format/names.h"
#include "inode/items.h"

int
name_check (struct name n)
{
  if (n.len == 0)
    return err_new (ERR_name_bad, "the name is empty");
  if (n.len > BTRFS_NAME_MAX)
    return err_new (ERR_name_long, "%zu bytes, at most %d", n.len,
                    BTRFS_NAME_MAX);
  if (memchr (n.s, '/', n.len) != NULL || memchr (n.s, '\0', n.len) != NULL)
    return err_new (ERR_name_bad, "\"/\" and NUL cannot be in a name");
  if (n.s[0] == '.' && (n.len == 1 || (n.len == 2 && n.s[1] == '.')))
    return err_new (ERR_name_bad, "\"%.*s\" is no name", (int) n.len, n.s);
  return 0;
}

uint8_t
mode_to_ft (uint32_t mode)
{
  switch (mode & S_IFMT) {
  case S_IFREG:
    return BTRFS_FT_REG_FILE;
  case S_IFDIR:
    return BTRFS_FT_DIR;
  case S_IFCHR:
    return BTRFS_FT_CHRDEV;
  case S_IFBLK:
    return BTRFS_FT_BLKDEV;
  case S_IFIFO:
    return BTRFS_FT_FIFO;
  case S_IFSOCK:
    return BTRFS_FT_SOCK;
  case S_IFLNK:
    return BTRFS_FT_SYMLINK;
  default:
    return BTRFS_FT_UNKNOWN;
  }
}

static struct key
hash_key (uint64_t dir, struct name n)
{
  return KEY (dir, BTRFS_DIR_ITEM, name_hash (n.s, n.len));
}

static bool
rec_is (const struct pack_rec *rec, struct name n)
{
  return rec->name_len == n.len && memcmp (rec->name, n.s, n.len) == 0;
}

/* The record of N in the DIR_ITEM of its hash.  REC points into CUR's leaf. */
static int
find_rec (struct root *root, uint64_t dir, struct name n, struct cursor *cur,
          struct pack_rec *rec, bool *ret_found)
{
  bool exact, more;
  int r;

  *ret_found = false;
  r = tree_find (root->tree, hash_key (dir, n), cur, &exact);
  if (r < 0 || !exact)
    return r;
  *rec = (struct pack_rec) { .head = NULL };
  for (;;) {
    r = pack_next (PACK_DIR, cursor_data (cur), cursor_size (cur), rec,
                   &more);
    if (r < 0)
      return err_note (r, "directory %llu", (unsigned long long) dir);
    if (!more)
      return 0;
    if (rec_is (rec, n)) {
      *ret_found = true;
      return 0;
    }
  }
}

int
dir_find (struct root *root, uint64_t dir, struct name n,
          struct dirent_loc *ret, bool *ret_found)
{
  CLEANUP_CURSOR struct cursor cur = CURSOR_INIT;
  const struct btrfs_dir_item *d;
  struct pack_rec rec;
  int r;

  r = find_rec (root, dir, n, &cur, &rec, ret_found);
  if (r < 0 || !*ret_found)
    return r;
  d = rec.head;
  ret->location = key_from_disk (&d->location);
  ret->type = d->type;
  return 0;
}

int
dir_room (struct root *root, uint64_t dir, struct name n)
{
  CLEANUP_CURSOR struct cursor cur = CURSOR_INIT;
  struct pack_rec rec = { .head = NULL };
  bool found;
  int r;

  r = find_rec (root, dir, n, &cur, &rec, &found);
  if (r < 0)
    return r;
  if (found)
    return err_new (ERR_exists, "\"%.*s\"", (int) n.len, n.s);
  cursor_done (&cur);
  if (rec.head == NULL)
    return 0;                   /* the first of its hash: an item alone fits */
  return pack_room (root, hash_key (dir, n),
                    sizeof (struct btrfs_dir_item) + n.len, 0, ERR_name_hash);
}

int
dir_add (struct txn *txn, struct root *root, uint64_t dir, struct name n,
         uint64_t index, const struct dirent_loc *loc)
{
  struct {
    struct btrfs_dir_item d;
    char name[BTRFS_NAME_MAX];
  } rec;
  uint32_t len = sizeof rec.d + n.len;
  int r;

  assert (n.len <= sizeof rec.name);
  rec.d = (struct btrfs_dir_item) {
    .location = key_to_disk (loc->location),
    .transid = le64_make (txn->tree.transid),
    .name_len = le16_make (n.len),
    .type = loc->type,
  };
  memcpy (rec.name, n.s, n.len);
  r = pack_append (txn, root, hash_key (dir, n), &rec, len);
  if (r < 0)
    return r;
  return tree_insert_data (&txn->tree, root->tree,
                           KEY (dir, BTRFS_DIR_INDEX, index), &rec, len);
}

/* The DIR_INDEX item must be the one of N. */
static int
index_del (struct txn *txn, struct root *root, uint64_t dir, struct name n,
           uint64_t index)
{
  CLEANUP_CURSOR struct cursor cur = CURSOR_INIT;
  struct pack_rec rec = { .head = NULL };
  bool found;
  int r;

  r = tree_find_rw (&txn->tree, root->tree, KEY (dir, BTRFS_DIR_INDEX, index),
                    &cur);
  if (r < 0)
    return r;
  r = pack_next (PACK_DIR, cursor_data (&cur), cursor_size (&cur), &rec,
                 &found);
  if (r < 0)
    return r;
  if (!found || !rec_is (&rec, n))
    return err_new (ERR_dir_format,
                    "directory %llu: index %llu is not of \"%.*s\"",
                    (unsigned long long) dir, (unsigned long long) index,
                    (int) n.len, n.s);
  return cursor_delete (&txn->tree, &cur, 1);
}

int
dir_del (struct txn *txn, struct root *root, uint64_t dir, struct name n,
         uint64_t index)
{
  struct pack_rec rec;
  bool found;
  int r;

  {
    CLEANUP_CURSOR struct cursor cur = CURSOR_INIT;

    r = find_rec (root, dir, n, &cur, &rec, &found);
    if (r < 0)
      return r;
  }
  if (!found)
    return err_new (ERR_dir_format, "directory %llu: \"%.*s\" has gone",
                    (unsigned long long) dir, (int) n.len, n.s);
  r = pack_remove (txn, root, hash_key (dir, n), rec.offset, rec.len);
  if (r < 0)
    return r;
  return index_del (txn, root, dir, n, index);
}

int
dir_next_index (struct root *root, uint64_t dir, uint64_t *ret_index)
{
  CLEANUP_CURSOR struct cursor cur = CURSOR_INIT;
  struct key k;
  int r;

  *ret_index = 2;
  r = tree_find_le (root->tree, KEY (dir, BTRFS_DIR_INDEX, UINT64_MAX), &cur,
                    NULL);
  if (r < 0 || !cursor_at_item (&cur))
    return r;
  k = cursor_key (&cur);
  if (k.objectid != dir || k.type != BTRFS_DIR_INDEX)
    return 0;
  if (k.offset == UINT64_MAX)
    return err_new (ERR_dir_format, "directory %llu: no index left",
                    (unsigned long long) dir);
  *ret_index = MAX (k.offset + 1, UINT64_C (2));
  return 0;
}

int
dir_is_empty (struct root *root, uint64_t dir, bool *ret_empty)
{
  CLEANUP_CURSOR struct cursor cur = CURSOR_INIT;
  struct key k;
  int r;

  *ret_empty = true;
  r = tree_find (root->tree, KEY (dir, BTRFS_DIR_ITEM, 0), &cur, NULL);
  if (r < 0 || !cursor_at_item (&cur))
    return r;
  k = cursor_key (&cur);
  if (k.objectid == dir &&
      (k.type == BTRFS_DIR_ITEM || k.type == BTRFS_DIR_INDEX))
    *ret_empty = false;
  return 0;
}
