/* host: one nbdkit plugin, loaded.
 *
 * Life: plugin_load, plugin_config.., plugin_ready, (sockets bound, fork),
 * plugin_after_fork, serving, plugin_cleanup, plugin_unload.  All of these run
 * in the main thread; handle_* run in any thread, one at a time per handle
 * and per plugin as the thread model says (the daemon's pool sees to that).
 */
#ifndef BTRNBDD_HOST_PLUGIN_H
#define BTRNBDD_HOST_PLUGIN_H

#include "host/context.h"
#include "host/lists.h"
#include "host/nbdkit.h"
#include "nbd/handshake.h"
#include <btrnbd/plugin-ext.h>

struct plugin {
  /* Constant after plugin_ready. */
  char *path;
  void *dl;
  struct nbdkit_plugin p;      /* fields beyond the plugin's own are zero */
  struct btrnbd_plugin_ext ext; /* calls that it lacks are NULL */
  int thread_model;
  bool read_only;              /* the host serves nothing writable */
  bool configured_one;         /* a key=value was given */
};

/* NAME is a short name ("memory", found in the first of DIRS, separated by
 * colons, that has it) or a path.  On error a message has been printed.
 */
extern int plugin_load (struct plugin *, const char *name, const char *dirs);
/* "key=value" or a bare word for the magic key.  The text must live as long as
 * the plugin.  -1: RET_CALL->text is the reason.
 */
extern int plugin_config (struct plugin *, const char *arg,
                          struct host_call *ret_call);
/* "-D NAME.FLAG=N": true when the flag belongs to this plugin and was set. */
extern bool plugin_debug_flag (struct plugin *, const char *arg);
extern int plugin_ready (struct plugin *);
extern int plugin_after_fork (struct plugin *);
extern void plugin_cleanup (struct plugin *);
extern void plugin_unload (struct plugin *);

/* Exports as the plugin lists them. */
extern int plugin_list (struct plugin *, struct host_context *,
                        struct nbdkit_exports *);
extern int plugin_preconnect (struct plugin *, struct host_context *);

/* One open export. */
struct handle {
  struct plugin *plugin;
  void *h;                     /* the plugin's */
  uint64_t size;
  uint16_t tx_flags;           /* NBD_TX_* */
  bool read_only;
  bool can_write, can_flush, can_trim, can_zero, can_extents;
  int can_fua, can_cache;      /* NBDKIT_FUA_*, NBDKIT_CACHE_* */
  bool can_fast_zero;
  uint32_t block_min, block_preferred, block_max;
  char *name;                  /* canonical (default export resolved), as it
                                  was opened */
  char *description;           /* or NULL */
};

/* The one name of the export that CONTEXT asks for, malloc'd: the default
 * export resolved, other ways to say a name reduced to that of the list.  -1:
 * *ret_error is a malloc'd reason (or NULL).
 */
extern int handle_name (struct plugin *, struct host_context *,
                        char **ret_name, char **ret_error);
/* Open NAME, which becomes the handle's or is freed, and ask it for everything
 * that negotiation needs.  -1: as above.
 */
extern int handle_open (struct plugin *, struct host_context *, char *name,
                        bool read_only, struct handle **ret,
                        char **ret_error);
/* What it is called now that exports may have got other names, malloc'd; WAS
 * is its name until now.  NULL: that cannot be told.
 */
extern char *handle_current_name (struct handle *, struct host_context *,
                                  const char *was);
extern void handle_close (struct handle *, struct host_context *);
extern void handle_describe (const struct handle *,
                             struct handshake_export *);

/* The operations return 0 or an errno; CALL carries the text. */
extern int handle_pread (struct handle *, struct host_call *, void *buf,
                         uint32_t count, uint64_t offset);
extern int handle_pwrite (struct handle *, struct host_call *,
                          const void *buf, uint32_t count, uint64_t offset,
                          bool fua);
extern int handle_flush (struct handle *, struct host_call *);
extern int handle_trim (struct handle *, struct host_call *, uint64_t count,
                        uint64_t offset, bool fua);
extern int handle_zero (struct handle *, struct host_call *, uint64_t count,
                        uint64_t offset, bool may_trim, bool fast, bool fua);
extern int handle_cache (struct handle *, struct host_call *, uint64_t count,
                         uint64_t offset);
extern int handle_extents (struct handle *, struct host_call *,
                           uint64_t count, uint64_t offset, bool one,
                           struct nbdkit_extents *);
/* On the event loop: true when done. */
extern bool handle_try_pread (struct handle *, void *buf, uint32_t count,
                              uint64_t offset);
extern bool handle_try_pwrite (struct handle *, const void *buf,
                               uint32_t count, uint64_t offset, bool fua);

/* nbdkit_shutdown: set once; the daemon registers how it is woken.  WAIT
 * sleeps and returns true when shutdown came first.
 */
extern void host_shutdown_notify (void (*fn) (void *), void *opaque);
extern void host_shutdown_request (void);
extern bool host_shutdown_wait (unsigned sec, unsigned nsec);
extern void host_symbols_done (void);

#endif /* BTRNBDD_HOST_PLUGIN_H */
