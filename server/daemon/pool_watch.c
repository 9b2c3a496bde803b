/* daemon: what the plugin tells about its pool, for the metrics. */
#include <config.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/pool_watch.h"
#include "daemon/stats.h"
#include "host/plugin.h"

/* NULL: an error, or no such method. */
static json_t *
ask (const struct plugin *p, const char *method, const char *params)
{
  char *text = NULL;
  json_t *answer = NULL;

  if (p->ext.control (method, params, -1, NULL, &text) == 0 && text)
    answer = json_loads (text, JSON_DECODE_ANY, NULL);
  free (text);
  return answer;
}

static json_t *
ask_all (const struct plugin *p)
{
  char page[64];

  snprintf (page, sizeof page, "{\"max\":%d}", POOL_WATCH_EXPORTS);
  return json_pack ("{s:o*,s:o*,s:o*,s:o*}",
                    "info", ask (p, "pool.info", "{}"),
                    "df", ask (p, "pool.df", "{}"),
                    "stats", ask (p, "pool.stats", "{}"),
                    "exports", ask (p, "export.list", page));
}

static void *
watch_main (void *opaque)
{
  struct pool_watch *w = opaque;
  json_t *answers, *old;
  uint64_t asked;

  pthread_mutex_lock (&w->lock);
  while (!w->stop) {
    if (!w->wanted) {
      pthread_cond_wait (&w->cond, &w->lock);
      continue;
    }
    pthread_mutex_unlock (&w->lock);
    asked = stats_now ();
    answers = ask_all (w->plugin);
    pthread_mutex_lock (&w->lock);
    old = w->answers;
    w->answers = answers;
    w->asked = asked;
    w->wanted = false;
    pthread_cond_broadcast (&w->cond);
    json_decref (old);
  }
  pthread_mutex_unlock (&w->lock);
  return NULL;
}

bool
pool_watch_start (struct pool_watch *w, const struct plugin *p)
{
  pthread_condattr_t attr;
  sigset_t all, old;

  memset (w, 0, sizeof *w);
  if (p->ext.control == NULL)
    return true;
  w->plugin = p;
  pthread_mutex_init (&w->lock, NULL);
  pthread_condattr_init (&attr);
  pthread_condattr_setclock (&attr, CLOCK_MONOTONIC);
  pthread_cond_init (&w->cond, &attr);
  pthread_condattr_destroy (&attr);
  sigfillset (&all);
  pthread_sigmask (SIG_BLOCK, &all, &old);
  w->running = pthread_create (&w->thread, NULL, watch_main, w) == 0;
  pthread_sigmask (SIG_SETMASK, &old, NULL);
  return w->running;
}

void
pool_watch_stop (struct pool_watch *w)
{
  if (w->plugin == NULL)
    return;
  if (w->running) {
    pthread_mutex_lock (&w->lock);
    w->stop = true;
    pthread_cond_broadcast (&w->cond);
    pthread_mutex_unlock (&w->lock);
    pthread_join (w->thread, NULL);
  }
  json_decref (w->answers);
  pthread_cond_destroy (&w->cond);
  pthread_mutex_destroy (&w->lock);
  w->plugin = NULL;
}

static struct timespec
in_ms (unsigned ms)
{
  struct timespec t;

  clock_gettime (CLOCK_MONOTONIC, &t);
  t.tv_sec += ms / 1000;
  t.tv_nsec += ms % 1000 * 1000000L;
  if (t.tv_nsec >= 1000000000) {
    t.tv_sec++;
    t.tv_nsec -= 1000000000;
  }
  return t;
}

json_t *
pool_watch_get (struct pool_watch *w, double *ret_age)
{
  const struct timespec until = in_ms (POOL_WATCH_WAIT_MS);
  json_t *answers;
  int r = 0;

  *ret_age = 0;
  if (w->plugin == NULL)
    return NULL;
  pthread_mutex_lock (&w->lock);
  if (w->answers == NULL ||
      stats_now () - w->asked > POOL_WATCH_SECONDS * UINT64_C (1000000000)) {
    w->wanted = true;
    pthread_cond_broadcast (&w->cond);
    while (w->wanted && !w->stop && r == 0)
      r = pthread_cond_timedwait (&w->cond, &w->lock, &until);
  }
  answers = json_incref (w->answers);
  if (answers)
    *ret_age = (stats_now () - w->asked) / 1e9;
  pthread_mutex_unlock (&w->lock);
  return answers;
}
