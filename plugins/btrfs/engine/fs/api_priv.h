/* fs: what the files of the public API share; for api*.c only. */
#ifndef BTRNBD_FS_API_PRIV_H
#define BTRNBD_FS_API_PRIV_H

#include <btrnbd/engine.h>

#include "base/cleanup.h"
#include "base/containers.h"
#include "base/err.h"
#include "fs/core.h"
#include "subvol/subvol.h"

/* The file of a volume, and where its description is kept. */
#define VOLUME_FILE "disk"
#define DESCRIPTION_XATTR "user.btrnbd.description"
#define DESCRIPTION_MAX 4096
#define EXPORT_NAME_MAX 4096

/* One per inode with an open handle; all handles share it. */
struct open_inode {
  struct inode *inode;         /* referenced */
  RB_ENTRY (open_inode) entry;
  unsigned handles;            /* protected by pool->open_lock */
};
RB_HEAD (open_inodes, open_inode);

/* Flushes of all devices, shared by those who wait for one. */
struct device_flushes {
  struct mutex lock;           /* RANK_FLUSH; protects all below */
  struct cond done;
  uint64_t started, finished;  /* flushes; numbered from 1 */
  bool running;
};

struct btrnbd_pool {
  struct fs *fs;
  struct device_flushes flushes;

  /* RANK_FS_OPEN: opening, closing, and changes that an open file forbids. */
  struct mutex open_lock;
  struct open_inodes open;     /* protected by open_lock */
};

struct btrnbd_file {
  struct btrnbd_pool *pool;
  struct open_inode *open;
  struct inode *inode;         /* open->inode */
  bool read_only;
  char *description;           /* or NULL */

  struct image *image;         /* of a device of the pool itself: there is no
                                  inode */
  unsigned image_device;
};

/* --- api_pool.c --- */

/* 0, or why nothing can be changed. */
extern int pool_check_writable (struct btrnbd_pool *);
/* A flush of all devices that starts after the call. */
extern int pool_flush_devices (struct btrnbd_pool *);

/* --- api_names.c --- */

extern int api_walk (struct btrnbd_pool *, const char *path,
                     struct inode **ret);
extern int api_walk_parent (struct btrnbd_pool *, const char *path,
                            struct inode **ret_dir, const char **ret_name,
                            size_t *ret_len);
/* The same for a name that is to be made: some are reserved. */
extern int api_walk_new (struct btrnbd_pool *, const char *path,
                         struct inode **ret_dir, const char **ret_name,
                         size_t *ret_len);
#define NAME_IS_RESERVED "export names that begin with @ are reserved"
extern void api_stat_fill (struct inode *, struct btrnbd_stat *ret);
extern bool api_is_file (struct inode *);
extern bool api_is_subvol_top (const struct inode *);
extern bool api_root_read_only (struct root *);

/* --- api_exports.c --- */

extern bool utf8_ok (const char *);
/* "/" stripped from the front of NAME; the reason when no client may use it.
 */
extern int export_name_check (const char *name, const char **ret_path);
/* The file that export NAME stands for; *ret_volume: NAME is the subvolume
 * around it.
 */
extern int export_resolve (struct btrnbd_pool *, const char *name,
                           struct inode **ret, bool *ret_volume);
/* The description, malloc'd, or NULL.  That of a volume is an attribute of
 * the subvolume's top directory.
 */
extern int export_description_get (struct btrnbd_pool *, struct inode *file,
                                   bool volume, char **ret);

/* --- api_image.c --- */

/* Is NAME one of ours, which no file has? */
extern bool image_has_name (const char *name);
extern int image_file_open (struct btrnbd_pool *, const char *name,
                            struct btrnbd_file **ret);
extern void image_file_close (struct btrnbd_file *);
extern int image_export_name (struct btrnbd_pool *, const char *name,
                              char *buf, size_t size);
extern int image_extents (struct btrnbd_file *, uint64_t offset, uint64_t len,
                          btrnbd_extent_fn, void *opaque);

/* --- api_volumes.c --- */

/* NAME of a volume: one component; "@" separates the tag of a snapshot. */
extern int volume_name_check (const char *name, const char **ret_path);
/* The subvolume that volume NAME is, its parent and its name there. */
extern int find_volume (struct btrnbd_pool *, const char *name,
                        struct inode **ret_dir, const char **ret_name,
                        size_t *ret_len, uint64_t *ret_root_id);
/* Is a file of subvolume ROOT_ID open?  open_lock held. */
extern bool subvol_is_open (struct btrnbd_pool *, uint64_t root_id);

/* --- api_snapshots.c --- */

extern int snapshot_tag_check (const char *tag);

/* --- api_snap_names.c --- */

/* The snapshots NAME@TAG in DIR of the volume NAME. */
struct snap_names {
  size_t n, room;
  struct snap_name {
    char *name;                /* malloc'd */
    uint64_t root_id;
  } *v;
};
#define SNAP_NAMES_MAX 65536
extern int snap_names_find (struct btrnbd_pool *, struct inode *dir,
                            const char *name, size_t len, uint64_t volume,
                            struct snap_names *ret);
extern void snap_names_done (struct snap_names *);
/* Was it taken of that volume, both by the ids of subvolumes? */
extern int snapshot_is_of (struct btrnbd_pool *, uint64_t snapshot,
                           uint64_t volume, bool *ret);
/* -ERR_exists when a new volume of that name would come by snapshots. */
extern int volume_name_is_free (struct inode *dir, const char *name,
                                size_t len);

/* --- api_files.c --- */

/* All there is of INODE, and its names, is durable when this returns. */
extern int api_sync_inode (struct btrnbd_pool *, struct inode *);
/* Open handles of INODE; open_lock held. */
extern unsigned open_handles (struct btrnbd_pool *, const struct inode *);

RB_PROTOTYPE (open_inodes, open_inode, entry, open_inode_cmp)

#endif /* BTRNBD_FS_API_PRIV_H */
