/* daemon: what workers do for connections. */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/conn.h"

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

void
job_run (struct pool_job *pj)
{
  struct job *j = (struct job *) pj;
  struct conn *c = j->conn;
  struct host_call call;

  switch (j->kind) {
  case JOB_LIST:
    j->error = plugin_list (&c->server->plugin, &c->context, &j->exports)
      == -1 ? EPERM : 0;
    break;
  case JOB_OPEN:
    j->error = handle_open (&c->server->plugin, &c->context, &j->handle,
                            &j->text) == -1 ? ENOENT : 0;
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
