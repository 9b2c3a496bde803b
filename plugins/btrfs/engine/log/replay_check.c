/* log: reading a log before anything is changed. */
#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "log/replay_priv.h"

/* Inodes named of each subvolume. */
#define NAMED_MAX 16

static bool
room (const char *text, size_t size, size_t *len)
{
  *len = strlen (text);
  return *len + 1 < size;
}

/* "subvolume 256: inodes 257 258; " behind TEXT. */
static int
name_inodes (struct tree *log, uint64_t root_id, char *text, size_t size)
{
  CLEANUP_CURSOR struct cursor cur = CURSOR_INIT;
  size_t len;
  unsigned n = 0;
  int r = tree_find (log, KEY_MIN, &cur, NULL);

  if (room (text, size, &len))
    snprintf (text + len, size - len, "subvolume %" PRIu64 ": inodes",
              root_id);
  while (r == 0 && cursor_at_item (&cur) && n <= NAMED_MAX) {
    if (cursor_key (&cur).type == BTRFS_INODE_ITEM &&
        n++ < NAMED_MAX && room (text, size, &len))
      snprintf (text + len, size - len, " %" PRIu64,
                cursor_key (&cur).objectid);
    r = cursor_next (&cur);
  }
  if (room (text, size, &len))
    snprintf (text + len, size - len, "%s; ", n > NAMED_MAX ? " ..." : "");
  return r;
}

/* Only trees with files in them have logs. */
static bool
may_have_log (uint64_t root_id)
{
  return root_id == BTRFS_FS_TREE || (root_id >= BTRFS_FIRST_FREE_OBJECTID &&
                                      root_id <= BTRFS_LAST_FREE_OBJECTID);
}

static int
check_log (const struct replay_env *env, const struct replay_log *l,
           char *names, size_t size)
{
  struct root *root = NULL;
  struct tree *log;
  int r;

  if (!may_have_log (l->root_id))
    return err_new (ERR_log_format, "a log of tree %" PRIu64, l->root_id);
  r = replay_open (env, l, &log);
  if (r < 0)
    return r;
  r = name_inodes (log, l->root_id, names, size);
  tree_free (log);
  if (r < 0)
    return r;
  r = roots_get (env->roots, l->root_id, &root);
  if (r == 0)
    roots_put (env->roots, root);
  if (r != -ERR_subvol_missing)
    return r;
  log_warning ("the log of a subvolume that is gone is ignored: %s",
               err_text (r));
  err_clear ();
  return 0;
}

static int
ignore_block (void *opaque, uint64_t bytenr)
{
  (void) opaque;
  (void) bytenr;
  return 0;
}

int
replay_check (const struct replay_env *env, char *names, size_t size)
{
  struct replay_log *logs = NULL;
  size_t n = 0, i;
  int r, e = 0;

  names[0] = '\0';
  r = replay_logs (env, &logs, &n);
  /* All that can be named is. */
  for (i = 0; i < n && r == 0; ++i) {
    int one = check_log (env, &logs[i], names, size);

    e = e < 0 ? e : one;
  }
  if (r == 0)
    r = e;
  if (r == 0)
    r = replay_blocks (env, logs, n, ignore_block, NULL);
  free (logs);
  return r < 0 ? err_note (r, "reading the log") : 0;
}
