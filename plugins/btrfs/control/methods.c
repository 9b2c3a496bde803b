/* control: the table of the pool's methods, and running one of them. */
#include <config.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "control/methods_priv.h"

/* Sorted by name.  methods.h says how to add one. */
static const struct control_method methods[] = {
  { "export.diff", control_export_diff, CONTROL_READS, NULL },
  { "export.list", control_export_list, CONTROL_READS, NULL },
  { "export.regroup", control_export_regroup, CONTROL_WRITES,
    "export.regrouped" },
  { "export.usage", control_export_usage, CONTROL_READS, NULL },
  { "file.clone-range", control_file_clone_range, CONTROL_WRITES,
    "file.written" },
  { "file.dedupe", control_file_dedupe, CONTROL_WRITES, NULL },
  { "file.get", control_file_get, CONTROL_READS, NULL },
  { "file.link", control_file_link, CONTROL_WRITES, "file.linked" },
  { "file.list", control_file_list, CONTROL_READS, NULL },
  { "file.mkdir", control_file_mkdir, CONTROL_WRITES, "file.created" },
  { "file.put", control_file_put, CONTROL_WRITES, "file.written" },
  { "file.reflink", control_file_reflink, CONTROL_WRITES, "file.written" },
  { "file.remove", control_file_remove, CONTROL_WRITES, "file.removed" },
  { "file.rename", control_file_rename, CONTROL_WRITES, "file.renamed" },
  { "file.resize", control_file_resize, CONTROL_WRITES, "file.resized" },
  { "file.stat", control_file_stat, CONTROL_READS, NULL },
  { "pool.df", control_pool_df, CONTROL_READS, NULL },
  { "pool.dump-tree", control_pool_dump_tree, CONTROL_READS, NULL },
  { "pool.info", control_pool_info, CONTROL_READS, NULL },
  { "pool.stats", control_pool_stats, CONTROL_READS, NULL },
  { "pool.sync", control_pool_sync, CONTROL_READS, NULL },
  { "pool.usage", control_pool_usage, CONTROL_READS, NULL },
  { "rpc.methods", control_rpc_methods, CONTROL_READS, NULL },
  { "subvol.remove", control_subvol_remove, CONTROL_WRITES,
    "subvol.removed" },
  { "subvol.set-default", control_subvol_set_default, CONTROL_WRITES, NULL },
  { "subvol.set-read-only", control_subvol_set_read_only, CONTROL_WRITES,
    "subvol.changed" },
  { "subvol.snapshot", control_subvol_snapshot, CONTROL_WRITES,
    "subvol.created" },
  { "volume.clone", control_volume_clone, CONTROL_WRITES, "volume.created" },
  { "volume.create", control_volume_create, CONTROL_WRITES,
    "volume.created" },
  { "volume.remove", control_volume_remove, CONTROL_WRITES,
    "volume.removed" },
  { "volume.rename", control_volume_rename, CONTROL_WRITES,
    "volume.renamed" },
  { "volume.resize", control_volume_resize, CONTROL_WRITES,
    "volume.resized" },
  { "volume.rollback", control_volume_rollback, CONTROL_WRITES,
    "volume.rolled-back" },
  { "volume.snapshot", control_volume_snapshot, CONTROL_WRITES,
    "volume.snapshotted" },
  { "volume.snapshots", control_volume_snapshots, CONTROL_READS, NULL },
};
#define NUM_METHODS (sizeof methods / sizeof methods[0])

const struct control_method *
control_find (const char *name)
{
  size_t i;

  for (i = 0; i < NUM_METHODS; i++)
    if (strcmp (methods[i].name, name) == 0)
      return &methods[i];
  return NULL;
}

json_t *
control_names (void)
{
  json_t *names = json_array ();
  size_t i;

  for (i = 0; i < NUM_METHODS; i++)
    json_array_append_new (names, json_string (methods[i].name));
  return names;
}

void
control_run (struct control_call *call)
{
  const struct control_method *m = control_find (call->method);

  if (m == NULL)
    control_refused (call, RPC_METHOD_NOT_FOUND, "there is no method %s",
                     call->method);
  else
    m->run (call);
}

void
control_call_done (struct control_call *call)
{
  json_decref (call->result);
  free (call->message);
  call->result = NULL;
  call->message = NULL;
}

json_t *
control_event (const struct control_call *call)
{
  const struct control_method *m = control_find (call->method);

  if (m == NULL || m->event == NULL || call->code != 0)
    return NULL;
  return json_pack ("{s:s,s:O}", "type", m->event, "params", call->params);
}

json_t *
control_error_data (int error)
{
  return json_pack ("{s:s,s:i}", "code", btrnbd_error_name (error),
                    "errno", btrnbd_error_errno (error));
}

/* --- for methods --- */

bool
control_params (struct control_call *call, const char *fmt, ...)
{
  char text[JSON_ERROR_TEXT_LENGTH + 32];
  json_error_t why;
  va_list args;
  int r;

  va_start (args, fmt);
  r = json_vunpack_ex (call->params, &why, JSON_STRICT, fmt, args);
  va_end (args);
  if (r == 0)
    return true;
  rpc_params_reason (&why, text, sizeof text);
  control_refused (call, RPC_INVALID_PARAMS, "parameters of %s: %s",
                   call->method, text);
  return false;
}

void
control_failed (struct control_call *call, int r)
{
  call->code = RPC_FAILED;
  call->error = r;
  free (call->message);
  call->message = strdup (btrnbd_last_error (r));
}

void
control_refused (struct control_call *call, int code, const char *fmt, ...)
{
  va_list args;

  call->code = code;
  free (call->message);
  va_start (args, fmt);
  if (vasprintf (&call->message, fmt, args) < 0)
    call->message = NULL;
  va_end (args);
}

void
control_done (struct control_call *call, int r)
{
  if (r < 0)
    control_failed (call, r);
}

bool
control_page_start (struct control_call *call, struct control_page *p)
{
  if (p->skip < 0 || p->max < 1 || p->max > CONTROL_PAGE_MAX) {
    control_refused (call, RPC_INVALID_PARAMS,
                     "parameters of %s: skip is at least 0, max 1 to %d",
                     call->method, CONTROL_PAGE_MAX);
    return false;
  }
  p->array = json_array ();
  return true;
}

bool
control_page_wants (struct control_page *p, bool *ret_end)
{
  *ret_end = json_array_size (p->array) >= (size_t) p->max;
  if (*ret_end)
    return false;
  if (p->skip > 0) {
    p->skip--;
    return false;
  }
  return true;
}

void
control_page_end (struct control_call *call, struct control_page *p, int r)
{
  if (r < 0 && r != -BTRNBD_ERR_BASE) {
    control_failed (call, r);
    json_decref (p->array);
  }
  else
    call->result = p->array;
}
