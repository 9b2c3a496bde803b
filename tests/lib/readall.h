/* Read everything that a pool offers, for tests with damaged pools. */
#ifndef BTRNBD_TESTS_LIB_READALL_H
#define BTRNBD_TESTS_LIB_READALL_H

#include <btrnbd/engine.h>

/* Information, names, attributes, contents, exports, and all trees.  Goes on
 * after an error; returns the first one, whose text is in WHAT.  Bounded in
 * work whatever the pool says.
 */
#define READALL_TEXT 1024
extern int readall (struct btrnbd_pool *, char what[READALL_TEXT]);

#endif /* BTRNBD_TESTS_LIB_READALL_H */
