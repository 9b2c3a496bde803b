/* log: what is missing in a log.
 *
 * For some ranges of indexes the log has every entry of a directory: what the
 * subvolume has there and the log does not was removed.  Inodes that lost
 * their last name that way, or to another inode, are left as orphans; their
 * items are deleted after the replay as those of any unlinked file.
 */
#include <config.h>

#include <sys/stat.h>

#include "log/replay_priv.h"

/* The next entry of DIR with index in [*INDEX, LAST]. */
static int
next_entry (struct replay *p, uint64_t dir, uint64_t *index, uint64_t last,
            struct replay_name *ret, bool *ret_subvol, bool *ret_found)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  struct pack_rec rec = { .head = NULL };
  struct key key;
  int r = tree_find (p->root->tree, KEY (dir, BTRFS_DIR_INDEX, *index), &c,
                     NULL);

  *ret_found = false;
  if (r < 0 || !cursor_at_item (&c))
    return r;
  key = cursor_key (&c);
  if (key.objectid != dir || key.type != BTRFS_DIR_INDEX ||
      key.offset > last)
    return 0;
  *index = key.offset;
  r = pack_next (PACK_DIR, cursor_data (&c), cursor_size (&c), &rec,
                 ret_found);
  if (r < 0 || !*ret_found)
    return r;
  *ret_subvol = ((const struct btrfs_dir_item *) rec.head)->location.type
    != BTRFS_INODE_ITEM;
  return replay_name_copy (ret, &rec);
}

static int
entry_in_log (struct replay *p, uint64_t dir, uint64_t index, struct name n,
              bool *ret)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  struct pack_rec rec = { .head = NULL };
  int r = tree_find (p->log, KEY (dir, BTRFS_DIR_INDEX, index), &c, ret);

  if (r == 0 && *ret)
    r = pack_next (PACK_DIR, cursor_data (&c), cursor_size (&c), &rec, ret);
  if (r == 0 && *ret)
    *ret = rec.name_len == n.len && memcmp (rec.name, n.s, n.len) == 0;
  return r;
}

/* Every entry in the range that the log does not have. */
static int
delete_range (struct replay *p, uint64_t dir, uint64_t first, uint64_t last)
{
  struct replay_name n;
  bool found, subvol, logged;
  int r;

  for (;;) {
    r = next_entry (p, dir, &first, last, &n, &subvol, &found);
    if (r < 0 || !found)
      return r;
    /* Names of subvolumes change by commits only. */
    if (!subvol) {
      r = entry_in_log (p, dir, first, replay_name (&n), &logged);
      if (r == 0 && !logged)
        r = replay_unlink (p, dir, replay_name (&n));
      if (r < 0)
        return r;
    }
    if (first++ == last)
      return 0;
  }
}

int
replay_dir_deletes (struct replay *p, uint64_t dir)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  uint64_t done = 0;           /* indexes below have been looked at */
  int r = tree_find (p->log, KEY (dir, BTRFS_DIR_LOG_INDEX, 0), &c, NULL);

  while (r == 0 && cursor_at_item (&c)) {
    const struct key key = cursor_key (&c);
    uint64_t first = MAX (key.offset, done), last;

    if (key.objectid != dir || key.type != BTRFS_DIR_LOG_INDEX)
      break;
    last = le64_get (*(const le64 *) cursor_data (&c));
    if (last >= first) {
      r = delete_range (p, dir, first, last);
      if (last == UINT64_MAX)
        break;
      done = last + 1;
    }
    if (r == 0)
      r = cursor_next (&c);
  }
  return r;
}

int
replay_dir_empty (struct replay *p, uint64_t dir)
{
  struct replay_name n;
  uint64_t index = 0;
  bool found, subvol;
  int r;

  for (;;) {
    r = next_entry (p, dir, &index, UINT64_MAX, &n, &subvol, &found);
    if (r < 0 || !found)
      return r;
    r = replay_unlink (p, dir, replay_name (&n));
    if (r < 0)
      return r;
  }
}

/* --- numbers of links --- */

static int
count_refs (struct replay *p, uint64_t ino, uint64_t *ret)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  int r = tree_find (p->root->tree, KEY (ino, BTRFS_INODE_REF, 0), &c, NULL);

  *ret = 0;
  while (r == 0 && cursor_at_item (&c)) {
    const struct key key = cursor_key (&c);
    struct pack_rec rec = { .head = NULL };
    bool more = true;

    if (key.objectid != ino || key.type > BTRFS_INODE_EXTREF)
      break;
    while (r == 0 && more) {
      r = pack_next (key.type == BTRFS_INODE_REF ? PACK_REF : PACK_EXTREF,
                     cursor_data (&c), cursor_size (&c), &rec, &more);
      *ret += r == 0 && more;
    }
    if (r == 0)
      r = cursor_next (&c);
  }
  return r;
}

static int
make_orphan (struct replay *p, uint64_t ino, bool is_dir)
{
  int r = is_dir ? replay_dir_empty (p, ino) : 0;

  if (r == 0)
    r = tree_insert_data (&p->txn->tree, p->root->tree,
                          KEY (BTRFS_ORPHAN_OBJECTID, BTRFS_ORPHAN_ITEM,
                               ino), NULL, 0);
  if (r != -ERR_key_exists)
    return r;
  err_clear (); /* it had no name before, either */
  return 0;
}

static int
fix_one (struct replay *p, uint64_t ino)
{
  struct btrfs_inode_item item;
  uint64_t links = 0;
  bool found;
  int r = replay_inode_get (p, ino, &item, &found);

  if (r == 0 && !found)
    r = err_new (ERR_inode_missing, "inode %llu", (unsigned long long) ino);
  if (r == 0)
    r = count_refs (p, ino, &links);
  if (r < 0)
    return r;
  if (links > (S_ISDIR (le32_get (item.mode)) ? 1 : UINT32_MAX))
    return err_new (ERR_links, "inode %llu has %llu",
                    (unsigned long long) ino, (unsigned long long) links);
  if (links != le32_get (item.nlink)) {
    item.nlink = le32_make (links);
    item.transid = le64_make (p->txn->tree.transid);
    r = replay_inode_put (p, ino, &item);
  }
  if (r == 0 && links == 0)
    r = make_orphan (p, ino, S_ISDIR (le32_get (item.mode)));
  return r;
}

/* Take one inode out of the set of those to be counted. */
static int
next_noted (struct replay *p, uint64_t *ret_ino, bool *ret_found)
{
  const struct key last = KEY (BTRFS_TREE_LOG_FIXUP, BTRFS_ORPHAN_ITEM,
                               UINT64_MAX);
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  struct key key;
  int r = tree_find_le (p->root->tree, last, &c, NULL);

  *ret_found = false;
  if (r < 0 || !cursor_at_item (&c))
    return r;
  key = cursor_key (&c);
  if (key.objectid != last.objectid || key.type != last.type)
    return 0;
  cursor_done (&c);
  *ret_ino = key.offset;
  *ret_found = true;
  return tree_delete (&p->txn->tree, p->root->tree, key);
}

int
replay_fix_links (struct replay *p)
{
  uint64_t ino;
  bool found;
  int r;

  rwlock_wrlock (&p->root->tree->lock);
  for (;;) {
    r = next_noted (p, &ino, &found);
    if (r < 0 || !found)
      break;
    r = fix_one (p, ino);
    if (r < 0)
      break;
  }
  rwlock_unlock (&p->root->tree->lock);
  return r;
}
