/* btrnbd: the engine's API, for the plugin, the daemon, the CLI and tests.
 *
 * A pool is one btrfs filesystem.  All functions may block; all may be called
 * from any thread unless a comment says otherwise.  They return 0 or a
 * negative code of <btrnbd/errors.h>; `btrnbd_last_error` has the sentence.
 * Sizes and offsets are in bytes.  Strings are UTF-8.
 */
#ifndef BTRNBD_ENGINE_H
#define BTRNBD_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <time.h>

#include <btrnbd/errors.h>

struct btrnbd_pool;
struct device; /* internal: test devices, see btrnbd_pool_open_devices */
struct btrnbd_file;

/* The last error of this thread in one line; valid until its next call. */
extern const char *btrnbd_last_error (int code);

/* Messages that no caller can be told; LEVEL 0 error .. 3 debug. */
extern void btrnbd_set_log (void (*fn) (void *opaque, int level,
                                        const char *line),
                            void *opaque, int max_level);

/* --- pool --- */

struct btrnbd_open_opts {
  bool read_only;
  size_t cache_size;          /* bytes; 0: 256 MiB */
  unsigned commit_interval;   /* seconds; 0: 30; UINT_MAX: never by itself */
  unsigned workers;           /* 0: one per core */
  bool discard;               /* tell the devices what became free */
  bool no_regroup;            /* no background work on dead space and
                                 fragments */
  /* Seconds of quiet after which that work looks once at all files, also at
   * those that nobody has changed since the pool was opened; 0: 60.
   */
  unsigned regroup_scan_after;
  bool no_lock;               /* tests */
  bool ignore_log;            /* serve the last commit as it is, read-only,
                                 although a log promises more */
  unsigned super_copy;        /* 0: the superblock that counts; 1 or 2: that
                                 copy of it, for recovery.  A copy may lag
                                 behind what was acknowledged. */
  bool no_image;              /* there are no exports "@pool" */
  uint64_t image_reserve;     /* most bytes that may stay in use for no other
                                 reason than that they are open; 0: a tenth
                                 of the devices */
  /* A thread of the engine tells that they were ended before they were closed
   * because of WHY.
   */
  void (*image_ended) (void *opaque, uint64_t generation, const char *why);
  void *image_ended_opaque;
  /* For measurements: what spares writes in place searches of the extent tree
   * is left out.  What is written, and where, stays the same.
   */
  bool nocow_no_early;        /* search before the generation is looked at */
  bool nocow_no_cache;        /* keep no verdict */
};

extern int btrnbd_pool_open (const char *const *devices, size_t n,
                             const struct btrnbd_open_opts *,
                             struct btrnbd_pool **ret);
/* In two steps, for hosts that fork in between: the claim holds the devices
 * locked and has looked at their superblocks (not at more), and has started
 * no thread; opening it consumes it, also on failure.  OPTS must be the same.
 */
struct btrnbd_claim;
/* Between the two, or before: can these devices be opened for reading?  Says
 * what would fail later; no thread is left.  Devices that are reached through
 * a network are not tried.
 */
extern int btrnbd_pool_try (const char *const *devices, size_t n,
                            const struct btrnbd_open_opts *);
extern int btrnbd_pool_claim (const char *const *devices, size_t n,
                              const struct btrnbd_open_opts *,
                              struct btrnbd_claim **ret);
extern int btrnbd_claim_open (struct btrnbd_claim *,
                              const struct btrnbd_open_opts *,
                              struct btrnbd_pool **ret);
extern void btrnbd_claim_free (struct btrnbd_claim *); /* accepts NULL */
/* Takes ownership of the devices, also on failure. */
extern int btrnbd_pool_open_devices (struct device **, size_t n,
                                     const struct btrnbd_open_opts *,
                                     struct btrnbd_pool **ret);
/* Write out, commit, close.  All files must be closed.  The pool is gone also
 * when an error is returned.
 */
extern int btrnbd_pool_close (struct btrnbd_pool *);
/* Drop everything without writing (tests: a crash). */
extern void btrnbd_pool_kill (struct btrnbd_pool *);

/* Everything acknowledged so far is durable.  An error while any of it cannot
 * be written: it stays in memory, is what readers see, and each call tries
 * again.
 */
extern int btrnbd_pool_sync (struct btrnbd_pool *);

struct btrnbd_space {
  uint64_t total, used, reserved, pinned, held, may_use, readonly;
  uint64_t promised;          /* of may_use: to data that was accepted */
  char profile[16];           /* "single", "DUP" */
};
struct btrnbd_image_info {
  unsigned clients;           /* 0: nobody has "@pool" open */
  uint64_t generation;        /* that they see */
  uint64_t held;              /* bytes that are free when they are closed,
                                 as of the last commit */
  uint64_t limit;             /* of held; 0: there is no such export */
  char ended[128];            /* why their reads fail, or "" */
};
struct btrnbd_pool_info {
  char uuid[37], label[257];
  uint64_t generation, total_bytes, bytes_used, num_devices;
  uint32_t nodesize, sectorsize;
  char csum[12];
  uint64_t incompat, compat_ro;
  char features[512];         /* names of those bits, with ", " between */
  bool rotational;            /* any device is */
  bool read_only;
  char read_only_reason[512]; /* empty also when it was asked for */
  struct btrnbd_space data, metadata, system;
  uint64_t unallocated, global_reserve, free_estimate;
  struct btrnbd_image_info image;
  uint64_t writable;          /* bytes of data that will be accepted, however
                                 they are written, if nothing else takes
                                 space and the pool is writable */
};
/* Looks at every block group.  bytes_used is of now: what was accepted counts
 * before it is written and committed.
 */
extern int btrnbd_pool_get_info (struct btrnbd_pool *,
                                 struct btrnbd_pool_info *ret);
/* The fields up to read_only_reason, the rest zero, and bytes_used as of the
 * last commit: needs no disk.
 */
extern void btrnbd_pool_identify (struct btrnbd_pool *,
                                  struct btrnbd_pool_info *ret);
/* Is the file or block device FD one of the pool's own devices? */
extern bool btrnbd_pool_is_on (struct btrnbd_pool *, int fd);
struct btrnbd_pool_stats {
  uint64_t commits, commit_ns_total, commit_ns_max;
  uint64_t block_reads, block_hits, block_writes_bytes, blocks_repaired;
  uint64_t data_cache_bytes, data_dirty_bytes, data_hits, data_misses;
  uint64_t data_read_bytes, data_written_bytes, data_nocow_bytes; /* disks */
  uint64_t data_extent_searches; /* of the extent tree, for writes in place */
  uint64_t regroup_moved_bytes; /* see btrnbd_regroup; by anybody */
  uint64_t regroup_failed;    /* places where that failed */
  uint64_t regroup_noted_bytes; /* of files, to be looked at in quiet times */
  uint64_t log_flushes;       /* that had something to do */
  uint64_t log_syncs;         /* superblocks written for them, each once per
                                 copy */
  uint64_t log_commits;       /* flushes that became a commit */
  uint64_t log_blocks;        /* blocks of logs written, copies not counted */
};
extern void btrnbd_pool_get_stats (struct btrnbd_pool *,
                                   struct btrnbd_pool_stats *ret);

/* What an export, or all files of the pool together, occupy on disk.  Data is
 * kept in extents, and an extent is kept whole while anything refers to a
 * part of it: `dead` is what nothing refers to.  All metadata of the files is
 * read.
 */
struct btrnbd_usage {
  uint64_t extents;
  uint64_t allocated;         /* bytes of the extents, on disk, without copies
                                 that the profile makes */
  uint64_t exclusive, shared; /* of that: of this export alone; with others.
                                 0 for the pool */
  uint64_t dead;              /* of that: not referred to by this export */
  uint64_t inline_bytes;      /* of small files, in metadata */
};
extern int btrnbd_usage (struct btrnbd_pool *, const char *name,
                         struct btrnbd_usage *ret);
extern int btrnbd_pool_usage (struct btrnbd_pool *, struct btrnbd_usage *ret);

/* Look at all of an export now, as the pool does by itself in quiet times
 * where something was written: extents that are this export's alone are
 * written anew where a fifth of them or more is dead, and where they are in
 * small pieces.  FN (may be NULL) is told how far it is and returns non-zero
 * to stop, which is returned.
 */
typedef int (*btrnbd_progress_fn) (void *opaque, uint64_t done,
                                   uint64_t total);
extern int btrnbd_regroup (struct btrnbd_pool *, const char *name,
                           btrnbd_progress_fn, void *opaque,
                           uint64_t *ret_moved);

/* --- mkfs --- */

struct btrnbd_mkfs_opts {
  uint64_t size;              /* of the file to create or grow; 0: as it is */
  const char *label;          /* NULL: none */
  const char *uuid;           /* NULL: random */
  uint32_t nodesize;          /* 0: 16384 */
  uint32_t sectorsize;        /* 0: 4096 */
  const char *csum;           /* NULL: crc32c */
  const char *data_profile;   /* NULL: single */
  const char *metadata_profile; /* NULL: dup */
  const char *features;       /* "FEATURE,^FEATURE", NULL: defaults */
  bool mixed;
  bool force;                 /* overwrite what is there */
};
extern int btrnbd_mkfs (const char *device, const struct btrnbd_mkfs_opts *);
extern int btrnbd_mkfs_device (struct device *, /* borrowed */
                               const struct btrnbd_mkfs_opts *);

/* --- names ---
 *
 * Paths are relative to the top of the pool, "/"-separated; symlinks are not
 * followed; subvolumes are crossed.  At the top of the pool nothing is made
 * whose name has an "@" (-ERR_name_bad); what is there can be used.
 */

struct btrnbd_stat {
  uint64_t root_id, ino;
  uint32_t mode, nlink, uid, gid;
  uint64_t size, nbytes, flags, generation;
  struct timespec atime, mtime, ctime, otime;
  bool is_subvol, is_nocow, is_read_only;
};
extern int btrnbd_stat (struct btrnbd_pool *, const char *path,
                        struct btrnbd_stat *ret);
typedef int (*btrnbd_dir_fn) (void *opaque, const char *name,
                              const struct btrnbd_stat *);
extern int btrnbd_readdir (struct btrnbd_pool *, const char *path,
                           btrnbd_dir_fn, void *opaque);
extern int btrnbd_create (struct btrnbd_pool *, const char *path,
                          uint32_t mode, bool nocow);
extern int btrnbd_mkdir (struct btrnbd_pool *, const char *path,
                         uint32_t mode);
extern int btrnbd_symlink (struct btrnbd_pool *, const char *target,
                           const char *path);
extern int btrnbd_readlink (struct btrnbd_pool *, const char *path,
                            char **ret);
extern int btrnbd_link (struct btrnbd_pool *, const char *from,
                        const char *to);
extern int btrnbd_unlink (struct btrnbd_pool *, const char *path);
#define BTRNBD_RENAME_NOREPLACE 1u
#define BTRNBD_RENAME_EXCHANGE 2u
extern int btrnbd_rename (struct btrnbd_pool *, const char *from,
                          const char *to, unsigned flags);
extern int btrnbd_chmod (struct btrnbd_pool *, const char *path,
                         uint32_t mode, uint32_t uid, uint32_t gid);
extern int btrnbd_getxattr (struct btrnbd_pool *, const char *path,
                            const char *name, void *buf, size_t max,
                            size_t *ret_len);
extern int btrnbd_setxattr (struct btrnbd_pool *, const char *path,
                            const char *name, const void *value, size_t len);
extern int btrnbd_removexattr (struct btrnbd_pool *, const char *path,
                               const char *name);
extern int btrnbd_listxattr (struct btrnbd_pool *, const char *path,
                             char **ret_names, size_t *ret_len);
/* What PATH leads to is durable when this returns, without a commit where
 * the log can say it.  Of a file: contents, attributes and names.  Of a
 * directory: its entries, and that what they lead to exists; what new files
 * hold is theirs to sync.
 */
extern int btrnbd_fsync (struct btrnbd_pool *, const char *path);

/* --- volumes: a subvolume holding one file named "disk" --- */

struct btrnbd_volume_opts {
  uint64_t size;
  bool nocow;
  const char *description;    /* NULL: none; 4096 bytes at most */
  /* Most bytes of an extent, a power of two from 16 KiB to 256 KiB; 0: what is
   * usual.  Clones and snapshots inherit it.
   */
  uint64_t alloc_unit;
};
extern int btrnbd_volume_create (struct btrnbd_pool *, const char *name,
                                 const struct btrnbd_volume_opts *);
/* A volume or a snapshot of one; -ERR_has_snapshots when it is a volume that
 * has some, -ERR_inode_readonly when it is one that is locked.
 */
extern int btrnbd_volume_remove (struct btrnbd_pool *, const char *name);
/* With its snapshots; none of them may be open. */
extern int btrnbd_volume_remove_all (struct btrnbd_pool *, const char *name);
extern int btrnbd_volume_resize (struct btrnbd_pool *, const char *name,
                                 uint64_t size);
/* The same, but -ERR_invalid when anything would be cut off. */
extern int btrnbd_volume_grow (struct btrnbd_pool *, const char *name,
                               uint64_t size);
/* A volume's snapshots move along, in the same transaction.  A snapshot gets
 * another tag: it stays one of its volume.
 */
extern int btrnbd_volume_rename (struct btrnbd_pool *, const char *from,
                                 const char *to);
/* --- snapshots and clones ---
 *
 * They share all data with their source until one of them is written to, and
 * take the same time however big it is.  A volume's snapshot TAG is the
 * subvolume NAME@TAG, read-only, and an export of that name; one that was
 * taken of an earlier volume of that name is none of them.  What these
 * functions have made is durable when they return.
 */

/* Snapshots of N volumes, of one point in time: all that was acknowledged
 * before the call is in them.  TAG: no "/" or "@".
 */
extern int btrnbd_volume_snapshot (struct btrnbd_pool *,
                                   const char *const *names, size_t n,
                                   const char *tag);
/* Volume TO is a writable copy of FROM, a volume or one's snapshot; size,
 * nocow and description are those of FROM.
 */
extern int btrnbd_volume_clone (struct btrnbd_pool *, const char *from,
                                const char *to);
/* The volume becomes a writable copy of its snapshot TAG, at once or not at
 * all; what it held is gone.  -ERR_busy while it is open.
 */
extern int btrnbd_volume_rollback (struct btrnbd_pool *, const char *name,
                                   const char *tag);
struct btrnbd_volume_snapshot_info {
  const char *name;           /* NAME@TAG */
  const char *tag;
  char uuid[37], parent_uuid[37];
  uint64_t root_id, generation; /* of its making */
  struct timespec created;
  uint64_t size, nbytes;
  bool read_only;
};
typedef int (*btrnbd_snapshot_fn) (void *opaque,
                                   const struct btrnbd_volume_snapshot_info *);
/* In the order of their making.  FN returns non-zero to stop. */
extern int btrnbd_volume_snapshots (struct btrnbd_pool *, const char *name,
                                    btrnbd_snapshot_fn, void *opaque);
/* Where two files, by export name, differ: ascending ranges, not adjacent.
 * The trees are compared, not the data; what both share costs next to
 * nothing, and equal bytes in different places are told as different.  What
 * is written meanwhile may or may not be told.
 */
typedef int (*btrnbd_diff_fn) (void *opaque, uint64_t offset, uint64_t len);
extern int btrnbd_diff (struct btrnbd_pool *, const char *a, const char *b,
                        btrnbd_diff_fn, void *opaque);

/* [TO_OFFSET, + LEN) of TO shares what FROM has from FROM_OFFSET on, to its
 * end when LEN is 0.  Both by export name.  Offsets and lengths are whole
 * sectors, but for an end that is the end of both files.  A file grows if need
 * be, a volume does not.  A crash may leave it done in part.
 */
extern int btrnbd_clone_range (struct btrnbd_pool *, const char *from,
                               uint64_t from_offset, uint64_t len,
                               const char *to, uint64_t to_offset);
/* TO, a file that is made if it is not there or a volume that is large enough,
 * becomes a copy of FROM that shares its data.
 */
extern int btrnbd_reflink (struct btrnbd_pool *, const char *from,
                           const char *to);
/* If both ranges hold the same bytes, they share them from now on; they are
 * compared while nobody can write there.  -ERR_differs if not.  *ret_shared:
 * bytes that had been stored twice.
 */
extern int btrnbd_dedupe_range (struct btrnbd_pool *, const char *from,
                                uint64_t from_offset, uint64_t len,
                                const char *to, uint64_t to_offset,
                                uint64_t *ret_shared);
/* Two whole files, piece by piece: what is equal at equal offsets is shared.
 */
extern int btrnbd_dedupe (struct btrnbd_pool *, const char *from,
                          const char *to, uint64_t *ret_shared);

/* Snapshots of any subvolumes, by path ("" is the pool's top). */
struct btrnbd_snapshot_opts {
  const char *from, *to;
  bool read_only;
};
extern int btrnbd_subvol_snapshot (struct btrnbd_pool *,
                                   const struct btrnbd_snapshot_opts *v,
                                   size_t n);
/* -ERR_busy while a file in it is open, -ERR_not_empty when it holds others,
 * -ERR_has_snapshots when it is a volume that has some;
 * what it occupied is free afterwards, or will soon be.
 */
extern int btrnbd_subvol_remove (struct btrnbd_pool *, const char *path);
/* -ERR_busy while a file in it is open. */
extern int btrnbd_subvol_set_read_only (struct btrnbd_pool *,
                                        const char *path, bool read_only);
/* What Linux mounts when it is not told a subvolume. */
extern int btrnbd_subvol_set_default (struct btrnbd_pool *,
                                      const char *path);

/* --- list of exports --- */

struct btrnbd_export {
  const char *name;           /* NAME, NAME@TAG or a path */
  const char *description;    /* NULL: none */
  uint64_t size, nbytes;
  bool is_volume, read_only, nocow;
  uint64_t alloc_unit;        /* as in btrnbd_volume_opts; 0: the pool */
};
typedef int (*btrnbd_export_fn) (void *opaque, const struct btrnbd_export *);
/* Volumes and every other regular file of the pool, at most MAX. */
extern int btrnbd_exports (struct btrnbd_pool *, size_t max,
                           btrnbd_export_fn, void *opaque);

/* --- the pool itself ---
 *
 * The export "@pool" ("@pool/DEVID" of a pool of several devices) is a device
 * of the pool as it would be had everything stopped at one commit, which
 * opening it makes if nobody has it open: all that was acknowledged before is
 * in it.  It is read-only, and does not change while the pool does: what it
 * leads to is not used for anything else.  When that is more than
 * image_reserve, or somebody who writes finds no room, its reads begin to
 * fail with -ERR_image_ended.
 */

/* Its names, sizes and descriptions. */
extern int btrnbd_images (struct btrnbd_pool *, btrnbd_export_fn,
                          void *opaque);

/* --- files --- */

#define BTRNBD_OPEN_RDONLY 1u
/* By path. */
extern int btrnbd_file_open (struct btrnbd_pool *, const char *path,
                             unsigned flags, struct btrnbd_file **ret);
/* By export name: a volume, a snapshot or a path; a leading slash is
 * accepted, "..", NUL and bad UTF-8 are refused.
 */
extern int btrnbd_export_open (struct btrnbd_pool *, const char *name,
                               unsigned flags, struct btrnbd_file **ret);
/* The one name in the list of exports for what NAME would open, to BUF:
 * without slashes too many, and a volume's file under the name of its
 * subvolume.  What does not exist keeps its name.
 */
extern int btrnbd_export_name (struct btrnbd_pool *, const char *name,
                               char *buf, size_t size);
/* What NAME comes to in a rule about exports, without a look at the pool: two
 * names have the same text where they could be the same export.  (x and x/disk
 * do: never are both exports.)
 */
extern int btrnbd_export_rule_name (const char *name, char *buf, size_t size);
/* The export name of an open file, to BUF: WAS, its name until now, if that
 * still leads to it; or else another that does; or else WAS.
 */
extern int btrnbd_file_name (struct btrnbd_file *, const char *was,
                             char *buf, size_t size);
extern void btrnbd_file_close (struct btrnbd_file *);
extern uint64_t btrnbd_file_size (struct btrnbd_file *);
extern bool btrnbd_file_read_only (struct btrnbd_file *);
extern const char *btrnbd_file_description (struct btrnbd_file *);

#define BTRNBD_FUA 1u         /* durable when the call returns */
#define BTRNBD_MAY_TRIM 2u    /* zero: a hole will do */
#define BTRNBD_FAST_ZERO 4u   /* zero: fail rather than be slow */
extern int btrnbd_pread (struct btrnbd_file *, void *buf, size_t len,
                         uint64_t offset);
/* As pread if that needs no waiting; false: use pread. */
extern bool btrnbd_try_pread (struct btrnbd_file *, void *buf, size_t len,
                              uint64_t offset);
extern int btrnbd_pwrite (struct btrnbd_file *, const void *buf, size_t len,
                          uint64_t offset, unsigned flags);
/* As pwrite without flags if that needs no waiting; false: use pwrite. */
extern bool btrnbd_try_pwrite (struct btrnbd_file *, const void *buf,
                               size_t len, uint64_t offset);
extern int btrnbd_zero (struct btrnbd_file *, uint64_t offset, uint64_t len,
                        unsigned flags);
extern int btrnbd_trim (struct btrnbd_file *, uint64_t offset, uint64_t len,
                        unsigned flags);
/* Everything acknowledged on this file, by any handle, is durable. */
extern int btrnbd_flush (struct btrnbd_file *);
extern int btrnbd_prefetch (struct btrnbd_file *, uint64_t offset,
                            uint64_t len);
extern int btrnbd_truncate (struct btrnbd_file *, uint64_t size);

/* A new file that takes the place of what is at PATH, a file, the disk of a
 * volume or nothing, at once and durably, or not at all.  It has the mode,
 * owner, attributes and (of a volume) size of what it replaces, and is NOCOW
 * if that was; else as the arguments say, with 0644.  Until then its name
 * begins with BTRNBD_UNFINISHED and is in no list of exports; what a crash
 * leaves of it goes with the next try.  -ERR_busy when what is there is open
 * or has other names, or somebody else is about to replace it.
 */
#define BTRNBD_UNFINISHED ".btrnbd-put."
struct btrnbd_replace;
extern int btrnbd_replace_begin (struct btrnbd_pool *, const char *path,
                                 bool nocow, struct btrnbd_replace **ret);
/* To be written; not to be closed. */
extern struct btrnbd_file *btrnbd_replace_file (struct btrnbd_replace *);
extern bool btrnbd_replace_is_volume (const struct btrnbd_replace *);
/* Both end it, also with an error. */
extern int btrnbd_replace_commit (struct btrnbd_replace *);
extern void btrnbd_replace_abort (struct btrnbd_replace *);

#define BTRNBD_EXTENT_HOLE 1u
#define BTRNBD_EXTENT_ZERO 2u
typedef int (*btrnbd_extent_fn) (void *opaque, uint64_t offset, uint64_t len,
                                 unsigned type);
/* Covers the range exactly, ascending, clipped. */
extern int btrnbd_extents (struct btrnbd_file *, uint64_t offset,
                           uint64_t len, btrnbd_extent_fn, void *opaque);

/* --- looking inside --- */

/* Print tree ID (0: all), or the block at BLOCK if non-zero, in a form like
 * `btrfs inspect-internal dump-tree`.
 */
extern int btrnbd_dump_tree (struct btrnbd_pool *, uint64_t id,
                             uint64_t block, FILE *);

#endif /* BTRNBD_ENGINE_H */
