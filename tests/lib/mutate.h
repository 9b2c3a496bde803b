/* Named damages to an image: one field of one structure, checksums made good
 * again.  The form of a line is in tests/corrupt/mutations.
 */
#ifndef BTRNBD_TESTS_LIB_MUTATE_H
#define BTRNBD_TESTS_LIB_MUTATE_H

#include "lib/rawimg.h"

struct mutation {
  char name[64];
  char place[32];               /* super, sys, or a tree */
  char key[64];
  char field[64];
  char value[40];
  char flags[32];
  char expect[32];              /* of the checker, by rawimg_walk_all */
  char engine[64];              /* of the engine: names, "/" between */
};

/* What was there before, to put it back, and what was touched. */
#define MUTATE_MAX_TOUCHED 4
struct mutate_undo {
  unsigned n;
  struct {
    uint8_t *at;
    uint32_t len;
    uint8_t *old;
  } touched[MUTATE_MAX_TOUCHED];
};

/* Parse a line; false: empty or a comment.  Exits on a bad line. */
extern bool mutation_parse (char *line, struct mutation *ret);
/* IMG is loaded.  0, or -1 with a message. */
extern int mutation_apply (const struct rawimg *, const struct mutation *,
                           struct mutate_undo *);
extern void mutation_undo (struct mutate_undo *);

#endif /* BTRNBD_TESTS_LIB_MUTATE_H */
