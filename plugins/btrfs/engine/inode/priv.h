/* inode: what the files of this room share. */
#ifndef BTRNBD_INODE_PRIV_H
#define BTRNBD_INODE_PRIV_H

#include "base/containers.h"
#include "inode/items.h"

enum inode_state {
  INODE_LOADING,               /* being read; look-ups wait */
  INODE_READY,
  INODE_LEAVING,               /* being evicted or deleted; look-ups wait */
};

struct inode_priv {
  struct inode *inode;

  /* Protected by inodes.lock. */
  RB_ENTRY (inode_priv) entry;
  TAILQ_ENTRY (inode_priv) lru; /* while refs == 0 and READY */
  unsigned refs;
  unsigned visits;             /* of these, those of inode_visit */
  enum inode_state state;
  int load_err;                /* of a failed load: no longer in the table */
  bool in_table;
  bool unlinked;               /* delete when the last reference goes */

  bool empty_dir;              /* constant: stands for a subvolume entry that
                                  a snapshot copied; not on disk */
  uint64_t next_index;         /* directories, under inode.lock; 0: unknown */
};

RB_HEAD (inode_table, inode_priv);
TAILQ_HEAD (inode_lru, inode_priv);

/* See changes.c. */
struct inode_changes {
  uint64_t transid;
  SLIST_HEAD (, changed_root) roots;
  unsigned num_roots;
  bool lost;                   /* of subvolumes that are not in the list */
};
extern void inode_changes_reset (struct inode_changes *);

struct inodes {
  struct inodes_env env;
  struct mutex names;          /* RANK_NAMESPACE: unlink, link, rename */
  bool extref;                 /* under `names`: EXTENDED_IREF is set */

  struct mutex lock;           /* RANK_ICACHE; protects all below */
  struct cond changed;         /* a state changed */
  struct inode_table table;
  struct inode_lru lru;        /* oldest first */
  unsigned lru_len;
  bool closing;
  uint64_t leaving_root;       /* a subvolume being deleted, or 0 */
  struct inode_changes changes;
};

/* Linux's number for the stand-in of a foreign subvolume entry. */
#define INODE_EMPTY_DIR_INO 2

/* Put an inode that was just written as ITEM into the table. */
extern int inode_adopt (struct inodes *, struct root *, uint64_t ino,
                        const struct btrfs_inode_item *,
                        struct inode **ret);
/* The last link is gone: delete at the last put. */
extern void inode_set_unlinked (struct inode *);

/* Delete the items of an unlinked inode nobody uses (orphan.c). */
extern int orphan_delete (struct inode *);
extern int orphan_add (struct txn *, struct root *, uint64_t ino);

extern uint64_t rdev_to_disk (uint64_t dev);
extern void inode_decode (struct inode *, const struct btrfs_inode_item *);
/* As inode_write_item, the tree lock already held exclusively. */
extern int inode_write_locked (struct txn *, struct inode *);
/* ctime := now and the rest of inode_touch, without mtime. */
extern void inode_touch_ctime (struct inode *, struct txn *);
/* The same when a name of the inode comes or goes. */
extern void inode_touch_names (struct inode *, struct txn *);

/* The pool may be written and IN is on disk. */
extern int inode_check_write (struct inode *in);
/* May extended references be written, and: one is about to be (`names`
 * held).
 */
extern bool inode_extref_ok (struct inodes *, const struct root *);
extern void inode_extref_use (struct inodes *, const struct txn *,
                              struct root *);

/* May IN lose its name in DIR?  Then: take the name and count down (tree lock
 * exclusive, both inode.locks; DIR's own item is the caller's).
 */
extern int unlink_check (struct inode *dir, struct inode *in);
extern int unlink_items (struct txn *, struct inode *dir, struct name,
                         uint64_t index, struct inode *in);

/* The inode that LOC in DIR leads to. */
extern int inode_follow (struct inode *dir, struct name,
                         const struct dirent_loc *, struct inode **ret);

#endif /* BTRNBD_INODE_PRIV_H */
