/* host: lists that plugins fill in. */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host/lists.h"
#include "host/nbdkit.h"

void
host_extents_init (struct nbdkit_extents *x, uint64_t offset, uint64_t length,
                   size_t max)
{
  *x = (struct nbdkit_extents) { .offset = offset, .length = length,
    .max = max };
}

void
host_extents_done (struct nbdkit_extents *x)
{
  free (x->v);
  x->v = NULL;
}

/* Append, or widen the last one when the type is the same.  Once one is left
 * out nothing is told any more: a later one does not touch the last.
 */
static int
extents_append (struct nbdkit_extents *x, uint64_t length, uint32_t type)
{
  struct nbd_extent *v;

  if (x->full)
    return 0;
  if (x->count > 0 && x->v[x->count - 1].flags == type) {
    x->v[x->count - 1].length += length;
    return 0;
  }
  if (x->count == x->max) {
    x->full = true;
    return 0;
  }
  if ((x->count & (x->count - 1)) == 0) {
    v = realloc (x->v, (x->count ? 2 * x->count : 1) * sizeof *v);
    if (v == NULL) {
      nbdkit_error ("out of memory");
      return -1;
    }
    x->v = v;
  }
  x->v[x->count++] = (struct nbd_extent) { .length = length, .flags = type };
  return 0;
}

int
nbdkit_add_extent (struct nbdkit_extents *x, uint64_t offset, uint64_t length,
                   uint32_t type)
{
  const uint64_t end = x->offset + x->length;
  uint64_t skip;

  if (length == 0)
    return 0;
  if (x->started && offset != x->next) {
    nbdkit_error ("nbdkit_add_extent: extents must be ascending and "
                  "contiguous");
    errno = ERANGE;
    return -1;
  }
  if (!x->started && offset > x->offset) {
    nbdkit_error ("nbdkit_add_extent: the first extent must cover the "
                  "offset");
    errno = ERANGE;
    return -1;
  }
  if (length > UINT64_MAX - offset)
    length = UINT64_MAX - offset;
  x->started = true;
  x->next = offset + length;
  if (x->next <= x->offset || offset >= end)
    return 0;
  skip = offset < x->offset ? x->offset - offset : 0;
  offset += skip;
  length -= skip;
  if (length > end - offset)
    length = end - offset;
  return extents_append (x, length, type);
}

void
host_export_done (struct host_export *e)
{
  free (e->name);
  free (e->description);
}

void
host_exports_done (struct nbdkit_exports *x)
{
  size_t i;

  for (i = 0; i < x->count; ++i)
    host_export_done (&x->v[i]);
  free (x->v);
  *x = (struct nbdkit_exports) { .count = 0 };
}

int
host_exports_add (struct nbdkit_exports *x, const char *name,
                  const char *description)
{
  struct host_export e = { NULL, NULL }, *v;

  if (x->count == HOST_EXPORTS_MAX) {
    nbdkit_error ("too many exports");
    errno = EINVAL;
    return -1;
  }
  if (strlen (name) > NBD_MAX_STRING ||
      (description && strlen (description) > NBD_MAX_STRING)) {
    nbdkit_error ("export name or description is too long");
    errno = EINVAL;
    return -1;
  }
  e.name = strdup (name);
  e.description = description ? strdup (description) : NULL;
  v = realloc (x->v, (x->count + 1) * sizeof *v);
  if (v)
    x->v = v;
  if (e.name == NULL || (description && e.description == NULL) || v == NULL) {
    free (e.name);
    free (e.description);
    nbdkit_error ("out of memory");
    return -1;
  }
  x->v[x->count++] = e;
  return 0;
}

int
nbdkit_add_export (struct nbdkit_exports *x, const char *name,
                   const char *description)
{
  return host_exports_add (x, name, description);
}

int
nbdkit_use_default_export (struct nbdkit_exports *x)
{
  x->use_default = true;
  return 0;
}

/* Plugins never make such lists, but those of the nbdkit project contain
 * helpers that name these two (of the filter API), so they must resolve.
 */
extern __attribute__ ((visibility ("default"))) void
nbdkit_extents_free (struct nbdkit_extents *);
extern __attribute__ ((visibility ("default"))) void
nbdkit_exports_free (struct nbdkit_exports *);

void
nbdkit_extents_free (struct nbdkit_extents *x)
{
  if (x) {
    host_extents_done (x);
    free (x);
  }
}

void
nbdkit_exports_free (struct nbdkit_exports *x)
{
  if (x) {
    host_exports_done (x);
    free (x);
  }
}
