/* control: methods about volumes and exports. */
#include <config.h>

#include "control/methods_priv.h"

/* --- exports --- */

struct export_walk {
  struct control_page page;
  const char *only;            /* one export, NULL: all */
};

static json_t *
export_json (const struct btrnbd_export *e)
{
  return json_pack ("{s:o,s:o,s:o,s:b,s:b,s:b,s:o,s:o}",
                    "name", rpc_string (e->name),
                    "size", control_u64 (e->size),
                    "used", control_u64 (e->nbytes),
                    "volume", e->is_volume,
                    "read_only", e->read_only,
                    "nocow", e->nocow,
                    "alloc_unit", control_u64 (e->alloc_unit),
                    "description", e->description
                    ? rpc_string (e->description) : json_null ());
}

static int
add_export (void *opaque, const struct btrnbd_export *e)
{
  struct export_walk *w = opaque;
  bool end;

  if (w->only && strcmp (w->only, e->name) != 0)
    return 0;
  if (control_page_wants (&w->page, &end))
    json_array_append_new (w->page.array, export_json (e));
  return end ? -BTRNBD_ERR_BASE : 0;
}

void
control_export_list (struct control_call *call)
{
  struct export_walk w = { .page.max = CONTROL_PAGE_MAX };
  int r;

  if (!control_params (call, "{s?I,s?I,s?s}", "skip", &w.page.skip,
                       "max", &w.page.max, "name", &w.only) ||
      !control_page_start (call, &w.page))
    return;
  r = btrnbd_exports (call->pool, SIZE_MAX, add_export, &w);
  control_page_end (call, &w.page, r);
}

/* --- volumes --- */

static bool
size_ok (struct control_call *call, json_int_t size)
{
  if (size < 0)
    control_refused (call, RPC_INVALID_PARAMS, "the size is negative");
  return size >= 0;
}

void
control_size_done (struct control_call *call, int r, const char *name)
{
  struct btrnbd_file *f;

  if (r == 0)
    r = btrnbd_export_open (call->pool, name, BTRNBD_OPEN_RDONLY, &f);
  if (r < 0) {
    control_failed (call, r);
    return;
  }
  call->result = json_pack ("{s:o}", "size",
                            control_u64 (btrnbd_file_size (f)));
  btrnbd_file_close (f);
}

void
control_volume_create (struct control_call *call)
{
  struct btrnbd_volume_opts o = { 0 };
  const char *name;
  json_int_t size, unit = 0;
  int nocow = 0;

  if (!control_params (call, "{s:s,s:I,s?b,s?s,s?I}", "name", &name, "size",
                       &size, "nocow", &nocow, "description",
                       &o.description, "alloc_unit", &unit) ||
      !size_ok (call, size))
    return;
  if (size == 0) {
    control_refused (call, RPC_INVALID_PARAMS, "a volume of no bytes");
    return;
  }
  o.size = size;
  o.nocow = nocow;
  o.alloc_unit = unit;
  control_size_done (call, btrnbd_volume_create (call->pool, name, &o), name);
}

void
control_volume_remove (struct control_call *call)
{
  const char *name;
  int all = 0;

  if (control_params (call, "{s:s,s?b}", "name", &name, "snapshots", &all))
    control_done (call, all ? btrnbd_volume_remove_all (call->pool, name)
                  : btrnbd_volume_remove (call->pool, name));
}

void
control_resize (struct control_call *call, const char *name, json_int_t size,
                bool shrink)
{
  if (size_ok (call, size))
    control_size_done (call, shrink
                       ? btrnbd_volume_resize (call->pool, name, size)
                       : btrnbd_volume_grow (call->pool, name, size), name);
}

void
control_volume_resize (struct control_call *call)
{
  const char *name;
  json_int_t size;
  int shrink = 0;

  if (control_params (call, "{s:s,s:I,s?b}", "name", &name, "size", &size,
                      "shrink", &shrink))
    control_resize (call, name, size, shrink);
}

void
control_volume_rename (struct control_call *call)
{
  const char *from, *to;

  if (control_params (call, "{s:s,s:s}", "from", &from, "to", &to))
    control_done (call, btrnbd_volume_rename (call->pool, from, to));
}
