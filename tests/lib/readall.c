/* Read everything that a pool offers, see readall.h. */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/readall.h"

#define MAX_DEPTH 16
#define MAX_NAMES 3000
#define MAX_FILE (2 << 20)      /* bytes read of one file */
#define CHUNK 65536

struct reader {
  struct btrnbd_pool *pool;
  unsigned names;
  int first;
  char *what;
};

static void
note (struct reader *rd, int r)
{
  if (r < 0 && rd->first == 0) {
    rd->first = r;
    snprintf (rd->what, READALL_TEXT, "%s", btrnbd_last_error (r));
  }
}

static int
extent_seen (void *opaque, uint64_t offset, uint64_t len, unsigned type)
{
  (void) offset;
  (void) len;
  (void) type;
  return ++*(unsigned *) opaque > 1000 ? -ERR_busy : 0;
}

static void
read_file (struct reader *rd, const char *path)
{
  struct btrnbd_file *f;
  static char buf[CHUNK];
  unsigned extents = 0;
  uint64_t size;
  int r;

  r = btrnbd_file_open (rd->pool, path, BTRNBD_OPEN_RDONLY, &f);
  if (r < 0) {
    note (rd, r);
    return;
  }
  size = btrnbd_file_size (f);
  for (uint64_t pos = 0; pos < size && pos < MAX_FILE; pos += CHUNK)
    note (rd, btrnbd_pread (f, buf, size - pos < CHUNK ? size - pos : CHUNK,
                            pos));
  if (size > 0) {
    r = btrnbd_extents (f, 0, size, extent_seen, &extents);
    if (r != -ERR_busy)
      note (rd, r);
  }
  btrnbd_file_close (f);
}

static void
read_xattrs (struct reader *rd, const char *path)
{
  static char value[65536];
  char *names = NULL;
  size_t len, got;
  int r;

  r = btrnbd_listxattr (rd->pool, path, &names, &len);
  note (rd, r);
  if (r < 0)
    return;
  for (size_t i = 0; i < len; i += strlen (names + i) + 1)
    note (rd, btrnbd_getxattr (rd->pool, path, names + i, value,
                               sizeof value, &got));
  free (names);
}

struct listing {
  struct reader *rd;
  char **names;
  size_t n;
};

static int
add_name (void *opaque, const char *name, const struct btrnbd_stat *st)
{
  struct listing *l = opaque;
  char **p;

  (void) st;
  if (++l->rd->names > MAX_NAMES)
    return -ERR_busy;
  p = realloc (l->names, (l->n + 1) * sizeof *p);
  if (p == NULL)
    return -ERR_nomem;
  l->names = p;
  p[l->n] = strdup (name);
  if (p[l->n] == NULL)
    return -ERR_nomem;
  ++l->n;
  return 0;
}

static void
read_path (struct reader *rd, const char *path, unsigned depth)
{
  struct listing l = { .rd = rd };
  struct btrnbd_stat st;
  char *text = NULL;
  char child[4096];
  int r;

  r = btrnbd_stat (rd->pool, path, &st);
  note (rd, r);
  if (r < 0)
    return;
  read_xattrs (rd, path);
  if (S_ISLNK (st.mode)) {
    note (rd, btrnbd_readlink (rd->pool, path, &text));
    free (text);
  }
  else if (S_ISREG (st.mode)) {
    read_file (rd, path);
  }
  else if (S_ISDIR (st.mode) && depth < MAX_DEPTH) {
    r = btrnbd_readdir (rd->pool, path, add_name, &l);
    if (r != -ERR_busy)
      note (rd, r);
    for (size_t i = 0; i < l.n; ++i) {
      if (strcmp (l.names[i], ".") != 0 && strcmp (l.names[i], "..") != 0 &&
          snprintf (child, sizeof child, "%s%s%s", path,
                    path[0] == '\0' ? "" : "/", l.names[i]) <
          (int) sizeof child)
        read_path (rd, child, depth + 1);
      free (l.names[i]);
    }
    free (l.names);
  }
}

static int
export_seen (void *opaque, const struct btrnbd_export *e)
{
  (void) opaque;
  (void) e;
  return 0;
}

/* Printing all trees reads every block; damage is part of the text. */
static void
read_trees (struct reader *rd)
{
  char *text = NULL, *error;
  size_t len = 0;
  FILE *f = open_memstream (&text, &len);
  int r;

  if (f == NULL)
    return;
  r = btrnbd_dump_tree (rd->pool, 0, 0, f);
  fclose (f);
  note (rd, r);
  error = text == NULL ? NULL : strstr (text, "\nERROR: ");
  if (error != NULL && rd->first == 0) {
    rd->first = -ERR_no_mirror;
    snprintf (rd->what, READALL_TEXT, "%.*s",
              (int) strcspn (error + 1, "\n"), error + 1);
  }
  free (text);
}

int
readall (struct btrnbd_pool *pool, char what[READALL_TEXT])
{
  struct reader rd = { .pool = pool, .what = what };
  struct btrnbd_pool_info info;

  what[0] = '\0';
  note (&rd, btrnbd_pool_get_info (pool, &info));
  read_path (&rd, "", 0);
  note (&rd, btrnbd_exports (pool, 1000, export_seen, NULL));
  read_trees (&rd);
  return rd.first;
}
