/* daemon: the command line, with the configuration file under it. */
#include <config.h>

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/access.h"
#include "daemon/fail.h"
#include "daemon/options.h"

#define EXIT_USAGE 2
#define WORKERS_DEFAULT 16

static void
print_help (void)
{
  puts ("Usage: btrnbdd -d DEVICE.. [OPTION].. [KEY=VALUE]..\n"
"       btrnbdd --config FILE [OPTION].. [KEY=VALUE]..\n"
"       btrnbdd --plugin NAME|PATH [OPTION].. [PARAMETER]..\n"
"Serve a pool, or any nbdkit plugin, as network disks (NBD).\n\n"
"  -c, --config FILE         settings, pool and exports, see btrnbd.conf(5);\n"
"                            read again on SIGHUP\n"
"      --check-config        say whether they are in order, and end\n"
"  -d, --device DEVICE       a device of the pool; may be repeated\n"
"      --plugin NAME|PATH    serve this plugin instead of a pool\n"
"      --plugin-dir DIR[:DIR...]  where plugins are looked for by name\n"
"  -l, --listen WHERE        unix:PATH, HOST:PORT, [ADDRESS]:PORT or\n"
"                            vsock:CID:PORT; may be repeated\n"
"                            (default: 127.0.0.1:10809 and\n"
"                            /run/btrnbd/nbd.sock, or btrnbd-nbd.sock of\n"
"                            the user)\n"
"  -r, --read-only           serve nothing writable\n"
"      --tls off|on|require  offer TLS, or demand it\n"
"      --tls-certificates D  directory of ca-cert.pem, server-cert.pem,\n"
"                            server-key.pem\n"
"      --tls-psk FILE        pre-shared keys, lines of USER:HEXKEY\n"
"      --tls-verify-peer     clients must have a certificate of the CA\n"
"      --max-connections N   (default: 1024)\n"
"      --max-peer-connections N  of one address or user (default: any)\n"
"      --max-requests N      in flight per connection (default: 256)\n"
"      --max-memory SIZE     of requests in flight (default: 1G)\n"
"      --handshake-timeout S (default: 15)\n"
"      --idle-timeout S      end idle clients, 0: never (default: 0)\n"
"      --drain-timeout S     for clients at shutdown (default: 5)\n"
"      --stay-awake US       after a reply, 0: never (default: 100)\n"
"      --loops N             event loops (default: one per core)\n"
"      --workers N           threads for work that waits (default: 16)\n"
"      --control PATH|off    socket for btrnbd -s (default: /run/btrnbd/\n"
"                            control.sock, or btrnbd.sock of the user)\n"
"      --metrics [HOST:]PORT metrics and a status page over HTTP (default:\n"
"                            none; HOST is 127.0.0.1 unless given)\n"
"      --pidfile FILE        written when serving\n"
"  -v, --verbose             tell more\n"
"  -D, --debug NAME.FLAG=N   set a debug flag of the plugin\n"
"      --help, --version");
}

/* What does not go together, wherever it was said. */
static int
check (const struct options *o, char **ret_error)
{
  const struct tls_options *t = &o->tls;
  const unsigned wants = rules_wants (o->rules);

  if (o->nparams == 0 && o->plugin == NULL)
    return fail (ret_error, "%s has neither [pool NAME] nor [plugin NAME]",
                 o->config);
  if (o->tls_policy != HS_TLS_OFF && !t->certificates && !t->psk_file)
    return fail (ret_error, "tls needs tls-certificates or tls-psk");
  if (o->tls_policy == HS_TLS_OFF && (t->certificates || t->psk_file))
    return fail (ret_error, "TLS credentials are given but tls is off");
  if (t->verify_peer && !t->certificates)
    return fail (ret_error, "tls-verify-peer needs tls-certificates");
  if ((wants & ACCESS_WANTS_CERTIFICATES) && !t->verify_peer)
    return fail (ret_error, "allow = cn: and dn: need tls-verify-peer");
  if ((wants & ACCESS_WANTS_PSK) && !t->psk_file)
    return fail (ret_error, "allow = psk: needs tls-psk");
  if ((wants & ACCESS_WANTS_TLS) && o->tls_policy == HS_TLS_OFF)
    return fail (ret_error, "allow = tls needs tls to be on");
  return 0;
}

/* A first look at the command line: the file, and requests to tell something.
 * -1: go on.
 */
static int
look (int argc, char **argv, struct options *o, char **ret_error)
{
  int c, i;

  optind = 0; /* also the second time */
  while ((c = getopt_long (argc, argv, settings_letters (),
                           settings_getopt (), NULL)) != -1) {
    if (c == 'h')
      print_help ();
    else if (c == 'V')
      puts ("btrnbdd " PACKAGE_VERSION);
    if (c == 'h' || c == 'V')
      return EXIT_SUCCESS;
    i = setting_by_val (c);
    if (i == -1)
      return EXIT_USAGE; /* getopt has printed why */
    if (strcmp (setting_name (i), "config") == 0 &&
        setting_set (o, i, optarg, ret_error) == -1)
      return EXIT_USAGE;
  }
  return -1;
}

/* One pool or plugin, said in one place. */
static int
check_source (const struct options *o, const char *file_plugin,
              char **ret_error)
{
  const bool line = o->devices.count > 0 || o->plugin != file_plugin;

  if ((o->pool || file_plugin) && line)
    return fail (ret_error, "%s has [%s %s], so -d and --plugin do not go "
                 "with it", o->config, o->pool ? "pool" : "plugin",
                 o->pool ? o->pool : file_plugin);
  if (o->devices.count > 0 && o->plugin)
    return fail (ret_error, "-d and --plugin do not go together");
  if (o->config == NULL && o->devices.count == 0 && o->plugin == NULL)
    return fail (ret_error, "give the devices of a pool (-d), a plugin "
                 "(--plugin) or a file (-c)");
  return 0;
}

/* Devices, then the other words, behind the file's parameters. */
static int
add_words (struct options *o, char **words, char **ret_error)
{
  char *text;
  size_t i;
  int r;

  for (i = 0; i < o->devices.count; ++i) {
    if (asprintf (&text, "device=%s", o->devices.v[i]) == -1)
      return fail (ret_error, "out of memory");
    r = options_add_param (o, text, "", ret_error);
    free (text);
    if (r == -1)
      return -1;
  }
  for (; *words; ++words)
    if (options_add_param (o, *words, "", ret_error) == -1)
      return -1;
  return 0;
}

static int
read_line (int argc, char **argv, struct options *o, char **ret_error)
{
  const char *file_plugin = o->plugin;
  int c, i;

  optind = 0;
  while ((c = getopt_long (argc, argv, settings_letters (),
                           settings_getopt (), NULL)) != -1) {
    i = setting_by_val (c);
    if (setting_set (o, i, optarg, ret_error) == -1)
      return fail_note (ret_error, "--%s: ", setting_name (i));
  }
  if (check_source (o, file_plugin, ret_error) == -1)
    return -1;
  return add_words (o, argv + optind, ret_error);
}

int
options_read (int argc, char **argv, struct options *o, char **ret_error)
{
  const long cores = sysconf (_SC_NPROCESSORS_ONLN);
  int r;

  *o = (struct options) {
    .plugin_dirs = strcmp (PLUGINDIR, NBDKIT_PLUGINDIR) == 0
      ? PLUGINDIR : PLUGINDIR ":" NBDKIT_PLUGINDIR,
    .limits = {
      .conn_requests = 256, .conn_bytes = CONN_BYTES,
      .total_bytes = 1u << 30, .connections = 1024,
      .handshake_seconds = 15, .drain_seconds = 5,
      .awake_us = AWAKE_MICROSECONDS,
    },
    .loops = cores > 0 ? cores : 1, .workers = WORKERS_DEFAULT,
    .rules = rules_new (),
  };
  if (o->rules == NULL) {
    fail (ret_error, "out of memory");
    return EXIT_FAILURE;
  }
  r = look (argc, argv, o, ret_error);
  if (r != -1)
    return r;
  if (o->config && config_read (o, o->config, ret_error) == -1)
    return EXIT_FAILURE;
  if (read_line (argc, argv, o, ret_error) == -1)
    return EXIT_USAGE;
  if (check (o, ret_error) == -1)
    return o->config ? EXIT_FAILURE : EXIT_USAGE;
  return -1;
}
