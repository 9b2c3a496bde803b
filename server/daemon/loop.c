/* daemon: event loops. */
#include <config.h>

#include <assert.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "daemon/conn.h"
#include "host/log.h"

void
loop_order (struct loop *l, int order)
{
  pthread_mutex_lock (&l->lock);
  if (order > (int) l->order)
    l->order = order;
  pthread_mutex_unlock (&l->lock);
  ev_async_send (l->ev, &l->wake);
}

void
loop_order_reload (struct loop *l)
{
  pthread_mutex_lock (&l->lock);
  l->reloads_ordered++;
  pthread_mutex_unlock (&l->lock);
  ev_async_send (l->ev, &l->wake);
}

void
loops_order_names (struct server *s)
{
  unsigned i;

  s->names++;
  for (i = 0; i < s->nloops; ++i)
    ev_async_send (s->loops[i].ev, &s->loops[i].wake);
}

void
loop_finish_jobs (struct loop *l, const struct conn *c,
                  struct pool_jobs *jobs, bool done)
{
  bool wake;

  pthread_mutex_lock (&l->lock);
  STAILQ_CONCAT (&l->finished, jobs);
  wake = (!done || c->prompt) && !l->woken;
  if (wake)
    l->woken = true;
  pthread_mutex_unlock (&l->lock);
  if (wake)
    ev_async_send (l->ev, &l->wake);
}

void
loop_set_prompt (struct loop *l, struct conn *c, bool prompt)
{
  if (c->prompt == prompt) /* only the loop's thread changes it */
    return;
  pthread_mutex_lock (&l->lock);
  c->prompt = prompt;
  pthread_mutex_unlock (&l->lock);
  if (prompt) /* what has run before may lie there */
    ev_feed_event (l->ev, &l->wake, 0);
}

#define COLLECT_SECONDS 0.05   /* until somebody looks for finished jobs */

void
loop_job_begins (struct loop *l)
{
  l->jobs++;
  if (!ev_is_active (&l->collect)) {
    ev_timer_set (&l->collect, COLLECT_SECONDS, 0);
    ev_timer_start (l->ev, &l->collect);
  }
}

/* Long beside a quick job, short for whoever waits behind a slow one. */
#define KICK_SECONDS 0.001

void
loop_kick_later (struct loop *l)
{
  if (ev_is_active (&l->kick))
    return;
  ev_timer_set (&l->kick, KICK_SECONDS, 0);
  ev_timer_start (l->ev, &l->kick);
}

static void
on_kick (struct ev_loop *ev, ev_timer *w, int revents)
{
  struct loop *l = w->data;

  (void) ev;
  (void) revents;
  if (pool_kick (l->server->pool, &l->kick_seen))
    loop_kick_later (l);
}

void
loop_take_conn (struct loop *l, struct conn *c)
{
  c->loop = l;
  pthread_mutex_lock (&l->lock);
  TAILQ_INSERT_TAIL (&l->arriving, c, link);
  pthread_mutex_unlock (&l->lock);
  ev_async_send (l->ev, &l->wake);
}

/* --- staying awake --- */

static void
on_idle (struct ev_loop *ev, ev_idle *w, int revents)
{
  struct loop *l = w->data;

  (void) revents;
  if (!awake_goes_on (&l->awake, stats_now ()))
    ev_idle_stop (ev, w);
}

void
loop_served (struct loop *l, unsigned requests)
{
  const uint64_t max_ns = UINT64_C (1000) * l->server->limits.awake_us;

  if (awake_served (&l->awake, requests, max_ns, stats_now ()))
    ev_idle_start (l->ev, &l->idle);
}

/* --- questions --- */

struct loop_question {
  STAILQ_ENTRY (loop_question) link;
  void (*fn) (struct loop *, void *);
  void *opaque;
  struct asked *asked;
};

/* Who asks waits here for all loops. */
struct asked {
  pthread_mutex_t lock;        /* protects all below */
  pthread_cond_t cond;
  unsigned left;
};

static void
answer_questions (struct loop *l)
{
  STAILQ_HEAD (, loop_question) all = STAILQ_HEAD_INITIALIZER (all);
  struct loop_question *q;

  pthread_mutex_lock (&l->lock);
  STAILQ_CONCAT (&all, &l->questions);
  pthread_mutex_unlock (&l->lock);
  while ((q = STAILQ_FIRST (&all)) != NULL) {
    struct asked *a = q->asked;

    STAILQ_REMOVE_HEAD (&all, link);
    q->fn (l, q->opaque);
    pthread_mutex_lock (&a->lock);
    if (--a->left == 0)
      pthread_cond_signal (&a->cond);
    pthread_mutex_unlock (&a->lock);
  }
}

bool
loops_ask (struct server *s, void (*fn) (struct loop *, void *),
           void *opaque)
{
  struct asked a = { .lock = PTHREAD_MUTEX_INITIALIZER,
    .cond = PTHREAD_COND_INITIALIZER, .left = s->nloops };
  struct loop_question *q = calloc (s->nloops, sizeof *q);
  unsigned i;

  if (q == NULL)
    return false;
  for (i = 0; i < s->nloops; ++i) {
    struct loop *l = &s->loops[i];

    q[i] = (struct loop_question) { .fn = fn, .opaque = opaque,
                                    .asked = &a };
    pthread_mutex_lock (&l->lock);
    STAILQ_INSERT_TAIL (&l->questions, &q[i], link);
    pthread_mutex_unlock (&l->lock);
    ev_async_send (l->ev, &l->wake);
  }
  pthread_mutex_lock (&a.lock);
  while (a.left > 0)
    pthread_cond_wait (&a.cond, &a.lock);
  pthread_mutex_unlock (&a.lock);
  free (q);
  return true;
}

/* --- shutdown --- */

/* Clients that have asked for something get their answers; the socket gives
 * what has arrived, then ends.
 */
static void
drain_conn (struct conn *c)
{
  if (c->state < CONN_TRANSMIT)
    conn_kill (c, "the server is shutting down");
  else if (c->state == CONN_TRANSMIT) {
    c->why = "the server is shutting down";
    shutdown (c->fd, SHUT_RD);
    conn_unstall (c);
  }
  conn_advance (c);
}

static void
cut_conn (struct conn *c)
{
  conn_kill (c, "cut off by the server's shutdown");
  conn_advance (c);
}

static void
for_each_conn (struct loop *l, void (*fn) (struct conn *))
{
  struct conn *c, *next;

  for (c = TAILQ_FIRST (&l->conns); c != NULL; c = next) {
    next = TAILQ_NEXT (c, link);
    fn (c);
  }
}

static void
finish_jobs (struct loop *l)
{
  struct pool_jobs batch = STAILQ_HEAD_INITIALIZER (batch);
  struct job *j;
  struct conn *c;

  pthread_mutex_lock (&l->lock);
  STAILQ_CONCAT (&batch, &l->finished);
  l->woken = false;
  pthread_mutex_unlock (&l->lock);
  if (!STAILQ_EMPTY (&batch))
    l->now = stats_now ();
  while ((j = (struct job *) STAILQ_FIRST (&batch)) != NULL) {
    STAILQ_REMOVE_HEAD (&batch, link);
    c = j->conn;
    if (c->state != CONN_CLOSING && !c->advance_queued) {
      c->advance_queued = true;
      TAILQ_INSERT_TAIL (&l->to_advance, c, advance_link);
    }
    l->jobs--;
    conn_job_finished (c, j);
  }
  /* Now the replies of the whole batch go out, one write per connection. */
  while ((c = TAILQ_FIRST (&l->to_advance)) != NULL) {
    TAILQ_REMOVE (&l->to_advance, c, advance_link);
    c->advance_queued = false;
    conn_advance (c);
  }
}

static void
on_check (struct ev_loop *ev, ev_check *w, int revents)
{
  (void) ev;
  (void) revents;
  finish_jobs (w->data);
}

static void
on_collect (struct ev_loop *ev, ev_timer *w, int revents)
{
  struct loop *l = w->data;

  (void) revents;
  if (l->jobs > 0) { /* on_check has seen to those that have run */
    ev_timer_set (w, COLLECT_SECONDS, 0);
    ev_timer_start (ev, w);
  }
}

static void
on_wake (struct ev_loop *ev, ev_async *w, int revents)
{
  struct loop *l = w->data;
  TAILQ_HEAD (, conn) arriving = TAILQ_HEAD_INITIALIZER (arriving);
  struct conn *c;
  unsigned reloads, names;
  int order;

  (void) revents;
  finish_jobs (l);
  answer_questions (l);
  pthread_mutex_lock (&l->lock);
  TAILQ_CONCAT (&arriving, &l->arriving, link);
  order = l->order;
  reloads = l->reloads_ordered;
  pthread_mutex_unlock (&l->lock);
  if (l->reloads != reloads) {
    l->reloads = reloads;
    for_each_conn (l, conn_reload);
  }
  names = l->server->names;
  if (l->names != names) {
    l->names = names;
    for_each_conn (l, conn_look_at_name);
  }
  while ((c = TAILQ_FIRST (&arriving)) != NULL) {
    TAILQ_REMOVE (&arriving, c, link);
    conn_start (c);
  }
  if (order >= LOOP_DRAIN && !l->draining) {
    l->draining = true;
    for_each_conn (l, drain_conn);
  }
  if (order == LOOP_CUT)
    for_each_conn (l, cut_conn);
  if (order == LOOP_STOP) {
    assert (TAILQ_EMPTY (&l->conns));
    ev_break (ev, EVBREAK_ALL);
  }
}

static void *
loop_main (void *opaque)
{
  struct loop *l = opaque;

  ev_run (l->ev, 0);
  return NULL;
}

int
loop_start (struct loop *l, struct server *s)
{
  l->server = s;
  stats_init (&l->stats);
  l->order = LOOP_SERVE;
  TAILQ_INIT (&l->conns);
  TAILQ_INIT (&l->to_advance);
  TAILQ_INIT (&l->arriving);
  STAILQ_INIT (&l->finished);
  STAILQ_INIT (&l->questions);
  pthread_mutex_init (&l->lock, NULL);
  l->ev = ev_loop_new (EVFLAG_AUTO);
  if (l->ev == NULL) {
    host_log (HOST_LOG_ERROR, "cannot make an event loop");
    return -1;
  }
  ev_async_init (&l->wake, on_wake);
  l->wake.data = l;
  ev_async_start (l->ev, &l->wake);
  ev_idle_init (&l->idle, on_idle);
  ev_timer_init (&l->kick, on_kick, 0, 0);
  ev_timer_init (&l->collect, on_collect, 0, 0);
  ev_check_init (&l->check, on_check);
  l->kick.data = l->collect.data = l->check.data = l->idle.data = l;
  ev_check_start (l->ev, &l->check);
  if (pthread_create (&l->thread, NULL, loop_main, l) != 0) {
    host_log (HOST_LOG_ERROR, "cannot start a thread");
    ev_loop_destroy (l->ev);
    l->ev = NULL;
    return -1;
  }
  return 0;
}

void
loop_join (struct loop *l)
{
  if (l->ev == NULL)
    return;
  loop_order (l, LOOP_STOP);
  pthread_join (l->thread, NULL);
  ev_loop_destroy (l->ev);
  pthread_mutex_destroy (&l->lock);
  stats_free (&l->stats);
}
