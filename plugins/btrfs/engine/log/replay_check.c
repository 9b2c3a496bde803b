/* log: is a log one that replay can do? */
#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "log/replay_priv.h"

/* Inodes named in the message. */
#define NAMED_MAX 16

struct check {
  const struct replay_env *env;
  uint64_t root_id;
  struct tree *root;           /* subvolume; its lock is held shared */
  uint64_t inode;              /* whose inode item was seen last; 0: none */
  bool ok;
};

/* The subvolume has this very item. */
static int
same_in_root (struct check *c, const struct cursor *cur)
{
  uint8_t buf[BTRFS_NODESIZE_MAX];
  const uint32_t size = cursor_size (cur);
  uint32_t have;
  bool found;
  int r;

  r = tree_get (c->root, cursor_key (cur), buf, sizeof buf, &have, &found);
  if (r < 0)
    return r;
  if (!found || have != size || memcmp (buf, cursor_data (cur), size) != 0)
    c->ok = false;
  return 0;
}

/* A regular file that is there, logged in full, with its number of links. */
static int
check_inode (struct check *c, const struct cursor *cur)
{
  const struct btrfs_inode_item *logged = cursor_data (cur);
  struct btrfs_inode_item item;
  uint32_t size;
  bool found;
  int r;

  r = tree_get (c->root, cursor_key (cur), &item, sizeof item, &size, &found);
  if (r < 0)
    return r;
  c->inode = cursor_key (cur).objectid;
  if (!found || !S_ISREG (le32_get (logged->mode)) ||
      !S_ISREG (le32_get (item.mode)) ||
      le64_get (logged->generation) == 0 ||
      le64_get (logged->generation) != le64_get (item.generation) ||
      le32_get (logged->nlink) == 0 ||
      le32_get (logged->nlink) != le32_get (item.nlink))
    c->ok = false;
  return 0;
}

static int
check_item (struct check *c, const struct cursor *cur)
{
  const struct key key = cursor_key (cur);

  if (key.objectid == BTRFS_EXTENT_CSUM_OBJECTID &&
      key.type == BTRFS_EXTENT_CSUM)
    return 0;
  if (key.type == BTRFS_INODE_ITEM)
    return check_inode (c, cur);
  if (key.objectid != c->inode) {
    c->ok = false;
    return 0;
  }
  switch (key.type) {
  case BTRFS_INODE_REF:
  case BTRFS_INODE_EXTREF:
    return same_in_root (c, cur);
  case BTRFS_XATTR_ITEM:
  case BTRFS_EXTENT_DATA:
    return 0;
  default:
    c->ok = false;
    return 0;
  }
}

static int
check_items (struct check *c, struct tree *log)
{
  CLEANUP_CURSOR struct cursor cur = CURSOR_INIT;
  int r = tree_find (log, KEY_MIN, &cur, NULL);

  while (r == 0 && cursor_at_item (&cur)) {
    r = check_item (c, &cur);
    if (r == 0)
      r = cursor_next (&cur);
  }
  return r;
}

/* "subvolume 256: inodes 257 258; " behind TEXT. */
static void
name_inodes (struct tree *log, uint64_t root_id, char *text, size_t size)
{
  CLEANUP_CURSOR struct cursor cur = CURSOR_INIT;
  size_t len = strlen (text);
  unsigned n = 0;
  int r = tree_find (log, KEY_MIN, &cur, NULL);

  len += snprintf (text + len, size - len, "subvolume %" PRIu64 ": inodes",
                   root_id);
  while (r == 0 && cursor_at_item (&cur) && len < size && n < NAMED_MAX) {
    if (cursor_key (&cur).type == BTRFS_INODE_ITEM) {
      len += snprintf (text + len, size - len, " %" PRIu64,
                       cursor_key (&cur).objectid);
      ++n;
    }
    r = cursor_next (&cur);
  }
  if (len < size)
    snprintf (text + len, size - len, "%s; ", n == NAMED_MAX ? " ..." : "");
}

static int
check_log (const struct replay_env *env, const struct replay_log *l,
           bool *ok, char *text, size_t size)
{
  struct check c = { .env = env, .root_id = l->root_id, .ok = true };
  struct root *root = NULL;
  struct tree *log;
  int r;

  r = replay_open (env, l, &log);
  if (r < 0)
    return r;
  /* Linux ignores the log of a subvolume that is gone. */
  r = roots_get (env->roots, l->root_id, &root);
  if (r == -ERR_subvol_missing) {
    err_clear ();
    r = 0;
  }
  else if (r == 0) {
    c.root = root->tree;
    rwlock_rdlock (&root->tree->lock);
    rwlock_rdlock (&log->lock);
    r = check_items (&c, log);
    name_inodes (log, l->root_id, text, size);
    rwlock_unlock (&log->lock);
    rwlock_unlock (&root->tree->lock);
    roots_put (env->roots, root);
  }
  tree_free (log);
  *ok &= c.ok;
  return r;
}

static int
ignore_block (void *opaque, uint64_t bytenr)
{
  (void) opaque;
  (void) bytenr;
  return 0;
}

int
replay_check (const struct replay_env *env)
{
  struct replay_log *logs = NULL;
  char text[256] = "";
  bool ok = true;
  size_t n = 0, i;
  int r;

  r = replay_logs (env, &logs, &n);
  if (r == 0)
    r = replay_blocks (env, logs, n, ignore_block, NULL);
  for (i = 0; i < n && r == 0; ++i)
    r = check_log (env, &logs[i], &ok, text, sizeof text);
  free (logs);
  if (r < 0)
    return err_note (r, "reading the log");
  if (!ok)
    return err_new (ERR_log_pending, "it changes names or directories: %s",
                    text);
  return 0;
}
