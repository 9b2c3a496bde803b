/* inode: files, directories, names.
 *
 * One struct inode per (subvolume, number) in use, however many paths and
 * exports lead to it.  data/ hangs its own state on it.
 *
 * Locks: inode.lock (RANK_INODE) serialises changes of one inode's metadata;
 * operations on two names also take the namespace lock of the pool.  Neither
 * is needed to read file data.
 */
#ifndef BTRNBD_INODE_INODE_H
#define BTRNBD_INODE_INODE_H

#include <sys/types.h>
#include <time.h>

#include "extent/extent.h"

struct inodes;                 /* context of the room */

struct inode {
  /* Constant. */
  struct inodes *inodes;
  struct root *root;           /* referenced */
  uint64_t ino;

  struct mutex lock;           /* RANK_INODE; protects all below */
  uint32_t mode, nlink, uid, gid;
  uint64_t size;               /* bytes, as users see it */
  uint64_t disk_size;          /* bytes, as the next inode item will say:
                                  grows as write-out completes */
  uint64_t nbytes;             /* allocated, see the format notes */
  uint64_t flags;              /* BTRFS_INODE_* */
  uint64_t rdev;               /* as makedev makes it */
  uint64_t generation, transid, sequence;
  uint64_t names_transid;      /* last that changed a name of it; when that
                                  is not known, as late as it may have been */
  uint64_t log_transid, log_sequence; /* a durable log holds it as it was at
                                  this sequence (log/) */
  bool log_times_old;          /* ... but for its times */
  struct timespec atime, ctime, mtime, otime;

  struct file_data *data;      /* data/'s state, or NULL; made by data/ */

  struct inode_priv *priv;
};

/* Rooms that inodes need, all borrowed. */
struct inodes_env {
  struct trans *trans;
  struct roots *roots;
  struct space *space;
  struct extents *extents;
  bool read_only;
  /* Called for a regular file whose last link and last reference are gone,
   * before its items are deleted, and when an inode leaves memory.
   */
  void *opaque;
  /* Also for an inode without data; NULL hooks are not called.  An error:
   * nothing was dropped, the inode stays for now.
   */
  int (*evict_data) (void *opaque, struct inode *);
  /* Drop what could not be evicted. */
  void (*drop_data) (void *opaque, struct inode *);
  /* Set the length of a file's extents (unlink uses 0): data/'s truncate. */
  int (*truncate_items) (void *opaque, struct inode *, uint64_t size);
  /* The commit of the running transaction shall set this incompat bit in the
   * superblock (may be NULL: then the feature counts as missing).
   */
  void *pool;
  void (*use_incompat) (void *pool, uint64_t bit);
};

extern int inodes_new (const struct inodes_env *, struct inodes **ret);
extern int inodes_free (struct inodes *);
/* Delete what unlinked-open inodes a crash left behind in ROOT. */
extern int inodes_clean_orphans (struct inodes *, struct root *);

/* --- finding --- */

extern int inode_get (struct inodes *, uint64_t root_id, uint64_t ino,
                      struct inode **ret);
/* As inode_get, for a moment and with nothing held that others wait for: who
 * needs the subvolume for himself waits for inode_leave, where he would find
 * an inode_get in his way.
 */
extern int inode_visit (struct inodes *, uint64_t root_id, uint64_t ino,
                        struct inode **ret);
extern void inode_leave (struct inode *);
extern struct inode *inode_ref (struct inode *);
/* Dropping the last reference of an unlinked inode deletes it (in
 * transactions of its own: no lock may be held).
 */
extern void inode_put (struct inode *);

/* The top directory of the pool (subvolume 5), or of the default one. */
extern int inode_top (struct inodes *, struct inode **ret);
extern int inode_default_top (struct inodes *, struct inode **ret);
extern int inodes_default_root (struct inodes *, uint64_t *ret_id);
/* One component; crosses into subvolumes.  "." and ".." are refused. */
extern int inode_lookup (struct inode *dir, const char *name, size_t len,
                         struct inode **ret);
/* A path below DIR, "/"-separated, empty components ignored; symlinks are
 * not followed.
 */
extern int inode_walk (struct inode *dir, const char *path,
                       struct inode **ret);
/* The directory that holds the last component, and the component. */
extern int inode_walk_parent (struct inode *dir, const char *path,
                              struct inode **ret_dir, const char **ret_name,
                              size_t *ret_len);

struct dir_entry {
  const char *name;            /* not terminated */
  size_t name_len;
  uint64_t index;              /* give index + 1 to continue behind it */
  uint64_t root_id, ino;       /* of the target; a subvolume: its id, 256 */
  bool is_subvol;
  uint8_t type;                /* enum btrfs_ft */
};
/* Entries with index >= FIRST in order; FN returns non-zero to stop, which
 * is returned.  FN runs without locks, on copies.
 */
typedef int (*dir_entry_fn) (void *opaque, const struct dir_entry *);
extern int inode_readdir (struct inode *dir, uint64_t first, dir_entry_fn,
                          void *opaque);
extern int inode_readlink (struct inode *, char **ret);

/* --- changing names --- */

struct inode_new {
  uint32_t mode;               /* with the S_IF bits */
  uint32_t uid, gid;
  uint64_t rdev;
  uint64_t flags;              /* BTRFS_INODE_*; NODATACOW implies NODATASUM;
                                  NODATACOW is also inherited from DIR */
  const char *symlink;         /* target, for S_IFLNK */
};
extern int inode_create (struct inode *dir, const char *name, size_t len,
                         const struct inode_new *, struct inode **ret);
extern int inode_link (struct inode *, struct inode *dir, const char *name,
                       size_t len);
/* Removes files and empty directories; a subvolume is -ERR_is_subvol. */
extern int inode_unlink (struct inode *dir, const char *name, size_t len);
enum rename_mode { RENAME_REPLACE_OK, RENAME_NO_REPLACE, RENAME_SWAP };
extern int inode_rename (struct inode *from, const char *from_name,
                         size_t from_len, struct inode *to,
                         const char *to_name, size_t to_len,
                         enum rename_mode);

extern int inode_getxattr (struct inode *, const char *name, void *buf,
                           size_t max, size_t *ret_len);
extern int inode_setxattr (struct inode *, const char *name,
                           const void *value, size_t len);
extern int inode_removexattr (struct inode *, const char *name);
extern int inode_listxattr (struct inode *, char **ret_names,
                            size_t *ret_len); /* NUL-separated */

extern int inode_set_mode (struct inode *, uint32_t mode, uint32_t uid,
                           uint32_t gid);

/* --- for data/ and log/ --- */

/* Write the inode item into the tree (root tree lock taken inside; inode.lock
 * held).  Times, sequence and transid as given by the fields.
 */
extern int inode_write_item (struct txn *, struct inode *);

/* Names that the transaction TRANSID has changed in subvolume ROOT_ID since
 * the last call: inodes (ascending) that got, lost or changed one, and places
 * that directory entries went from (ascending).  False: that cannot be
 * told, or a log cannot say it.  While the subvolume's tree lock is held, by
 * one caller at a time, the answer agrees with the tree.
 */
#define NAMES_CHANGED_MAX 16384
struct name_place {
  uint64_t dir, index;
};
struct names_changed {
  uint64_t *inodes;
  size_t num_inodes;
  struct name_place *places;
  size_t num_places;
};
extern bool names_changed_take (struct inodes *, uint64_t root_id,
                                uint64_t transid, struct names_changed *ret);
extern void names_changed_done (struct names_changed *);

/* mtime, ctime := now; sequence + 1; transid := running. */
extern void inode_touch (struct inode *, struct txn *);

#endif /* BTRNBD_INODE_INODE_H */
