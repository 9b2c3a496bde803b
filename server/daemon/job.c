/* daemon: what workers do for connections: run their requests, and send the
 * replies, where nothing else is being sent: that saves the way over the
 * loop.  The loop is told afterwards, and does what is left.
 */
#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

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
    if (rules_let_in (rules, x->v[i].name, &j->conn->context))
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
  char *name;

  if (handle_name (&s->plugin, context, &name, &j->text) == -1)
    return ENOENT;
  if (!rules_let_in (rules, name, context)) {
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
  return handle_open (&s->plugin, context, name,
                      rules_find (rules, name).read_only, &j->handle,
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
  char *name;

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
  case JOB_NAME:
    name = handle_current_name (c->handle, &c->context, j->text);
    free (j->text);
    j->text = name;
    break;
  }
}

/* --- replies --- */

#define SEND_MAX 16            /* replies sent at once */

bool
job_reply (struct job *j, uint8_t head[NBD_REPLY_HEAD_MAX],
           struct iovec *ret)
{
  const struct nbd_dialect *d = &j->conn->dialect;
  size_t n;

  if (j->error != 0 || j->req.type == NBD_CMD_BLOCK_STATUS)
    return false;
  if (j->req.type != NBD_CMD_READ) {
    *ret = (struct iovec) { head, nbd_reply_ok (d, &j->req, head) };
    return true;
  }
  n = nbd_reply_read_head (d, &j->req, head);
  assert (n <= j->head);
  memcpy (j->data + j->head - n, head, n);
  *ret = (struct iovec) { j->data + j->head - n, n + j->req.length };
  return true;
}

/* Replies of one connection that are to be sent together. */
struct replies {
  struct job *job[SEND_MAX];
  struct iovec iov[SEND_MAX];
  uint8_t head[SEND_MAX][NBD_REPLY_HEAD_MAX];
  unsigned n;
};

/* Note how much of each has gone.  True: one is sent in part. */
static bool
note_sent (struct replies *r, size_t bytes)
{
  unsigned i;

  for (i = 0; i < r->n && bytes > 0; ++i) {
    struct job *j = r->job[i];

    j->sent_all = bytes >= r->iov[i].iov_len;
    j->sent = j->sent_all ? r->iov[i].iov_len : bytes;
    bytes -= j->sent;
    if (!j->sent_all)
      return true;
  }
  return false;
}

/* True: all of them, and there is nothing left to send. */
static bool
send_replies (struct conn *c, struct replies *r)
{
  struct msghdr msg = { .msg_iov = r->iov, .msg_iovlen = r->n };
  bool in_part = false;
  ssize_t n;

  if (r->n == 0 || atomic_exchange (&c->sending, true))
    return false;
  if (!c->out_begun) {
    n = sendmsg (c->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
    in_part = n > 0 && note_sent (r, n);
  }
  if (in_part)
    c->out_begun = true; /* and nobody sends until the loop has the rest */
  else
    c->sending = false;
  return r->job[r->n - 1]->sent_all;
}

/* The requests of one connection leave FROM for TO, in order, and what can be
 * sent of their replies is.  True: these were all.
 */
static bool
deliver_conn (struct conn *c, struct pool_jobs *from, struct pool_jobs *to)
{
  struct pool_jobs others = STAILQ_HEAD_INITIALIZER (others);
  struct replies r;
  struct pool_job *pj;
  unsigned count = 0;

  r.n = 0;
  while ((pj = STAILQ_FIRST (from)) != NULL) {
    struct job *j = (struct job *) pj;

    STAILQ_REMOVE_HEAD (from, link);
    if (j->conn != c) {
      STAILQ_INSERT_TAIL (&others, pj, link);
      continue;
    }
    STAILQ_INSERT_TAIL (to, pj, link);
    count++;
    if (j->kind == JOB_REQUEST && r.n < SEND_MAX && !c->context.tls &&
        c->context.disconnect == 0 &&
        job_reply (j, r.head[r.n], &r.iov[r.n]))
      r.job[r.n++] = j;
  }
  STAILQ_CONCAT (from, &others);
  return send_replies (c, &r) && r.n == count;
}

void
job_deliver (struct pool_jobs *jobs)
{
  while (!STAILQ_EMPTY (jobs)) {
    struct conn *c = ((struct job *) STAILQ_FIRST (jobs))->conn;
    struct loop *loop = c->loop;
    struct pool_jobs of_conn = STAILQ_HEAD_INITIALIZER (of_conn);
    const bool all = deliver_conn (c, jobs, &of_conn);

    loop_finish_jobs (loop, c, &of_conn, all);
  }
}
