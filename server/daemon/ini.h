/* daemon: files of sections and settings, see btrnbd.conf(5).
 *
 *   # a comment line
 *   [kind name]          or [kind "a name"], or [kind]
 *   key = value          or key = "value"
 */
#ifndef BTRNBDD_DAEMON_INI_H
#define BTRNBDD_DAEMON_INI_H

#include <stdbool.h>
#include <stddef.h>

#define INI_FILE_MAX (1u << 20) /* bytes */

struct ini_entry {
  unsigned line;               /* 1, .. */
  const char *key, *value;     /* both inside the file's text */
};

struct ini_section {
  unsigned line;
  bool named;                  /* [export ""] is, [export] is not */
  const char *kind, *name;     /* name "" when there is none */
  struct ini_entry *entries;
  size_t count;
};

struct ini {
  char *path, *text;           /* owned, as all below */
  struct ini_section *sections;
  size_t count;
};

/* Only the form is checked, and that no section comes twice.  -1 with
 * "FILE:LINE: ..." in *RET_ERROR; RET is then empty.
 */
extern int ini_read (struct ini *ret, const char *path, char **ret_error);
extern void ini_done (struct ini *);

#endif /* BTRNBDD_DAEMON_INI_H */
