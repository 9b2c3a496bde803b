/* daemon: what workers do for connections. */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/access.h"
#include "daemon/conn.h"
#include "daemon/fail.h"

static int
run_request (struct job *j, struct host_call *call)
{
  struct handle *x = j->conn->handle;
  const struct nbd_request *r = &j->req;
  const bool fua = r->flags & NBD_CMD_FLAG_FUA;

  switch (r->type) {
  case NBD_CMD_READ:
    return handle_pread (x, call, j->data + j->head, r->length, r->offset);
  case NBD_CMD_WRITE:
    return handle_pwrite (x, call, j->data + j->head, r->length, r->offset,
                          fua);
  case NBD_CMD_FLUSH:
    return handle_flush (x, call);
  case NBD_CMD_TRIM:
    return handle_trim (x, call, r->length, r->offset, fua);
  case NBD_CMD_WRITE_ZEROES:
    return handle_zero (x, call, r->length, r->offset,
                        !(r->flags & NBD_CMD_FLAG_NO_HOLE),
                        r->flags & NBD_CMD_FLAG_FAST_ZERO, fua);
  case NBD_CMD_CACHE:
    return handle_cache (x, call, r->length, r->offset);
  case NBD_CMD_BLOCK_STATUS:
    return handle_extents (x, call, r->length, r->offset,
                           r->flags & NBD_CMD_FLAG_REQ_ONE, &j->extents);
  default:
    return EINVAL;
  }
}

/* Exports that the client may not open do not exist for it. */
static int
run_list (struct job *j)
{
  struct server *s = j->conn->server;
  struct nbdkit_exports *x = &j->exports;
  struct rules *rules;
  size_t i, kept = 0;

  if (plugin_list (&s->plugin, &j->conn->context, x) == -1)
    return EPERM;
  rules = exports_rules (&s->exports);
  for (i = 0; i < x->count; ++i)
    if (access_allows (rules_find (rules, x->v[i].name).allow,
                       &j->conn->context))
      x->v[kept++] = x->v[i];
    else
      host_export_done (&x->v[i]);
  x->count = kept;
  rules_unref (rules);
  return 0;
}

static int
open_allowed (struct job *j, const struct rules *rules)
{
  struct server *s = j->conn->server;
  struct host_context *context = &j->conn->context;
  struct export_settings set;
  char *name;

  if (handle_name (&s->plugin, context, &name, &j->text) == -1)
    return ENOENT;
  set = rules_find (rules, name);
  if (!access_allows (set.allow, context)) {
    fail (&j->text, "its rules do not allow it");
    free (name);
    return EACCES;
  }
  if (j->final) {
    j->export = exports_enter (&s->exports, name, &j->text);
    if (j->export == NULL) {
      free (name);
      return EBUSY;
    }
  }
  return handle_open (&s->plugin, context, name, set.read_only, &j->handle,
                      &j->text) == -1 ? ENOENT : 0;
}

/* A client that some export is hidden from cannot tell it from one that is
 * not there.
 */
static int
run_open (struct job *j)
{
  struct rules *rules = exports_rules (&j->conn->server->exports);
  const int err = open_allowed (j, rules);

  j->hidden = (err == ENOENT || err == EACCES) &&
    !rules_hide_nothing (rules, &j->conn->context);
  rules_unref (rules);
  return err;
}

void
job_run (struct pool_job *pj)
{
  struct job *j = (struct job *) pj;
  struct conn *c = j->conn;
  struct host_call call;

  switch (j->kind) {
  case JOB_LIST:
    j->error = run_list (j);
    break;
  case JOB_OPEN:
    j->error = run_open (j);
    break;
  case JOB_CLOSE:
    handle_close (j->handle, &c->context);
    j->handle = NULL;
    break;
  case JOB_REQUEST:
    host_call_begin (&call, &c->context);
    j->error = run_request (j, &call);
    if (j->error != 0 && call.text[0])
      j->text = strdup (call.text);
    host_call_end (&call);
    break;
  }
}

void
job_done (struct pool_job *pj)
{
  struct job *j = (struct job *) pj;

  loop_finish_job (j->conn->loop, j);
}
