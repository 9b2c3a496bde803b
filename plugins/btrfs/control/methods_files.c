/* control: methods about paths.  They do what one means: what holds a volume
 * is removed, renamed or resized as that volume.
 */
#include <config.h>

#include <sys/stat.h>

#include "control/methods_priv.h"

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

static json_t *
stat_json (const char *name, const struct btrnbd_stat *st)
{
  return json_pack ("{s:o,s:s,s:o,s:i,s:I,s:I,s:I,s:o,s:o,s:b,s:b,s:I}",
                    "name", rpc_string (name),
                    "type", type_name (st),
                    "size", control_u64 (st->size),
                    "mode", (int) (st->mode & 07777),
                    "uid", (json_int_t) st->uid,
                    "gid", (json_int_t) st->gid,
                    "nlink", (json_int_t) st->nlink,
                    "root", control_u64 (st->root_id),
                    "inode", control_u64 (st->ino),
                    "nocow", st->is_nocow,
                    "read_only", st->is_read_only,
                    "mtime", (json_int_t) st->mtime.tv_sec);
}

void
control_file_stat (struct control_call *call)
{
  struct btrnbd_stat st;
  const char *path;
  int r;

  if (!control_params (call, "{s:s}", "path", &path))
    return;
  r = btrnbd_stat (call->pool, path, &st);
  if (r < 0)
    control_failed (call, r);
  else
    call->result = stat_json (path, &st);
}

static int
add_entry (void *opaque, const char *name, const struct btrnbd_stat *st)
{
  struct control_page *page = opaque;
  bool end;

  if (control_page_wants (page, &end))
    json_array_append_new (page->array, stat_json (name, st));
  return end ? -BTRNBD_ERR_BASE : 0;
}

void
control_file_list (struct control_call *call)
{
  struct control_page page = { .max = CONTROL_PAGE_MAX };
  const char *path;
  int r;

  if (!control_params (call, "{s:s,s?I,s?I}", "path", &path, "skip",
                       &page.skip, "max", &page.max) ||
      !control_page_start (call, &page))
    return;
  r = btrnbd_readdir (call->pool, path, add_entry, &page);
  control_page_end (call, &page, r);
}

/* The directory and those above it that are missing. */
static int
make_parents (struct btrnbd_pool *pool, const char *path)
{
  char *copy = strdup (path);
  char *slash = copy;
  struct btrnbd_stat st;
  int r = 0;

  if (!copy)
    return -ERR_nomem;
  while (r == 0 && slash) {
    slash += strspn (slash, "/");
    slash = strchr (slash, '/');
    if (slash)
      *slash = '\0';
    if (*copy && (btrnbd_stat (pool, copy, &st) < 0 || !S_ISDIR (st.mode)))
      r = btrnbd_mkdir (pool, copy, 0755);
    if (slash)
      *slash = '/';
  }
  free (copy);
  return r;
}

void
control_file_mkdir (struct control_call *call)
{
  const char *path;
  int parents = 0;

  if (!control_params (call, "{s:s,s?b}", "path", &path, "parents",
                       &parents))
    return;
  control_done (call, parents ? make_parents (call->pool, path)
                : btrnbd_mkdir (call->pool, path, 0755));
}

void
control_file_remove (struct control_call *call)
{
  struct btrnbd_stat st;
  const char *path;
  int all = 0, r;

  if (!control_params (call, "{s:s,s?b}", "path", &path, "snapshots", &all))
    return;
  r = btrnbd_stat (call->pool, path, &st);
  if (r == 0)
    r = st.is_subvol ? control_remove_subvol (call->pool, path, all)
      : btrnbd_unlink (call->pool, path);
  control_done (call, r);
}

void
control_file_rename (struct control_call *call)
{
  const char *from, *to;
  int exchange = 0, no_replace = 0, r;
  struct btrnbd_stat st;

  if (!control_params (call, "{s:s,s:s,s?b,s?b}", "from", &from, "to", &to,
                       "exchange", &exchange, "no_replace", &no_replace))
    return;
  if (exchange && no_replace) {
    control_refused (call, RPC_INVALID_PARAMS,
                     "exchange and no_replace exclude each other");
    return;
  }
  if (strcmp (from, to) == 0) {
    control_refused (call, RPC_INVALID_PARAMS, "both names are the same");
    return;
  }
  r = btrnbd_stat (call->pool, from, &st);
  if (r == 0 && st.is_subvol && !exchange
      && control_is_volume (call->pool, from))
    r = btrnbd_volume_rename (call->pool, from, to);
  else if (r == 0)
    r = btrnbd_rename (call->pool, from, to,
                       (exchange ? BTRNBD_RENAME_EXCHANGE : 0) |
                       (no_replace ? BTRNBD_RENAME_NOREPLACE : 0));
  control_done (call, r);
}

void
control_file_link (struct control_call *call)
{
  const char *target, *path;
  int symbolic = 0;

  if (!control_params (call, "{s:s,s:s,s?b}", "target", &target, "path",
                       &path, "symbolic", &symbolic))
    return;
  control_done (call, symbolic ? btrnbd_symlink (call->pool, target, path)
                : btrnbd_link (call->pool, target, path));
}

void
control_file_resize (struct control_call *call)
{
  const char *path;
  json_int_t size;
  int shrink = 0;

  if (control_params (call, "{s:s,s:I,s?b}", "path", &path, "size", &size,
                      "shrink", &shrink))
    control_resize (call, path, size, shrink);
}
