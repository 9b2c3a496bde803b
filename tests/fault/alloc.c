/* Failing allocations, see alloc.h.  The program is linked with --wrap, so
 * that what the engine calls arrives here; the test's own sources call the
 * real functions (see local.mk), and so do other libraries.
 */
#include <config.h>

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "fault/alloc.h"

extern void *__real_malloc (size_t);
extern void *__real_calloc (size_t, size_t);
extern void *__real_realloc (void *, size_t);
extern void *__real_reallocarray (void *, size_t, size_t);
extern int __real_posix_memalign (void **, size_t, size_t);

extern void *__wrap_malloc (size_t);
extern void *__wrap_calloc (size_t, size_t);
extern void *__wrap_realloc (void *, size_t);
extern void *__wrap_reallocarray (void *, size_t, size_t);
extern int __wrap_posix_memalign (void **, size_t, size_t);
extern char *__wrap_strdup (const char *);

static _Atomic uint64_t target, count, hits;
static atomic_bool from_there;

void
alloc_arm (uint64_t n, bool from)
{
  target = 0;
  count = hits = 0;
  from_there = from;
  target = n;
}

uint64_t
alloc_count (void)
{
  return count;
}

uint64_t
alloc_hits (void)
{
  return hits;
}

static bool
strikes (void)
{
  uint64_t now = atomic_fetch_add (&count, 1) + 1, at = target;
  bool hit = at != 0 && (from_there ? now >= at : now == at);

  if (hit) {
    hits++;
    errno = ENOMEM;
  }
  return hit;
}

void *
__wrap_malloc (size_t n)
{
  return strikes () ? NULL : __real_malloc (n);
}

void *
__wrap_calloc (size_t n, size_t size)
{
  return strikes () ? NULL : __real_calloc (n, size);
}

void *
__wrap_realloc (void *p, size_t n)
{
  return strikes () ? NULL : __real_realloc (p, n);
}

void *
__wrap_reallocarray (void *p, size_t n, size_t size)
{
  return strikes () ? NULL : __real_reallocarray (p, n, size);
}

int
__wrap_posix_memalign (void **p, size_t align, size_t n)
{
  return strikes () ? ENOMEM : __real_posix_memalign (p, align, n);
}

char *
__wrap_strdup (const char *s)
{
  size_t n = strlen (s) + 1;
  char *p = strikes () ? NULL : __real_malloc (n);

  return p ? memcpy (p, s, n) : NULL;
}
