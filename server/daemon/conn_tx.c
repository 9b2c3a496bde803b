/* daemon: the transmission phase of a connection.
 *
 * Requests are taken from the input buffer one after the other.  What the
 * plugin can do without waiting is done here and now and its reply joins the
 * output; the rest becomes a job.  A connection at a limit stops reading.
 */
#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/conn.h"
#include "daemon/control.h"
#include "host/log.h"

#define ERROR_LINES 10         /* of a connection in ... */
#define ERROR_SECONDS 10.0
#define FLUSH_BYTES 131072     /* are sent while a cache of the CPU has them */
#define HANDSHAKE_UNSENT_MAX 65536 /* bytes; one answer may be longer */

static const char *const cmd_names[] = {
  "read", "write", "disconnect", "flush", "trim", "cache", "zero",
  "block status",
};

static const char *
cmd_name (const struct nbd_request *r)
{
  return r->type < sizeof cmd_names / sizeof cmd_names[0]
    ? cmd_names[r->type] : "unknown command";
}

/* STATS_OPS: none. */
static enum stats_op
stats_op (const struct nbd_request *r)
{
  static const enum stats_op ops[] = {
    [NBD_CMD_READ] = STATS_READ, [NBD_CMD_WRITE] = STATS_WRITE,
    [NBD_CMD_DISC] = STATS_OPS, [NBD_CMD_FLUSH] = STATS_FLUSH,
    [NBD_CMD_TRIM] = STATS_TRIM, [NBD_CMD_CACHE] = STATS_CACHE,
    [NBD_CMD_WRITE_ZEROES] = STATS_ZERO, [NBD_CMD_BLOCK_STATUS] = STATS_STATUS,
  };

  return r->type < sizeof ops / sizeof ops[0] ? ops[r->type] : STATS_OPS;
}

/* A request was done without an error. */
static void
account (struct conn *c, const struct nbd_request *r, uint64_t ns)
{
  const enum stats_op op = stats_op (r);

  if (op != STATS_OPS)
    stats_done (c->stats, op, r->length, ns);
  if (host_log_verbose ())
    host_log (HOST_LOG_DEBUG, "client %lu: export \"%s\": %s%s of %llu bytes "
              "at %llu: done in %llu us", c->id, conn_export_name (c),
              cmd_name (r), r->flags & NBD_CMD_FLAG_FUA ? " (FUA)" : "",
              (unsigned long long) r->length,
              (unsigned long long) r->offset, (unsigned long long) ns / 1000);
}

/* Done here and now. */
static void
account_now (struct conn *c, const struct nbd_request *r)
{
  const uint64_t now = stats_now ();

  account (c, r, now - c->mark);
  c->mark = now;
}

bool
conn_has_request (const struct conn *c)
{
  return c->state == CONN_TRANSMIT &&
    buf_len (&c->in) >= nbd_request_size (&c->dialect);
}

bool
conn_at_limit (const struct conn *c)
{
  const struct limits *l = &c->server->limits;
  const size_t mine = c->bytes + c->out.bytes;

  if (c->state == CONN_HANDSHAKE)
    return c->out.bytes > HANDSHAKE_UNSENT_MAX;
  if (c->filling)
    return false; /* its bytes are counted already */
  if (c->stalled)
    return true;
  if (c->jobs >= l->conn_requests || mine >= l->conn_bytes)
    return true;
  /* Over all connections: whoever holds nothing may go on. */
  return mine > 0 && c->server->bytes >= l->total_bytes;
}

static void
charge (struct conn *c, struct job *j, size_t bytes)
{
  j->charged = bytes;
  c->bytes += bytes;
  c->server->bytes += bytes;
}

/* A client can make errors faster than a log can take them. */
static bool
error_is_logged (struct conn *c)
{
  const double now = ev_now (c->loop->ev);

  if (now - c->errors_since >= ERROR_SECONDS) {
    if (c->errors_unlogged > 0)
      host_log (HOST_LOG_WARNING, "client %lu: %u more errors", c->id,
                c->errors_unlogged);
    c->errors_since = now;
    c->errors_logged = c->errors_unlogged = 0;
  }
  if (c->errors_logged < ERROR_LINES) {
    c->errors_logged++;
    return true;
  }
  c->errors_unlogged++;
  return false;
}

static void
log_error (struct conn *c, const struct nbd_request *r, uint32_t error,
           const char *text)
{
  const enum stats_op op = stats_op (r);
  char peer[CONN_PEER_MAX];

  c->errors++;
  if (op != STATS_OPS)
    stats_failed (c->stats, op);
  if (error_is_logged (c))
    host_log (HOST_LOG_WARNING,
              "client %lu (%s): export \"%s\": %s of %llu bytes at %llu: "
              "error %u%s%s", c->id, conn_peer (c, peer, sizeof peer),
              conn_export_name (c), cmd_name (r),
              (unsigned long long) r->length,
              (unsigned long long) r->offset, error, text ? ": " : "",
              text ? text : "");
  control_client_happened (c, "client.error", text);
}

static void
reply_error (struct conn *c, const struct nbd_request *r, uint32_t error,
             const char *text)
{
  uint8_t buf[NBD_REPLY_HEAD_MAX + NBD_ERROR_TEXT_MAX];
  size_t n = nbd_reply_error (&c->dialect, r, error, text, buf);

  log_error (c, r, error, text);
  if (!out_append (&c->out, buf, n))
    conn_kill (c, "out of memory");
}

static void
reply_ok (struct conn *c, const struct nbd_request *r)
{
  uint8_t *p = out_space (&c->out, NBD_REPLY_HEAD_MAX);

  if (p == NULL) {
    conn_kill (c, "out of memory");
    return;
  }
  out_commit (&c->out, nbd_reply_ok (&c->dialect, r, p));
}

static void
reply_extents (struct conn *c, struct job *j)
{
  const size_t n = j->extents.count;
  const size_t size = nbd_reply_extents_size (&c->dialect, n);
  uint8_t *p = out_space (&c->out, size);

  if (p == NULL) {
    conn_kill (c, "out of memory");
    return;
  }
  nbd_reply_extents (&c->dialect, &j->req, j->extents.v, n, p);
  out_commit (&c->out, size);
}

/* The rest of a reply that a worker has begun to send, before all others. */
static bool
reply_rest (struct conn *c, struct job *j, const struct iovec *all,
            uint8_t *data, size_t offset)
{
  if (data == NULL) {
    data = malloc (all->iov_len);
    if (data == NULL)
      return false;
    memcpy (data, all->iov_base, all->iov_len);
  }
  return out_adopt_first (&c->out, data, offset + j->sent,
                          all->iov_len - j->sent);
}

/* The buffer of a read, which has room for the reply's head before the data,
 * goes to the output as it is.
 */
static void
reply_done (struct conn *c, struct job *j)
{
  uint8_t head[NBD_REPLY_HEAD_MAX], *data = NULL;
  size_t offset = 0;
  struct iovec all;
  bool ok = job_reply (j, head, &all);

  assert (ok);
  if (all.iov_base != head) {
    data = j->data;
    offset = (uint8_t *) all.iov_base - data;
    j->data = NULL;
  }
  if (j->sent > 0)
    ok = reply_rest (c, j, &all, data, offset);
  else if (data == NULL)
    ok = out_append (&c->out, head, all.iov_len);
  else
    ok = out_adopt (&c->out, data, offset, all.iov_len);
  if (!ok)
    conn_kill (c, "out of memory");
}

void
conn_reply (struct conn *c, struct job *j)
{
  if (j->error == 0)
    account (c, &j->req, c->loop->now - j->start);
  if (j->sent > 0)
    conn_count_sent (c, j->sent);
  if (c->state >= CONN_DEAD)
    ;
  else if (j->error != 0)
    reply_error (c, &j->req, nbd_error_from_errno (j->error, &j->req),
                 j->text ? j->text : strerror (j->error));
  else if (j->req.type == NBD_CMD_BLOCK_STATUS)
    reply_extents (c, j);
  else if (!j->sent_all)
    reply_done (c, j);
  if (j->sent > 0 && !j->sent_all)
    c->sending = false; /* what the worker began is the first to go on */
  conn_job_free (j);
  if (c->context.disconnect == 2)
    conn_kill (c, "disconnected by the plugin");
  else if (c->context.disconnect == 1)
    conn_end (c, "disconnected by the plugin");
  if (c->state == CONN_TRANSMIT)
    conn_requests (c);
}

/* --- requests --- */

/* A read on the loop, its data going straight to the output. */
static bool
try_read (struct conn *c, const struct nbd_request *r)
{
  uint8_t head[NBD_REPLY_HEAD_MAX], *p;
  size_t n;

  if (c->server->plugin.ext.try_pread == NULL)
    return false;
  n = nbd_reply_read_head (&c->dialect, r, head);
  p = out_space (&c->out, n + r->length);
  if (p == NULL ||
      !handle_try_pread (c->handle, p + n, r->length, r->offset))
    return false;
  memcpy (p, head, n);
  out_commit (&c->out, n + r->length);
  account_now (c, r);
  if (c->out.bytes >= FLUSH_BYTES)
    conn_flush (c);
  return true;
}

static struct job *
request_job (struct conn *c, const struct nbd_request *r)
{
  const bool has_data = r->type == NBD_CMD_READ || r->type == NBD_CMD_WRITE;
  struct job *j = conn_job_new (c, JOB_REQUEST);

  if (j == NULL)
    return NULL;
  j->req = *r;
  j->start = c->mark;
  if (has_data) {
    j->head = r->type == NBD_CMD_READ ? NBD_REPLY_HEAD_MAX : 0;
    j->data = malloc (j->head + r->length);
    if (j->data == NULL) {
      conn_job_free (j);
      return NULL;
    }
    charge (c, j, r->length);
  }
  if (r->type == NBD_CMD_BLOCK_STATUS) {
    uint64_t length = r->length;

    /* 32-bit lengths in the reply: tell less rather than too much. */
    if (!c->dialect.extended && length > UINT32_MAX)
      length = UINT32_MAX;
    host_extents_init (&j->extents, r->offset, length,
                       r->flags & NBD_CMD_FLAG_REQ_ONE ? 1
                       : NBD_MAX_EXTENTS);
  }
  return j;
}

static void
submit (struct conn *c, const struct nbd_request *r)
{
  struct job *j = request_job (c, r);

  if (j == NULL)
    reply_error (c, r, NBD_ENOMEM, "out of memory");
  else
    conn_submit (c, j);
}

static bool
try_write (struct conn *c, const struct nbd_request *r, const uint8_t *data)
{
  if (!handle_try_pwrite (c->handle, data, r->length, r->offset,
                          r->flags & NBD_CMD_FLAG_FUA))
    return false;
  account_now (c, r);
  reply_ok (c, r);
  return true;
}

/* A write whose header has been consumed from `in`. */
static void
begin_write (struct conn *c, const struct nbd_request *r)
{
  size_t have = buf_len (&c->in);
  struct job *j;

  if (have >= r->length && try_write (c, r, buf_front (&c->in))) {
    buf_consume (&c->in, r->length);
    return;
  }
  j = request_job (c, r);
  if (j == NULL) {
    reply_error (c, r, NBD_ENOMEM, "out of memory");
    c->skip = r->length;
    return;
  }
  if (have > r->length)
    have = r->length;
  memcpy (j->data + j->head, buf_front (&c->in), have);
  buf_consume (&c->in, have);
  if (have == r->length)
    conn_submit (c, j);
  else {
    c->filling = j;
    c->filled = have;
  }
}

static void
finish_filling (struct conn *c)
{
  struct job *j = c->filling;
  size_t have = buf_len (&c->in);

  if (have > j->req.length - c->filled)
    have = j->req.length - c->filled;
  memcpy (j->data + j->head + c->filled, buf_front (&c->in), have);
  buf_consume (&c->in, have);
  c->filled += have;
  if (c->filled < j->req.length)
    return;
  c->filling = NULL;
  j->start = c->mark; /* its payload took what time it took */
  if (try_write (c, &j->req, j->data + j->head))
    conn_job_free (j);
  else
    conn_submit (c, j);
}

static void
refuse (struct conn *c, const struct nbd_request *r, uint32_t error,
        const char *why)
{
  const uint64_t payload = nbd_request_payload (&c->dialect, r);

  /* Reading on would be work without bound for nothing. */
  if (payload > NBD_MAX_PAYLOAD) {
    conn_kill (c, "payload is too large");
    return;
  }
  c->skip = payload;
  reply_error (c, r, error, why);
}

static bool
is_change (const struct nbd_request *r)
{
  return r->type == NBD_CMD_WRITE || r->type == NBD_CMD_TRIM ||
    r->type == NBD_CMD_WRITE_ZEROES;
}

/* The export's rates.  False: the request waits where it is, and reading
 * with it; on_stall_over goes on.
 */
static bool
admit (struct conn *c, const struct nbd_request *r)
{
  const char *why;
  uint64_t bytes = 0;
  double wait;

  if (c->admitted || !c->export->throttle.limited || c->loop->draining ||
      r->type == NBD_CMD_DISC) {
    c->admitted = false;
    return true;
  }
  /* A request that is refused moves nothing. */
  if ((r->type == NBD_CMD_READ || r->type == NBD_CMD_WRITE) &&
      nbd_request_check (&c->dialect, r, &why) == 0)
    bytes = r->length;
  wait = throttle_book (&c->export->throttle, bytes);
  if (wait <= 0)
    return true;
  c->stalled = true;
  ev_timer_set (&c->stall, wait, 0);
  ev_timer_start (c->loop->ev, &c->stall);
  return false;
}

static void
handle_request (struct conn *c, struct nbd_request *r)
{
  const char *why = NULL;
  uint32_t error;

  c->requests++;
  if (r->type == NBD_CMD_DISC) {
    conn_end (c, "client disconnected");
    return;
  }
  error = nbd_request_check (&c->dialect, r, &why);
  if (error == 0 && c->export->read_only && is_change (r)) {
    error = NBD_EPERM;
    why = "the export is read-only now";
  }
  if (is_change (r) && c->export->write_through)
    r->flags |= NBD_CMD_FLAG_FUA;
  if (error)
    refuse (c, r, error, why);
  else if (r->type == NBD_CMD_WRITE)
    begin_write (c, r);
  else if (r->type != NBD_CMD_READ || !try_read (c, r))
    submit (c, r);
}

static void
skip_payload (struct conn *c)
{
  size_t n = buf_len (&c->in);

  if (n > c->skip)
    n = c->skip;
  buf_consume (&c->in, n);
  c->skip -= n;
}

void
conn_requests (struct conn *c)
{
  const size_t head = nbd_request_size (&c->dialect);
  struct nbd_request r;

  if (c->filling || buf_len (&c->in) >= head)
    c->mark = stats_now ();
  while (c->state == CONN_TRANSMIT) {
    if (c->filling) {
      finish_filling (c);
      if (c->filling)
        return;
    }
    if (c->skip > 0)
      skip_payload (c);
    if (c->skip > 0 || conn_at_limit (c) || buf_len (&c->in) < head)
      return;
    if (!nbd_request_decode (&c->dialect, buf_front (&c->in), &r)) {
      conn_kill (c, "bad request magic");
      return;
    }
    if (!admit (c, &r))
      return;
    buf_consume (&c->in, head);
    handle_request (c, &r);
  }
}
