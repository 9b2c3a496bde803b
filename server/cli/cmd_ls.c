/* cli: btrnbd ls: the exports of the pool, or one directory. */
#include <config.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"

struct ls {
  bool json, details;
  const char *only;             /* one export, NULL: all */
  size_t count;
  json_t *array;                /* NULL when out of memory */
};

static void
add_json (struct ls *ls, json_t *entry)
{
  if (!entry || !ls->array ||
      json_array_append_new (ls->array, entry) < 0) {
    json_decref (ls->array);
    ls->array = NULL;
  }
}

static json_t *
description_json (const char *s)
{
  return s ? cli_json_string (s) : json_null ();
}

static int
print_export (void *opaque, const struct btrnbd_export *e)
{
  struct ls *ls = opaque;
  char size[CLI_SIZE_MAX], used[CLI_SIZE_MAX];

  if (ls->only && strcmp (ls->only, e->name) != 0)
    return 0;
  ls->count++;
  if (ls->json) {
    add_json (ls, json_pack ("{s:o,s:I,s:I,s:b,s:b,s:b,s:o}",
                             "name", cli_json_string (e->name),
                             "size", (json_int_t) e->size,
                             "used", (json_int_t) e->nbytes,
                             "volume", e->is_volume,
                             "read_only", e->read_only,
                             "nocow", e->nocow, "description",
                             description_json (e->description)));
    return 0;
  }
  if (ls->details)
    printf ("%c%c%c %10s %10s  ", e->is_volume ? 'v' : '-',
            e->read_only ? 'r' : 'w', e->nocow ? 'n' : '-',
            cli_size (e->size, size), cli_size (e->nbytes, used));
  if (ls->details && e->description) {
    cli_print_name (e->name, 20);
    fputs (" ", stdout);
    cli_print_name (e->description, 0);
  }
  else
    cli_print_name (e->name, 0);
  putchar ('\n');
  return 0;
}

static const char *
type_name (const struct btrnbd_stat *st)
{
  if (st->is_subvol)
    return "subvolume";
  switch (st->mode & S_IFMT) {
  case S_IFREG: return "file";
  case S_IFDIR: return "directory";
  case S_IFLNK: return "symlink";
  case S_IFCHR: return "char";
  case S_IFBLK: return "block";
  case S_IFIFO: return "fifo";
  case S_IFSOCK: return "socket";
  default: return "unknown";
  }
}

static int
print_entry (void *opaque, const char *name, const struct btrnbd_stat *st)
{
  struct ls *ls = opaque;
  char size[CLI_SIZE_MAX];

  ls->count++;
  if (ls->json) {
    add_json (ls, json_pack ("{s:o,s:s,s:I,s:I,s:i,s:i,s:i,s:i,s:I,s:I,s:b,"
                             "s:b,s:I}",
                             "name", cli_json_string (name),
                             "type", type_name (st),
                             "size", (json_int_t) st->size,
                             "used", (json_int_t) st->nbytes,
                             "mode", (int) (st->mode & 07777),
                             "uid", (int) st->uid, "gid", (int) st->gid,
                             "nlink", (int) st->nlink,
                             "root", (json_int_t) st->root_id,
                             "inode", (json_int_t) st->ino,
                             "nocow", st->is_nocow,
                             "read_only", st->is_read_only,
                             "mtime", (json_int_t) st->mtime.tv_sec));
    return 0;
  }
  if (ls->details)
    printf ("%-9s %04o %3" PRIu32 " %10s  ", type_name (st),
            st->mode & 07777, st->nlink, cli_size (st->size, size));
  cli_print_name (name, 0);
  putchar ('\n');
  return 0;
}

/* An argument is an export's name, or else a path. */
static int
list_one (struct cli *c, struct ls *ls, const char *name)
{
  struct btrnbd_stat st;
  int r;

  while (*name == '/')
    name++;
  if (*name) {
    ls->only = name;
    r = btrnbd_exports (c->pool, SIZE_MAX, print_export, ls);
    if (r < 0 || ls->count > 0)
      return r;
  }
  r = btrnbd_stat (c->pool, name, &st);
  if (r < 0)
    return r;
  if (S_ISDIR (st.mode))
    return btrnbd_readdir (c->pool, name, print_entry, ls);
  return print_entry (ls, name, &st);
}

int
cmd_ls (struct cli *c)
{
  struct ls ls = { 0 };
  const struct cli_opt opts[] = {
    { "long", 'l', CLI_FLAG, &ls.details, NULL,
      "kind, size, space used, description" },
    { NULL }
  };
  char **args = cli_parse (c, opts);
  int r, status;

  if (!args)
    return c->status;
  status = cli_open (c, true);
  if (status)
    return status;
  ls.json = c->json;
  if (ls.json)
    ls.array = json_array ();
  if (args[0])
    r = list_one (c, &ls, args[0]);
  else
    r = btrnbd_exports (c->pool, SIZE_MAX, print_export, &ls);
  if (r < 0)
    status = cli_fail (r, "%s", args[0] ? args[0] : c->devices[0]);
  else if (ls.json) {
    status = cli_print_json (ls.array);
    ls.array = NULL;
  }
  json_decref (ls.array);
  return cli_close (c, status);
}
