/* daemon: exports that clients use. */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "daemon/exports.h"
#include "daemon/fail.h"

static void
drop (struct export *e)
{
  LIST_REMOVE (e, link);
  throttle_done (&e->throttle);
  free (e);
}

void
exports_init (struct exports *x, struct rules *rules)
{
  *x = (struct exports) { .rules = rules };
  pthread_mutex_init (&x->lock, NULL);
  LIST_INIT (&x->open);
}

void
exports_done (struct exports *x)
{
  struct export *e;

  while ((e = LIST_FIRST (&x->open)) != NULL)
    drop (e);
  rules_unref (x->rules);
  x->rules = NULL;
  pthread_mutex_destroy (&x->lock);
}

struct rules *
exports_rules (struct exports *x)
{
  struct rules *r;

  pthread_mutex_lock (&x->lock);
  r = rules_ref (x->rules);
  pthread_mutex_unlock (&x->lock);
  return r;
}

static void
apply (const struct exports *x, struct export *e)
{
  const struct export_settings set = rules_find (x->rules, e->name);

  e->read_only = set.read_only;
  e->write_through = set.write_through;
  e->max_connections = set.max_connections;
  throttle_set (&e->throttle, set.iops, set.bandwidth);
}

void
exports_set_rules (struct exports *x, struct rules *rules)
{
  struct rules *old;
  struct export *e;

  pthread_mutex_lock (&x->lock);
  old = x->rules;
  x->rules = rules;
  LIST_FOREACH (e, &x->open, link)
    apply (x, e);
  pthread_mutex_unlock (&x->lock);
  rules_unref (old);
}

/* Exports that nobody uses go when their debts are paid: whoever connects
 * again has no more than whoever stays.
 */
static void
drop_unused (struct exports *x)
{
  struct export *e, *next;

  for (e = LIST_FIRST (&x->open); e != NULL; e = next) {
    next = LIST_NEXT (e, link);
    if (e->connections == 0 && throttle_is_idle (&e->throttle))
      drop (e);
  }
}

/* Find or make; the lock is held. */
static struct export *
get (struct exports *x, const char *name)
{
  struct export *e;

  LIST_FOREACH (e, &x->open, link)
    if (strcmp (e->name, name) == 0)
      return e;
  e = calloc (1, sizeof *e + strlen (name) + 1);
  if (e == NULL)
    return NULL;
  strcpy (e->name, name);
  throttle_init (&e->throttle);
  apply (x, e);
  LIST_INSERT_HEAD (&x->open, e, link);
  return e;
}

struct export *
exports_enter (struct exports *x, const char *name, char **ret_error)
{
  struct export *e;

  pthread_mutex_lock (&x->lock);
  e = get (x, name);
  if (e == NULL)
    fail (ret_error, "out of memory");
  else if (e->max_connections > 0 && e->connections >= e->max_connections) {
    fail (ret_error, "the export has %u clients, more are not allowed",
          e->connections);
    e = NULL;
  }
  else
    e->connections++;
  pthread_mutex_unlock (&x->lock);
  return e;
}

struct export *
exports_enter_renamed (struct exports *x, const char *name)
{
  struct export *e;

  pthread_mutex_lock (&x->lock);
  e = get (x, name);
  if (e)
    e->connections++;
  pthread_mutex_unlock (&x->lock);
  return e;
}

void
exports_leave (struct exports *x, struct export *e)
{
  if (e == NULL)
    return;
  pthread_mutex_lock (&x->lock);
  e->connections--;
  drop_unused (x);
  pthread_mutex_unlock (&x->lock);
}
