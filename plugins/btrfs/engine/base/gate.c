/* base: a gate that can be closed for a moment, see gate.h. */
#include <config.h>

#include <assert.h>

#include "base/gate.h"

void
gate_init (struct gate *g)
{
  *g = (struct gate) { .steps = 0 };
  mutex_init (&g->lock, RANK_GATE);
  cond_init (&g->cond);
}

void
gate_done (struct gate *g)
{
  assert (g->steps + g->batches + g->operations == 0 && !g->closing);
  cond_done (&g->cond);
  mutex_done (&g->lock);
}

void
gate_step_begin (struct gate *g, uint64_t *ret_switches, bool *ret_switched)
{
  SCOPED_LOCK (&g->lock);
  while (g->switching)
    cond_wait (&g->cond, &g->lock);
  ++g->steps;
  *ret_switches = g->switches;
  *ret_switched = g->switched;
}

bool
gate_step_try (struct gate *g)
{
  SCOPED_LOCK (&g->lock);
  if (g->switching)
    return false;
  ++g->steps;
  return true;
}

void
gate_step_end (struct gate *g)
{
  SCOPED_LOCK (&g->lock);
  assert (g->steps > 0);
  if (--g->steps == 0 && g->switching)
    cond_broadcast (&g->cond);
}

void
gate_batch_begin (struct gate *g)
{
  SCOPED_LOCK (&g->lock);
  while (g->closed)
    cond_wait (&g->cond, &g->lock);
  ++g->batches;
}

bool
gate_batch_try (struct gate *g)
{
  SCOPED_LOCK (&g->lock);
  if (g->closed)
    return false;
  ++g->batches;
  return true;
}

void
gate_batch_end (struct gate *g)
{
  SCOPED_LOCK (&g->lock);
  assert (g->batches > 0);
  if (--g->batches == 0 && g->closed)
    cond_broadcast (&g->cond);
}

void
gate_operation_begin (struct gate *g)
{
  SCOPED_LOCK (&g->lock);
  while (g->closing)
    cond_wait (&g->cond, &g->lock);
  ++g->operations;
}

void
gate_operation_end (struct gate *g)
{
  SCOPED_LOCK (&g->lock);
  assert (g->operations > 0);
  if (--g->operations == 0 && g->closing)
    cond_broadcast (&g->cond);
}

void
gate_close_operations (struct gate *g)
{
  SCOPED_LOCK (&g->lock);
  while (g->closing)
    cond_wait (&g->cond, &g->lock);
  g->closing = true;
  while (g->operations > 0)
    cond_wait (&g->cond, &g->lock);
}

void
gate_close_batches (struct gate *g)
{
  SCOPED_LOCK (&g->lock);
  assert (g->closing && g->operations == 0);
  __atomic_store_n (&g->closed, true, __ATOMIC_RELAXED);
  while (g->batches > 0)
    cond_wait (&g->cond, &g->lock);
}

void
gate_switch_begin (struct gate *g)
{
  SCOPED_LOCK (&g->lock);
  assert (g->closed && g->batches == 0);
  g->switching = true;
  while (g->steps > 0)
    cond_wait (&g->cond, &g->lock);
}

void
gate_switch_end (struct gate *g)
{
  SCOPED_LOCK (&g->lock);
  assert (g->switching && g->steps == 0);
  g->switching = false;
  /* In this order: who peeks and sees the new count must know that the gate
   * is closed behind it.
   */
  __atomic_store_n (&g->switched, true, __ATOMIC_RELEASE);
  __atomic_store_n (&g->switches, g->switches + 1, __ATOMIC_RELEASE);
  cond_broadcast (&g->cond);
}

void
gate_open (struct gate *g)
{
  SCOPED_LOCK (&g->lock);
  assert (g->closing && !g->switching);
  g->closing = false;
  __atomic_store_n (&g->closed, false, __ATOMIC_RELAXED);
  __atomic_store_n (&g->switched, false, __ATOMIC_RELEASE);
  cond_broadcast (&g->cond);
}
