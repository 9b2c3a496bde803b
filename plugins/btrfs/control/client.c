/* control: one client of the socket.
 *
 * Lines are taken while less than CONTROL_REQUESTS_MAX requests run and all
 * answers so far have been sent; otherwise the socket is not read.  A client
 * that is gone stays until its requests have been answered.
 */
#include <config.h>

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/server_priv.h"

static void take_lines (struct control_client *);

/* --- making and ending --- */

static bool
peer_ok (int fd, struct ucred *ret)
{
  socklen_t len = sizeof *ret;

  return getsockopt (fd, SOL_SOCKET, SO_PEERCRED, ret, &len) == 0 &&
    (ret->uid == 0 || ret->uid == geteuid ());
}

void
control_client_free (struct control_client *c)
{
  struct control_server *s = c->server;

  TAILQ_REMOVE (&s->clients, c, link);
  s->num_clients--;
  free (c->in);
  free (c);
}

void
control_client_close (struct control_client *c)
{
  struct control_server *s = c->server;
  struct control_request *r;

  if (c->fd == -1)
    return;
  ev_io_stop (s->ev, &c->rd);
  ev_io_stop (s->ev, &c->wr);
  ev_timer_stop (s->ev, &c->stall);
  close (c->fd);
  c->fd = -1;
  if (c->passed_fd != -1)
    close (c->passed_fd);
  c->passed_fd = -1;
  s->unsent -= c->out_len - c->out_sent;
  free (c->out);
  c->out = NULL;
  c->out_len = c->out_sent = 0;
  if (c->subscribed)
    atomic_fetch_sub (&s->subscribers, 1);
  c->subscribed = false;
  for (r = c->running; r; r = r->peer)
    atomic_store (&r->cancel, true);
}

/* Before going back to the loop: what is closed and has no request is freed.
 * Then the watchers follow from the state.
 */
static void
settle (struct control_client *c)
{
  struct ev_loop *ev = c->server->ev;
  const bool unsent = c->out_sent < c->out_len;

  if (c->fd != -1 && !unsent && c->requests == 0 && (c->eof || c->closing))
    control_client_close (c);
  if (c->fd == -1) {
    if (c->requests == 0)
      control_client_free (c);
    return;
  }
  if (!c->eof && !c->closing && !unsent &&
      c->requests < CONTROL_REQUESTS_MAX)
    ev_io_start (ev, &c->rd);
  else
    ev_io_stop (ev, &c->rd);
  if (unsent)
    ev_io_start (ev, &c->wr);
  else
    ev_io_stop (ev, &c->wr);
  /* Half a line, or answers that are not read. */
  if (unsent || (c->in_len > 0 && c->requests == 0 && !c->eof)) {
    if (!ev_is_active (&c->stall)) {
      ev_timer_set (&c->stall, CONTROL_STALL_SECONDS, 0);
      ev_timer_start (ev, &c->stall);
    }
  }
  else
    ev_timer_stop (ev, &c->stall);
}

static void
on_stall (struct ev_loop *ev, ev_timer *w, int revents)
{
  struct control_client *c = w->data;

  (void) ev;
  (void) revents;
  control_say (c->server, CONTROL_LOG_INFO, "control client pid %ld: cut, it "
               "stalled", (long) c->pid);
  control_client_close (c);
  settle (c);
}

/* --- sending --- */

static void
send_out (struct control_client *c)
{
  ssize_t n;

  while (c->fd != -1 && c->out_sent < c->out_len) {
    n = send (c->fd, c->out + c->out_sent, c->out_len - c->out_sent,
              MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
      c->out_sent += n;
      c->server->unsent -= n;
      ev_timer_stop (c->server->ev, &c->stall); /* settle starts it anew */
    }
    else if (errno == EAGAIN || errno == EWOULDBLOCK)
      return;
    else if (errno != EINTR)
      control_client_close (c);
  }
  free (c->out);
  c->out = NULL;
  c->out_len = c->out_sent = c->events_len = 0;
}

static bool
append (struct control_client *c, const char *text, size_t len)
{
  struct control_server *s = c->server;
  char *bigger;

  if (len > CONTROL_UNSENT_MAX - s->unsent)
    return false;
  if (c->out_sent > 0) {
    memmove (c->out, c->out + c->out_sent, c->out_len - c->out_sent);
    c->out_len -= c->out_sent;
    c->out_sent = 0;
  }
  bigger = realloc (c->out, c->out_len + len);
  if (bigger == NULL)
    return false;
  memcpy (bigger + c->out_len, text, len);
  c->out = bigger;
  c->out_len += len;
  s->unsent += len;
  return true;
}

/* Send LINE, or say that there is no room for it. */
static void
answer_line (struct control_client *c, const json_t *id, const char *line)
{
  char *text, *instead;

  if (c->fd == -1)
    return;
  if (line && append (c, line, strlen (line)))
    return;
  text = rpc_error_text (RPC_BUSY, "no memory for the answer, ask for less",
                         NULL);
  instead = rpc_reply (id, false, text);
  if (instead == NULL || !append (c, instead, strlen (instead)))
    control_client_close (c);
  free (instead);
  free (text);
}

void
control_client_answer (struct control_request *r)
{
  struct control_client *c = r->client;
  struct control_request **p;

  for (p = &c->running; *p != r; p = &(*p)->peer)
    ;
  *p = r->peer;
  c->requests--;
  if (r->rpc.id)
    answer_line (c, r->rpc.id, r->line);
  control_request_free (r);
  send_out (c);
  if (c->fd != -1)
    take_lines (c);
  settle (c);
}

void
control_client_event (struct control_client *c,
                      const struct control_event_line *e)
{
  if (!c->subscribed || c->fd == -1)
    return;
  if (c->events_len + e->len > CONTROL_EVENTS_MAX ||
      !append (c, e->text, e->len))
    c->lost_events++; /* the numbers of events show it */
  else
    c->events_len += e->len;
}

void
control_client_flush (struct control_client *c)
{
  send_out (c);
  if (c->fd != -1)
    take_lines (c);
  settle (c);
}

static void
on_writable (struct ev_loop *ev, ev_io *w, int revents)
{
  (void) ev;
  (void) revents;
  control_client_flush (w->data);
}

/* --- requests --- */

static void
refuse_line (struct control_client *c, const json_t *id, int code,
             const char *why)
{
  char *text = rpc_error_text (code, why, NULL);
  char *line = rpc_reply (id, false, text);

  answer_line (c, id, line);
  free (line);
  free (text);
}

static void
take_line (struct control_client *c, const char *text, size_t len)
{
  struct control_server *s = c->server;
  struct control_request *r = calloc (1, sizeof *r);
  const char *why = "out of memory";
  int code = RPC_INTERNAL;

  if (r) {
    r->fd = c->passed_fd;
    c->passed_fd = -1;
    r->uid = c->uid;
    r->server = s;
    r->client = c;
    code = rpc_parse (text, len, &r->rpc, &why);
  }
  if (code != 0) {
    refuse_line (c, r ? r->rpc.id : NULL, code, why);
    if (r)
      control_request_free (r);
    return;
  }
  r->peer = c->running;
  c->running = r;
  c->requests++;
  switch (s->ops->where (s->opaque, r->rpc.method)) {
  case CONTROL_ON_LOOP:
    s->ops->run (s->opaque, r);
    break;
  case CONTROL_QUICK:
    control_queue (r, true);
    break;
  case CONTROL_SLOW:
    control_queue (r, false);
    break;
  default:
    control_answer_error (r, RPC_METHOD_NOT_FOUND, "there is no such method");
  }
}

static void
take_lines (struct control_client *c)
{
  size_t start = 0;
  char *end;

  while (c->fd != -1 && c->in && !c->closing && c->out_sent == c->out_len &&
         c->requests < CONTROL_REQUESTS_MAX &&
         (end = memchr (c->in + start, '\n', c->in_len - start)) != NULL) {
    const size_t len = end - (c->in + start);

    if (len > 0 && c->in[start] != '\r')
      take_line (c, c->in + start, len);
    start += len + 1;
    send_out (c);
  }
  if (start > 0) {
    c->in_len -= start;
    memmove (c->in, c->in + start, c->in_len);
    ev_timer_stop (c->server->ev, &c->stall);
  }
  if (c->in_len == CONTROL_LINE_MAX && !c->closing &&
      memchr (c->in, '\n', c->in_len) == NULL) {
    refuse_line (c, NULL, RPC_INVALID_REQUEST, "the line is too long");
    c->closing = true;
    send_out (c);
  }
}

static void
take_passed_fd (struct control_client *c, struct msghdr *m)
{
  struct cmsghdr *h;
  int fd;

  for (h = CMSG_FIRSTHDR (m); h; h = CMSG_NXTHDR (m, h))
    if (h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS) {
      memcpy (&fd, CMSG_DATA (h), sizeof fd);
      if (c->passed_fd != -1)
        close (c->passed_fd);
      c->passed_fd = fd;
    }
}

static ssize_t
receive (struct control_client *c)
{
  /* Room for one descriptor; the kernel drops others.  CMSG_SPACE has padding
   * that a second one would fit into.
   */
  union {
    char space[CMSG_SPACE (sizeof (int))];
    struct cmsghdr align;
  } control;
  struct iovec iov = { .iov_base = c->in + c->in_len,
    .iov_len = CONTROL_LINE_MAX - c->in_len };
  struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1,
    .msg_control = control.space, .msg_controllen = CMSG_LEN (sizeof (int)) };
  ssize_t n;

  n = recvmsg (c->fd, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (n > 0)
    take_passed_fd (c, &m);
  return n;
}

/* Who only ended his sending side still wants his answers. */
static void
end_of_input (struct control_client *c)
{
  struct pollfd p = { .fd = c->fd };

  c->eof = true;
  if (poll (&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR)))
    control_client_close (c);
}

static void
on_readable (struct ev_loop *ev, ev_io *w, int revents)
{
  struct control_client *c = w->data;
  ssize_t n;

  (void) revents;
  if (c->in == NULL)
    c->in = malloc (CONTROL_LINE_MAX);
  if (c->in == NULL) {
    control_client_close (c);
    settle (c);
    return;
  }
  n = receive (c);
  if (n > 0) {
    c->in_len += n;
    c->last_activity = ev_now (ev);
    take_lines (c);
  }
  else if (n == 0)
    end_of_input (c);
  else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
    control_client_close (c);
  if (c->in_len == 0 && c->fd != -1 && !c->eof) {
    free (c->in);
    c->in = NULL;
  }
  settle (c);
}

/* --- accepting --- */

/* When all places are taken, the client that has been quiet for longest and
 * waits for nothing leaves.
 */
static bool
make_room (struct control_server *s)
{
  struct control_client *c, *oldest = NULL;

  if (s->num_clients < CONTROL_CLIENTS_MAX)
    return true;
  TAILQ_FOREACH (c, &s->clients, link)
    if (c->fd != -1 && c->requests == 0 && !c->subscribed &&
        (oldest == NULL || c->last_activity < oldest->last_activity))
      oldest = c;
  if (oldest == NULL)
    return false;
  control_client_close (oldest);
  control_client_free (oldest);
  return true;
}

void
control_client_new (struct control_server *s, int fd)
{
  struct control_client *c;
  struct ucred cred = { .uid = -1 };

  if (!peer_ok (fd, &cred)) {
    control_say (s, CONTROL_LOG_ERROR, "control socket: uid %ld pid %ld is "
                 "refused", (long) cred.uid, (long) cred.pid);
    close (fd);
    return;
  }
  c = make_room (s) ? calloc (1, sizeof *c) : NULL;
  if (c == NULL) {
    close (fd);
    return;
  }
  c->server = s;
  c->fd = fd;
  c->uid = cred.uid;
  c->pid = cred.pid;
  c->passed_fd = -1;
  c->last_activity = ev_now (s->ev);
  ev_io_init (&c->rd, on_readable, fd, EV_READ);
  ev_io_init (&c->wr, on_writable, fd, EV_WRITE);
  ev_timer_init (&c->stall, on_stall, CONTROL_STALL_SECONDS, 0);
  c->rd.data = c->wr.data = c->stall.data = c;
  TAILQ_INSERT_TAIL (&s->clients, c, link);
  s->num_clients++;
  ev_io_start (s->ev, &c->rd);
}
