/* fs: all regular files that can be written, one after the other. */
#include <config.h>

#include <sys/stat.h>

#include "base/err.h"
#include "base/log.h"
#include "fs/regroup_scan.h"

#define STEPS 64               /* inodes looked at under one lock */

static bool
is_wanted (struct cursor *c)
{
  const struct btrfs_inode_item *item = cursor_data (c);

  return cursor_size (c) >= sizeof *item && S_ISREG (le32_get (item->mode))
    && le64_get (item->nbytes) != 0;
}

/* The next file of ROOT from s->ino on, which moves behind it; *RET_END: there
 * is none.
 */
static int
next_file (struct regroup_scan *s, struct root *root, bool *ret_found,
           bool *ret_end)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  unsigned i;
  int r = 0;

  for (i = 0; i < STEPS && r == 0 && !*ret_found && !*ret_end; ++i) {
    r = tree_find (root->tree, KEY (s->ino, BTRFS_INODE_ITEM, 0), &c, NULL);
    if (r == 0) {
      const struct key k = cursor_at_item (&c) ? cursor_key (&c) : KEY_MAX;

      *ret_end = k.objectid > BTRFS_LAST_FREE_OBJECTID;
      *ret_found = !*ret_end && k.type == BTRFS_INODE_ITEM && is_wanted (&c);
      s->ino = k.objectid + 1;
    }
    cursor_done (&c);
  }
  return r;
}

static int
look (struct fs *fs, struct regroup_scan *s, bool *ret_found, bool *ret_end)
{
  struct root *root;
  int r = roots_get (fs->roots, s->ids.v[s->next], &root);

  if (r < 0)
    return r;
  rwlock_rdlock (&root->tree->lock);
  r = next_file (s, root, ret_found, ret_end);
  rwlock_unlock (&root->tree->lock);
  roots_put (fs->roots, root);
  return r;
}

bool
regroup_scan_next (struct fs *fs, struct regroup_scan *s,
                   struct data_regroup_job *ret)
{
  int r = 0;

  if (!s->listed) {
    s->listed = true;
    s->ino = BTRFS_FIRST_FREE_OBJECTID;
    r = root_ids_get (fs, false, &s->ids);
  }
  while (s->next < s->ids.n) {
    bool found = false, end = false;

    if (r == 0)
      r = look (fs, s, &found, &end);
    if (r == 0 && found) {
      *ret = (struct data_regroup_job) { .root_id = s->ids.v[s->next],
        .ino = s->ino - 1, .start = 0, .end = UINT64_MAX };
      return true;
    }
    if (r < 0 || end) {
      ++s->next;
      s->ino = BTRFS_FIRST_FREE_OBJECTID;
    }
    if (r < 0) {
      log_debug ("%s", err_text (r));
      err_clear ();
      r = 0;
    }
  }
  return false;
}

void
regroup_scan_done (struct regroup_scan *s)
{
  root_ids_done (&s->ids);
}
