/* What a pool holds, see list.h. */
#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/csum.h"
#include "base/math.h"
#include "log/list.h"

/* Nobody makes larger files here. */
#define FILE_MAX (UINT64_C (256) << 20)
#define XATTR_MAX 65536

struct list {
  struct btrnbd_pool *pool;
  FILE *out;
  char **paths;                /* still to be looked at */
  size_t n, max;
};

struct in_dir {
  struct list *l;
  const char *dir;
};

static int
add_path (void *opaque, const char *name, const struct btrnbd_stat *st)
{
  struct in_dir *in = opaque;
  struct list *l = in->l;

  (void) st;
  if (l->n == l->max) {
    l->max = 2 * l->max + 16;
    l->paths = reallocarray (l->paths, l->max, sizeof *l->paths);
  }
  if (l->paths == NULL || asprintf (&l->paths[l->n++], "%s%s%s", in->dir,
                                    in->dir[0] ? "/" : "", name) < 0)
    abort ();
  return 0;
}

static void
put_sum (FILE *out, const void *data, size_t len)
{
  uint8_t sum[CSUM_SIZE_MAX];

  csum_data (CSUM_SHA256, data, len, sum);
  for (unsigned i = 0; i < 8; ++i)
    fprintf (out, "%02x", sum[i]);
}

static int
put_file (struct list *l, const char *path, uint64_t size)
{
  struct btrnbd_file *f;
  uint8_t *buf = malloc (MAX (size, UINT64_C (1)));
  int r = btrnbd_file_open (l->pool, path, BTRNBD_OPEN_RDONLY, &f);

  if (r == 0 && size <= FILE_MAX && buf != NULL) {
    r = btrnbd_pread (f, buf, size, 0);
    if (r == 0)
      put_sum (l->out, buf, size);
  }
  if (r == 0)
    btrnbd_file_close (f);
  free (buf);
  return r;
}

static int
put_link (struct list *l, const char *path)
{
  char *target;
  int r = btrnbd_readlink (l->pool, path, &target);

  if (r < 0)
    return r;
  put_sum (l->out, target, strlen (target));
  free (target);
  return 0;
}

static int
by_text (const void *a, const void *b)
{
  return strcmp (*(char *const *) a, *(char *const *) b);
}

static int
put_xattrs (struct list *l, const char *path)
{
  static char value[XATTR_MAX];
  char *names, *v[256], *p;
  size_t len, n = 0, size;
  int r = btrnbd_listxattr (l->pool, path, &names, &len);

  if (r < 0)
    return r;
  for (p = names; p < names + len && n < 256; p += strlen (p) + 1)
    v[n++] = p;
  qsort (v, n, sizeof *v, by_text);
  for (size_t i = 0; i < n && r == 0; ++i) {
    r = btrnbd_getxattr (l->pool, path, v[i], value, sizeof value, &size);
    fprintf (l->out, " %s=", v[i]);
    put_sum (l->out, value, r == 0 ? MIN (size, sizeof value) : 0);
  }
  free (names);
  return r;
}

static int
put_path (struct list *l, const char *path)
{
  struct btrnbd_stat st;
  int r = btrnbd_stat (l->pool, path, &st);

  if (r < 0)
    return r;
  fprintf (l->out, "%s %o %u:%u %u %" PRIu64 " %" PRId64 ".%ld ", path,
           st.mode, st.uid, st.gid, st.nlink, st.ino,
           (int64_t) st.mtime.tv_sec, st.mtime.tv_nsec);
  if (S_ISREG (st.mode) || S_ISLNK (st.mode))
    fprintf (l->out, "%" PRIu64 " ", st.size);
  if (S_ISREG (st.mode))
    r = put_file (l, path, st.size);
  else if (S_ISLNK (st.mode))
    r = put_link (l, path);
  else if (S_ISDIR (st.mode)) {
    struct in_dir in = { .l = l, .dir = path };

    r = btrnbd_readdir (l->pool, path, add_path, &in);
  }
  if (r == 0 && !S_ISLNK (st.mode) && !st.is_subvol)
    r = put_xattrs (l, path);
  fputc ('\n', l->out);
  return r;
}

static int
by_line (const void *a, const void *b)
{
  return strcmp (*(char *const *) a, *(char *const *) b);
}

/* Lines of TEXT in order. */
static char *
sorted (char *text, size_t len)
{
  char **v = calloc (len + 1, sizeof *v), *p = text, *out, *to;
  size_t n = 0;

  for (; v != NULL && p < text + len; p = strchr (p, '\0') + 1) {
    char *end = strchr (p, '\n');

    *end = '\0';
    v[n++] = p;
  }
  out = to = malloc (len + 1);
  if (v == NULL || out == NULL)
    abort ();
  qsort (v, n, sizeof *v, by_line);
  for (size_t i = 0; i < n; ++i) {
    to = stpcpy (to, v[i]);
    *to++ = '\n';
  }
  *to = '\0';
  free (v);
  return out;
}

char *
list_pool (struct btrnbd_pool *pool, char *why, size_t why_size)
{
  struct list l = { .pool = pool };
  struct in_dir in = { .l = &l, .dir = "" };
  char *text, *out;
  size_t len;
  int r;

  l.out = open_memstream (&text, &len);
  r = btrnbd_readdir (pool, "", add_path, &in);
  if (r < 0)
    snprintf (why, why_size, "top: %s", btrnbd_last_error (r));
  while (r == 0 && l.n > 0) {
    char *path = l.paths[--l.n];

    r = put_path (&l, path);
    if (r < 0)
      snprintf (why, why_size, "%s: %s", path, btrnbd_last_error (r));
    free (path);
  }
  while (l.n > 0)
    free (l.paths[--l.n]);
  free (l.paths);
  fclose (l.out);
  out = r == 0 ? sorted (text, len) : NULL;
  free (text);
  return out;
}
