/* io: a device that fails on purpose, for tests. */
#ifndef BTRNBD_IO_FAULT_H
#define BTRNBD_IO_FAULT_H

#include "io/device.h"

/* Wraps INNER, which it owns from then on (also closes it). */
extern int fault_new (struct device *inner, struct device **ret);

enum fault_mode {
  FAULT_OFF,
  FAULT_ONCE,              /* the N-th operation from now fails */
  FAULT_FROM,              /* the N-th and all after it */
};
/* Operations of KIND are counted from 1, starting now.  A failed operation
 * does not reach the inner device.
 */
extern void fault_arm (struct device *, enum io_kind kind,
                       enum fault_mode mode, uint64_t n);
/* Restrict failures to operations that touch [START, START + LEN); counting
 * too.  LEN 0 lifts the restriction.  Flushes are always inside.
 */
extern void fault_range (struct device *, uint64_t start, uint64_t len);
/* Operations of KIND counted since it was armed (or since fault_new). */
extern uint64_t fault_count (struct device *, enum io_kind kind);
/* Operations of KIND that were made to fail. */
extern uint64_t fault_hits (struct device *, enum io_kind kind);

#endif /* BTRNBD_IO_FAULT_H */
