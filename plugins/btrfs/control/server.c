/* control: the socket's server: workers, answers, events. */
#include <config.h>

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "control/server_priv.h"

#define ACCEPT_BATCH 16
#define ACCEPT_RETRY_SECONDS 1.0

void
control_say (struct control_server *s, enum control_log level,
             const char *fmt, ...)
{
  char line[512];
  va_list args;

  va_start (args, fmt);
  vsnprintf (line, sizeof line, fmt, args);
  va_end (args);
  s->ops->log (s->opaque, level, line);
}

/* --- requests --- */

void
control_request_free (struct control_request *r)
{
  if (r->fd != -1)
    close (r->fd);
  rpc_request_done (&r->rpc);
  free (r->line);
  free (r);
}

void
control_queue (struct control_request *r, bool quick)
{
  struct control_server *s = r->server;
  struct control_queue *q = quick ? &s->quick : &s->slow;

  pthread_mutex_lock (&s->lock);
  r->next = NULL;
  *q->end = r;
  q->end = &r->next;
  pthread_cond_broadcast (&s->work); /* not all of them take all */
  pthread_mutex_unlock (&s->lock);
}

static struct control_request *
queue_take (struct control_queue *q)
{
  struct control_request *r = q->first;

  if (r) {
    q->first = r->next;
    if (q->first == NULL)
      q->end = &q->first;
  }
  return r;
}

void
control_answer (struct control_request *r, bool ok, char *text)
{
  struct control_server *s = r->server;
  bool first;

  if (r->rpc.id)
    r->line = rpc_reply (r->rpc.id, ok, text);
  free (text);
  pthread_mutex_lock (&s->lock);
  first = s->answered == NULL;
  r->next = s->answered;
  s->answered = r;
  pthread_mutex_unlock (&s->lock);
  if (first)
    ev_async_send (s->ev, &s->wake);
}

void
control_answer_json (struct control_request *r, json_t *result)
{
  char *text = result ? rpc_text (result) : strdup ("null");

  json_decref (result);
  control_answer (r, true, text);
}

void
control_answer_error (struct control_request *r, int code,
                      const char *message)
{
  control_answer (r, false, rpc_error_text (code, message, NULL));
}

/* Until told to stop and nothing is left. */
static void
work (struct control_server *s, bool also_slow)
{
  struct control_request *r;

  pthread_mutex_lock (&s->lock);
  for (;;) {
    r = queue_take (&s->quick);
    if (r == NULL && also_slow)
      r = queue_take (&s->slow);
    if (r == NULL) {
      if (s->stop)
        break;
      pthread_cond_wait (&s->work, &s->lock);
      continue;
    }
    pthread_mutex_unlock (&s->lock);
    if (atomic_load (&r->cancel))
      control_answer_error (r, RPC_BUSY, "cancelled");
    else
      s->ops->run (s->opaque, r);
    pthread_mutex_lock (&s->lock);
  }
  pthread_mutex_unlock (&s->lock);
}

static void *
worker (void *opaque)
{
  work (opaque, true);
  return NULL;
}

/* However long others take, an operator can look and kick. */
static void *
quick_worker (void *opaque)
{
  work (opaque, false);
  return NULL;
}

/* --- events --- */

bool
control_wants_events (const struct control_server *s)
{
  return atomic_load_explicit (&s->subscribers, memory_order_relaxed) > 0;
}

static void
queue_event (struct control_server *s, json_t *event)
{
  struct control_event_line *e = NULL;
  char *text, *line;
  size_t len;

  /* Numbered also when there is no room: a gap tells of it. */
  json_object_set_new (event, "seq", json_integer (++s->events_seq));
  text = rpc_text (event);
  line = text ? rpc_notification ("event", text) : NULL;
  len = line ? strlen (line) : 0;
  if (line && s->events_bytes + len <= CONTROL_EVENTS_MAX)
    e = malloc (sizeof *e + len);
  if (e) {
    e->len = len;
    memcpy (e->text, line, len);
    STAILQ_INSERT_TAIL (&s->events, e, link);
    s->events_bytes += len;
  }
  free (line);
  free (text);
}

void
control_emit (struct control_server *s, json_t *event)
{
  struct timespec now;

  if (event == NULL || !control_wants_events (s)) {
    json_decref (event);
    return;
  }
  clock_gettime (CLOCK_REALTIME, &now);
  json_object_set_new (event, "time",
                       json_real (now.tv_sec + now.tv_nsec / 1e9));
  pthread_mutex_lock (&s->lock);
  queue_event (s, event);
  pthread_mutex_unlock (&s->lock);
  json_decref (event);
  ev_async_send (s->ev, &s->wake);
}

void
control_subscribe (struct control_request *r, bool on)
{
  struct control_client *c = r->client;

  if (c->fd != -1 && c->subscribed != on) {
    c->subscribed = on;
    if (on)
      atomic_fetch_add (&c->server->subscribers, 1);
    else
      atomic_fetch_sub (&c->server->subscribers, 1);
  }
}

/* --- the loop --- */

static struct control_request *
reversed (struct control_request *r)
{
  struct control_request *prev = NULL, *next;

  for (; r; r = next) {
    next = r->next;
    r->next = prev;
    prev = r;
  }
  return prev;
}

static void
deliver_events (struct control_server *s)
{
  STAILQ_HEAD (, control_event_line) events =
    STAILQ_HEAD_INITIALIZER (events);
  struct control_event_line *e;
  struct control_client *c, *next;

  pthread_mutex_lock (&s->lock);
  STAILQ_CONCAT (&events, &s->events);
  s->events_bytes = 0;
  pthread_mutex_unlock (&s->lock);
  if (STAILQ_EMPTY (&events))
    return;
  while ((e = STAILQ_FIRST (&events)) != NULL) {
    STAILQ_REMOVE_HEAD (&events, link);
    TAILQ_FOREACH (c, &s->clients, link)
      control_client_event (c, e);
    free (e);
  }
  for (c = TAILQ_FIRST (&s->clients); c; c = next) {
    next = TAILQ_NEXT (c, link);
    if (c->subscribed)
      control_client_flush (c);
  }
}

/* Events before answers: who asked for a change has been told of it. */
static void
deliver (struct control_server *s)
{
  struct control_request *r, *next;

  deliver_events (s);
  pthread_mutex_lock (&s->lock);
  r = s->answered;
  s->answered = NULL;
  pthread_mutex_unlock (&s->lock);
  for (r = reversed (r); r; r = next) {
    next = r->next;
    control_client_answer (r);
  }
}

static void
on_wake (struct ev_loop *ev, ev_async *w, int revents)
{
  (void) ev;
  (void) revents;
  deliver (w->data);
}

static void
on_accept (struct ev_loop *ev, ev_io *w, int revents)
{
  struct control_server *s = w->data;
  int i, fd = 0;

  (void) revents;
  for (i = 0; i < ACCEPT_BATCH && fd >= 0; i++) {
    fd = accept4 (s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0)
      control_client_new (s, fd);
  }
  if (fd >= 0)
    return;
  if (errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
           errno == ENOBUFS) {
    ev_io_stop (ev, w); /* rather than spin */
    ev_timer_set (&s->retry, ACCEPT_RETRY_SECONDS, 0);
    ev_timer_start (ev, &s->retry);
  }
}

static void
on_retry (struct ev_loop *ev, ev_timer *w, int revents)
{
  struct control_server *s = w->data;

  (void) revents;
  ev_io_start (ev, &s->accept);
}

/* --- life --- */

static void
watch (struct control_server *s)
{
  ev_io_init (&s->accept, on_accept, s->listener, EV_READ);
  ev_async_init (&s->wake, on_wake);
  ev_timer_init (&s->retry, on_retry, 0, 0);
  s->accept.data = s->wake.data = s->retry.data = s;
  ev_io_start (s->ev, &s->accept);
  ev_async_start (s->ev, &s->wake);
}

static bool
start_workers (struct control_server *s)
{
  sigset_t all, old;

  /* Signals are for the threads that know about them. */
  sigfillset (&all);
  pthread_sigmask (SIG_BLOCK, &all, &old);
  for (; s->num_workers < CONTROL_WORKERS; s->num_workers++)
    if (pthread_create (&s->workers[s->num_workers], NULL,
                        s->num_workers == 0 ? quick_worker : worker, s) != 0)
      break;
  pthread_sigmask (SIG_SETMASK, &old, NULL);
  return s->num_workers > 1;
}

struct control_server *
control_server_new (struct ev_loop *ev, int listener, const char *path,
                    const struct control_ops *ops, void *opaque)
{
  struct control_server *s = calloc (1, sizeof *s);
  struct stat st;

  if (s)
    s->path = strdup (path);
  if (s == NULL || s->path == NULL) {
    free (s);
    close (listener);
    return NULL;
  }
  s->ev = ev;
  s->ops = ops;
  s->opaque = opaque;
  s->listener = listener;
  if (stat (path, &st) == 0) {
    s->dev = st.st_dev;
    s->ino = st.st_ino;
  }
  TAILQ_INIT (&s->clients);
  STAILQ_INIT (&s->events);
  s->quick.end = &s->quick.first;
  s->slow.end = &s->slow.first;
  pthread_mutex_init (&s->lock, NULL);
  pthread_cond_init (&s->work, NULL);
  watch (s);
  if (!start_workers (s)) {
    control_server_free (s);
    return NULL;
  }
  return s;
}

/* Somebody else may have put a file in the place of ours. */
static void
remove_path (struct control_server *s)
{
  struct stat st;

  if (lstat (s->path, &st) == 0 && st.st_dev == s->dev &&
      st.st_ino == s->ino)
    unlink (s->path);
}

void
control_server_free (struct control_server *s)
{
  struct control_client *c;
  struct control_request *r;
  unsigned i;

  if (s == NULL)
    return;
  ev_io_stop (s->ev, &s->accept);
  ev_timer_stop (s->ev, &s->retry);
  remove_path (s);
  close (s->listener);
  TAILQ_FOREACH (c, &s->clients, link)
    for (r = c->running; r; r = r->peer)
      atomic_store (&r->cancel, true);
  pthread_mutex_lock (&s->lock);
  s->stop = true;
  pthread_cond_broadcast (&s->work);
  pthread_mutex_unlock (&s->lock);
  for (i = 0; i < s->num_workers; i++)
    pthread_join (s->workers[i], NULL);
  TAILQ_FOREACH (c, &s->clients, link)
    c->closing = true;          /* no more lines are taken */
  deliver (s);
  while ((c = TAILQ_FIRST (&s->clients)) != NULL) {
    control_client_close (c);
    control_client_free (c);
  }
  ev_async_stop (s->ev, &s->wake);
  pthread_cond_destroy (&s->work);
  pthread_mutex_destroy (&s->lock);
  free (s->path);
  free (s);
}

const char *
control_server_path (const struct control_server *s)
{
  return s->path;
}
