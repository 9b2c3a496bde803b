/* fs: a pool, put together from the rooms; the only place that knows all.
 *
 * Opening and closing are tables of named steps (open.c, close.c), and so is
 * a commit (commit.c).  The public API (engine.h) is built on this header in
 * api*.c.
 */
#ifndef BTRNBD_FS_CORE_H
#define BTRNBD_FS_CORE_H

#include "base/workers.h"
#include "data/data.h"
#include "fs/commit.h"
#include "log/log.h"
#include "subvol/subvol.h"

struct fs_opts {
  bool read_only;
  size_t cache_size;           /* bytes, of blocks and data together; 0:
                                  256 MiB */
  unsigned commit_interval;    /* seconds; 0: 30; UINT_MAX: never */
  unsigned workers;            /* 0: one per core */
  bool discard;                /* tell the devices what became free */
  unsigned super_copy;         /* superblock copy to open from, normally 0 */
  bool no_regroup;             /* leave dead space and fragments alone */
  unsigned regroup_scan_after; /* seconds; see engine.h */
  bool ignore_log;             /* serve the last commit, read-only */
  bool no_image;               /* image_get refuses */
  uint64_t image_reserve;      /* bytes that an image may hold; 0: a tenth of
                                  the devices */
  /* By a thread of the engine: an image was ended before its time. */
  void (*image_ended) (void *opaque, uint64_t generation, const char *why);
  void *image_ended_opaque;
  bool nocow_no_early, nocow_no_cache; /* see engine.h */
};

struct fs {
  /* Constant after fs_open. */
  struct fs_opts opts;
  bool read_only;
  bool replay_in_memory;       /* read-only, with a log: prepare_overlays */
  bool replay_failed;          /* a second time, without the log */
  char log_names[256];         /* subvolumes and inodes in the log */
  char read_only_reason[512];  /* empty when writable or asked for */
  struct volume *volume;
  struct block *chunk_root;    /* of the superblock, for chunk_source.c */
  struct block_cache *cache;
  struct roots *roots;
  struct space *space;
  struct extents *extents;
  struct trans *trans;         /* NULL when read_only */
  struct workers *workers;
  struct inodes *inodes;
  struct data *data;
  struct subvols *subvols;
  struct logs *logs;           /* NULL when read_only */
  struct images *images;

  pthread_t regroup_thread;    /* regroup.c */
  bool regroup_started;

  unsigned opened;             /* steps of open.c that are done */
  struct commit_ctx *commit;   /* see commit.h; NULL when read_only */

  uint64_t in_place_flushed;   /* data_in_place before the newest device
                                  flush; atomic */
};

/* Takes ownership of the devices, also on failure. */
extern int fs_open (struct device **devs, size_t n, const struct fs_opts *,
                    struct fs **ret);
/* Write out data, commit, close.  No file may be open.  The pool is gone also
 * when an error is returned.  Accepts NULL.
 */
extern int fs_close (struct fs *);
/* Drop everything without writing: a crash, for tests. */
extern void fs_kill (struct fs *);

/* Write out all data and commit: everything acknowledged is durable. */
extern int fs_commit (struct fs *);

/* Flush all devices, and know what of the data written in place is durable.
 */
extern int fs_flush_devices (struct fs *);
/* Has anything been written in place that no flush has covered? */
extern bool fs_in_place_pending (struct fs *);

/* The reason why the pool is read-only now, or NULL when it is writable. */
extern const char *fs_why_read_only (struct fs *);

#endif /* BTRNBD_FS_CORE_H */
