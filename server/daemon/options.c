/* daemon: the command line. */
#include <config.h>

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/options.h"
#include "host/log.h"

#define EXIT_USAGE 2
#define WORKERS_DEFAULT 16

enum {
  OPT_HELP = 256, OPT_VERSION, OPT_PLUGIN, OPT_PLUGIN_DIR, OPT_TLS,
  OPT_TLS_CERTIFICATES, OPT_TLS_PSK, OPT_TLS_VERIFY, OPT_MAX_CONNECTIONS,
  OPT_MAX_REQUESTS, OPT_HANDSHAKE, OPT_IDLE, OPT_DRAIN, OPT_LOOPS,
  OPT_WORKERS, OPT_PIDFILE, OPT_MAX_MEMORY,
};

static const struct option long_options[] = {
  { "help", no_argument, NULL, OPT_HELP },
  { "version", no_argument, NULL, OPT_VERSION },
  { "device", required_argument, NULL, 'd' },
  { "listen", required_argument, NULL, 'l' },
  { "read-only", no_argument, NULL, 'r' },
  { "verbose", no_argument, NULL, 'v' },
  { "debug", required_argument, NULL, 'D' },
  { "plugin", required_argument, NULL, OPT_PLUGIN },
  { "plugin-dir", required_argument, NULL, OPT_PLUGIN_DIR },
  { "tls", required_argument, NULL, OPT_TLS },
  { "tls-certificates", required_argument, NULL, OPT_TLS_CERTIFICATES },
  { "tls-psk", required_argument, NULL, OPT_TLS_PSK },
  { "tls-verify-peer", no_argument, NULL, OPT_TLS_VERIFY },
  { "max-connections", required_argument, NULL, OPT_MAX_CONNECTIONS },
  { "max-requests", required_argument, NULL, OPT_MAX_REQUESTS },
  { "max-memory", required_argument, NULL, OPT_MAX_MEMORY },
  { "handshake-timeout", required_argument, NULL, OPT_HANDSHAKE },
  { "idle-timeout", required_argument, NULL, OPT_IDLE },
  { "drain-timeout", required_argument, NULL, OPT_DRAIN },
  { "loops", required_argument, NULL, OPT_LOOPS },
  { "workers", required_argument, NULL, OPT_WORKERS },
  { "pidfile", required_argument, NULL, OPT_PIDFILE },
  { NULL, 0, NULL, 0 },
};

static void
print_help (void)
{
  puts ("Usage: btrnbdd -d DEVICE.. [OPTION].. [KEY=VALUE]..\n"
"       btrnbdd --plugin NAME|PATH [OPTION].. [PARAMETER]..\n"
"Serve a pool, or any nbdkit plugin, as network disks (NBD).\n\n"
"  -d, --device DEVICE       a device of the pool; may be repeated\n"
"      --plugin NAME|PATH    serve this plugin instead of a pool\n"
"      --plugin-dir DIR      where plugins are looked for by name\n"
"  -l, --listen WHERE        unix:PATH, HOST:PORT, [ADDRESS]:PORT or\n"
"                            vsock:CID:PORT; may be repeated\n"
"                            (default: 127.0.0.1:10809)\n"
"  -r, --read-only           serve nothing writable\n"
"      --tls off|on|require  offer TLS, or demand it\n"
"      --tls-certificates D  directory of ca-cert.pem, server-cert.pem,\n"
"                            server-key.pem\n"
"      --tls-psk FILE        pre-shared keys, lines of USER:HEXKEY\n"
"      --tls-verify-peer     clients must have a certificate of the CA\n"
"      --max-connections N   (default: 1024)\n"
"      --max-requests N      in flight per connection (default: 256)\n"
"      --max-memory SIZE     of requests in flight (default: 1G)\n"
"      --handshake-timeout S (default: 15)\n"
"      --idle-timeout S      end idle clients, 0: never (default: 0)\n"
"      --drain-timeout S     for clients at shutdown (default: 5)\n"
"      --loops N             event loops (default: one per core)\n"
"      --workers N           threads for work that waits (default: 16)\n"
"      --pidfile FILE        written when serving\n"
"  -v, --verbose             tell more\n"
"  -D, --debug NAME.FLAG=N   set a debug flag of the plugin\n"
"      --help, --version");
}

static int
usage_error (const char *fmt, const char *arg)
{
  host_log (HOST_LOG_ERROR, fmt, arg);
  host_log (HOST_LOG_ERROR, "try btrnbdd --help");
  return EXIT_USAGE;
}

static int
add (const char **list, unsigned *n, const char *value)
{
  if (*n == OPTION_LIST_MAX)
    return usage_error ("too many of one option (at %s)", value);
  list[(*n)++] = value;
  return -1;
}

/* A number in [MIN, MAX]. */
static int
number (const char *what, const char *arg, unsigned min, unsigned max,
        unsigned *ret)
{
  unsigned n;

  if (nbdkit_parse_unsigned (what, arg, &n) == -1)
    return EXIT_USAGE;
  if (n < min || n > max)
    return usage_error ("%s is out of range", what);
  *ret = n;
  return -1;
}

static int
parse_tls (struct options *o, const char *arg)
{
  if (strcmp (arg, "off") == 0)
    o->tls_policy = HS_TLS_OFF;
  else if (strcmp (arg, "on") == 0)
    o->tls_policy = HS_TLS_ON;
  else if (strcmp (arg, "require") == 0)
    o->tls_policy = HS_TLS_REQUIRE;
  else
    return usage_error ("--tls=%s: must be off, on or require", arg);
  return -1;
}

static int
parse_memory (struct options *o, const char *arg)
{
  const int64_t n = nbdkit_parse_size (arg);

  if (n == -1)
    return EXIT_USAGE;
  if (n < 2 * (int64_t) NBD_MAX_PAYLOAD)
    return usage_error ("--max-memory=%s: at least 128M are needed", arg);
  o->limits.total_bytes = n;
  return -1;
}

static int
parse_limit (struct options *o, int c, const char *arg)
{
  struct limits *l = &o->limits;

  switch (c) {
  case OPT_MAX_CONNECTIONS:
    return number ("--max-connections", arg, 1, 65536, &l->connections);
  case OPT_MAX_REQUESTS:
    return number ("--max-requests", arg, 1, 65536, &l->conn_requests);
  case OPT_MAX_MEMORY:
    return parse_memory (o, arg);
  case OPT_HANDSHAKE:
    return number ("--handshake-timeout", arg, 1, 3600,
                   &l->handshake_seconds);
  case OPT_IDLE:
    return number ("--idle-timeout", arg, 0, 86400 * 365, &l->idle_seconds);
  case OPT_DRAIN:
    return number ("--drain-timeout", arg, 0, 3600, &l->drain_seconds);
  case OPT_LOOPS:
    return number ("--loops", arg, 1, 256, &o->loops);
  case OPT_WORKERS:
    return number ("--workers", arg, 1, 1024, &o->workers);
  default:
    return EXIT_USAGE; /* getopt has printed why */
  }
}

static int
parse_one (struct options *o, int c, const char *arg)
{
  switch (c) {
  case 'd':
    return add (o->devices, &o->ndevices, arg);
  case 'l':
    return add (o->listen, &o->nlisten, arg);
  case 'D':
    return add (o->debug, &o->ndebug, arg);
  case 'r':
    o->read_only = true;
    return -1;
  case 'v':
    o->verbose = true;
    return -1;
  case OPT_PLUGIN:
    o->plugin = arg;
    return -1;
  case OPT_PLUGIN_DIR:
    o->plugin_dir = arg;
    return -1;
  case OPT_TLS:
    return parse_tls (o, arg);
  case OPT_TLS_CERTIFICATES:
    o->tls.certificates = arg;
    return -1;
  case OPT_TLS_PSK:
    o->tls.psk_file = arg;
    return -1;
  case OPT_TLS_VERIFY:
    o->tls.verify_peer = true;
    return -1;
  case OPT_PIDFILE:
    o->pidfile = arg;
    return -1;
  case OPT_HELP:
    print_help ();
    return EXIT_SUCCESS;
  case OPT_VERSION:
    puts ("btrnbdd " PACKAGE_VERSION);
    return EXIT_SUCCESS;
  default:
    return parse_limit (o, c, arg);
  }
}

static int
check (struct options *o)
{
  if ((o->ndevices > 0) == (o->plugin != NULL))
    return usage_error ("give the devices of a pool (-d) or a plugin%s", "");
  if (o->tls_policy != HS_TLS_OFF && !o->tls.certificates &&
      !o->tls.psk_file)
    return usage_error ("--tls needs --tls-certificates or --tls-psk%s", "");
  if (o->tls_policy == HS_TLS_OFF &&
      (o->tls.certificates || o->tls.psk_file))
    return usage_error ("TLS credentials are given but --tls is off%s", "");
  if (o->tls.verify_peer && !o->tls.certificates)
    return usage_error ("--tls-verify-peer needs --tls-certificates%s", "");
  return -1;
}

int
options_parse (int argc, char **argv, struct options *o)
{
  const long cores = sysconf (_SC_NPROCESSORS_ONLN);
  int c, r;

  *o = (struct options) {
    .plugin_dir = NBDKIT_PLUGINDIR,
    .limits = {
      .conn_requests = 256, .conn_bytes = NBD_MAX_PAYLOAD,
      .total_bytes = 1u << 30, .connections = 1024,
      .handshake_seconds = 15, .drain_seconds = 5,
    },
    .loops = cores > 0 ? cores : 1, .workers = WORKERS_DEFAULT,
  };
  /* "+": what follows the first parameter belongs to the plugin. */
  while ((c = getopt_long (argc, argv, "+d:l:rvD:", long_options, NULL))
         != -1) {
    r = parse_one (o, c, optarg);
    if (r != -1)
      return r;
  }
  o->params = argv + optind;
  return check (o);
}
