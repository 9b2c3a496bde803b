/* base: a gate that can be closed for a moment.
 *
 * What passes a gate comes in three kinds, by what it may wait for:
 *
 *   steps     short, wait for no step, batch or operation;
 *   batches   wait for none of these either, but take longer;
 *   operations  may begin steps and wait for batches.
 *
 * Whoever closes the gate (one at a time) lets operations end, then batches;
 * steps go on until the switch, which is a moment without any: what was done
 * by steps before it can be told from what is done after it.  Operations and
 * batches wait until the gate is opened again.  Several gates are closed in
 * an order of the caller's, kind by kind, and switched all at once.
 */
#ifndef BTRNBD_BASE_GATE_H
#define BTRNBD_BASE_GATE_H

#include <stdint.h>

#include "base/lock.h"

struct gate {
  struct mutex lock;           /* RANK_GATE; protects all below */
  struct cond cond;
  unsigned steps, batches, operations;
  bool closing;                /* operations wait */
  bool closed;                 /* batches wait (atomic) */
  bool switching;              /* steps wait */
  bool switched;               /* closed, and the switch is done (atomic) */
  uint64_t switches;           /* so far (atomic) */
};

extern void gate_init (struct gate *);
extern void gate_done (struct gate *);

/* *ret_switched: between the switch and the opening. */
extern void gate_step_begin (struct gate *, uint64_t *ret_switches,
                             bool *ret_switched);
/* False instead of waiting. */
extern bool gate_step_try (struct gate *);
extern void gate_step_end (struct gate *);
extern void gate_batch_begin (struct gate *);
/* False instead of waiting. */
extern bool gate_batch_try (struct gate *);
extern void gate_batch_end (struct gate *);
extern void gate_operation_begin (struct gate *);
extern void gate_operation_end (struct gate *);

static inline bool
gate_is_closed (const struct gate *g)
{
  return __atomic_load_n (&g->closed, __ATOMIC_RELAXED);
}
/* As gate_step_begin tells, for a first guess. */
static inline void
gate_peek (const struct gate *g, uint64_t *ret_switches, bool *ret_switched)
{
  *ret_switches = __atomic_load_n (&g->switches, __ATOMIC_ACQUIRE);
  *ret_switched = __atomic_load_n (&g->switched, __ATOMIC_ACQUIRE);
}

/* In this order, each for all gates; the last one also undoes the first. */
extern void gate_close_operations (struct gate *);
extern void gate_close_batches (struct gate *);
extern void gate_switch_begin (struct gate *);
extern void gate_switch_end (struct gate *);
extern void gate_open (struct gate *);

#endif /* BTRNBD_BASE_GATE_H */
