/* daemon: what the configuration says of exports, and the live state of those
 * that clients have open.
 *
 * A rule set is made once and never changes; a reload puts another in its
 * place.  The settings of an export come from the section with its name, then
 * from the sections whose pattern (a prefix and *) matches, the longest
 * first: each setting from the first that has it.
 */
#ifndef BTRNBDD_DAEMON_EXPORTS_H
#define BTRNBDD_DAEMON_EXPORTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "daemon/throttle.h"

struct host_context;
struct ini_section;
struct plugin;
struct access;
struct server;

struct rules;

struct export_settings {
  const struct access *allow;  /* NULL: everybody */
  bool read_only, write_through;
  unsigned max_connections;    /* 0: no limit */
  double iops, bandwidth;      /* per second, 0: no limit; bytes */
};

/* --- rules.c --- */

extern struct rules *rules_new (void); /* lets everybody do everything */
/* Take over an [export NAME] section of PATH.  -1 with a text. */
extern int rules_add (struct rules *, const struct ini_section *,
                      const char *path, char **ret_error);
/* When all are there, before they are asked: names are compared as the plugin
 * says (rule_name).  SERVING: and it can be asked what its exports are.  -1
 * with a text: a name that no export can have, or two sections for one.
 */
extern int rules_settle (struct rules *, const struct plugin *, bool serving,
                         const char *path, char **ret_error);
extern unsigned rules_wants (const struct rules *); /* ACCESS_WANTS_* */
extern struct rules *rules_ref (struct rules *);
extern void rules_unref (struct rules *); /* accepts NULL */
/* The I-th section for one export; NULL: there are not so many. */
extern const char *rules_name (const struct rules *, size_t i);
/* The result points into the rule set. */
extern struct export_settings rules_find (const struct rules *,
                                          const char *name);
/* May this peer open export NAME?  One that begins with "@" shows what all
 * others hold (a pool's image of itself): without a rule of its own it is for
 * who may open all of them.  A snapshot shows what its volume held: without a
 * rule of its own it is for who may open that, too.
 */
extern bool rules_let_in (const struct rules *, const char *name,
                          const struct host_context *);
/* Nothing is hidden from this peer. */
extern bool rules_hide_nothing (const struct rules *,
                                const struct host_context *);

/* --- exports.c --- */

/* An export that clients use.  Its name and address are constant. */
struct export {
  LIST_ENTRY (export) link;    /* as the two below: exports' lock */
  unsigned connections;
  unsigned max_connections;
  atomic_bool read_only, write_through;
  struct throttle throttle;
  char name[];
};

struct exports {
  pthread_mutex_t lock;        /* protects all below; taken before a
                                  throttle's */
  struct rules *rules;
  LIST_HEAD (, export) open;
};

extern void exports_init (struct exports *, struct rules *); /* takes them */
extern void exports_done (struct exports *);
/* The rules in force, referenced. */
extern struct rules *exports_rules (struct exports *);
/* New rules take effect on open exports too; the reference becomes theirs. */
extern void exports_set_rules (struct exports *, struct rules *);

/* A connection more on the export, referenced.  NULL: too many, or no memory
 * (*RET_ERROR is a malloc'd text).
 */
extern struct export *exports_enter (struct exports *, const char *name,
                                     char **ret_error);
/* For a connection that is there, whose export has got this name: no limit
 * holds.  NULL: no memory.
 */
extern struct export *exports_enter_renamed (struct exports *,
                                             const char *name);
extern void exports_leave (struct exports *, struct export *);

#endif /* BTRNBDD_DAEMON_EXPORTS_H */
