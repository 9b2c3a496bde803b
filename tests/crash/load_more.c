/* A random load: extended attributes and reflinks.
 *
 * Only the main thread works with these files, so what a range holds when it
 * is cloned is known: the newest version of each sector.
 */
#include <config.h>

#include <stdio.h>
#include <string.h>

#include "base/math.h"
#include "crash/load_priv.h"

#define SECTOR_FS 4096         /* at most */
#define CLONE_MAX 16           /* such sectors */

/* Set the one attribute that the journal knows, or take it away. */
void
load_attr (struct worker *w)
{
  const struct jname *name = any_of (w, FILES, ANY_ROOT);
  struct journal *j = w->l->j;
  char path[JPATH_MAX], value[JATTR_MAX];
  struct jfile *f;
  uint32_t seq;
  int r;

  if (name == NULL)
    return;
  strcpy (path, name->path);
  f = j->files[name->file - 1];
  seq = journal_begin (j);
  if (f->nattrs > 0 && f->attrs[f->nattrs - 1].there && below (w, 3) == 0) {
    journal_attr (j, f->id, false, seq);
    r = btrnbd_removexattr (w->l->pool, path, JATTR);
  }
  else {
    journal_attr (j, f->id, true, seq);
    r = btrnbd_setxattr (w->l->pool, path, JATTR, value,
                         journal_attr_value (value, f->id, seq));
  }
  if (!check (w, seq, r, "attribute", path))
    journal_op_failed (j, seq);
}

/* COUNT blocks of FROM at A become those of TO at B, which is synced then. */
static void
clone_blocks (struct worker *w, const struct jname *from, uint64_t a,
              const struct jname *to, uint64_t b, uint64_t count)
{
  struct journal *j = w->l->j;
  char source[JPATH_MAX], target[JPATH_MAX];
  const uint64_t k = SECTOR_FS / JSECTOR;
  const unsigned file = to->file;
  uint32_t seq;

  strcpy (source, from->path);
  strcpy (target, to->path);
  seq = journal_begin (j);
  journal_clone_range (j, from->file, a * k, count * k, file, b * k, seq);
  if (!check (w, seq, btrnbd_clone_range (w->l->pool, source, a * SECTOR_FS,
                                          count * SECTOR_FS, target,
                                          b * SECTOR_FS), "clone range",
              target)) {
    journal_op_failed (j, seq);
    return;
  }
  seq = journal_begin (j);
  journal_end (j, seq);
  journal_ack_file (j, file, seq);
}

/* Also within a file, where ranges must not overlap.  Both have checksums, or
 * both have not.  After an error it is not known what a sector holds.
 */
void
load_reflink (struct worker *w)
{
  const struct jname *from = any_of (w, FILES, ANY_ROOT);
  const struct jname *to = any_of (w, FILES, ANY_ROOT);
  const struct jfile *f, *t;
  uint64_t a, b, count, room, room_a, room_b;

  if (from == NULL || to == NULL || w->l->errors_allowed ||
      w->l->full_allowed)
    return;
  f = w->l->j->files[from->file - 1];
  t = w->l->j->files[to->file - 1];
  room_a = f->size / SECTOR_FS;
  room_b = t->size / SECTOR_FS;
  if (f->nocow != t->nocow || room_a == 0 || room_b == 0)
    return;
  a = below (w, room_a);
  b = below (w, room_b);
  room = MIN (room_a - a, room_b - b);
  count = 1 + below (w, MIN (room, (uint64_t) CLONE_MAX));
  if (f == t && a < b + count && b < a + count)
    return;
  clone_blocks (w, from, a, to, b, count);
}
