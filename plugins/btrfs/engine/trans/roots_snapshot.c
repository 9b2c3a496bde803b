/* trans: a subvolume that begins as a copy of another one, and relatives. */
#include <config.h>

#include <assert.h>
#include <string.h>
#include <time.h>

#include <uuid/uuid.h>

#include "base/err.h"
#include "base/math.h"
#include "trans/roots_priv.h"

/* Two numbers that no tree has had. */
static uint64_t
new_epoch (struct roots *rs)
{
  SCOPED_LOCK (&rs->lock);
  rs->epoch += 2;
  return rs->epoch - 1;
}

/* Flags that are a state of the source stay there. */
static void
make_item (struct root *root, const struct btrfs_root_item *src,
           uint64_t transid, bool read_only)
{
  struct btrfs_root_item *it = &root->item;
  struct timespec now;

  *it = *src;
  it->generation = it->generation_v2 = le64_make (transid);
  it->bytenr = le64_make (root->tree->root->bytenr);
  it->level = tree_level (root->tree);
  it->last_snapshot = le64_make (transid);
  it->flags = le64_make (read_only ? BTRFS_ROOT_SUBVOL_RDONLY : 0);
  it->refs = le32_make (1);
  it->drop_progress = key_to_disk (KEY_MIN);
  it->drop_level = 0;
  memcpy (it->parent_uuid, src->uuid, sizeof it->parent_uuid);
  uuid_generate (it->uuid);
  clock_gettime (CLOCK_REALTIME, &now);
  it->otransid = le64_make (transid);
  it->otime.sec = le64_make (now.tv_sec);
  it->otime.nsec = le32_make (now.tv_nsec);
  if (read_only)
    return;
  /* What was received may be changed from now on. */
  memset (it->received_uuid, 0, sizeof it->received_uuid);
  memset (&it->stime, 0, sizeof it->stime);
  memset (&it->rtime, 0, sizeof it->rtime);
  it->stransid = it->rtransid = le64_make (0);
}

static int
copy_root (struct roots *rs, struct txn *txn, struct root *src,
           struct root *root, bool read_only)
{
  int r;

  rwlock_wrlock (&src->tree->lock);
  r = tree_snapshot (&txn->tree, src->tree, root->id, new_epoch (rs),
                     &root->tree);
  if (r == 0) {
    make_item (root, &src->item, txn->tree.transid, read_only);
    roots_tree_dirtied (&txn->tree, src->tree);
  }
  rwlock_unlock (&src->tree->lock);
  return r;
}

/* The offset of the item's key is taken, by Linux and by us, as the youngest
 * generation whose blocks this tree cannot own.  Linux makes snapshots at the
 * end of a transaction; here the copy may still be changed in this one.
 */
int
roots_snapshot (struct roots *rs, struct txn *txn, struct root *src,
                uint64_t id, bool read_only, struct root **ret)
{
  struct root_priv *p = root_alloc (id);
  int r;

  if (p == NULL)
    return err_new (ERR_nomem, "snapshot");
  p->root.key = KEY (id, BTRFS_ROOT_ITEM, txn->tree.transid - 1);
  r = copy_root (rs, txn, src, &p->root, read_only);
  if (r < 0) {
    root_free (p);
    return r;
  }
  r = roots_insert (rs, txn, p, ret);
  if (r < 0)
    return r;
  __atomic_fetch_add (&rs->families, 1, __ATOMIC_RELEASE);
  return roots_tree_dirtied (&txn->tree, (*ret)->tree);
}

/* --- relatives --- */

static bool
same_uuid (const uint8_t a[BTRFS_UUID_SIZE], const uint8_t b[BTRFS_UUID_SIZE])
{
  static const uint8_t none[BTRFS_UUID_SIZE];

  return memcmp (a, b, sizeof none) == 0 && memcmp (a, none, sizeof none) != 0;
}

/* Root tree locked. */
static int
look_for_kin (struct tree *rt, uint64_t id, const struct btrfs_root_item *me,
              bool *ret_kin)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  int r;

  *ret_kin = false;
  r = tree_find (rt, KEY (BTRFS_FS_TREE, BTRFS_ROOT_ITEM, 0), &c, NULL);
  while (r == 0 && cursor_at_item (&c) && !*ret_kin) {
    const struct key k = cursor_key (&c);
    struct btrfs_root_item it;

    if (k.objectid > BTRFS_LAST_FREE_OBJECTID)
      break;
    memset (&it, 0, sizeof it);
    if (k.type == BTRFS_ROOT_ITEM && k.objectid != id) {
      memcpy (&it, cursor_data (&c),
              MIN (cursor_size (&c), (uint32_t) sizeof it));
      *ret_kin = same_uuid (it.parent_uuid, me->uuid)
        || same_uuid (it.uuid, me->parent_uuid)
        || same_uuid (it.parent_uuid, me->parent_uuid);
    }
    r = cursor_next (&c);
  }
  return r;
}

int
roots_has_kin (struct roots *rs, struct root *root, bool *ret_kin)
{
  const uint64_t now = __atomic_load_n (&rs->families, __ATOMIC_ACQUIRE);
  struct tree *rt = rs->root_root->tree;
  struct btrfs_root_item me;
  int r;

  *ret_kin = __atomic_load_n (&root->kin, __ATOMIC_RELAXED);
  if (__atomic_load_n (&root->kin_known, __ATOMIC_ACQUIRE) == now)
    return 0;
  rwlock_rdlock (&root->tree->lock);
  me = root->item;
  rwlock_unlock (&root->tree->lock);
  rwlock_rdlock (&rt->lock);
  r = look_for_kin (rt, root->id, &me, ret_kin);
  rwlock_unlock (&rt->lock);
  if (r < 0)
    return r;
  __atomic_store_n (&root->kin, *ret_kin, __ATOMIC_RELAXED);
  __atomic_store_n (&root->kin_known, now, __ATOMIC_RELEASE);
  return 0;
}
