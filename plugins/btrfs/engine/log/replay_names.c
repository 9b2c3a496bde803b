/* log: replay of single names.
 *
 * A name is three items: two in its directory, one reference in its inode.
 * They come and go together here, so that the subvolume is consistent after
 * each of these functions, except for numbers of links: whose names change is
 * noted, and counted at the end.
 *
 * Times of directories stay as they are: those of a directory in the log come
 * from there.
 */
#include <config.h>

#include <sys/stat.h>

#include "format/names.h"
#include "log/replay_priv.h"

int
replay_name_copy (struct replay_name *n, const struct pack_rec *rec)
{
  int r = name_check (NAME (rec->name, rec->name_len));

  if (r < 0)
    return err_note (r, "in the log");
  n->len = rec->name_len;
  memcpy (n->s, rec->name, n->len);
  return 0;
}

int
replay_inode_get (struct replay *p, uint64_t ino,
                  struct btrfs_inode_item *ret, bool *ret_found)
{
  uint32_t size;
  int r = tree_get (p->root->tree, KEY (ino, BTRFS_INODE_ITEM, 0), ret,
                    sizeof *ret, &size, ret_found);

  if (r == 0 && *ret_found && size < sizeof *ret)
    return err_new (ERR_item_format, "inode item of %u bytes", size);
  return r;
}

int
replay_inode_put (struct replay *p, uint64_t ino,
                  const struct btrfs_inode_item *item)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  int r = tree_find_rw (&p->txn->tree, p->root->tree,
                        KEY (ino, BTRFS_INODE_ITEM, 0), &c);

  if (r == 0)
    memcpy (cursor_data_rw (&c), item, sizeof *item);
  return r;
}

/* The set of inodes is kept as Linux keeps it: as items of the subvolume,
 * which are gone when the transaction is committed.
 */
int
replay_note_links (struct replay *p, uint64_t ino)
{
  int r = tree_insert_data (&p->txn->tree, p->root->tree,
                            KEY (BTRFS_TREE_LOG_FIXUP, BTRFS_ORPHAN_ITEM,
                                 ino), NULL, 0);

  if (r != -ERR_key_exists)
    return r;
  err_clear ();
  return 0;
}

static int
get_dir (struct replay *p, uint64_t dir, struct btrfs_inode_item *item,
         bool *ret_found)
{
  int r = replay_inode_get (p, dir, item, ret_found);

  if (r == 0 && *ret_found && !S_ISDIR (le32_get (item->mode)))
    return err_new (ERR_log_format, "a name in inode %llu, which is no "
                    "directory", (unsigned long long) dir);
  return r;
}

/* The size of a directory is twice the bytes of its names. */
static int
dir_grow (struct replay *p, uint64_t dir, int64_t name_bytes)
{
  struct btrfs_inode_item item;
  uint64_t size;
  bool found;
  int r = get_dir (p, dir, &item, &found);

  if (r < 0)
    return r;
  if (!found)
    return err_new (ERR_inode_missing, "directory %llu",
                    (unsigned long long) dir);
  size = le64_get (item.size);
  size = name_bytes < 0 ? size - MIN (size, (uint64_t) (-2 * name_bytes))
    : size + 2 * name_bytes;
  item.size = le64_make (size);
  item.transid = le64_make (p->txn->tree.transid);
  return replay_inode_put (p, dir, &item);
}

int
replay_unlink (struct replay *p, uint64_t dir, struct name n)
{
  struct dirent_loc loc;
  uint64_t ino, index;
  bool found;
  int r = dir_find (p->root, dir, n, &loc, &found);

  if (r < 0)
    return r;
  if (!found)
    return err_new (ERR_dir_format, "directory %llu: \"%.*s\" has gone",
                    (unsigned long long) dir, (int) n.len, n.s);
  if (loc.location.type != BTRFS_INODE_ITEM)
    return err_new (ERR_log_format, "\"%.*s\" in directory %llu is a "
                    "subvolume, which a log cannot remove", (int) n.len, n.s,
                    (unsigned long long) dir);
  ino = loc.location.objectid;
  r = iref_find (p->root, ino, dir, n, &index, &found);
  if (r == 0 && !found)
    r = err_new (ERR_dir_format, "inode %llu does not know \"%.*s\" in "
                 "directory %llu", (unsigned long long) ino, (int) n.len, n.s,
                 (unsigned long long) dir);
  if (r == 0)
    r = dir_del (p->txn, p->root, dir, n, index);
  if (r == 0)
    r = iref_del (p->txn, p->root, ino, dir, n);
  if (r == 0)
    r = dir_grow (p, dir, -(int64_t) n.len);
  return r < 0 ? r : replay_note_links (p, ino);
}

/* --- adding --- */

/* The index belongs to the name, unless another one is still there: one whose
 * removal the log does not tell.  Then neither may be lost.
 */
static int
free_index (struct replay *p, uint64_t dir, uint64_t *index)
{
  uint32_t size;
  bool found;
  int r = tree_get (p->root->tree, KEY (dir, BTRFS_DIR_INDEX, *index), NULL,
                    0, &size, &found);

  return r < 0 || !found ? r : dir_next_index (p->root, dir, index);
}

/* A directory has one name: the others go. */
static int
drop_other_names (struct replay *p, uint64_t ino)
{
  for (;;) {
    struct pack_rec rec = { .head = NULL };
    struct replay_name n = { .len = 0 };
    uint64_t parent = 0;
    bool found = false;
    int r;

    {
      CLEANUP_CURSOR struct cursor c = CURSOR_INIT;

      r = tree_find (p->root->tree, KEY (ino, BTRFS_INODE_REF, 0), &c, NULL);
      if (r < 0 || !cursor_at_item (&c) || cursor_key (&c).objectid != ino ||
          cursor_key (&c).type != BTRFS_INODE_REF)
        return r;
      parent = cursor_key (&c).offset;
      r = pack_next (PACK_REF, cursor_data (&c), cursor_size (&c), &rec,
                     &found);
      if (r == 0 && found)
        r = replay_name_copy (&n, &rec);
    }
    if (r == 0 && (!found || parent == ino))
      r = err_new (ERR_dir_format, "name of directory %llu",
                   (unsigned long long) ino);
    if (r == 0)
      r = replay_unlink (p, parent, replay_name (&n));
    if (r < 0)
      return r;
  }
}

/* Where the reference goes; the first one outside of an INODE_REF item turns
 * the feature on, as anywhere.
 */
static int
place_of (struct replay *p, uint64_t ino, uint64_t dir, struct name n,
          enum iref_place *place)
{
  const struct format_info *fi = block_cache_format (p->env->cache);
  int r = 0;

  if (*place == IREF_ITEM)
    r = iref_room (p->root, ino, dir, n, true, place);
  if (r == 0 && *place == IREF_EXTREF &&
      !(fi->incompat & BTRFS_INCOMPAT_EXTENDED_IREF))
    p->env->use_incompat (p->env->pool, BTRFS_INCOMPAT_EXTENDED_IREF);
  return r;
}

/* DIR has no such name; both inodes are there. */
static int
link_name (struct replay *p, uint64_t ino, uint32_t mode, uint64_t dir,
           struct name n, uint64_t index, enum iref_place place)
{
  const struct dirent_loc loc = {
    .location = KEY (ino, BTRFS_INODE_ITEM, 0), .type = mode_to_ft (mode),
  };
  int r = 0;

  if (S_ISDIR (mode))
    r = drop_other_names (p, ino);
  if (r == 0)
    r = free_index (p, dir, &index);
  if (r == 0)
    r = dir_room (p->root, dir, n);
  if (r == 0)
    r = place_of (p, ino, dir, n, &place);
  if (r == 0)
    r = iref_add (p->txn, p->root, ino, dir, n, index, place);
  if (r == 0)
    r = dir_add (p->txn, p->root, dir, n, index, &loc);
  if (r == 0)
    r = dir_grow (p, dir, n.len);
  return r < 0 ? r : replay_note_links (p, ino);
}

/* --- references of inodes --- */

/* The record for N of directory PARENT in an item of references. */
static int
find_rec (enum pack_kind kind, const void *item, uint32_t size,
          uint64_t parent, struct name n, bool *ret_found)
{
  struct pack_rec rec = { .head = NULL };
  int r;

  for (;;) {
    r = pack_next (kind, item, size, &rec, ret_found);
    if (r < 0 || !*ret_found)
      return r;
    if (rec.name_len != n.len || memcmp (rec.name, n.s, n.len) != 0)
      continue;
    if (kind == PACK_REF ||
        le64_get (((const struct btrfs_inode_extref *) rec.head)->parent)
        == parent)
      return 0;
  }
}

/* A reference that is in the subvolume's item at the key of C, from offset *AT
 * on, but not in the log's at C.  *AT becomes where it is.
 */
static int
find_stale (struct replay *p, const struct cursor *c, uint32_t *at,
            uint64_t *ret_parent, struct replay_name *ret, bool *ret_found)
{
  CLEANUP_CURSOR struct cursor have = CURSOR_INIT;
  const struct key key = cursor_key (c);
  const enum pack_kind kind = key.type == BTRFS_INODE_REF ? PACK_REF
    : PACK_EXTREF;
  struct pack_rec rec = { .head = NULL };
  bool found;
  int r = tree_find (p->root->tree, key, &have, ret_found);

  if (*at > 0)
    rec = (struct pack_rec) { .head = "", .offset = *at };
  while (r == 0 && *ret_found) {
    r = pack_next (kind, cursor_data (&have), cursor_size (&have), &rec,
                   ret_found);
    if (r < 0 || !*ret_found)
      break;
    *at = rec.offset;
    *ret_parent = kind == PACK_REF ? key.offset
      : le64_get (((const struct btrfs_inode_extref *) rec.head)->parent);
    r = replay_name_copy (ret, &rec);
    if (r == 0)
      r = find_rec (kind, cursor_data (c), cursor_size (c), *ret_parent,
                    replay_name (ret), &found);
    if (r == 0 && !found)
      return 0;
  }
  return r;
}

static int
drop_stale (struct replay *p, const struct cursor *c)
{
  struct replay_name n;
  uint64_t parent = 0;
  uint32_t at = 0;
  bool found;
  int r;

  for (;;) {
    r = find_stale (p, c, &at, &parent, &n, &found);
    if (r < 0 || !found)
      return r;
    r = replay_unlink (p, parent, replay_name (&n));
    if (r < 0)
      return r;
  }
}

/* One reference that the log has of inode INO. */
static int
one_ref (struct replay *p, uint64_t ino, uint64_t dir, struct name n,
         uint64_t index, enum iref_place place)
{
  struct btrfs_inode_item item;
  struct dirent_loc loc;
  uint64_t have;
  bool found;
  int r = get_dir (p, dir, &item, &found);

  /* Not all parents need to have been logged. */
  if (r < 0 || !found)
    return r;
  r = dir_find (p->root, dir, n, &loc, &found);
  if (r == 0 && found && loc.location.type == BTRFS_INODE_ITEM &&
      loc.location.objectid == ino) {
    r = iref_find (p->root, ino, dir, n, &have, &found);
    if (r == 0 && found && have == index)
      return 0;
    found = true;
  }
  if (r == 0 && found)
    r = replay_unlink (p, dir, n);
  if (r == 0)
    r = replay_inode_get (p, ino, &item, &found);
  if (r == 0 && !found)
    r = err_new (ERR_inode_missing, "inode %llu", (unsigned long long) ino);
  return r < 0 ? r : link_name (p, ino, le32_get (item.mode), dir, n, index,
                                place);
}

static int
all_refs (struct replay *p, const struct cursor *c)
{
  const struct key key = cursor_key (c);
  struct pack_rec rec = { .head = NULL };
  struct replay_name n;
  bool found;
  int r;

  if (key.type == BTRFS_INODE_REF && key.offset == key.objectid)
    return 0; /* the top directory */
  r = drop_stale (p, c);
  while (r == 0) {
    r = pack_next (key.type == BTRFS_INODE_REF ? PACK_REF : PACK_EXTREF,
                   cursor_data (c), cursor_size (c), &rec, &found);
    if (r < 0 || !found)
      break;
    r = replay_name_copy (&n, &rec);
    if (r == 0 && key.type == BTRFS_INODE_REF) {
      const struct btrfs_inode_ref *e = rec.head;

      r = one_ref (p, key.objectid, key.offset, replay_name (&n),
                   le64_get (e->index), IREF_ITEM);
    }
    else if (r == 0) {
      const struct btrfs_inode_extref *e = rec.head;

      r = one_ref (p, key.objectid, le64_get (e->parent), replay_name (&n),
                   le64_get (e->index), IREF_EXTREF);
    }
  }
  return r;
}

int
replay_refs (struct replay *p, const struct cursor *c)
{
  int r;

  rwlock_wrlock (&p->root->tree->lock);
  r = all_refs (p, c);
  rwlock_unlock (&p->root->tree->lock);
  return r;
}

/* --- entries of directories --- */

/* Does the log have the reference of inode INO that belongs to the entry? */
static int
ref_in_log (struct replay *p, uint64_t ino, uint64_t dir, struct name n,
            bool *ret)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  int r = tree_find (p->log, KEY (ino, BTRFS_INODE_REF, dir), &c, ret);

  if (r == 0 && *ret)
    r = find_rec (PACK_REF, cursor_data (&c), cursor_size (&c), dir, n, ret);
  if (r < 0 || *ret)
    return r;
  cursor_done (&c);
  r = tree_find (p->log, KEY (ino, BTRFS_INODE_EXTREF,
                              extref_hash (dir, n.s, n.len)), &c, ret);
  if (r == 0 && *ret)
    r = find_rec (PACK_EXTREF, cursor_data (&c), cursor_size (&c), dir, n,
                  ret);
  return r;
}

/* The entry N that leads to INO; inodes of the log are there already. */
static int
one_entry (struct replay *p, struct key key, struct name n, uint64_t ino)
{
  struct btrfs_inode_item item;
  struct dirent_loc have;
  bool found, target;
  int r = get_dir (p, key.objectid, &item, &found);

  if (r == 0 && !found)
    r = err_new (ERR_inode_missing, "directory %llu",
                 (unsigned long long) key.objectid);
  if (r == 0)
    r = dir_find (p->root, key.objectid, n, &have, &found);
  if (r == 0)
    r = replay_inode_get (p, ino, &item, &target);
  /* An inode that is not there was not promised, nor its name. */
  if (r < 0 || !target ||
      (found && have.location.type == BTRFS_INODE_ITEM &&
       have.location.objectid == ino))
    return r;
  if (found)
    r = replay_unlink (p, key.objectid, n);
  if (r == 0)
    r = ref_in_log (p, ino, key.objectid, n, &found);
  if (r < 0 || found)
    return r; /* found: the name comes with the reference */
  return link_name (p, ino, le32_get (item.mode), key.objectid, n,
                    key.offset, IREF_ITEM);
}

int
replay_dir_index (struct replay *p, const struct cursor *c)
{
  struct pack_rec rec = { .head = NULL };
  struct replay_name n;
  struct key to;
  bool found;
  int r = pack_next (PACK_DIR, cursor_data (c), cursor_size (c), &rec,
                     &found);

  if (r < 0 || !found)
    return r;
  to = key_from_disk (&((const struct btrfs_dir_item *) rec.head)->location);
  /* Names of subvolumes change by commits only. */
  if (to.type != BTRFS_INODE_ITEM)
    return 0;
  r = replay_name_copy (&n, &rec);
  if (r < 0)
    return r;
  rwlock_wrlock (&p->root->tree->lock);
  r = one_entry (p, cursor_key (c), replay_name (&n), to.objectid);
  rwlock_unlock (&p->root->tree->lock);
  return r;
}
