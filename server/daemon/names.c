/* daemon: sections of the configuration for exports that are not there.
 *
 * A rule under a wrong name protects nothing, and nobody would notice.  But
 * sections may come before their exports, so that is told, no error.  Looking
 * may wait for disks: a thread does it, once after the start and once after
 * each reload.
 */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "daemon/exports.h"
#include "daemon/server.h"
#include "host/log.h"

static bool
is_listed (struct plugin *pl, const char *name)
{
  struct nbdkit_exports x = { .v = NULL };
  struct host_context context;
  bool found;
  size_t i;

  host_context_init (&context);
  found = plugin_list (pl, &context, &x) == -1; /* nobody knows */
  for (i = 0; i < x.count && !found; ++i)
    found = strcmp (x.v[i].name, name) == 0;
  host_exports_done (&x);
  host_context_done (&context);
  return found;
}

/* What there is instead of NAME; NULL: it is there, or nobody knows.  To open
 * the image of a pool is much work, and felt by its clients.
 */
static const char *
open_name (struct plugin *pl, const char *name, char **ret_text)
{
  struct host_context context;
  struct handle *h = NULL;
  char *canonical = NULL;
  const char *wrong = NULL;

  host_context_init (&context);
  context.export_name = name;
  if (handle_name (pl, &context, &canonical, ret_text) == -1)
    wrong = "no export has that name";
  else if (pl->ext.rule_name == NULL && strcmp (canonical, name) != 0) {
    *ret_text = canonical;
    canonical = NULL;
    wrong = "it has no effect, the name of the export is";
  }
  else if (*canonical == '@') {
    if (!is_listed (pl, canonical))
      wrong = "no export has that name";
  }
  else {
    if (handle_open (pl, &context, canonical, true, &h, ret_text) == -1)
      wrong = "no export has that name";
    canonical = NULL;
  }
  handle_close (h, &context);
  free (canonical);
  host_context_done (&context);
  return wrong;
}

static void
check_name (struct plugin *pl, const char *name)
{
  const char *wrong = NULL;
  char *text = NULL;

  if (pl->ext.export_name)
    wrong = open_name (pl, name, &text);
  else if (pl->p.list_exports && !is_listed (pl, name))
    wrong = "no export has that name";
  if (wrong)
    host_log (HOST_LOG_WARNING, "[export %s]: %s%s%s", name, wrong,
              text ? ": " : "", text ? text : "");
  free (text);
}

static void *
check_names (void *opaque)
{
  struct server *s = opaque;
  struct rules *rules = exports_rules (&s->exports);
  const char *name;
  size_t i;

  for (i = 0; (name = rules_name (rules, i)) != NULL && !s->names_stop; ++i)
    if (*name)
      check_name (&s->plugin, name);
  rules_unref (rules);
  return NULL;
}

void
names_check (struct server *s)
{
  names_stop (s);
  /* Other models would have it wait for the clients' requests. */
  if (s->plugin.thread_model < NBDKIT_THREAD_MODEL_SERIALIZE_REQUESTS)
    return;
  s->names_stop = false;
  s->names_running =
    pthread_create (&s->names_thread, NULL, check_names, s) == 0;
}

void
names_stop (struct server *s)
{
  if (!s->names_running)
    return;
  s->names_stop = true;
  pthread_join (s->names_thread, NULL);
  s->names_running = false;
}
