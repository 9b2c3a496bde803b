/* inode: which names the running transaction has changed, for the log.
 *
 * Per subvolume, the inodes that got, lost or changed a name, and the places
 * (directory, index) that entries went from, since a log took them last.
 * Noted inside the critical section of the tree that changes the items, so
 * that whoever holds the tree's lock sees notes and items agree.
 *
 * The notes belong to one transaction: the first one of a later transaction
 * empties them.  They are bounded; when they overflow, when memory is short,
 * or when something changed that no log can say, the answer for that
 * subvolume is "not known" until the next transaction.
 */
#include <config.h>

#include <stdlib.h>

#include "inode/priv.h"

#define ROOTS_MAX 64

struct changed_root {
  SLIST_ENTRY (changed_root) link;
  uint64_t root_id;
  bool lost;
  uint64_t *inodes;
  size_t num_inodes, cap_inodes;
  struct name_place *places;
  size_t num_places, cap_places;
};

static void
empty (struct changed_root *c)
{
  free (c->inodes);
  free (c->places);
  c->inodes = NULL;
  c->places = NULL;
  c->num_inodes = c->cap_inodes = c->num_places = c->cap_places = 0;
}

static void
lose (struct changed_root *c)
{
  c->lost = true;
  empty (c);
}

void
inode_changes_reset (struct inode_changes *all)
{
  struct changed_root *c;

  while ((c = SLIST_FIRST (&all->roots)) != NULL) {
    SLIST_REMOVE_HEAD (&all->roots, link);
    empty (c);
    free (c);
  }
  all->num_roots = 0;
  all->lost = false;
}

static struct changed_root *
find (struct inode_changes *all, uint64_t root_id)
{
  struct changed_root *c;

  SLIST_FOREACH (c, &all->roots, link)
    if (c->root_id == root_id)
      return c;
  return NULL;
}

/* ii->lock held.  NULL: everything counts as lost. */
static struct changed_root *
changes_of (struct inodes *ii, const struct txn *txn, uint64_t root_id)
{
  struct inode_changes *all = &ii->changes;
  struct changed_root *c;

  if (all->transid != txn->tree.transid) {
    inode_changes_reset (all);
    all->transid = txn->tree.transid;
  }
  c = find (all, root_id);
  if (c != NULL || all->lost)
    return c;
  c = all->num_roots < ROOTS_MAX ? calloc (1, sizeof *c) : NULL;
  if (c == NULL) {
    all->lost = true;
    return NULL;
  }
  c->root_id = root_id;
  SLIST_INSERT_HEAD (&all->roots, c, link);
  ++all->num_roots;
  return c;
}

/* Room for one more of SIZE bytes in the array *V. */
static bool
grow (void **v, size_t n, size_t *cap, size_t size)
{
  const size_t more = *cap ? 2 * *cap : 16;
  void *again;

  if (n < *cap)
    return true;
  if (more > NAMES_CHANGED_MAX)
    return false;
  again = realloc (*v, more * size);
  if (again == NULL)
    return false;
  *v = again;
  *cap = more;
  return true;
}

static void
push_inode (struct changed_root *c, uint64_t ino)
{
  if (c->num_inodes > 0 && c->inodes[c->num_inodes - 1] == ino)
    return;
  if (grow ((void **) &c->inodes, c->num_inodes, &c->cap_inodes,
            sizeof *c->inodes))
    c->inodes[c->num_inodes++] = ino;
  else
    lose (c);
}

static void
push_place (struct changed_root *c, struct name_place place)
{
  if (grow ((void **) &c->places, c->num_places, &c->cap_places,
            sizeof *c->places))
    c->places[c->num_places++] = place;
  else
    lose (c);
}

void
inode_note_added (struct inodes *ii, const struct txn *txn, struct root *root,
                  uint64_t ino)
{
  struct changed_root *c;

  SCOPED_LOCK (&ii->lock);
  c = changes_of (ii, txn, root->id);
  if (c != NULL && !c->lost)
    push_inode (c, ino);
}

void
inode_note_removed (struct inodes *ii, const struct txn *txn,
                    struct root *root, uint64_t ino, struct name_place place)
{
  struct changed_root *c;

  SCOPED_LOCK (&ii->lock);
  c = changes_of (ii, txn, root->id);
  if (c == NULL || c->lost)
    return;
  push_inode (c, ino);
  if (!c->lost)
    push_place (c, place);
}

void
inode_note_beyond_log (struct inodes *ii, const struct txn *txn,
                       struct root *root)
{
  struct changed_root *c;

  SCOPED_LOCK (&ii->lock);
  c = changes_of (ii, txn, root->id);
  if (c != NULL)
    lose (c);
}

static int
by_number (const void *a, const void *b)
{
  const uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

  return x < y ? -1 : x > y;
}

static int
by_place (const void *a, const void *b)
{
  const struct name_place *x = a, *y = b;

  if (x->dir != y->dir)
    return x->dir < y->dir ? -1 : 1;
  return x->index < y->index ? -1 : x->index > y->index;
}

static void
sort (struct names_changed *n)
{
  size_t i, k;

  if (n->num_inodes > 0) {
    qsort (n->inodes, n->num_inodes, sizeof *n->inodes, by_number);
    for (i = k = 1; i < n->num_inodes; ++i)
      if (n->inodes[i] != n->inodes[k - 1])
        n->inodes[k++] = n->inodes[i];
    n->num_inodes = k;
  }
  if (n->num_places == 0)
    return;
  qsort (n->places, n->num_places, sizeof *n->places, by_place);
  for (i = k = 1; i < n->num_places; ++i)
    if (by_place (&n->places[i], &n->places[k - 1]) != 0)
      n->places[k++] = n->places[i];
  n->num_places = k;
}

bool
names_changed_take (struct inodes *ii, uint64_t root_id, uint64_t transid,
                    struct names_changed *ret)
{
  struct inode_changes *all = &ii->changes;
  struct changed_root *c;

  *ret = (struct names_changed) { .inodes = NULL };
  {
    SCOPED_LOCK (&ii->lock);
    if (all->transid != transid)
      return true;
    c = find (all, root_id);
    if (c == NULL)
      return !all->lost;
    if (c->lost)
      return false;
    ret->inodes = take (c->inodes);
    ret->num_inodes = c->num_inodes;
    ret->places = take (c->places);
    ret->num_places = c->num_places;
    c->num_inodes = c->cap_inodes = c->num_places = c->cap_places = 0;
  }
  sort (ret);
  return true;
}

void
names_changed_done (struct names_changed *n)
{
  free (n->inodes);
  free (n->places);
  *n = (struct names_changed) { .inodes = NULL };
}
