/* What a test did to a pool, and what it was told is durable: an independent
 * model that says which states of the pool a crash may leave.
 *
 * Time is the length of the recorder's log.  An operation carries the time at
 * which it began; an acknowledgement (FLUSH, FUA, sync) carries the time at
 * which it was marked in the log.  After a power cut at time T
 *   - a sector of a file holds the newest version that was acknowledged
 *     before T, or a newer one that had begun before T;
 *   - the names of each subvolume are those after some prefix of the naming
 *     operations, no shorter than what was acknowledged, no longer than what
 *     had begun.  A sync of everything acknowledges all of them; the sync of
 *     a file or directory those of its subvolume up to the last one that
 *     changed a name of the file, or an entry or the name of the directory.
 *
 * Sectors of 512 bytes tell file, place and version, so that nothing can be
 * taken for something else.
 */
#ifndef BTRNBD_TESTS_CRASH_JOURNAL_H
#define BTRNBD_TESTS_CRASH_JOURNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <btrnbd/engine.h>

#include "io/device.h"

#define JTOP 5                 /* the subvolume at the top */

#define JSECTOR 512
#define JFILES_MAX 512
#define JPATH_MAX 96
#define JNAMES_MAX 96

struct jversion {
  uint32_t seq;                /* of the operation; 0: before everything */
  bool zero;
  /* What was written, as journal_fill: of a snapshot or clone that of others.
   */
  unsigned file;
  uint64_t sector;
  uint32_t wrote;
};

/* The extended attribute of files; its value tells file and version. */
#define JATTR "user.crash"
#define JATTR_MAX 256

struct jfile {
  unsigned id;                 /* from 1 */
  uint64_t root_id, ino;
  uint64_t size;               /* newest */
  uint32_t created;            /* seq */
  uint32_t inherited;          /* what ended before this clock is in it, if it
                                  is there: it is a snapshot of that time */
  size_t nsectors;
  struct jsector {
    unsigned count, max;
    struct jversion *v;        /* ascending seq; implicit first: zero */
  } *sectors;
  bool nocow;
  struct jsize { uint32_t seq; uint64_t size; } *sizes;
  unsigned nsizes, max_sizes;
  struct jattr { uint32_t seq; bool there; } *attrs;
  unsigned nattrs, max_attrs;
  struct jack {
    size_t at;
    uint32_t seq, clock;       /* covers what ended before CLOCK */
  } *acks;
  unsigned nacks, max_acks;
  uint32_t *fails;             /* seqs of FLUSHes that failed */
  unsigned nfails, max_fails;
};

enum jkind { JFILE, JDIR, JSYMLINK };
struct jname {
  char path[JPATH_MAX];
  enum jkind kind;
  unsigned file;               /* JFILE: id; else the seq that made it */
  uint64_t root_id;            /* the subvolume that holds the name */
  uint64_t subvol;             /* JDIR: the one that it is the top of, or 0 */
  uint32_t named;              /* seq that last changed names of it or in it */
};
/* The names after operation SEQ, sorted by path. */
struct jnames {
  uint32_t seq;
  uint32_t named;              /* as of jname, of the top */
  unsigned count;
  struct jname names[JNAMES_MAX];
};

struct journal {
  pthread_mutex_t lock;        /* protects everything below */
  struct device *recorder;     /* borrowed; NULL: time stands still */
  uint32_t nops, max_ops;
  uint32_t clock;              /* begins and ends of operations */
  struct jop {
    size_t start, acked;       /* time */
    uint32_t begin, end;       /* clock; end 0: not ended */
    bool failed;
  } *ops;                      /* by seq - 1 */
  unsigned nfiles;
  struct jfile *files[JFILES_MAX]; /* by id - 1 */
  struct jnames **states;      /* one per naming operation, first is empty */
  unsigned nstates, max_states;
  struct jack *syncs;          /* of everything */
  unsigned nsyncs, max_syncs;
  struct jnack {
    size_t at;
    uint64_t root_id;
    uint32_t named;            /* durable up to this naming operation */
  } *nacks;
  unsigned nnacks, max_nacks;
};

extern struct journal *journal_new (struct device *recorder);
extern struct journal *journal_clone (const struct journal *);
extern void journal_free (struct journal *);

/* Begin an operation: its number; and end it, before it is acknowledged. */
extern uint32_t journal_begin (struct journal *);
extern void journal_end (struct journal *, uint32_t seq);

/* The bytes that operation SEQ writes to sectors FIRST .. of a file. */
extern void journal_fill (void *buf, unsigned file, uint64_t first,
                          size_t count, uint32_t seq);
/* Sectors may from now on hold version SEQ.  To be called before the engine
 * is.
 */
extern void journal_data (struct journal *, unsigned file, uint64_t first,
                          size_t count, uint32_t seq, bool zero);
extern void journal_size (struct journal *, unsigned file, uint64_t size,
                          uint32_t seq);

/* The value that operation SEQ gives the attribute of FILE; its length. */
extern size_t journal_attr_value (char value[JATTR_MAX], unsigned file,
                                  uint32_t seq);
/* SEQ sets it, or takes it away. */
extern void journal_attr (struct journal *, unsigned file, bool there,
                          uint32_t seq);
/* COUNT sectors of TO from B on become those of FROM at A, as they are: nobody
 * else works with FROM, and nothing has failed.
 */
extern void journal_clone_range (struct journal *, unsigned from, uint64_t a,
                                 size_t count, unsigned to, uint64_t b,
                                 uint32_t seq);

/* A new file; its identity is filled in by the caller. */
extern struct jfile *journal_file (struct journal *, uint32_t seq);

/* A snapshot or clone of FILE, of which nothing is under way. */
extern struct jfile *journal_copy (struct journal *, unsigned file,
                                   uint32_t seq);

/* The names now, for reading and for building the next state; what the next
 * one changes is found by comparing.
 */
extern const struct jnames *journal_names (struct journal *);
extern void journal_names_set (struct journal *, const struct jnames *,
                               uint32_t seq);
extern const struct jname *jnames_find (const struct jnames *,
                                        const char *path);
/* FILE: as in jname.  The result may be changed before the next call. */
extern struct jname *jnames_add (struct jnames *, const char *path,
                                 enum jkind, unsigned file);
extern void jnames_del (struct jnames *, const char *path);
/* The name FROM and all below it. */
extern void jnames_move (struct jnames *, const char *from, const char *to);

/* Operations that had ended when SEQ began are durable: of one file, of
 * everything.  Or just what operation SEQ wrote.
 */
extern void journal_ack_file (struct journal *, unsigned file, uint32_t seq);
extern void journal_ack_op (struct journal *, unsigned file, uint32_t seq);
/* The entries of directory DIR ("": the top) are. */
extern void journal_ack_dir (struct journal *, const char *dir,
                             uint32_t seq);
extern void journal_ack_all (struct journal *, uint32_t seq);

/* Operation SEQ returned an error: it may have had its effect, in part even,
 * and nothing makes it durable.
 */
extern void journal_op_failed (struct journal *, uint32_t seq);

/* A FLUSH or sync failed: what was written before and not acknowledged may be
 * lost for good, also when a later one succeeds.  FILE 0: of all files.
 */
extern void journal_fail (struct journal *, unsigned file, uint32_t seq);

/* Is POOL a state that a power cut at time AT may leave?  Otherwise false,
 * and WHY says what is wrong.
 */
#define JWHY_MAX 600
extern bool journal_allows (struct journal *, size_t at, struct btrnbd_pool *,
                            char why[JWHY_MAX]);

#endif /* BTRNBD_TESTS_CRASH_JOURNAL_H */
