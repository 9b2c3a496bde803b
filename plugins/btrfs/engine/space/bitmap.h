/* space: a map of free sectors (bit set: free); no locking. */
#ifndef BTRNBD_SPACE_BITMAP_H
#define BTRNBD_SPACE_BITMAP_H

#include <stdbool.h>
#include <stdint.h>

struct free_map {
  uint64_t *words;             /* NULL: all bits are equal to `all` */
  bool all;
  uint64_t nbits;
  uint64_t nset;
  uint64_t max_run;            /* no run is longer than this */
};

extern void free_map_init (struct free_map *, uint64_t nbits, bool all);
extern void free_map_done (struct free_map *);
/* Set or clear LEN bits; -ERR_nomem, else *ret_changed (may be NULL) bits
 * were different.
 */
extern int free_map_set (struct free_map *, uint64_t start, uint64_t len,
                         bool value, uint64_t *ret_changed);
extern bool free_map_test (const struct free_map *, uint64_t bit);
/* The run of VALUE that begins at or behind FROM; false: none. */
extern bool free_map_next_run (const struct free_map *, uint64_t from,
                               bool value, uint64_t *ret_start,
                               uint64_t *ret_len);
/* WANT free bits, searched from FROM on, then from the start.  Shorter runs
 * of at least MIN are taken when there is nothing better.  ALIGN (a power of
 * two) with PHASE: (start + PHASE) is a multiple of it.
 */
struct free_want {
  uint64_t min, want, from, align, phase;
};
extern bool free_map_find (struct free_map *, const struct free_want *,
                           uint64_t *ret_start, uint64_t *ret_len);

#endif /* BTRNBD_SPACE_BITMAP_H */
