/* btrnbd: an optional extension of the nbdkit plugin API v2.
 *
 * A plugin that exports the symbol `btrnbd_plugin_ext_init` offers calls that
 * never wait, so that a host with an event loop may make them on the loop,
 * and methods for the host's control socket.  A host that does not know the
 * symbol, and a plugin that does not have it, work the same, through threads.
 *
 *   const struct btrnbd_plugin_ext *btrnbd_plugin_ext_init (void);
 *
 * The host reads at most `size` bytes of the structure and ignores calls that
 * are NULL, beyond it, or of a later version than `version`.  Versions only
 * add calls at the end:
 *
 *   1  try_pread, try_pwrite
 *   2  control, control_events, export_name, log_to
 *   3  rule_name, handle_name
 */
#ifndef BTRNBD_PLUGIN_EXT_H
#define BTRNBD_PLUGIN_EXT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BTRNBD_PLUGIN_EXT_VERSION 3

enum btrnbd_try_result {
  BTRNBD_TRY_DONE = 0,         /* done, as the blocking call would have */
  BTRNBD_TRY_WOULD_BLOCK = 1,  /* make the blocking call, with the same
                                  arguments: a write may be there in part */
};

struct btrnbd_plugin_ext {
  uint32_t version;            /* BTRNBD_PLUGIN_EXT_VERSION */
  uint32_t size;               /* of this structure as the plugin knows it */

  /* As .pread and .pwrite with the same arguments, but they return at once:
   * no I/O, no lock that somebody may hold across I/O.  Errors are left to
   * the blocking call (WOULD_BLOCK).  May be called at the same time as any
   * callback of the same handle that the thread model allows.
   */
  int (*try_pread) (void *handle, void *buf, uint32_t count, uint64_t offset,
                    uint32_t flags);
  int (*try_pwrite) (void *handle, const void *buf, uint32_t count,
                     uint64_t offset, uint32_t flags);

  /* Version 2.  A method of the control protocol, btrnbd-control(7).  PARAMS
   * is the JSON text of an object; FD is a descriptor that the caller sent
   * along, or -1; it stays the host's.  *CANCEL becomes non-zero when the
   * call should end early.  0: *RET_TEXT is the malloc'd JSON text of the
   * result; otherwise that of a JSON-RPC error object, whose code is returned
   * (-32601: there is no such method).  One line each.  May block; may be
   * called from any thread, several at once, between .after_fork and
   * .cleanup.  The method "rpc.methods" lists all names.
   */
  int (*control) (const char *method, const char *params, int fd,
                  const atomic_bool *cancel, char **ret_text);
  /* EMIT (or NULL: no more) is told events from now on, from any thread: the
   * JSON text of an object with a member "type".  It does not block and may
   * not be called from within this call.
   */
  void (*control_events) (void (*emit) (void *opaque, const char *event),
                          void *opaque);

  /* Rules about exports need one name for each: write to BUF the name under
   * which the plugin lists what a client means by NAME.  May block.  For a
   * name that means nothing, anything that .open refuses.  -1 after
   * nbdkit_error.
   */
  int (*export_name) (const char *name, char *buf, size_t size);

  /* What nobody who calls can be told goes to FN, from any thread: LEVEL 0
   * error, 1 warning, 2 information, 3 debugging; one line.  Called once,
   * before .config.  nbdkit_error would make an error of everything.
   */
  void (*log_to) (void (*fn) (int level, const char *line));

  /* Version 3.  To BUF what NAME, of a rule or of an export, comes to when a
   * rule that is written for a name is looked for: names that could be the
   * same export come to the same text.  -1 after nbdkit_error for one that no
   * export can have.  Does not block; at any time.
   */
  int (*rule_name) (const char *name, char *buf, size_t size);
  /* To BUF what the open export is called now that exports may have got other
   * names: WAS, its name until now, if that leads there still or nothing does.
   * May block.  -1 after nbdkit_error.  Names change only together with events
   * (control_events).
   */
  int (*handle_name) (void *handle, const char *was, char *buf, size_t size);
};

typedef const struct btrnbd_plugin_ext *(*btrnbd_plugin_ext_init_fn) (void);
#define BTRNBD_PLUGIN_EXT_SYMBOL "btrnbd_plugin_ext_init"

#endif /* BTRNBD_PLUGIN_EXT_H */
