/* daemon: the life of a connection. */
#include <config.h>

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/access.h"
#include "daemon/conn.h"
#include "daemon/control.h"
#include "daemon/tls.h"
#include "host/log.h"

#define READ_MAX 262144        /* bytes asked for in one read */
#define READ_MIN 8192
#define READ_ROUNDS 4          /* reads before other connections' turn */
#define SEND_IOV 64
#define SEND_BUFFER (1 << 20)  /* wanted of a unix socket, bytes */

static void on_readable (struct ev_loop *, ev_io *, int);
static void on_writable (struct ev_loop *, ev_io *, int);
static void on_timer (struct ev_loop *, ev_timer *, int);
static void on_stall_over (struct ev_loop *, ev_timer *, int);
static void submit_jobs (struct conn *);

/* --- making --- */

static void
read_peer (struct host_peer *peer, int fd)
{
  struct ucred cred;
  const int send_bytes = SEND_BUFFER;
  socklen_t len = sizeof cred;
  int one = 1;

  peer->addrlen = sizeof peer->addr;
  if (getpeername (fd, (struct sockaddr *) &peer->addr, &peer->addrlen)
      == -1)
    peer->addrlen = 0;
  /* The default does not hold one large reply. */
  if (peer->addr.ss_family == AF_UNIX)
    setsockopt (fd, SOL_SOCKET, SO_SNDBUF, &send_bytes, sizeof send_bytes);
  if (peer->addr.ss_family == AF_UNIX &&
      getsockopt (fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0) {
    peer->pid = cred.pid;
    peer->uid = cred.uid;
    peer->gid = cred.gid;
  }
  if (peer->addr.ss_family == AF_INET || peer->addr.ss_family == AF_INET6) {
    setsockopt (fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt (fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
  }
}

const char *
conn_export_name (const struct conn *c)
{
  return c->export ? c->export->name : "";
}

const char *
conn_peer (const struct conn *c, char *buf, size_t size)
{
  const struct host_peer *p = &c->context.peer;
  char text[INET6_ADDRSTRLEN];

  switch (p->addr.ss_family) {
  case AF_INET: {
    const struct sockaddr_in *in = (const void *) &p->addr;

    inet_ntop (AF_INET, &in->sin_addr, text, sizeof text);
    snprintf (buf, size, "%s:%u", text, ntohs (in->sin_port));
    break;
  }
  case AF_INET6: {
    const struct sockaddr_in6 *in = (const void *) &p->addr;

    inet_ntop (AF_INET6, &in->sin6_addr, text, sizeof text);
    snprintf (buf, size, "[%s]:%u", text, ntohs (in->sin6_port));
    break;
  }
  case AF_UNIX:
    snprintf (buf, size, "uid %lld pid %lld", (long long) p->uid,
              (long long) p->pid);
    break;
  default:
    snprintf (buf, size, "address family %u", p->addr.ss_family);
  }
  return buf;
}

/* Count it as its peer's; false when that has enough. */
static bool
enter_peer (struct conn *c)
{
  struct server *s = c->server;
  const unsigned max = s->limits.peer_connections;
  char peer[CONN_PEER_MAX];
  bool first;

  c->peer = peers_enter (&s->peers, &c->context.peer, max, &first);
  if (c->peer == NULL)
    host_log (first ? HOST_LOG_WARNING : HOST_LOG_DEBUG,
              "a client (%s) is refused, its peer has %u connections",
              conn_peer (c, peer, sizeof peer), max);
  return c->peer != NULL;
}

struct conn *
conn_new (struct server *s, int fd)
{
  struct conn *c = calloc (1, sizeof *c);

  if (c == NULL) {
    host_log (HOST_LOG_ERROR, "out of memory, a client is refused");
    close (fd);
    return NULL;
  }
  c->server = s;
  c->fd = fd;
  c->id = ++s->next_conn_id;
  c->state = CONN_HANDSHAKE;
  out_init (&c->out);
  c->read_chunk = READ_MAX;
  STAILQ_INIT (&c->submits);
  handshake_init (&c->hs, s->tls_policy); /* in the main thread */
  host_context_init (&c->context);
  read_peer (&c->context.peer, fd);
  if (!enter_peer (c)) {
    host_context_done (&c->context);
    close (fd);
    free (c);
    return NULL;
  }
  ev_io_init (&c->rd, on_readable, fd, EV_READ);
  ev_io_init (&c->wr, on_writable, fd, EV_WRITE);
  ev_timer_init (&c->timer, on_timer, 0, 0);
  ev_timer_init (&c->stall, on_stall_over, 0, 0);
  c->rd.data = c->wr.data = c->timer.data = c->stall.data = c;
  s->connections++;
  return c;
}

void
conn_start (struct conn *c)
{
  char peer[CONN_PEER_MAX];

  TAILQ_INSERT_TAIL (&c->loop->conns, c, link);
  stats_add (&c->loop->stats.connections, 1);
  c->since = ev_time ();
  host_log (HOST_LOG_DEBUG, "client %lu (%s): connected", c->id,
            conn_peer (c, peer, sizeof peer));
  c->group = pool_group_get (c->server->pool, "");
  if (c->group == NULL) {
    conn_kill (c, "out of memory");
    conn_advance (c);
    return;
  }
  pool_lane_init (&c->lane, c->group, 1);
  ev_timer_set (&c->timer, c->server->limits.handshake_seconds, 0);
  ev_timer_start (c->loop->ev, &c->timer);
  if (c->loop->draining)
    conn_kill (c, "the server is shutting down");
  else if (plugin_preconnect (&c->server->plugin, &c->context) == -1)
    conn_kill (c, "refused by the plugin");
  else
    conn_handshake (c);
  conn_advance (c);
}

/* --- ending --- */

static void
log_end (struct conn *c)
{
  char peer[CONN_PEER_MAX];

  host_log (c->handle ? HOST_LOG_INFO : HOST_LOG_DEBUG,
            "client %lu (%s): export \"%s\": %s; %llu requests, "
            "%llu bytes in, %llu bytes out, %llu errors",
            c->id, conn_peer (c, peer, sizeof peer),
            conn_export_name (c), c->why,
            (unsigned long long) c->requests,
            (unsigned long long) c->bytes_in,
            (unsigned long long) c->bytes_out,
            (unsigned long long) c->errors);
  if (c->handle)
    control_client_happened (c, "client.disconnected", c->why);
}

static void
stop_watchers (struct conn *c)
{
  ev_io_stop (c->loop->ev, &c->rd);
  ev_io_stop (c->loop->ev, &c->wr);
  ev_timer_stop (c->loop->ev, &c->timer);
  ev_timer_stop (c->loop->ev, &c->stall);
  c->reading = c->writing = false;
}

/* What a client does not take counts against the memory of all. */
static void
charge_out (struct conn *c)
{
  if (c->out_charged == c->out.bytes)
    return;
  c->server->bytes += c->out.bytes - c->out_charged;
  c->out_charged = c->out.bytes;
}

static void
conn_free (struct conn *c)
{
  struct server *s = c->server;

  assert (!c->advance_queued);
  TAILQ_REMOVE (&c->loop->conns, c, link);
  if (c->stats)
    stats_add (&c->stats->left, 1);
  pool_group_put (s->pool, c->group);
  exports_leave (&s->exports, c->export);
  peers_leave (&s->peers, c->peer);
  buf_done (&c->in);
  out_done (&c->out);
  charge_out (c);
  handshake_done (&c->hs);
  host_context_done (&c->context);
  free (c);
  s->connections--;
  ev_async_send (s->ev, &s->conn_gone);
}

/* DEAD and no worker knows it: close the export, then free. */
static void
conn_bury (struct conn *c)
{
  struct job *j;

  assert (c->state == CONN_DEAD && c->jobs == 0);
  if (c->fd != -1)
    close (c->fd);
  c->fd = -1;
  if (c->handle == NULL) {
    conn_free (c);
    return;
  }
  j = conn_job_new (c, JOB_CLOSE);
  if (j == NULL) { /* the plugin keeps its handle rather than be closed here */
    host_log (HOST_LOG_ERROR, "out of memory, an export was not closed");
    conn_free (c);
    return;
  }
  j->handle = c->handle;
  c->state = CONN_CLOSING;
  conn_submit (c, j);
  submit_jobs (c);
}

void
conn_kill (struct conn *c, const char *why)
{
  if (c->state == CONN_DEAD || c->state == CONN_CLOSING)
    return;
  if (c->why == NULL)
    c->why = why;
  stop_watchers (c);
  tls_session_free (c->tls);
  c->tls = NULL;
  shutdown (c->fd, SHUT_RDWR); /* closed when no worker can be sending */
  c->state = CONN_DEAD;
  log_end (c);
  if (c->filling) {
    conn_job_free (c->filling);
    c->filling = NULL;
  }
  /* Buried by conn_advance or the last job, never under the caller's feet. */
}

void
conn_end (struct conn *c, const char *why)
{
  if (c->state >= CONN_ENDING)
    return;
  if (c->why == NULL)
    c->why = why;
  if (c->state != CONN_TRANSMIT) {
    if (c->out.bytes == 0) {
      conn_kill (c, why);
      return;
    }
  }
  if (c->filling) {
    conn_job_free (c->filling);
    c->filling = NULL;
  }
  c->state = CONN_ENDING;
}

/* --- moving bytes --- */

static void
send_out (struct conn *c)
{
  struct iovec iov[SEND_IOV];
  ssize_t r;
  int n;

  while (c->out.bytes > 0) {
    n = out_iovec (&c->out, iov, SEND_IOV);
    r = conn_send (c, iov, n);
    if (r < 0) {
      if (errno == EINTR)
        continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK)
        conn_kill (c, "client is gone");
      return;
    }
    conn_count_sent (c, r);
    out_sent (&c->out, r);
  }
}

void
conn_flush (struct conn *c)
{
  c->out_missed = false;
  if (c->out.bytes == 0)
    return;
  if (atomic_exchange (&c->sending, true)) {
    /* Who is sending tells the loop when it has done so, from now on. */
    loop_set_prompt (c->loop, c, true);
    if (atomic_exchange (&c->sending, true)) {
      c->out_missed = true;
      return;
    }
  }
  send_out (c);
  c->out_begun = c->out.bytes > 0;
  c->sending = false;
}

void
conn_count_sent (struct conn *c, size_t bytes)
{
  c->bytes_out += bytes;
  stats_add (&c->loop->stats.bytes_out, bytes);
  c->last_activity = ev_now (c->loop->ev);
}

static void
want (struct conn *c, ev_io *w, bool *active, bool wanted)
{
  if (wanted && !*active)
    ev_io_start (c->loop->ev, w);
  else if (!wanted && *active)
    ev_io_stop (c->loop->ev, w);
  *active = wanted;
}

void
conn_advance (struct conn *c)
{
  bool read_wanted;

  submit_jobs (c);
  if (c->state < CONN_DEAD)
    conn_flush (c);
  charge_out (c);
  if (c->state == CONN_ENDING && c->jobs == 0 && c->out.bytes == 0)
    conn_kill (c, "ended");
  if (c->state == CONN_DEAD && c->jobs == 0) {
    conn_bury (c);
    return;
  }
  if (c->state >= CONN_DEAD) {
    loop_set_prompt (c->loop, c, true);
    return;
  }
  read_wanted = c->state == CONN_TLS ||
    ((c->state == CONN_HANDSHAKE || c->state == CONN_TRANSMIT) &&
     !conn_at_limit (c));
  want (c, &c->rd, &c->reading, read_wanted && !c->eof);
  /* Whoever reads on, and waits for nothing, does not need to know at once
   * that workers have sent replies.
   */
  loop_set_prompt (c->loop, c, c->state != CONN_TRANSMIT || !read_wanted ||
                   c->eof || c->out_missed);
  want (c, &c->wr, &c->writing, (c->out.bytes > 0 && !c->out_missed) ||
        (c->state == CONN_TLS && tls_session_wants_write (c->tls)));
  /* What has been read ahead makes no event of the socket: by TLS, or a
   * request that a limit held back and that may go on since the flush.
   */
  if (c->reading && ((c->tls && tls_session_pending (c->tls)) ||
                     conn_has_request (c)))
    ev_feed_event (c->loop->ev, &c->rd, EV_READ);
}

ssize_t
conn_recv (struct conn *c, void *buf, size_t len)
{
  return c->context.tls ? tls_session_recv (c->tls, buf, len)
    : recv (c->fd, buf, len, 0);
}

ssize_t
conn_send (struct conn *c, const struct iovec *iov, int n)
{
  const struct msghdr m = { .msg_iov = (struct iovec *) iov,
    .msg_iovlen = n };

  if (c->context.tls)
    return tls_session_send (c->tls, iov, n);
  return n == 1 ? send (c->fd, iov->iov_base, iov->iov_len, MSG_NOSIGNAL)
    : sendmsg (c->fd, &m, MSG_NOSIGNAL);
}

/* One read into the input buffer, or straight into the payload of a write
 * that is arriving.  False: nothing more now.
 */
static bool
conn_fill (struct conn *c)
{
  uint8_t *p;
  size_t len = c->read_chunk;
  ssize_t r;

  /* Of large writes the heads are read by short reads, the payloads to where
   * they shall be, and not by way of the buffer.
   */
  if (c->filling && buf_len (&c->in) == 0) {
    c->read_chunk = READ_MIN;
    p = c->filling->data + c->filling->head + c->filled;
    len = c->filling->req.length - c->filled;
  }
  else
    p = buf_space (&c->in, len);
  if (p == NULL) {
    conn_kill (c, "out of memory");
    return false;
  }
  r = conn_recv (c, p, len);
  if (r < 0) {
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
      conn_kill (c, "client is gone");
    return errno == EINTR;
  }
  if (r == 0) {
    c->eof = true;
    conn_end (c, "client closed the connection");
    return false;
  }
  c->bytes_in += r;
  stats_add (&c->loop->stats.bytes_in, r);
  c->last_activity = ev_now (c->loop->ev);
  if (c->filling && buf_len (&c->in) == 0)
    c->filled += r;
  else {
    buf_add (&c->in, r);
    if (r == (ssize_t) len && c->read_chunk < READ_MAX)
      c->read_chunk *= 2;
  }
  /* A short read means an empty socket, most of the time. */
  return r == (ssize_t) len || c->filling || c->tls;
}

static void
on_readable (struct ev_loop *ev, ev_io *w, int revents)
{
  struct conn *c = w->data;
  struct loop *l = c->loop;
  const uint64_t before = c->requests;
  unsigned served;
  bool more = true;
  int round;

  (void) ev;
  (void) revents;
  for (round = 0; more && round < READ_ROUNDS; ++round) {
    if (c->state == CONN_TLS) {
      conn_handshake (c);
      break;
    }
    if ((c->state != CONN_HANDSHAKE && c->state != CONN_TRANSMIT) ||
        conn_at_limit (c))
      break;
    /* A request that was held back comes before the end of the input. */
    more = conn_has_request (c) || conn_fill (c);
    if (c->state == CONN_HANDSHAKE)
      conn_handshake (c);
    if (c->state == CONN_TRANSMIT)
      conn_requests (c);
  }
  served = c->requests - before;
  conn_advance (c);
  if (served > 0)
    loop_served (l, served);
}

static void
on_writable (struct ev_loop *ev, ev_io *w, int revents)
{
  struct conn *c = w->data;

  (void) ev;
  (void) revents;
  if (c->state != CONN_TLS)
    conn_flush (c);
  /* What waited for room. */
  if (c->state == CONN_TRANSMIT)
    conn_requests (c);
  else
    conn_handshake (c);
  conn_advance (c);
}

static void
on_timer (struct ev_loop *ev, ev_timer *w, int revents)
{
  struct conn *c = w->data;
  const unsigned idle = c->server->limits.idle_seconds;
  const ev_tstamp left = c->last_activity + idle - ev_now (ev);

  (void) revents;
  if (c->handle == NULL) /* also where its last words are not read */
    conn_kill (c, "the handshake took too long");
  else if (idle == 0)
    return; /* no longer wanted */
  else if (left > 0 || c->jobs > 0 || c->stalled) {
    ev_timer_set (w, left > 0 ? left : idle, 0);
    ev_timer_start (ev, w);
    return;
  }
  else /* nothing is under way; what is unsent nobody reads */
    conn_kill (c, "idle for too long");
  conn_advance (c);
}

/* --- rates and reloads --- */

static void
on_stall_over (struct ev_loop *ev, ev_timer *w, int revents)
{
  struct conn *c = w->data;

  (void) ev;
  (void) revents;
  c->stalled = false;
  c->admitted = true;
  conn_requests (c);
  conn_advance (c);
}

void
conn_unstall (struct conn *c)
{
  if (!c->stalled)
    return;
  ev_timer_stop (c->loop->ev, &c->stall);
  c->stalled = false;
  conn_requests (c);
}

void
conn_check_access (struct conn *c)
{
  struct rules *rules = exports_rules (&c->server->exports);

  if (!rules_let_in (rules, conn_export_name (c), &c->context))
    conn_end (c, "access was withdrawn");
  rules_unref (rules);
}

void
conn_reload (struct conn *c)
{
  const unsigned idle = c->server->limits.idle_seconds;

  if (c->state != CONN_TRANSMIT)
    return; /* asked for an export: checked when transmission begins */
  conn_check_access (c);
  if (c->state == CONN_TRANSMIT) {
    conn_unstall (c);
    conn_ask_name (c);
    if (idle > 0 && !ev_is_active (&c->timer)) {
      ev_timer_set (&c->timer, idle, 0);
      ev_timer_start (c->loop->ev, &c->timer);
    }
  }
  conn_advance (c);
}

/* --- names --- */

void
conn_ask_name (struct conn *c)
{
  struct server *s = c->server;
  struct job *j;

  if (s->plugin.ext.handle_name == NULL || c->naming ||
      c->state != CONN_TRANSMIT)
    return;
  j = conn_job_new (c, JOB_NAME);
  if (j)
    j->text = strdup (conn_export_name (c));
  if (j == NULL || j->text == NULL) {
    if (j)
      conn_job_free (j);
    conn_kill (c, "out of memory");
    return;
  }
  c->names_seen = s->names;
  c->naming = true;
  conn_submit (c, j);
}

void
conn_look_at_name (struct conn *c)
{
  conn_ask_name (c);
  conn_advance (c);
}

/* Everything that goes by names goes by the new one from here on, but for
 * whose turn it is among the workers.
 */
static void
take_name (struct conn *c, const char *name)
{
  struct export *old = c->export, *export;
  struct export_stats *stats = stats_export (&c->loop->stats, name);
  char peer[CONN_PEER_MAX];

  export = stats ? exports_enter_renamed (&c->server->exports, name) : NULL;
  if (export == NULL) {
    conn_kill (c, "out of memory");
    return;
  }
  stats_add (&c->stats->left, 1);
  stats_add (&stats->attached, 1);
  c->stats = stats;
  c->export = export;
  host_log (HOST_LOG_INFO, "client %lu (%s): export \"%s\" is now \"%s\"",
            c->id, conn_peer (c, peer, sizeof peer), old->name, name);
  control_client_happened (c, "client.renamed", old->name);
  exports_leave (&c->server->exports, old);
  conn_check_access (c);
  if (c->state == CONN_TRANSMIT)
    conn_unstall (c);
}

static void
name_found (struct conn *c, struct job *j)
{
  c->naming = false;
  if (c->state == CONN_TRANSMIT && j->text &&
      strcmp (j->text, conn_export_name (c)) != 0)
    take_name (c, j->text);
  conn_job_free (j);
  if (c->names_seen != c->server->names)
    conn_ask_name (c);
}

/* --- jobs --- */

struct job *
conn_job_new (struct conn *c, enum job_kind kind)
{
  struct job *j = calloc (1, sizeof *j);

  if (j == NULL)
    return NULL;
  j->conn = c;
  j->kind = kind;
  j->pool.run = job_run;
  return j;
}

void
conn_job_free (struct job *j)
{
  struct conn *c = j->conn;

  c->bytes -= j->charged;
  c->server->bytes -= j->charged;
  exports_leave (&c->server->exports, j->export);
  free (j->data);
  free (j->text);
  host_extents_done (&j->extents);
  host_exports_done (&j->exports);
  free (j);
}

void
conn_submit (struct conn *c, struct job *j)
{
  c->jobs++;
  loop_job_begins (c->loop);
  STAILQ_INSERT_TAIL (&c->submits, &j->pool, link);
}

static void
submit_jobs (struct conn *c)
{
  if (!STAILQ_EMPTY (&c->submits) &&
      pool_submit (c->server->pool, &c->lane, &c->submits))
    loop_kick_later (c->loop);
}

void
conn_job_finished (struct conn *c, struct job *j)
{
  assert (c->jobs > 0);
  c->jobs--;
  if (c->state == CONN_CLOSING) {
    conn_job_free (j);
    c->handle = NULL;
    conn_free (c);
    return;
  }
  if (j->kind == JOB_REQUEST)
    conn_reply (c, j);
  else if (j->kind == JOB_NAME)
    name_found (c, j);
  else
    conn_handshake_answer (c, j);
}
