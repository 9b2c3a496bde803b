/* btrnbdd: serve a pool, or any nbdkit plugin, over NBD. */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/options.h"
#include "host/log.h"

#define POOL_PLUGIN "btrfs"
#define LISTEN_DEFAULT "127.0.0.1:10809"

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
  char *arg;
  unsigned i;
  int r = 0;

  for (i = 0; i < o->ndebug; ++i)
    if (!plugin_debug_flag (&s->plugin, o->debug[i])) {
      host_log (HOST_LOG_ERROR, "-D %s: the plugin has no such flag",
                o->debug[i]);
      return -1;
    }
  for (i = 0; r == 0 && i < o->ndevices; ++i) {
    /* Kept: the plugin may keep the value. */
    if (asprintf (&arg, "device=%s", o->devices[i]) == -1)
      return -1;
    r = plugin_config (&s->plugin, arg);
  }
  for (i = 0; r == 0 && o->params[i]; ++i)
    r = plugin_config (&s->plugin, o->params[i]);
  return r;
}

static int
open_listeners (struct server *s, const struct options *o)
{
  const int passed = listener_add_activated (s);
  unsigned i;

  if (passed == -1)
    return -1;
  if (passed == 0 && o->nlisten == 0)
    return listener_add (s, LISTEN_DEFAULT);
  for (i = 0; i < o->nlisten; ++i)
    if (listener_add (s, o->listen[i]) == -1)
      return -1;
  return 0;
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

/* The plugin is configured: bring everything up, serve, take it down. */
static int
serve (struct server *s, const struct options *o)
{
  int status;

  if (plugin_ready (&s->plugin) == -1 || open_listeners (s, o) == -1)
    return EXIT_FAILURE;
  if (plugin_after_fork (&s->plugin) == -1) {
    listeners_free (s);
    return EXIT_FAILURE;
  }
  if (o->pidfile && write_pidfile (o->pidfile) == -1)
    status = EXIT_FAILURE;
  else
    status = server_run (s, o->workers);
  plugin_cleanup (&s->plugin);
  if (o->pidfile)
    unlink (o->pidfile);
  return status;
}

int
main (int argc, char **argv)
{
  struct options o;
  struct server s = { .listeners = SLIST_HEAD_INITIALIZER (s.listeners) };
  int status = options_parse (argc, argv, &o);

  if (status != -1)
    return status;
  host_log_setup (is_journal (), o.verbose);
  s.limits = o.limits;
  s.nloops = o.loops;
  s.tls_policy = o.tls_policy;
  if (o.tls_policy != HS_TLS_OFF) {
    s.tls = tls_server_new (&o.tls);
    if (s.tls == NULL)
      return EXIT_FAILURE;
  }
  status = EXIT_FAILURE;
  if (plugin_load (&s.plugin, o.plugin ? o.plugin : POOL_PLUGIN,
                   o.plugin_dir) == 0) {
    s.plugin.read_only = o.read_only;
    if (configure_plugin (&s, &o) == 0)
      status = serve (&s, &o);
  }
  plugin_unload (&s.plugin);
  tls_server_free (s.tls);
  host_symbols_done ();
  return status;
}
