/* daemon: the command line. */
#ifndef BTRNBDD_DAEMON_OPTIONS_H
#define BTRNBDD_DAEMON_OPTIONS_H

#include "daemon/server.h"
#include "daemon/tls.h"

#define OPTION_LIST_MAX 64

struct options {
  const char *plugin;          /* short name or path */
  const char *plugin_dir;
  const char *listen[OPTION_LIST_MAX];
  unsigned nlisten;
  const char *devices[OPTION_LIST_MAX];
  unsigned ndevices;
  const char *debug[OPTION_LIST_MAX];
  unsigned ndebug;
  struct tls_options tls;
  enum handshake_tls_policy tls_policy;
  struct limits limits;
  unsigned loops, workers;
  const char *pidfile;
  bool read_only, verbose;
  char **params;               /* of the plugin, NULL-terminated */
};

/* -1: go on; otherwise the exit status (0 after --help, 2 wrong usage). */
extern int options_parse (int argc, char **argv, struct options *);

#endif /* BTRNBDD_DAEMON_OPTIONS_H */
