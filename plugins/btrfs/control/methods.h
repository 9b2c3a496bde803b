/* control: the pool's methods: one table over <btrnbd/engine.h>.
 *
 * The same table serves the plugin's own socket (stock nbdkit), btrnbdd's
 * (through <btrnbd/plugin-ext.h>) and the CLI on a pool that nobody serves
 * (in its own process).
 *
 * To add a method:
 *   1. write `void control_AREA_VERB (struct control_call *)` in the file of
 *      its area (methods_*.c) and declare it in methods_priv.h;
 *   2. add one line to the table in methods.c: name, function, what it does
 *      to the pool, and the event that tells of its success;
 *   3. describe it in btrnbd-control.pod; a test compares both lists.
 * A method takes its parameters with control_params, calls the engine, and
 * sets a result or calls control_failed.  It may block; several run at once.
 */
#ifndef BTRNBD_CONTROL_METHODS_H
#define BTRNBD_CONTROL_METHODS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include <btrnbd/engine.h>

/* One call of a method. */
struct control_call {
  /* Set by the caller; borrowed. */
  struct btrnbd_pool *pool;
  const char *method;
  json_t *params;              /* an object */
  int fd;                      /* passed along with the call, or -1 */
  bool own_pool;               /* opened for the caller's calls alone */
  const atomic_bool *cancel;   /* give up soon; may be NULL */
  void (*progress) (void *opaque, uint64_t done, uint64_t total);
  void *progress_opaque;       /* progress may be NULL */

  /* Set by the method; released by control_call_done. */
  json_t *result;              /* NULL: null */
  int code;                    /* 0, or an rpc_code */
  char *message;               /* of the error */
  int error;                   /* the engine's code when it is RPC_FAILED */
};

enum control_kind {
  CONTROL_READS,
  CONTROL_WRITES,              /* changes the pool */
};

struct control_method {
  const char *name;            /* "volume.create" */
  void (*run) (struct control_call *);
  enum control_kind kind;
  const char *event;           /* on success, with the parameters; or NULL */
};

/* NULL: there is no such method. */
extern const struct control_method *control_find (const char *name);
/* All names. */
extern json_t *control_names (void);
/* Run it; code, message and result tell the outcome. */
extern void control_run (struct control_call *);
extern void control_call_done (struct control_call *);
/* The event of a successful call, or NULL: {"type":...,"params":...}. */
extern json_t *control_event (const struct control_call *);
/* What the code of an engine means for programs: {"code":...,"errno":...}. */
extern json_t *control_error_data (int error);

#endif /* BTRNBD_CONTROL_METHODS_H */
