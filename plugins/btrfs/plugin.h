/* The nbdkit plugin: what its files share. */
#ifndef BTRNBD_PLUGIN_H
#define BTRNBD_PLUGIN_H

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include <stdatomic.h>

#include <btrnbd/engine.h>

/* --- config.c --- */

struct plugin_config {
  char **devices;              /* absolute paths or URIs, owned */
  size_t num_devices;
  struct btrnbd_open_opts opts;
  bool write_through;          /* as if every change had FUA */
  char *control;               /* absolute path of our own socket, or NULL */
};
extern struct plugin_config plugin_config;
#define PLUGIN_CONFIG_HELP                                              \
  "[device=]PATH         (required) Raw disk, image file or NBD URI.\n" \
  "                      Repeat it for each device of the pool.\n"      \
  "readonly=BOOL         Write nothing (default false).\n"              \
  "cache-size=SIZE       Memory for cached data (default 256M).\n"      \
  "log=replay|ignore     Ignore: serve the last commit, read-only.\n"    \
  "control=PATH          Make a control socket there (see btrnbd-control).\n"\
  "commit-interval=SECS  Commit at least this often (default 30).\n"    \
  "discard=BOOL          Discard what became free (default false).\n"   \
  "write-through=BOOL    What is answered is durable (default false).\n"  \
  "image-reserve=SIZE    Most space that @pool may hold (default a tenth).\n" \
  "regroup=BOOL          Give back dead space at rest (default true).\n"  \
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

/* As `log_to` of <btrnbd/plugin-ext.h>. */
extern void plugin_log_to (void (*fn) (int level, const char *line));

/* The file behind the host's handle. */
extern struct btrnbd_file *plugin_handle_file (void *handle);

/* Log what failed and set errno to what an NBD client may see; returns -1. */
extern int plugin_fail (int code, const char *what)
  __attribute__ ((cold));

/* --- exports.c --- */

extern int plugin_list_exports (int readonly, int is_tls,
                                struct nbdkit_exports *);
extern const char *plugin_default_export (int readonly, int is_tls);

/* --- socket.c: the control methods --- */

/* As `control` and `control_events` of <btrnbd/plugin-ext.h>. */
extern int plugin_control_call (const char *method, const char *params,
                                int fd, const atomic_bool *cancel,
                                char **ret_text);
extern void plugin_control_events (void (*fn) (void *opaque,
                                               const char *event),
                                   void *opaque);
/* The socket that the parameter control= asks for, if any: before the fork,
 * after it with the pool open, and before the pool is closed.
 */
extern int plugin_control_listen (void);
extern int plugin_control_start (void);
extern void plugin_control_stop (void);
extern bool plugin_control_is_listener (int fd);
/* As `image_ended` of struct btrnbd_open_opts. */
extern void plugin_control_image_ended (void *opaque, uint64_t generation,
                                        const char *why);
/* On our own socket: an export was opened or closed. */
extern void plugin_control_export (const char *type, const char *name);

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
