/* log: replay of inode items, attributes and file extents. */
#include <config.h>

#include <stdlib.h>
#include <sys/stat.h>

#include "extent/csum_items.h"
#include "log/replay_priv.h"

/* --- inode items ---
 *
 * An inode that was logged in full becomes what the log says, except for what
 * follows from other items: its number of links, its nbytes, the size of a
 * directory.  Generation 0 marks an inode of which only the existence (names,
 * attributes) was logged; then the item counts where there is none yet.
 */

static struct btrfs_inode_item
merge (struct replay *p, const struct btrfs_inode_item *logged,
       const struct btrfs_inode_item *have)
{
  const uint32_t mode = le32_get (logged->mode);
  struct btrfs_inode_item item = *logged;

  if (have != NULL && le64_get (logged->generation) == 0) {
    item = *have;
    /* No size was logged: zero would throw data away. */
    if (S_ISREG (mode) && le64_get (logged->size) != 0)
      item.size = logged->size;
    return item;
  }
  item.nbytes = have ? have->nbytes : le64_make (0);
  if (S_ISDIR (mode))
    item.size = have ? have->size : le64_make (0);
  if (le64_get (item.generation) == 0)
    item.generation = le64_make (p->txn->tree.transid);
  return item;
}

/* All attributes are in the log: those that are not were removed. */
static int
delete_xattrs (struct replay *p, uint64_t ino)
{
  return tree_delete_range (&p->txn->tree, p->root->tree,
                            KEY (ino, BTRFS_XATTR_ITEM, 0),
                            KEY (ino, BTRFS_XATTR_ITEM, UINT64_MAX), 0, NULL);
}

/* Tree lock exclusive. */
static int
put_inode (struct replay *p, uint64_t ino,
           const struct btrfs_inode_item *logged, bool *ret_had)
{
  const uint32_t mode = le32_get (logged->mode);
  struct btrfs_inode_item have, item;
  int r = replay_inode_get (p, ino, &have, ret_had);

  if (r < 0)
    return r;
  if (!*ret_had) {
    item = merge (p, logged, NULL);
    r = inode_item_insert (p->txn, p->root, ino, &item);
    return r < 0 ? r : replay_note_links (p, ino);
  }
  if (mode_to_ft (mode) != mode_to_ft (le32_get (have.mode)))
    return err_new (ERR_log_format, "inode %llu is of another type",
                    (unsigned long long) ino);
  r = delete_xattrs (p, ino);
  if (r == 0 && S_ISDIR (mode)) {
    r = replay_dir_deletes (p, ino);
    if (r == 0)
      r = replay_inode_get (p, ino, &have, ret_had);
  }
  item = merge (p, logged, &have);
  /* It has a name now, and must not be deleted before that is there. */
  if (le32_get (item.nlink) == 0)
    item.nlink = le32_make (1);
  if (r == 0)
    r = replay_inode_put (p, ino, &item);
  return r < 0 ? r : replay_note_links (p, ino);
}

/* What lies behind the end of the file was truncated. */
static int
cut_extents (struct replay *p, uint64_t ino)
{
  struct inode *in;
  int r = inode_get (p->env->inodes, p->root->id, ino, &in);

  if (r < 0)
    return r;
  mutex_lock (&in->lock);
  r = data_replay_cut (p->env->data, in, p->txn);
  if (r == 0)
    r = inode_write_item (p->txn, in);
  mutex_unlock (&in->lock);
  inode_put (in);
  return r;
}

int
replay_inode_item (struct replay *p, const struct cursor *c)
{
  const struct btrfs_inode_item *logged = cursor_data (c);
  const uint64_t ino = cursor_key (c).objectid;
  struct tree *t = p->root->tree;
  bool had;
  int r;

  rwlock_wrlock (&t->lock);
  r = put_inode (p, ino, logged, &had);
  rwlock_unlock (&t->lock);
  if (r == 0 && had && S_ISREG (le32_get (logged->mode)))
    r = cut_extents (p, ino);
  p->inodes++;
  return r;
}

/* Those that were there have been deleted. */
int
replay_xattr (struct replay *p, const struct cursor *c)
{
  struct tree *t = p->root->tree;
  struct btrfs_inode_item item;
  bool found;
  int r;

  rwlock_wrlock (&t->lock);
  r = replay_inode_get (p, cursor_key (c).objectid, &item, &found);
  if (r == 0 && !found)
    r = err_new (ERR_inode_missing, "inode %llu",
                 (unsigned long long) cursor_key (c).objectid);
  if (r == 0)
    r = tree_insert_data (&p->txn->tree, t, cursor_key (c), cursor_data (c),
                          cursor_size (c));
  rwlock_unlock (&t->lock);
  return r;
}

/* --- checksums --- */

/* Copy from the log what it has of [START, END), replacing what is there.
 * Extents that share sectors do so again and again: up to a bound, which is
 * out of reach for what anybody writes between two commits.
 */
#define SUMS_MAX (UINT64_C (1) << 32)

static int
replay_sums (struct replay *p, uint64_t start, uint64_t end)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  int r;

  r = tree_find_le (p->log, KEY (BTRFS_EXTENT_CSUM_OBJECTID,
                                 BTRFS_EXTENT_CSUM, start), &c, NULL);
  if (r == 0 && !cursor_at_item (&c))
    r = tree_find (p->log, KEY_MIN, &c, NULL);
  while (r == 0 && cursor_at_item (&c)) {
    const struct key key = cursor_key (&c);
    const size_t n = cursor_size (&c) / p->csum_size;
    const uint64_t from = MAX (key.offset, start);
    const uint64_t to = MIN (key.offset + n * p->sectorsize, end);

    if (key.objectid == BTRFS_EXTENT_CSUM_OBJECTID &&
        key.type == BTRFS_EXTENT_CSUM) {
      if (key.offset >= end)
        break;
      if (from < to && (p->sums += (to - from) / p->sectorsize) > SUMS_MAX)
        return err_new (ERR_log_format, "too many checksums");
      if (from < to)
        r = csum_items_delete (p->env->roots, p->txn, from, to - from);
      if (r == 0 && from < to)
        r = csum_items_insert (p->env->roots, p->txn, from,
                               (const uint8_t *) cursor_data (&c) +
                               (from - key.offset) / p->sectorsize
                               * p->csum_size,
                               (to - from) / p->sectorsize);
    }
    if (r == 0)
      r = cursor_next (&c);
  }
  return r;
}

/* --- file extents --- */

static int
extents_begin (struct replay *p)
{
  int r;

  if (p->in != NULL)
    return 0;
  r = inode_get (p->env->inodes, p->root->id, p->ino, &p->in);
  if (r < 0)
    return r;
  mutex_lock (&p->in->lock);
  if (!S_ISREG (p->in->mode) && !S_ISLNK (p->in->mode))
    return err_new (ERR_log_format, "inode %llu cannot have extents",
                    (unsigned long long) p->ino);
  return 0;
}

int
replay_extents_end (struct replay *p)
{
  int r;

  if (p->in == NULL)
    return 0;
  r = inode_write_item (p->txn, p->in);
  mutex_unlock (&p->in->lock);
  inode_put (take (p->in));
  return r;
}

static bool
on_disk (const struct btrfs_file_extent *e)
{
  return e->type != BTRFS_FILE_EXTENT_INLINE &&
    le64_get (e->disk_bytenr) != 0;
}

static struct replay_taken *
find_taken (struct replay *p, const struct btrfs_file_extent *e);

int
replay_extent (struct replay *p, const struct cursor *c)
{
  const struct btrfs_file_extent *e = cursor_data (c);
  struct replay_taken *taken = on_disk (e) ? find_taken (p, e) : NULL;
  uint64_t start, len;
  int r = extents_begin (p);

  if (r == 0)
    r = data_replay_extent (p->env->data, p->in, p->txn,
                            cursor_key (c).offset, e, cursor_size (c),
                            taken != NULL);
  if (taken != NULL)
    taken->used = true;
  if (r < 0 || e->type != BTRFS_FILE_EXTENT_REG || !on_disk (e) ||
      p->in->flags & BTRFS_INODE_NODATASUM)
    return r;
  start = le64_get (e->disk_bytenr);
  len = le64_get (e->disk_num_bytes);
  if (e->compression == BTRFS_COMPRESS_NONE) {
    start += le64_get (e->offset);
    len = le64_get (e->num_bytes);
  }
  return replay_sums (p, start, start + len);
}

/* --- space of logged data --- */

static int
taken_cmp (const struct replay_taken *a, const struct replay_taken *b)
{
  return a->start < b->start ? -1 : a->start > b->start;
}

RB_GENERATE_INTERNAL (replay_takens, replay_taken, link, taken_cmp,
                      static __attribute__ ((unused)))

static struct replay_taken *
find_taken (struct replay *p, const struct btrfs_file_extent *e)
{
  struct replay_taken key = { .start = le64_get (e->disk_bytenr) }, *found;

  found = RB_FIND (replay_takens, &p->taken, &key);
  return found && found->len == le64_get (e->disk_num_bytes) ? found : NULL;
}

static int
take_one (struct replay *p, const struct btrfs_file_extent *e)
{
  const uint64_t start = le64_get (e->disk_bytenr);
  const uint64_t len = le64_get (e->disk_num_bytes);
  struct replay_taken *new;
  uint64_t refs = 0, flags;
  int r;

  if (find_taken (p, e) != NULL)
    return 0;
  r = extent_refs (p->env->extents, start, false, 0, &refs, &flags);
  if (r != -ERR_extent_missing)
    return r;
  err_clear ();
  r = space_take (p->env->space, start, len);
  if (r < 0)
    return r;
  new = calloc (1, sizeof *new);
  if (new == NULL)
    return err_new (ERR_nomem, "logged extents");
  new->start = start;
  new->len = len;
  RB_INSERT (replay_takens, &p->taken, new);
  return 0;
}

int
replay_take_extents (struct replay *p)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  int r = tree_find (p->log, KEY_MIN, &c, NULL);

  while (r == 0 && cursor_at_item (&c)) {
    if (cursor_key (&c).type == BTRFS_EXTENT_DATA &&
        on_disk (cursor_data (&c)))
      r = take_one (p, cursor_data (&c));
    if (r == 0)
      r = cursor_next (&c);
  }
  return r;
}

void
replay_give_extents (struct replay *p)
{
  struct replay_taken *t, *next;

  RB_FOREACH_SAFE (t, replay_takens, &p->taken, next) {
    if (!t->used)
      space_data_free (p->env->space, t->start, t->len);
    RB_REMOVE (replay_takens, &p->taken, t);
    free (t);
  }
}
