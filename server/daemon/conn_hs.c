/* daemon: the handshake of a connection: its questions go to workers. */
#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/conn.h"
#include "daemon/control.h"
#include "daemon/tls.h"
#include "host/log.h"

static void handshake_event (struct conn *, enum handshake_event);

#define TLS_NAME_MAX 300
static const char *
tls_name (const struct conn *c, char buf[TLS_NAME_MAX])
{
  const char *who = c->context.tls_dn ? c->context.tls_dn
    : c->context.tls_psk_user;

  if (who == NULL)
    return "";
  snprintf (buf, TLS_NAME_MAX, " (%s %s)",
            c->context.tls_dn ? "certificate" : "key of", who);
  return buf;
}

/* From now on requests: the export's lane, the idle timer. */
static void
begin_transmission (struct conn *c)
{
  struct server *s = c->server;
  const bool one = s->plugin.thread_model <=
    NBDKIT_THREAD_MODEL_SERIALIZE_REQUESTS;
  struct pool_group *group = pool_group_get (s->pool, c->handle->name);
  char peer[CONN_PEER_MAX], name[TLS_NAME_MAX];

  if (group == NULL) {
    conn_kill (c, "out of memory");
    return;
  }
  c->stats = stats_export (&c->loop->stats, c->handle->name);
  if (c->stats == NULL) {
    pool_group_put (s->pool, group);
    conn_kill (c, "out of memory");
    return;
  }
  stats_add (&c->stats->attached, 1);
  assert (c->jobs == 0);
  pool_group_put (s->pool, c->group);
  c->group = group;
  pool_lane_init (&c->lane, group, one ? 1 : UINT32_MAX);
  c->dialect = (struct nbd_dialect) {
    .structured = c->hs.structured || c->hs.extended,
    .extended = c->hs.extended,
    .meta_allocation = c->hs.meta_allocation,
    .tx_flags = c->handle->tx_flags,
    .size = c->handle->size,
  };
  c->state = CONN_TRANSMIT;
  c->last_activity = ev_now (c->loop->ev);
  ev_timer_stop (c->loop->ev, &c->timer);
  if (s->limits.idle_seconds > 0) {
    ev_timer_set (&c->timer, s->limits.idle_seconds, 0);
    ev_timer_start (c->loop->ev, &c->timer);
  }
  host_log (HOST_LOG_INFO, "client %lu (%s): export \"%s\" attached%s%s",
            c->id, conn_peer (c, peer, sizeof peer), c->handle->name,
            c->context.tls ? " with TLS" : "", tls_name (c, name));
  control_client_happened (c, "client.connected", NULL);
  conn_check_access (c); /* a reload may have come since it was opened */
  if (c->names_seen != s->names) /* or a rename */
    conn_ask_name (c);
}

static void
ask (struct conn *c, enum job_kind kind)
{
  struct job *j = conn_job_new (c, kind);

  if (j == NULL) {
    conn_kill (c, "out of memory");
    return;
  }
  if (kind == JOB_OPEN) {
    c->context.export_name = c->hs.name;
    j->final = c->hs.final;
    c->names_seen = c->server->names;
  }
  c->state = CONN_ASKING;
  conn_submit (c, j);
}

/* The client starts TLS behind our acknowledgement, never before: bytes that
 * came early would be clear text taken for TLS.
 */
static void
start_tls (struct conn *c)
{
  struct server *s = c->server;

  if (buf_len (&c->in) > 0) {
    conn_kill (c, "bytes before the TLS handshake");
    return;
  }
  pthread_mutex_lock (&s->tls_lock);
  c->tls = tls_session_new (s->tls, c->fd);
  pthread_mutex_unlock (&s->tls_lock);
  if (c->tls == NULL) {
    conn_kill (c, "cannot start TLS");
    return;
  }
  c->state = CONN_TLS;
}

static void
continue_tls (struct conn *c)
{
  struct tls_identity id;
  char peer[CONN_PEER_MAX];
  const char *why;

  /* The acknowledgement of STARTTLS still goes in clear. */
  conn_flush (c);
  if (c->state != CONN_TLS || c->out.bytes > 0)
    return;
  switch (tls_session_handshake (c->tls)) {
  case TLS_AGAIN:
    return;
  case TLS_FAILED:
    why = tls_session_error (c->tls);
    host_log (HOST_LOG_WARNING, "client %lu (%s): TLS refused: %s", c->id,
              conn_peer (c, peer, sizeof peer), why);
    conn_kill (c, why);
    return;
  case TLS_READY:
    tls_session_identity (c->tls, &id);
    c->context.tls_dn = id.dn;
    c->context.tls_cn = id.cn;
    c->context.tls_psk_user = id.psk_user;
    c->context.tls = true;
    c->state = CONN_HANDSHAKE;
    handshake_event (c, handshake_tls_done (&c->hs));
  }
}

static void
send_handshake_bytes (struct conn *c)
{
  if (!out_append (&c->out, buf_front (&c->hs.out), buf_len (&c->hs.out)))
    conn_kill (c, "out of memory");
  else
    buf_consume (&c->hs.out, buf_len (&c->hs.out));
}

static void
handshake_event (struct conn *c, enum handshake_event ev)
{
  send_handshake_bytes (c);
  if (c->state >= CONN_DEAD)
    return;
  switch (ev) {
  case HS_MORE:
    c->state = CONN_HANDSHAKE;
    break;
  case HS_ASK_LIST:
    ask (c, JOB_LIST);
    break;
  case HS_ASK_EXPORT:
    ask (c, JOB_OPEN);
    break;
  case HS_DONE:
    begin_transmission (c);
    break;
  case HS_END:
    conn_end (c, c->hs.end_reason);
    break;
  case HS_ASK_TLS:
    start_tls (c);
    if (c->state == CONN_TLS)
      continue_tls (c);
    break;
  }
}

void
conn_handshake (struct conn *c)
{
  if (c->state == CONN_TLS)
    continue_tls (c);
  /* Nobody who only asks for lists makes us keep them all. */
  if (c->state == CONN_HANDSHAKE && conn_at_limit (c))
    conn_flush (c); /* or else on_writable goes on */
  if (c->state == CONN_HANDSHAKE && !conn_at_limit (c))
    handshake_event (c, handshake_feed (&c->hs, &c->in));
}

static enum handshake_event
answer_list (struct conn *c, struct job *j)
{
  size_t i;

  for (i = 0; j->error == 0 && i < j->exports.count; ++i)
    if (!handshake_list_add (&c->hs, j->exports.v[i].name,
                             j->exports.v[i].description)) {
      c->hs.end_reason = "out of memory";
      return HS_END;
    }
  return handshake_list_end (&c->hs, j->error == 0);
}

static enum handshake_event
answer_open (struct conn *c, struct job *j)
{
  struct handshake_export e = { .ok = false,
    .error = j->hidden ? "there is no such export for you" : j->text,
    .full = j->error == EBUSY };
  enum handshake_event ev;
  char peer[CONN_PEER_MAX];

  if (j->error != 0)
    host_log (HOST_LOG_WARNING, "client %lu (%s): export \"%s\" refused: %s",
              c->id, conn_peer (c, peer, sizeof peer), c->hs.name,
              j->text ? j->text : "no reason given");
  else
    handle_describe (j->handle, &e);
  ev = handshake_export (&c->hs, &e);
  if (ev == HS_DONE) {
    c->handle = j->handle;
    c->export = j->export;
    j->export = NULL;
    c->context.export_name = c->handle->name;
    j->handle = NULL;
  }
  return ev;
}

/* An export that was only asked about is closed by a worker again; the
 * handshake goes on when that is done, if the connection lives.
 */
static bool
close_first (struct conn *c, struct job *j)
{
  struct job *closing;

  if (j->handle == NULL)
    return false;
  closing = conn_job_new (c, JOB_CLOSE);
  if (closing == NULL) {
    conn_kill (c, "out of memory");
    return false;
  }
  closing->handle = j->handle;
  j->handle = NULL;
  if (c->state == CONN_HANDSHAKE)
    c->state = CONN_ASKING;
  conn_submit (c, closing);
  return true;
}

void
conn_handshake_answer (struct conn *c, struct job *j)
{
  enum handshake_event ev = HS_MORE;

  if (c->state == CONN_ASKING) {
    if (j->kind == JOB_LIST)
      ev = answer_list (c, j);
    else if (j->kind == JOB_OPEN)
      ev = answer_open (c, j);
    handshake_event (c, ev);
  }
  if (j->handle) {
    /* Only asked about, or the client left meanwhile. */
    c->context.export_name = "";
    if (!close_first (c, j))
      host_log (HOST_LOG_ERROR, "an export was not closed");
  }
  conn_job_free (j);
  if (c->state == CONN_HANDSHAKE)
    conn_handshake (c); /* bytes that came meanwhile */
  if (c->state == CONN_TRANSMIT)
    conn_requests (c);
  /* The loop advances the connection after the whole batch. */
}
