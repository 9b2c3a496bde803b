/* daemon: what the command line and the configuration file say.
 *
 * A setting has one name in both: --idle-timeout 60, and idle-timeout = 60 in
 * the section [server].  The command line wins; lists (listen, debug) are
 * put together.
 */
#ifndef BTRNBDD_DAEMON_OPTIONS_H
#define BTRNBDD_DAEMON_OPTIONS_H

#include "daemon/server.h"
#include "daemon/tls.h"

#define OPTION_LIST_MAX 1024

struct option_list {
  const char **v;
  size_t count;
};

/* A parameter of the plugin, "key=value" or a word; where it stands for
 * messages, "" for the command line.
 */
struct option_param {
  const char *text, *where;
};

/* All strings belong to `strings`. */
struct options {
  struct host_strings strings;
  const char *config;          /* the file, or NULL */
  const char *plugin;          /* short name or path; NULL: a pool */
  const char *plugin_dirs;     /* separated by colons */
  const char *pool;            /* its name in the file, or NULL */
  struct option_list listen, devices, debug;
  struct option_param *params; /* in order: file, then command line */
  size_t nparams;
  struct tls_options tls;
  enum handshake_tls_policy tls_policy;
  struct limits limits;
  unsigned loops, workers;
  const char *pidfile;
  const char *control;         /* path, "off", or NULL: the default */
  const char *metrics;         /* HOST:PORT, "off" or NULL: none */
  bool read_only, verbose, check_only;
  struct rules *rules;         /* owned */
};

/* Read both.  -1: go on; otherwise the exit status (0 after --help, 1 for a
 * bad file, 2 for wrong usage), with *RET_ERROR a text unless it is 0 or
 * getopt has said it.  RET needs options_done in any case.
 */
extern int options_read (int argc, char **argv, struct options *ret,
                         char **ret_error);
extern void options_done (struct options *);

/* --- settings.c --- */

struct option;
/* For getopt_long: val is SETTING_FIRST plus the setting's index, or its
 * letter.
 */
#define SETTING_FIRST 1000
extern const struct option *settings_getopt (void);
extern const char *settings_letters (void);
extern int settings_count (void);

/* The setting of getopt's VAL, or of a NAME; -1: none. */
extern int setting_by_val (int val);
extern int setting_by_name (const char *name);
extern const char *setting_name (int index);
extern bool setting_in_file (int index);  /* may stand in [server] */
extern bool setting_is_list (int index);
/* VALUE NULL: a switch without an argument.  -1 with a sentence. */
extern int setting_set (struct options *, int index, const char *value,
                        char **ret_error);
/* A copy that lives as long as the options; NULL: no memory. */
extern const char *options_strdup (struct options *, const char *);
extern int options_add_param (struct options *, const char *text,
                              const char *where, char **ret_error);

/* --- config.c --- */

/* Read a file into the options, whole or not at all useful: after -1 with
 * "FILE:LINE: ..." in *RET_ERROR they can only be freed.
 */
extern int config_read (struct options *, const char *path,
                        char **ret_error);

#endif /* BTRNBDD_DAEMON_OPTIONS_H */
