/* inode: the items of names, inodes and their references, inside one
 * transaction.  For this room and for subvol/, which makes whole subvolumes.
 *
 * Functions that take a transaction demand the root's tree lock exclusively,
 * the others at least shared.  The finders and the `_room` functions change
 * nothing; once one of the changing functions has been called, an error must
 * abort the transaction.  Names have passed name_check.
 */
#ifndef BTRNBD_INODE_ITEMS_H
#define BTRNBD_INODE_ITEMS_H

#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/math.h"
#include "inode/inode.h"

/* As Linux: what an INODE_REF count can be. */
#define INODE_LINK_MAX 65535

struct name {
  const char *s;               /* not terminated */
  size_t len;
};
#define NAME(str, length)                                       \
  ((struct name) { .s = (str), .len = (length) })

/* 1 .. 255 bytes, no '/', no NUL, not "." or "..". */
extern int name_check (struct name);


/* -ERR_subvol_missing when deleted, -ERR_inode_readonly when read-only. */
extern int root_check_writable (struct root *);
/* Take the next inode number of ROOT. */
extern int root_next_ino (struct root *, uint64_t *ret_ino);
/* Before an inode is deleted: its number must not be given to another one
 * that a log of the same transaction may name.
 */
extern int root_learn_next_ino (struct root *);

static inline struct btrfs_timespec
time_to_disk (struct timespec t)
{
  return (struct btrfs_timespec) { .sec = le64_make (t.tv_sec),
    .nsec = le32_make (t.tv_nsec) };
}

extern struct timespec time_now (void);
extern uint8_t mode_to_ft (uint32_t mode); /* enum btrfs_ft */

/* --- records packed into one item (pack.c) ---
 *
 * DIR_ITEM, XATTR_ITEM, INODE_REF and INODE_EXTREF hold one or more records,
 * each a fixed head with the length of what follows.
 */
enum pack_kind { PACK_DIR, PACK_REF, PACK_EXTREF };
struct pack_rec {
  const void *head;            /* NULL before the first record */
  uint32_t offset, len;        /* of the record in the item */
  const char *name;
  uint32_t name_len;
  const void *data;            /* PACK_DIR: what follows the name */
  uint32_t data_len;
};
/* The record behind *REC; false at the end.  Bytes that make no record are
 * -ERR_item_format.
 */
extern int pack_next (enum pack_kind, const void *item, uint32_t size,
                      struct pack_rec *rec, bool *ret_found);
extern int pack_append (struct txn *, struct root *, struct key,
                        const void *rec, uint32_t len);
/* Remove LEN bytes at OFFSET; the item goes with its last byte. */
extern int pack_remove (struct txn *, struct root *, struct key,
                        uint32_t offset, uint32_t len);
/* Will the item at KEY take LEN more bytes after losing LESS?  -ERR (FULL)
 * otherwise.
 */
extern int pack_room (struct root *, struct key, uint32_t len, uint32_t less,
                      int full);

/* --- directories (dir.c) --- */

struct dirent_loc {
  struct key location;         /* (ino INODE_ITEM 0), (id ROOT_ITEM -1) */
  uint8_t type;                /* enum btrfs_ft */
};
extern int dir_find (struct root *, uint64_t dir, struct name,
                     struct dirent_loc *ret, bool *ret_found);
/* -ERR_exists, -ERR_name_hash, or 0. */
extern int dir_room (struct root *, uint64_t dir, struct name);
extern int dir_add (struct txn *, struct root *, uint64_t dir, struct name,
                    uint64_t index, const struct dirent_loc *);
extern int dir_del (struct txn *, struct root *, uint64_t dir, struct name,
                    uint64_t index);
/* One behind the last index in use, 2 for an empty directory. */
extern int dir_next_index (struct root *, uint64_t dir, uint64_t *ret_index);
extern int dir_is_empty (struct root *, uint64_t dir, bool *ret_empty);

/* --- references of inodes (refs.c) --- */

enum iref_place { IREF_ITEM, IREF_EXTREF };
/* Where a reference may go: -ERR_links when nowhere.  EXTREF_OK: such items
 * may be written.
 */
extern int iref_room (struct root *, uint64_t ino, uint64_t parent,
                      struct name, bool extref_ok, enum iref_place *ret);
extern int iref_add (struct txn *, struct root *, uint64_t ino,
                     uint64_t parent, struct name, uint64_t index,
                     enum iref_place);
extern int iref_find (struct root *, uint64_t ino, uint64_t parent,
                      struct name, uint64_t *ret_index, bool *ret_found);
extern int iref_del (struct txn *, struct root *, uint64_t ino,
                     uint64_t parent, struct name);
/* The directory that holds directory INO (its one INODE_REF). */
extern int iref_parent (struct root *, uint64_t ino, uint64_t *ret_parent);

/* --- references of subvolumes, in the root tree (sref.c) --- */

/* These take the root tree's lock themselves: a subvolume's tree lock may be
 * held.
 */
struct sref {
  uint64_t parent_root, subvol, dir;
  struct name name;
};
/* Does the pair of references agree with REF?  *ret_index: of the entry. */
extern int sref_find (struct roots *, const struct sref *,
                      uint64_t *ret_index, bool *ret_found);
extern int sref_add (struct roots *, struct txn *, const struct sref *,
                     uint64_t index);
extern int sref_del (struct roots *, struct txn *, const struct sref *);

/* --- others --- */

/* The pool's lock for operations that take or move names (RANK_NAMESPACE). */
extern void inodes_names_lock (struct inodes *);
extern void inodes_names_unlock (struct inodes *);
/* Keep everybody from getting inodes of a subvolume that is being deleted
 * (they wait) and drop the unused ones; -ERR_busy, with nothing kept, when
 * one is in use.  Pair with inodes_root_left.  `names` held.
 */
extern int inodes_root_leave (struct inodes *, uint64_t root_id);
extern void inodes_root_left (struct inodes *);

/* Lock up to N inodes (NULL and repeated ones are skipped) in their order,
 * which the vector has afterwards.
 */
extern void inode_lock_all (struct inode **, size_t n);
extern void inode_unlock_all (struct inode **, size_t n);

/* May names in DIR be changed (dir->lock held)?  The index that a new entry
 * gets, and after that of a subvolume has been added or taken: the
 * directory's own item.  Tree lock exclusive for the latter two.
 */
extern int inode_check_dir (struct inode *dir);
extern int inode_next_index (struct inode *dir, uint64_t *ret_index);
extern int inode_dir_changed (struct txn *, struct inode *dir,
                              uint64_t used_index, int64_t name_bytes);

/* For the log: TXN gives INO a name; takes its name at a place; or does
 * something to names in ROOT that no log can say.  ROOT's tree lock is held
 * exclusively, by the section that changes the items.
 */
extern void inode_note_added (struct inodes *, const struct txn *,
                              struct root *, uint64_t ino);
extern void inode_note_removed (struct inodes *, const struct txn *,
                                struct root *, uint64_t ino,
                                struct name_place);
extern void inode_note_beyond_log (struct inodes *, const struct txn *,
                                   struct root *);

/* A fresh inode item: one link, times now, generation and transid running. */
extern struct btrfs_inode_item inode_item_make (const struct txn *,
                                                uint32_t mode,
                                                uint64_t size);
extern int inode_item_insert (struct txn *, struct root *, uint64_t ino,
                              const struct btrfs_inode_item *);
/* Together with the reference of its first name. */
extern int inode_item_insert_named (struct txn *, struct root *, uint64_t ino,
                                    const struct btrfs_inode_item *,
                                    uint64_t parent, struct name,
                                    uint64_t index);
extern int xattr_put (struct txn *, struct root *, uint64_t ino, struct name,
                      const void *value, size_t len);
/* Before xattr_put: -ERR_xattr_big, -ERR_name_hash or 0. */
extern int xattr_room (struct root *, uint64_t ino, struct name, size_t len);

#endif /* BTRNBD_INODE_ITEMS_H */
