/* The nbdkit plugin: what its files share. */
#ifndef BTRNBD_PLUGIN_H
#define BTRNBD_PLUGIN_H

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include <btrnbd/engine.h>

/* --- config.c --- */

struct plugin_config {
  char **devices;              /* absolute paths or URIs, owned */
  size_t num_devices;
  struct btrnbd_open_opts opts;
};
extern struct plugin_config plugin_config;
#define PLUGIN_CONFIG_HELP                                              \
  "[device=]PATH         (required) Raw disk, image file or NBD URI.\n" \
  "                      Repeat it for each device of the pool.\n"      \
  "readonly=BOOL         Write nothing (default false).\n"              \
  "cache-size=SIZE       Memory for cached data (default 256M).\n"      \
  "log=replay|ignore     Ignore: serve the last commit, read-only.\n"    \
  "commit-interval=SECS  Commit at least this often (default 30).\n"    \
  "discard=BOOL          Discard what became free (default false).\n"   \
  "super-copy=N          Recovery: open from superblock copy 1 or 2.\n"    \
  "workers=N             Threads of the engine (default one per core)."

extern int plugin_config_set (const char *key, const char *value);
extern int plugin_config_complete (void);
extern void plugin_config_free (void);
extern void plugin_dump (void);

/* --- plugin.c --- */

extern struct btrnbd_pool *plugin_pool;
/* Export handles that are open now. */
extern unsigned plugin_open_handles (void);

/* The file behind the host's handle. */
extern struct btrnbd_file *plugin_handle_file (void *handle);

/* Log what failed and set errno to what an NBD client may see; returns -1. */
extern int plugin_fail (int code, const char *what)
  __attribute__ ((cold));

/* --- exports.c --- */

extern int plugin_list_exports (int readonly, int is_tls,
                                struct nbdkit_exports *);
extern const char *plugin_default_export (int readonly, int is_tls);

/* --- shutdown.c --- */

/* When the plugin is loaded, before it opens anything. */
extern void shutdown_load (void);
/* Take over SIGTERM, SIGINT, SIGQUIT and SIGHUP; start the thread that drains
 * the server when one of the first three arrives.
 */
extern int shutdown_start (void);
/* End that thread.  Harmless when it was never started. */
extern void shutdown_stop (void);
/* No new client is wanted. */
extern bool shutdown_draining (void);

#endif /* BTRNBD_PLUGIN_H */
