/* control: methods about snapshots, clones and shared data. */
#include <config.h>

#include <sys/stat.h>

#include "control/methods_priv.h"

/* --- volumes --- */

#define NAMES_MAX 256

void
control_volume_snapshot (struct control_call *call)
{
  const char *names[NAMES_MAX], *tag;
  json_t *array, *name;
  size_t i, n;

  if (!control_params (call, "{s:o,s:s}", "names", &array, "tag", &tag))
    return;
  n = json_array_size (array);
  if (n == 0 || n > NAMES_MAX) {
    control_refused (call, RPC_INVALID_PARAMS,
                     "parameters of %s: names is an array of 1 to %d strings",
                     call->method, NAMES_MAX);
    return;
  }
  json_array_foreach (array, i, name) {
    names[i] = json_string_value (name);
    if (names[i] == NULL) {
      control_refused (call, RPC_INVALID_PARAMS,
                       "parameters of %s: a name is no string",
                       call->method);
      return;
    }
  }
  control_done (call, btrnbd_volume_snapshot (call->pool, names, n, tag));
}

void
control_volume_clone (struct control_call *call)
{
  const char *from, *to;

  if (control_params (call, "{s:s,s:s}", "from", &from, "to", &to))
    control_done (call, btrnbd_volume_clone (call->pool, from, to));
}

void
control_volume_rollback (struct control_call *call)
{
  const char *name, *tag;

  if (control_params (call, "{s:s,s:s}", "name", &name, "tag", &tag))
    control_done (call, btrnbd_volume_rollback (call->pool, name, tag));
}

static int
add_snapshot (void *opaque, const struct btrnbd_volume_snapshot_info *s)
{
  struct control_page *page = opaque;
  bool end;

  if (control_page_wants (page, &end))
    json_array_append_new (page->array, json_pack (
      "{s:o,s:o,s:o,s:o,s:I,s:b,s:s,s:s,s:o,s:o}",
      "name", rpc_string (s->name), "tag", rpc_string (s->tag),
      "size", control_u64 (s->size), "used", control_u64 (s->nbytes),
      "created", (json_int_t) s->created.tv_sec,
      "read_only", s->read_only, "uuid", s->uuid,
      "parent_uuid", s->parent_uuid,
      "generation", control_u64 (s->generation),
      "root", control_u64 (s->root_id)));
  return end ? -BTRNBD_ERR_BASE : 0;
}

void
control_volume_snapshots (struct control_call *call)
{
  struct control_page page = { .max = CONTROL_PAGE_MAX };
  const char *name;
  int r;

  if (!control_params (call, "{s:s,s?I,s?I}", "path", &name, "skip",
                       &page.skip, "max", &page.max) ||
      !control_page_start (call, &page))
    return;
  r = btrnbd_volume_snapshots (call->pool, name, add_snapshot, &page);
  control_page_end (call, &page, r);
}

static int
add_range (void *opaque, uint64_t offset, uint64_t len)
{
  struct control_page *page = opaque;
  bool end;

  if (control_page_wants (page, &end))
    json_array_append_new (page->array, json_pack (
      "{s:o,s:o}", "offset", control_u64 (offset),
      "length", control_u64 (len)));
  return end ? -BTRNBD_ERR_BASE : 0;
}

void
control_export_diff (struct control_call *call)
{
  struct control_page page = { .max = CONTROL_PAGE_MAX };
  const char *a, *b;
  int r;

  if (!control_params (call, "{s:s,s:s,s?I,s?I}", "a", &a, "b", &b, "skip",
                       &page.skip, "max", &page.max) ||
      !control_page_start (call, &page))
    return;
  r = btrnbd_diff (call->pool, a, b, add_range, &page);
  control_page_end (call, &page, r);
}

/* --- shared data --- */

struct ranges {
  const char *from, *to;
  json_int_t from_offset, to_offset, length;
};

static bool
get_ranges (struct control_call *call, struct ranges *x)
{
  bool to_end;

  *x = (struct ranges) { .from = NULL };
  if (!control_params (call, "{s:s,s:s,s?I,s?I,s?I}", "from", &x->from, "to",
                       &x->to, "from_offset", &x->from_offset, "to_offset",
                       &x->to_offset, "length", &x->length))
    return false;
  to_end = json_object_get (call->params, "length") == NULL;
  if (!to_end && x->length == 0)
    control_refused (call, RPC_INVALID_PARAMS, "the length is 0");
  else if (x->from_offset < 0 || x->to_offset < 0 || x->length < 0)
    control_refused (call, RPC_INVALID_PARAMS, "a number is negative");
  else
    return true;
  return false;
}

void
control_file_clone_range (struct control_call *call)
{
  struct ranges x;

  if (get_ranges (call, &x))
    control_done (call, btrnbd_clone_range (call->pool, x.from,
                                            x.from_offset, x.length, x.to,
                                            x.to_offset));
}

void
control_file_reflink (struct control_call *call)
{
  const char *from, *to;

  if (control_params (call, "{s:s,s:s}", "from", &from, "to", &to))
    control_done (call, btrnbd_reflink (call->pool, from, to));
}

/* Whole files when nothing else is said: what is equal, in pieces. */
void
control_file_dedupe (struct control_call *call)
{
  struct ranges x;
  uint64_t shared;
  int r;

  if (!get_ranges (call, &x))
    return;
  if (x.from_offset == 0 && x.to_offset == 0 && x.length == 0)
    r = btrnbd_dedupe (call->pool, x.from, x.to, &shared);
  else
    r = btrnbd_dedupe_range (call->pool, x.from, x.from_offset, x.length,
                             x.to, x.to_offset, &shared);
  if (r < 0)
    control_failed (call, r);
  else
    call->result = json_pack ("{s:o}", "shared", control_u64 (shared));
}

/* --- subvolumes --- */

void
control_subvol_snapshot (struct control_call *call)
{
  struct btrnbd_snapshot_opts o = { .from = NULL };
  int read_only = 0;

  if (!control_params (call, "{s:s,s:s,s?b}", "from", &o.from, "to", &o.to,
                       "read_only", &read_only))
    return;
  o.read_only = read_only;
  control_done (call, btrnbd_subvol_snapshot (call->pool, &o, 1));
}

void
control_subvol_remove (struct control_call *call)
{
  const char *path;

  if (control_params (call, "{s:s}", "path", &path))
    control_done (call, btrnbd_subvol_remove (call->pool, path));
}

void
control_subvol_set_read_only (struct control_call *call)
{
  const char *path;
  int read_only;

  if (control_params (call, "{s:s,s:b}", "path", &path, "read_only",
                      &read_only))
    control_done (call, btrnbd_subvol_set_read_only (call->pool, path,
                                                     read_only));
}

void
control_subvol_set_default (struct control_call *call)
{
  const char *path;

  if (control_params (call, "{s:s}", "path", &path))
    control_done (call, btrnbd_subvol_set_default (call->pool, path));
}

bool
control_is_volume (struct btrnbd_pool *pool, const char *path)
{
  struct btrnbd_stat st;
  char *disk;
  int r;

  /* No export has such a name. */
  if (path[strspn (path, "/")] == '@' || asprintf (&disk, "%s/disk", path) < 0)
    return false;
  r = btrnbd_stat (pool, disk, &st);
  free (disk);
  return r == 0 && S_ISREG (st.mode);
}

int
control_remove_subvol (struct btrnbd_pool *pool, const char *path, bool all)
{
  if (!control_is_volume (pool, path))
    return btrnbd_subvol_remove (pool, path);
  return all ? btrnbd_volume_remove_all (pool, path)
    : btrnbd_volume_remove (pool, path);
}
