/* btrnbdd: serve a pool, or any nbdkit plugin, over NBD. */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/stdfds.h"
#include "daemon/control.h"
#include "daemon/fail.h"
#include "daemon/metrics.h"
#include "daemon/options.h"
#include "daemon/reload.h"
#include "host/log.h"

#define POOL_PLUGIN "btrfs"
#define EXIT_USAGE 2

/* jemalloc(3) reads it at start.  Memory that was freed goes back to the
 * system within a second, and there is one arena per CPU instead of four: what
 * arenas keep for themselves comes on top of cache-size.  MALLOC_CONF in the
 * environment overrides it.
 */
extern const char *malloc_conf __attribute__ ((visibility ("default")));
const char *malloc_conf =
  "percpu_arena:percpu,dirty_decay_ms:1000,muzzy_decay_ms:0";

/* stderr is the journal when systemd says so (systemd.exec(5)). */
static bool
is_journal (void)
{
  const char *want = getenv ("JOURNAL_STREAM");
  unsigned long long dev, ino;
  struct stat st;

  return want && sscanf (want, "%llu:%llu", &dev, &ino) == 2 &&
    fstat (STDERR_FILENO, &st) == 0 && st.st_dev == dev && st.st_ino == ino;
}

static int
configure_plugin (struct server *s, const struct options *o)
{
  const struct option_param *p;
  struct host_call call;
  size_t i;

  for (i = 0; i < o->debug.count; ++i)
    if (!plugin_debug_flag (&s->plugin, o->debug.v[i])) {
      host_log (HOST_LOG_ERROR, "-D %s: the plugin has no such flag",
                o->debug.v[i]);
      return -1;
    }
  for (i = 0; i < o->nparams; ++i) {
    p = &o->params[i];
    if (plugin_config (&s->plugin, p->text, &call) == -1) {
      host_log (HOST_LOG_ERROR, "%s%s", p->where,
                call.text[0] ? call.text : p->text);
      return -1;
    }
  }
  return 0;
}

static int
open_listeners (struct server *s, const struct options *o, char **ret_error)
{
  if (listener_add_activated (s, ret_error) == -1)
    return -1;
  return listeners_change (s, o->listen.v, o->listen.count, ret_error);
}

static int
write_pidfile (const char *path)
{
  FILE *fp = fopen (path, "we");
  int err;

  if (fp == NULL) {
    host_log (HOST_LOG_ERROR, "%s: %s", path, strerror (errno));
    return -1;
  }
  fprintf (fp, "%ld\n", (long) getpid ());
  err = ferror (fp);
  if (fclose (fp) != 0 || err) {
    host_log (HOST_LOG_ERROR, "%s: cannot write it", path);
    return -1;
  }
  return 0;
}

/* The rules' names, as the plugin knows them; -1 after a message. */
static int
settle_rules (struct server *s, const struct options *o, bool serving)
{
  char *error = NULL;

  if (rules_settle (o->rules, &s->plugin, serving, o->config, &error) == 0)
    return 0;
  fail_log (&error);
  return -1;
}

/* All sockets, so that what is in use is told before anything is opened. */
static int
open_sockets (struct server *s, const struct options *o)
{
  char *error = NULL;

  s->control_listener = s->metrics_listener = -1;
  if (open_listeners (s, o, &error) == -1) {
    fail_log (&error);
    return -1;
  }
  if (o->metrics && strcmp (o->metrics, "off") != 0) {
    s->metrics_listener = metrics_listen (o->metrics, &error);
    if (s->metrics_listener == -1) {
      fail_log (&error);
      return -1;
    }
  }
  return control_open (s, o->control);
}

static void
close_sockets (struct server *s)
{
  control_stop (s);
  listeners_free (s);
  if (s->metrics_listener != -1)
    close (s->metrics_listener);
  s->metrics_listener = -1;
}

/* The plugin is configured: bring everything up, serve, take it down. */
static int
serve (struct server *s, const struct options *o)
{
  int status;

  if (plugin_ready (&s->plugin) == -1)
    return EXIT_FAILURE;
  if (open_sockets (s, o) == -1 || plugin_after_fork (&s->plugin) == -1) {
    close_sockets (s);
    return EXIT_FAILURE;
  }
  if (settle_rules (s, o, true) == -1) {
    close_sockets (s);
    status = EXIT_FAILURE;
  }
  else if (o->pidfile && write_pidfile (o->pidfile) == -1) {
    close_sockets (s);
    status = EXIT_FAILURE;
  }
  else
    status = server_run (s, o->workers);
  plugin_cleanup (&s->plugin);
  if (o->pidfile)
    unlink (o->pidfile);
  return status;
}

/* From the options; a text on failure. */
static int
server_init (struct server *s, int argc, char **argv, struct options *o,
             char **ret_error)
{
  pthread_mutex_init (&s->tls_lock, NULL);
  peers_init (&s->peers);
  exports_init (&s->exports, rules_ref (o->rules));
  s->limits = o->limits;
  s->nloops = o->loops;
  s->tls_policy = o->tls_policy;
  s->reload = reload_new (argc, argv, o);
  if (s->reload == NULL)
    return fail (ret_error, "out of memory");
  if (o->tls_policy == HS_TLS_OFF)
    return 0;
  s->tls = tls_server_new (&o->tls, ret_error);
  return s->tls ? 0 : -1;
}

static void
server_done (struct server *s)
{
  plugin_unload (&s->plugin);
  tls_server_unref (s->tls);
  reload_free (s->reload);
  exports_done (&s->exports);
  peers_done (&s->peers);
  pthread_mutex_destroy (&s->tls_lock);
}

/* Each connection is a descriptor; the limit that shells set is for programs
 * that use select(2).
 */
static void
raise_file_limit (void)
{
  struct rlimit r;

  if (getrlimit (RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
    r.rlim_cur = r.rlim_max;
    setrlimit (RLIMIT_NOFILE, &r);
  }
}

static int
say_in_order (const struct options *o)
{
  printf ("%s is in order\n", o->config ? o->config : "the command line");
  return fflush (stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int
main (int argc, char **argv)
{
  struct options o;
  struct server s = { .listeners = SLIST_HEAD_INITIALIZER (s.listeners) };
  char *error = NULL;
  int status;

  stdfds_keep ();
  host_log_setup (is_journal (), false);
  raise_file_limit ();
  status = options_read (argc, argv, &o, &error);
  if (status != -1) {
    if (error)
      fail_log (&error);
    if (status == EXIT_USAGE)
      host_log (HOST_LOG_ERROR, "try btrnbdd --help");
    options_done (&o);
    return status;
  }
  host_log_set_verbose (o.verbose);
  status = EXIT_FAILURE;
  if (server_init (&s, argc, argv, &o, &error) == -1)
    fail_log (&error);
  else if (plugin_load (&s.plugin, o.plugin ? o.plugin : POOL_PLUGIN,
                        o.plugin_dirs) == 0) {
    s.plugin.read_only = o.read_only;
    if (configure_plugin (&s, &o) == 0 && settle_rules (&s, &o, false) == 0)
      status = o.check_only ? say_in_order (&o) : serve (&s, &o);
  }
  server_done (&s);
  options_done (&o);
  host_symbols_done ();
  return status;
}
