/* Allocations of the engine that fail on purpose. */
#ifndef BTRNBD_TESTS_FAULT_ALLOC_H
#define BTRNBD_TESTS_FAULT_ALLOC_H

#include <stdbool.h>
#include <stdint.h>

/* From now on the N-th allocation fails, or it and all after it; 0: none. */
extern void alloc_arm (uint64_t n, bool from);
/* Allocations counted, and made to fail, since alloc_arm. */
extern uint64_t alloc_count (void);
extern uint64_t alloc_hits (void);

#endif /* BTRNBD_TESTS_FAULT_ALLOC_H */
