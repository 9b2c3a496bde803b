/* subvol: subvolumes, made, listed, deleted and dropped.
 *
 * A subvolume is a tree of its own with a root item, an entry in a directory
 * of its parent and a pair of references in the root tree.  Deleting takes
 * the name, sets the root item's references to 0 and adds an ORPHAN item, all
 * in one transaction; the blocks and extents of the tree go afterwards in
 * steps of bounded size ("dropping"), which a crash may interrupt: the root
 * item says how far they came.
 *
 * A snapshot is a subvolume whose tree begins as a copy of another one's root
 * node: everything below is shared, and copied when either changes it.
 */
#ifndef BTRNBD_SUBVOL_SUBVOL_H
#define BTRNBD_SUBVOL_SUBVOL_H

#include "data/data.h"

struct subvols;                /* context of the room */

/* Rooms that subvolumes need, all borrowed. */
struct subvols_env {
  struct trans *trans;         /* NULL: read-only */
  struct roots *roots;
  struct extents *extents;
  struct block_cache *cache;
  struct inodes *inodes;
  struct data *data;
};
extern int subvols_new (const struct subvols_env *, struct subvols **ret);
extern void subvols_free (struct subvols *); /* accepts NULL */

/* --- making --- */

struct subvol_xattr {
  const char *name;            /* NULL: none */
  const void *value;
  size_t len;
};
struct subvol_new {
  uint32_t mode;               /* of the top directory, permissions only */
  uint32_t uid, gid;
  /* One regular file in the top directory; NULL: none. */
  const char *file;
  uint32_t file_mode;          /* permissions only */
  uint64_t file_size;          /* a hole */
  uint64_t file_flags;         /* BTRFS_INODE_*; NODATACOW adds NODATASUM */
  struct subvol_xattr file_xattr;
  struct subvol_xattr top_xattr; /* of the top directory */
};
/* All of it in one transaction: after a crash it is whole or absent. */
extern int subvol_create (struct subvols *, struct inode *dir,
                          const char *name, size_t len,
                          const struct subvol_new *, uint64_t *ret_id);

struct subvol_snap {
  struct inode *source;        /* any inode of the subvolume */
  struct inode *dir;           /* where the name goes */
  const char *name;
  size_t len;
  bool read_only;
  uint64_t id;                 /* result */
};
#define SUBVOL_SNAPS_MAX 256
/* N snapshots of one point in time, in one transaction: everything that was
 * acknowledged before the call is in them, and of what is written during it
 * nothing that was acknowledged later than something missing.  (A name that
 * is changed meanwhile may be in them or not.)  Writers wait for a moment;
 * write-out, and what changes more than contents, until they are made.  Not
 * durable before the commit.
 */
extern int subvol_snapshot (struct subvols *, struct subvol_snap *v,
                            size_t n);

/* The subvolume NAME in DIR is replaced by a writable copy of SOURCE's, in one
 * transaction.  Errors as of subvol_delete.
 */
extern int subvol_replace (struct subvols *, struct inode *dir,
                           const char *name, size_t len,
                           struct inode *source);

/* N subvolumes in DIR get new names there, in one transaction; what is open
 * stays so.  -ERR_exists when one of these names is taken.
 */
struct subvol_rename {
  const char *from, *to;
};
extern int subvols_rename (struct subvols *, struct inode *dir,
                           const struct subvol_rename *v, size_t n);

/* The flag of subvolume TOP's root item; what is dirty of its files is written
 * out first.
 */
extern int subvol_set_read_only (struct subvols *, struct inode *top,
                                 bool read_only);
/* What Linux mounts by default.  The feature bit is the caller's to set. */
extern int subvol_set_default (struct subvols *, struct inode *top);

/* --- deleting --- */

/* -ERR_busy when an inode of it is in use or it is the default subvolume,
 * -ERR_not_empty when it holds subvolumes, -ERR_not_dir when NAME is not one.
 * What it occupied is freed by subvols_drop_dead.
 */
extern int subvol_delete (struct subvols *, struct inode *dir,
                          const char *name, size_t len);

/* At open for writing, before orphans of the root tree are cleaned: find what
 * earlier deletions, ours or those of Linux, have left to drop.
 */
extern int subvols_find_dead (struct subvols *);
/* Drop all that is deleted, many transactions long.  One caller at a time
 * does the work, others return at once.  It ends early, without error and
 * resumable, once STOP (may be NULL) returns true.
 */
extern int subvols_drop_dead (struct subvols *, bool (*stop) (void *opaque),
                              void *opaque);
extern bool subvols_have_dead (struct subvols *);
/* Tree blocks that one transaction of a drop looks at (for tests). */
extern void subvols_set_drop_batch (struct subvols *, unsigned blocks);

/* Delete the inodes that were open without a name when the pool was last left
 * by a crash, in every subvolume that may be written.  STOP as above.
 */
extern int subvols_clean_orphans (struct subvols *,
                                  bool (*stop) (void *opaque), void *opaque);

/* --- listing --- */

struct subvol_info {
  uint64_t id, parent;         /* parent 0: the pool's top */
  uint64_t generation, otransid;
  struct timespec otime;
  uint8_t uuid[BTRFS_UUID_SIZE], parent_uuid[BTRFS_UUID_SIZE];
  bool read_only;
  const char *path;            /* from the pool's top; NULL: not reachable */
};
/* Of one, without parent and path. */
extern int subvol_get_info (struct subvols *, uint64_t id,
                            struct subvol_info *ret);
typedef int (*subvol_fn) (void *opaque, const struct subvol_info *);
/* All but the top itself and deleted ones, by id; FN runs without locks and
 * returns non-zero to stop, which is returned.
 */
extern int subvols_list (struct subvols *, subvol_fn, void *opaque);
/* A path from the pool's top of inode INO of subvolume ID, to BUF.  While
 * names change it may be one that never was.  -ERR_not_found: it has none, or
 * a longer one.
 */
extern int subvol_inode_path (struct subvols *, uint64_t id, uint64_t ino,
                              char *buf, size_t size);

#endif /* BTRNBD_SUBVOL_SUBVOL_H */
