/* What a script says, done to a pool through the engine's API, and then the
 * power goes.
 *
 *   drive IMAGE <SCRIPT
 *
 * One operation a line, words apart by blanks (fsync.py has the list, and
 * does the same to a mounted pool).  Paths and sizes are as in engine.h:
 *
 *   create P | mkdir P | symlink TARGET P | link A B | unlink P
 *   rename A B | exchange A B | chmod P MODE | setx P NAME VALUE | rmx P NAME
 *   write P OFFSET LEN SEED | punch P OFFSET LEN | zero P OFFSET LEN
 *   truncate P SIZE | writeout P | fsync P | sync | subvol P | rmsubvol P
 *   fua P OFFSET LEN SEED | hold P | fsyncheld | reflink A B
 *   clone A FROM LEN B TO
 *
 * A write beyond the end makes the file longer first.  `fsync` of a file is a
 * FLUSH of its export where it may.  `writeout` does what memory pressure may
 * do at any time.  At the end of the script everything in
 * memory is dropped; counters go to standard output.
 */
#include <config.h>

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/api_priv.h"

#define WORDS 5

static struct btrnbd_pool *pool;
static struct inode *held;
static unsigned line_number;

static void
die (int r, const char *what)
{
  fprintf (stderr, "drive: line %u: %s: %s\n", line_number, what,
           btrnbd_last_error (r));
  _Exit (1);
}

static void
must (int r, const char *what)
{
  if (r < 0)
    die (r, what);
}

static uint64_t
number (const char *s)
{
  return strtoull (s, NULL, 10);
}

/* Byte AT of a file that was written with SEED. */
static uint8_t
pattern (uint64_t at, uint64_t seed)
{
  return (seed * 37 + at / 512 * 11) % 251 + 1;
}

static struct btrnbd_file *
open_path (const char *path)
{
  struct btrnbd_file *f;

  must (btrnbd_file_open (pool, path, 0, &f), path);
  return f;
}

static void
write_pattern (char **w, unsigned flags)
{
  struct btrnbd_file *f = open_path (w[0]);
  const uint64_t at = number (w[1]), len = number (w[2]), seed = number (w[3]);
  uint8_t *buf = malloc (len);
  uint64_t i;

  if (buf == NULL)
    exit (1);
  for (i = 0; i < len; ++i)
    buf[i] = pattern (at + i, seed);
  if (btrnbd_file_size (f) < at + len)
    must (btrnbd_truncate (f, at + len), "grow");
  must (btrnbd_pwrite (f, buf, len, at, flags), "write");
  free (buf);
  btrnbd_file_close (f);
}

static void
op_write (char **w)
{
  write_pattern (w, 0);
}

static void
op_fua (char **w)
{
  write_pattern (w, BTRNBD_FUA);
}

/* What is held stays when its last name goes. */
static void
op_hold (char **w)
{
  must (api_walk (pool, w[0], &held), w[0]);
}

static void
op_fsyncheld (char **w)
{
  (void) w;
  must (data_write_out (pool->fs->data, held, 0, UINT64_MAX), "write out");
  must (logs_flush (pool->fs->logs, held, false), "fsync");
}

static void
op_punch (char **w)
{
  struct btrnbd_file *f = open_path (w[0]);

  must (btrnbd_zero (f, number (w[1]), number (w[2]), BTRNBD_MAY_TRIM),
        "punch");
  btrnbd_file_close (f);
}

static void
op_zero (char **w)
{
  struct btrnbd_file *f = open_path (w[0]);

  must (btrnbd_zero (f, number (w[1]), number (w[2]), 0), "zero");
  btrnbd_file_close (f);
}

static void
op_truncate (char **w)
{
  struct btrnbd_file *f = open_path (w[0]);

  must (btrnbd_truncate (f, number (w[1])), "truncate");
  btrnbd_file_close (f);
}

static void
op_writeout (char **w)
{
  struct btrnbd_file *f = open_path (w[0]);

  must (data_write_out (pool->fs->data, f->inode, 0, UINT64_MAX), "write out");
  btrnbd_file_close (f);
}

static void
op_create (char **w)
{
  must (btrnbd_create (pool, w[0], 0644, false), "create");
}

static void
op_mkdir (char **w)
{
  must (btrnbd_mkdir (pool, w[0], 0755), "mkdir");
}

static void
op_symlink (char **w)
{
  must (btrnbd_symlink (pool, w[0], w[1]), "symlink");
}

static void
op_link (char **w)
{
  must (btrnbd_link (pool, w[0], w[1]), "link");
}

static void
op_unlink (char **w)
{
  must (btrnbd_unlink (pool, w[0]), "unlink");
}

static void
op_rename (char **w)
{
  must (btrnbd_rename (pool, w[0], w[1], 0), "rename");
}

static void
op_exchange (char **w)
{
  must (btrnbd_rename (pool, w[0], w[1], BTRNBD_RENAME_EXCHANGE), "exchange");
}

static void
op_chmod (char **w)
{
  must (btrnbd_chmod (pool, w[0], strtoul (w[1], NULL, 8), 0, 0), "chmod");
}

static void
op_setx (char **w)
{
  must (btrnbd_setxattr (pool, w[0], w[1], w[2], strlen (w[2])), "setx");
}

static void
op_rmx (char **w)
{
  must (btrnbd_removexattr (pool, w[0], w[1]), "rmx");
}

static void
flush_path (const char *path)
{
  struct btrnbd_file *f = open_path (path);

  must (btrnbd_flush (f), "flush");
  btrnbd_file_close (f);
}

/* Of a file, in every other line, a FLUSH, which promises the same but for
 * times, and may write data and log together.
 */
static void
op_fsync (char **w)
{
  const char *path = strcmp (w[0], ".") == 0 ? "" : w[0];
  struct btrnbd_stat st;

  must (btrnbd_stat (pool, path, &st), path);
  if (S_ISREG (st.mode) && line_number % 2 == 0)
    flush_path (path);
  else
    must (btrnbd_fsync (pool, path), "fsync");
}

static void
op_sync (char **w)
{
  (void) w;
  must (btrnbd_pool_sync (pool), "sync");
}

static void
op_reflink (char **w)
{
  must (btrnbd_reflink (pool, w[0], w[1]), "reflink");
}

static void
op_clone (char **w)
{
  must (btrnbd_clone_range (pool, w[0], number (w[1]), number (w[2]), w[3],
                            number (w[4])), "clone");
}

static void
op_subvol (char **w)
{
  const struct btrnbd_volume_opts opts = { .size = 1 << 20 };

  must (btrnbd_volume_create (pool, w[0], &opts), "subvol");
}

static void
op_rmsubvol (char **w)
{
  must (btrnbd_volume_remove (pool, w[0]), "rmsubvol");
}

static const struct {
  const char *name;
  unsigned words;
  void (*run) (char **);
} ops[] = {
  { "create", 1, op_create }, { "mkdir", 1, op_mkdir },
  { "symlink", 2, op_symlink }, { "link", 2, op_link },
  { "unlink", 1, op_unlink }, { "rename", 2, op_rename },
  { "exchange", 2, op_exchange }, { "chmod", 2, op_chmod },
  { "setx", 3, op_setx }, { "rmx", 2, op_rmx },
  { "write", 4, op_write }, { "punch", 3, op_punch },
  { "zero", 3, op_zero }, { "truncate", 2, op_truncate },
  { "writeout", 1, op_writeout }, { "fsync", 1, op_fsync },
  { "sync", 0, op_sync }, { "subvol", 1, op_subvol },
  { "rmsubvol", 1, op_rmsubvol }, { "fua", 4, op_fua },
  { "reflink", 2, op_reflink }, { "clone", 5, op_clone },
  { "hold", 1, op_hold }, { "fsyncheld", 0, op_fsyncheld },
};

static void
run_line (char *line)
{
  char *w[WORDS + 1], *save, *s;
  unsigned n = 0, i;

  for (s = strtok_r (line, " \n", &save); s != NULL && n <= WORDS;
       s = strtok_r (NULL, " \n", &save))
    w[n++] = s;
  if (n == 0)
    return;
  for (i = 0; i < sizeof ops / sizeof ops[0]; ++i)
    if (strcmp (w[0], ops[i].name) == 0 && ops[i].words == n - 1) {
      ops[i].run (w + 1);
      return;
    }
  fprintf (stderr, "drive: line %u: what is \"%s\"?\n", line_number, w[0]);
  _Exit (1);
}

int
main (int argc, char **argv)
{
  const struct btrnbd_open_opts opts = { .commit_interval = UINT_MAX,
    .cache_size = 32 << 20, .workers = 1 };
  const char *image = argc == 2 ? argv[1] : "";
  struct btrnbd_pool_stats st;
  char line[65536];

  must (btrnbd_pool_open (&image, 1, &opts, &pool), image);
  if (pool->fs->read_only)
    die (-ERR_readonly, pool->fs->read_only_reason);
  while (fgets (line, sizeof line, stdin) != NULL) {
    ++line_number;
    run_line (line);
  }
  btrnbd_pool_get_stats (pool, &st);
  printf ("commits %" PRIu64 " flushes %" PRIu64 " syncs %" PRIu64
          " became-commits %" PRIu64 " log-blocks %" PRIu64 "\n", st.commits,
          st.log_flushes, st.log_syncs, st.log_commits, st.log_blocks);
  fflush (stdout);
  /* Not even closed: what is on the disk now is all there is. */
  _Exit (0);
}
