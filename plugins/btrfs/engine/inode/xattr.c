/* inode: extended attributes.
 *
 * An XATTR_ITEM is keyed by the hash of the name; names that collide share
 * one.  A value lives in its item, so an item bounds its size.
 */
#include <config.h>

#include "format/names.h"
#include "inode/priv.h"

static struct key
xattr_key (uint64_t ino, struct name n)
{
  return KEY (ino, BTRFS_XATTR_ITEM, name_hash (n.s, n.len));
}

static int
check_name (struct name n)
{
  if (n.len == 0)
    return err_new (ERR_name_bad, "an attribute needs a name");
  if (n.len > BTRFS_NAME_MAX)
    return err_new (ERR_name_long, "attribute name of %zu bytes", n.len);
  return 0;
}

/* CUR is at the item, REC the record in it, when found. */
static int
find (struct root *root, uint64_t ino, struct name n, struct cursor *cur,
      struct pack_rec *rec, bool *ret_found)
{
  bool more;
  int r;

  *ret_found = false;
  *rec = (struct pack_rec) { .head = NULL };
  r = tree_find (root->tree, xattr_key (ino, n), cur, &more);
  if (r < 0 || !more)
    return r;
  for (;;) {
    r = pack_next (PACK_DIR, cursor_data (cur), cursor_size (cur), rec,
                   &more);
    if (r < 0)
      return err_note (r, "attributes of inode %llu",
                       (unsigned long long) ino);
    if (!more)
      return 0;
    if (rec->name_len == n.len && memcmp (rec->name, n.s, n.len) == 0) {
      *ret_found = true;
      return 0;
    }
  }
}

static int
record_len (struct root *root, uint64_t ino, struct name n,
            uint32_t *ret_offset, uint32_t *ret_len, bool *ret_found)
{
  CLEANUP_CURSOR struct cursor cur = CURSOR_INIT;
  struct pack_rec rec;
  int r;

  r = find (root, ino, n, &cur, &rec, ret_found);
  *ret_offset = r == 0 && *ret_found ? rec.offset : 0;
  *ret_len = r == 0 && *ret_found ? rec.len : 0;
  return r;
}

int
xattr_room (struct root *root, uint64_t ino, struct name n, size_t len)
{
  const struct format_info *fi = block_cache_format (root->tree->cache);
  const size_t max = tb_max_item_size (fi->nodesize);
  uint32_t offset, less;
  bool found;
  int r;

  if (len > UINT16_MAX || sizeof (struct btrfs_dir_item) + n.len + len > max)
    return err_new (ERR_xattr_big, "%zu bytes", len);
  r = record_len (root, ino, n, &offset, &less, &found);
  if (r < 0)
    return r;
  return pack_room (root, xattr_key (ino, n),
                    sizeof (struct btrfs_dir_item) + n.len + len, less,
                    ERR_name_hash);
}

int
xattr_put (struct txn *txn, struct root *root, uint64_t ino, struct name n,
           const void *value, size_t len)
{
  const size_t size = sizeof (struct btrfs_dir_item) + n.len + len;
  CLEANUP_FREE uint8_t *rec = malloc (size);
  const struct btrfs_dir_item head = {
    .transid = le64_make (txn->tree.transid),
    .data_len = le16_make (len),
    .name_len = le16_make (n.len),
    .type = BTRFS_FT_XATTR,
  };
  uint32_t offset, less;
  bool found;
  int r;

  if (rec == NULL)
    return err_new (ERR_nomem, "extended attribute");
  memcpy (rec, &head, sizeof head);
  memcpy (rec + sizeof head, n.s, n.len);
  if (len > 0)
    memcpy (rec + sizeof head + n.len, value, len);
  r = record_len (root, ino, n, &offset, &less, &found);
  if (r < 0)
    return r;
  if (found) {
    r = pack_remove (txn, root, xattr_key (ino, n), offset, less);
    if (r < 0)
      return r;
  }
  return pack_append (txn, root, xattr_key (ino, n), rec, size);
}

int
inode_getxattr (struct inode *in, const char *name, void *buf, size_t max,
                size_t *ret_len)
{
  const struct name n = NAME (name, strlen (name));
  struct tree *tree = in->root->tree;
  struct cursor cur = CURSOR_INIT;
  struct pack_rec rec;
  bool found = false;
  int r;

  r = check_name (n);
  if (r < 0)
    return r;
  rwlock_rdlock (&tree->lock);
  r = find (in->root, in->ino, n, &cur, &rec, &found);
  if (r == 0 && found) {
    *ret_len = rec.data_len;
    memcpy (buf, rec.data, MIN ((size_t) rec.data_len, max));
  }
  cursor_done (&cur);
  rwlock_unlock (&tree->lock);
  if (r == 0 && !found)
    r = err_new (ERR_xattr_missing, "\"%s\" of inode %llu", name,
                 (unsigned long long) in->ino);
  return r;
}

/* Tree lock exclusive.  VALUE NULL and LEN SIZE_MAX: remove. */
static int
change_items (struct txn *txn, struct inode *in, struct name n,
              const void *value, size_t len, bool *changed)
{
  struct root *root = in->root;
  uint32_t offset, less;
  bool found;
  int r;

  r = root_check_writable (root);
  if (r == 0 && len == SIZE_MAX) {
    r = record_len (root, in->ino, n, &offset, &less, &found);
    if (r == 0 && !found)
      r = err_new (ERR_xattr_missing, "\"%.*s\" of inode %llu", (int) n.len,
                   n.s, (unsigned long long) in->ino);
  }
  else if (r == 0)
    r = xattr_room (root, in->ino, n, len);
  if (r < 0)
    return r;
  *changed = true;
  if (len == SIZE_MAX)
    r = pack_remove (txn, root, xattr_key (in->ino, n), offset, less);
  else
    r = xattr_put (txn, root, in->ino, n, value, len);
  if (r < 0)
    return r;
  inode_touch_ctime (in, txn);
  return inode_write_locked (txn, in);
}

static int
change (struct inode *in, const char *name, const void *value, size_t len)
{
  const struct name n = NAME (name, strlen (name));
  bool changed = false;
  struct txn *txn;
  int r;

  r = check_name (n);
  if (r < 0)
    return r;
  SCOPED_LOCK (&in->lock);
  r = inode_check_write (in);
  if (r < 0)
    return r;
  r = txn_begin (in->inodes->env.trans, 3, &txn);
  if (r < 0)
    return r;
  rwlock_wrlock (&in->root->tree->lock);
  r = change_items (txn, in, n, value, len, &changed);
  rwlock_unlock (&in->root->tree->lock);
  return txn_leave (txn, r, changed);
}

int
inode_setxattr (struct inode *in, const char *name, const void *value,
                size_t len)
{
  if (len > UINT16_MAX)
    return err_new (ERR_xattr_big, "%zu bytes", len);
  return change (in, name, value, len);
}

int
inode_removexattr (struct inode *in, const char *name)
{
  return change (in, name, NULL, SIZE_MAX);
}

struct name_list {
  char *buf;
  size_t len, room;
};

static int
list_add (struct name_list *l, const struct pack_rec *rec)
{
  const size_t more = rec->name_len + 1;

  if (l->room - l->len < more) {
    size_t room = 2 * l->room + more + 64;
    char *p = realloc (l->buf, room);

    if (p == NULL)
      return err_new (ERR_nomem, "names of extended attributes");
    l->buf = p;
    l->room = room;
  }
  memcpy (l->buf + l->len, rec->name, rec->name_len);
  l->len += rec->name_len;
  l->buf[l->len++] = '\0';
  return 0;
}

/* Tree lock shared.  The list may not outgrow what Linux would return. */
static int
list_all (struct inode *in, struct name_list *l)
{
  CLEANUP_CURSOR struct cursor cur = CURSOR_INIT;
  struct pack_rec rec;
  struct key k;
  bool more;
  int r;

  r = tree_find (in->root->tree, KEY (in->ino, BTRFS_XATTR_ITEM, 0), &cur,
                 NULL);
  while (r == 0 && cursor_at_item (&cur)) {
    k = cursor_key (&cur);
    if (k.objectid != in->ino || k.type != BTRFS_XATTR_ITEM)
      break;
    rec = (struct pack_rec) { .head = NULL };
    for (;;) {
      r = pack_next (PACK_DIR, cursor_data (&cur), cursor_size (&cur), &rec,
                     &more);
      if (r < 0 || !more)
        break;
      if (l->len > 65536)
        return err_new (ERR_overflow, "too many extended attributes");
      r = list_add (l, &rec);
      if (r < 0)
        break;
    }
    if (r == 0)
      r = cursor_next (&cur);
  }
  return r;
}

int
inode_listxattr (struct inode *in, char **ret_names, size_t *ret_len)
{
  struct name_list l = { .buf = NULL };
  int r;

  rwlock_rdlock (&in->root->tree->lock);
  r = list_all (in, &l);
  rwlock_unlock (&in->root->tree->lock);
  if (r < 0) {
    free (l.buf);
    return r;
  }
  *ret_names = l.buf;
  *ret_len = l.len;
  return 0;
}
