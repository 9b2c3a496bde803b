/* control: methods about what files occupy. */
#include <config.h>

#include "control/methods_priv.h"
#include "control/stream.h"

static json_t *
usage_json (const struct btrnbd_usage *u, bool whole_pool)
{
  json_t *j = json_pack ("{s:o,s:o,s:o,s:o}",
                         "extents", control_u64 (u->extents),
                         "allocated", control_u64 (u->allocated),
                         "dead", control_u64 (u->dead),
                         "inline", control_u64 (u->inline_bytes));

  if (j != NULL && !whole_pool) {
    json_object_set_new (j, "exclusive", control_u64 (u->exclusive));
    json_object_set_new (j, "shared", control_u64 (u->shared));
  }
  return j;
}

void
control_pool_usage (struct control_call *call)
{
  struct btrnbd_usage u;
  int r;

  if (!control_params (call, "{}"))
    return;
  r = btrnbd_pool_usage (call->pool, &u);
  if (r < 0)
    control_failed (call, r);
  else
    call->result = usage_json (&u, true);
}

void
control_export_usage (struct control_call *call)
{
  struct btrnbd_usage u;
  const char *name;
  int r;

  if (!control_params (call, "{s:s}", "name", &name))
    return;
  r = btrnbd_usage (call->pool, name, &u);
  if (r < 0)
    control_failed (call, r);
  else
    call->result = usage_json (&u, false);
}

static int
tell_progress (void *opaque, uint64_t done, uint64_t total)
{
  struct control_call *call = opaque;

  if (call->progress != NULL)
    call->progress (call->progress_opaque, done, total);
  return control_cancelled (call) ? 1 : 0;
}

void
control_export_regroup (struct control_call *call)
{
  const char *name;
  uint64_t moved;
  int r;

  if (!control_params (call, "{s:s}", "name", &name))
    return;
  r = btrnbd_regroup (call->pool, name, tell_progress, call, &moved);
  if (r == 0)
    r = btrnbd_pool_sync (call->pool);
  if (r < 0)
    control_failed (call, r);
  else if (r > 0)
    control_refused (call, RPC_FAILED, "the client has left");
  else
    call->result = json_pack ("{s:o}", "moved", control_u64 (moved));
}
