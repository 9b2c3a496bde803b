/* A random load: what its files share. */
#ifndef BTRNBD_TESTS_CRASH_LOAD_PRIV_H
#define BTRNBD_TESTS_CRASH_LOAD_PRIV_H

#include "crash/load.h"

struct worker {
  struct load *l;
  uint64_t rng;
  unsigned file;               /* id, of a thread that writes */
  char path[40];
  uint8_t *buf;                /* WRITE_MAX bytes */
  bool failed;
};

/* A random number below N. */
extern uint64_t below (struct worker *, uint64_t n);
/* The end of operation SEQ (0: none) with R; true when it was a success. */
extern bool check (struct worker *, uint32_t seq, int r, const char *what,
                   const char *path);

#define ANY_ROOT 0
enum { FILES = 1 << JFILE, DIRS = 1 << JDIR, SYMLINKS = 1 << JSYMLINK };
/* A name of one of these kinds that nobody else works with, or NULL. */
extern const struct jname *any_of (struct worker *, unsigned kinds,
                                   uint64_t root_id);

/* Steps of the main thread: load_more.c. */
extern void load_attr (struct worker *);
extern void load_reflink (struct worker *);

#endif /* BTRNBD_TESTS_CRASH_LOAD_PRIV_H */
