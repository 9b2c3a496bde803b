/* log: names, and the inodes that they lead to.
 *
 * Either the log of a subvolume says nothing of names, or it holds all that
 * the running transaction had changed of them at one moment: of each inode
 * that got or lost a name, all its names; of each directory, which entries
 * went.  Replay takes every entry away that a range covers and no item
 * confirms, before it adds those that the inodes know of, so whatever was
 * exchanged, replaced or moved in whatever order ends as it was at that
 * moment.  No inode has to be looked for that might conflict, no ancestor,
 * and nothing that was logged before can contradict what is logged now.
 *
 * The cost is that of what changed since the names were logged last, whatever
 * the size of directories (inode/changes.c keeps the list).  Items are copied
 * under one hold of the subvolume's tree lock: that is the moment.
 *
 * Format: DIR_LOG_INDEX (dir, first) -> last: of the entries between these
 * indexes replay keeps those that the log has a DIR_INDEX item of, which takes
 * an index that was used again.  Ranges only grow.  An inode whose contents
 * the log does not have is there with generation 0, which makes replay create
 * it empty or leave it as it is.
 */
#include <config.h>

#include <assert.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/math.h"
#include "log/log_priv.h"

struct namer {
  struct logs *logs;
  struct tree *log;            /* lock held exclusively */
  struct tree *from;           /* the subvolume; lock held shared */
};

/* Replay writes references and attributes over those of the last commit.
 * Where a smaller item is in the way and both do not fit into one leaf,
 * Linux (6.18 at least) does not make room for the larger one, and dies: such
 * an item may only be committed.
 */
static int
check_size (const struct tree *log, struct key key, uint32_t size)
{
  const struct format_info *fi = block_cache_format (log->cache);

  if (key.type > BTRFS_INODE_ITEM && key.type <= BTRFS_XATTR_ITEM &&
      size > tb_max_item_size (fi->nodesize) / 2)
    return err_new (ERR_item_too_big, "%u bytes of names or attributes of "
                    "inode %llu", size, (unsigned long long) key.objectid);
  return 0;
}

int
log_copy_items (struct logs *l, struct tree *log, struct tree *from,
                struct key first, struct key last)
{
  CLEANUP_CURSOR struct cursor cur = CURSOR_INIT;
  int r;

  r = tree_delete_range (&l->blocks.txn, log, first, last, 0, NULL);
  if (r == 0)
    r = tree_find (from, first, &cur, NULL);
  while (r == 0 && cursor_at_item (&cur)) {
    const struct key key = cursor_key (&cur);

    if (key_cmp (key, last) > 0)
      break;
    r = check_size (log, key, cursor_size (&cur));
    if (r == 0)
      r = tree_insert_data (&l->blocks.txn, log, key, cursor_data (&cur),
                            cursor_size (&cur));
    if (r == 0)
      r = cursor_next (&cur);
  }
  return r;
}

/* --- inodes --- */

/* !*ret_found: it has no name any more. */
static int
find_inode (struct namer *n, uint64_t ino, struct btrfs_inode_item *ret,
            bool *ret_found)
{
  uint32_t size;
  int r;

  r = tree_get (n->from, KEY (ino, BTRFS_INODE_ITEM, 0), ret, sizeof *ret,
                &size, ret_found);
  if (r < 0 || !*ret_found)
    return r;
  if (size < sizeof *ret)
    return err_new (ERR_item_format, "inode item of %u bytes", size);
  *ret_found = le32_get (ret->nlink) > 0;
  return 0;
}

/* The item of a regular file whose contents are not logged now.  If they have
 * been, what was logged with them stays.
 */
static int
put_item (struct namer *n, uint64_t ino, struct btrfs_inode_item *item)
{
  const struct key key = KEY (ino, BTRFS_INODE_ITEM, 0);
  uint32_t size;
  bool logged;
  int r;

  r = tree_get (n->log, key, NULL, 0, &size, &logged);
  if (r < 0 || logged)
    return r;
  if (le64_get (item->generation) != n->logs->transid ||
      le64_get (item->size) != 0) {
    item->generation = le64_make (0);
    item->size = le64_make (0);
  }
  return tree_insert_data (&n->logs->blocks.txn, n->log, key, item,
                           sizeof *item);
}

/* All but what is in files and directories.  A symbolic link is nothing
 * without its target.
 */
static int
put_inode (struct namer *n, uint64_t ino, struct btrfs_inode_item *item)
{
  const uint32_t mode = le32_get (item->mode);
  const struct key last = KEY (ino, BTRFS_XATTR_ITEM, UINT64_MAX);
  struct key first = KEY (ino, BTRFS_INODE_ITEM, 0);
  int r = 0;

  if (S_ISREG (mode)) {
    r = put_item (n, ino, item);
    ++first.type;
  }
  if (r == 0)
    r = log_copy_items (n->logs, n->log, n->from, first, last);
  if (r == 0 && S_ISLNK (mode))
    r = log_copy_items (n->logs, n->log, n->from,
                        KEY (ino, BTRFS_EXTENT_DATA, 0),
                        KEY (ino, BTRFS_EXTENT_DATA, UINT64_MAX));
  return r;
}

/* What has no name any more is unlinked by the ranges of the directories that
 * had them.
 */
static int
put_or_forget (struct namer *n, uint64_t ino)
{
  struct btrfs_inode_item item;
  bool found;
  int r;

  r = find_inode (n, ino, &item, &found);
  if (r < 0)
    return r;
  if (found)
    return put_inode (n, ino, &item);
  return tree_delete_range (&n->logs->blocks.txn, n->log, KEY (ino, 0, 0),
                            KEY (ino, UINT8_MAX, UINT64_MAX), 0, NULL);
}

/* --- directories --- */

static bool
at_range (const struct cursor *cur, uint64_t dir)
{
  struct key k;

  if (!cursor_at_item (cur))
    return false;
  k = cursor_key (cur);
  return k.objectid == dir && k.type == BTRFS_DIR_LOG_INDEX;
}

static int
new_range (struct namer *n, uint64_t dir, uint64_t first, uint64_t last)
{
  const le64 end = le64_make (last);

  return tree_insert_data (&n->logs->blocks.txn, n->log,
                           KEY (dir, BTRFS_DIR_LOG_INDEX, first), &end,
                           sizeof end);
}

/* Add [first, last] to the ranges of DIR, of which none touch. */
static int
add_range (struct namer *n, uint64_t dir, uint64_t first, uint64_t last)
{
  struct tree_txn *txn = &n->logs->blocks.txn;

  for (;;) {
    const uint64_t behind = last == UINT64_MAX ? last : last + 1;
    CLEANUP_CURSOR struct cursor cur = CURSOR_INIT;
    uint64_t start, end;
    int r;

    r = tree_find_le (n->log, KEY (dir, BTRFS_DIR_LOG_INDEX, behind), &cur,
                      NULL);
    if (r < 0)
      return r;
    if (!at_range (&cur, dir))
      return new_range (n, dir, first, last);
    start = cursor_key (&cur).offset;
    end = le64_get (*(const le64 *) cursor_data (&cur));
    if (end < first && first - end > 1)
      return new_range (n, dir, first, last);
    if (start <= first && end >= last)
      return 0;
    r = cursor_make_writable (txn, &cur);
    if (r < 0)
      return r;
    if (start <= first) {
      *(le64 *) cursor_data_rw (&cur) = le64_make (last);
      return 0;
    }
    last = MAX (last, end);
    r = cursor_delete (txn, &cur, 1);
    if (r < 0)
      return r;
  }
}

/* The places [first, last] of DIR, from each of which an entry went. */
static int
put_places (struct namer *n, uint64_t dir, uint64_t first, uint64_t last)
{
  int r = add_range (n, dir, first, last);

  if (r == 0)
    r = log_copy_items (n->logs, n->log, n->from,
                        KEY (dir, BTRFS_DIR_INDEX, first),
                        KEY (dir, BTRFS_DIR_INDEX, last));
  return r;
}

/* Places V of one directory. */
static int
put_dir (struct namer *n, const struct name_place *v, size_t num)
{
  const uint64_t dir = v->dir;
  struct btrfs_inode_item item;
  bool found;
  size_t i, k;
  int r;

  r = find_inode (n, dir, &item, &found);
  if (r < 0 || !found)
    return r;                   /* gone, and forgotten as an inode */
  r = put_inode (n, dir, &item);
  for (i = 0; i < num && r == 0; i = k) {
    for (k = i + 1; k < num && v[k].index == v[k - 1].index + 1; ++k)
      ;
    r = put_places (n, dir, v[i].index, v[k - 1].index);
  }
  return r;
}

static int
put_changes (struct namer *n, const struct names_changed *c)
{
  size_t i, k;
  int r = 0;

  for (i = 0; i < c->num_inodes && r == 0; ++i)
    r = put_or_forget (n, c->inodes[i]);
  for (i = 0; i < c->num_places && r == 0; i = k) {
    for (k = i + 1; k < c->num_places &&
         c->places[k].dir == c->places[i].dir; ++k)
      ;
    r = put_dir (n, &c->places[i], k - i);
  }
  return r;
}

/* --- for the leader --- */

int
log_names (struct logs *l, struct log_tree *log, struct inodes *inodes,
           struct root *root, bool *ret_ok)
{
  struct namer n = { .logs = l, .log = log->tree, .from = root->tree };
  struct names_changed c;
  int r = 0;

  rwlock_rdlock (&root->tree->lock);
  rwlock_wrlock (&log->tree->lock);
  *ret_ok = names_changed_take (inodes, root->id, l->transid, &c);
  if (*ret_ok && c.num_inodes > 0) {
    log->changed = true;
    r = put_changes (&n, &c);
  }
  rwlock_unlock (&log->tree->lock);
  rwlock_unlock (&root->tree->lock);
  names_changed_done (&c);
  return r < 0 ? err_note (r, "logging names of subvolume %llu",
                           (unsigned long long) root->id) : 0;
}

int
log_inode (struct logs *l, struct log_tree *log, struct inode *in)
{
  struct root *root = in->root;
  struct namer n = { .logs = l, .log = log->tree, .from = root->tree };
  int r;

  assert (mutex_is_mine (&in->lock));
  rwlock_rdlock (&root->tree->lock);
  rwlock_wrlock (&log->tree->lock);
  log->changed = true;
  r = put_or_forget (&n, in->ino);
  rwlock_unlock (&log->tree->lock);
  rwlock_unlock (&root->tree->lock);
  return r < 0 ? err_note (r, "logging inode %llu of subvolume %llu",
                           (unsigned long long) in->ino,
                           (unsigned long long) root->id) : 0;
}
