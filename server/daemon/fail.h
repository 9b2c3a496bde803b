/* daemon: errors as texts that their caller decides what to do with: print
 * them at the start, hand them to whoever asked for a reload.
 */
#ifndef BTRNBDD_DAEMON_FAIL_H
#define BTRNBDD_DAEMON_FAIL_H

/* *RET_ERROR becomes a malloc'd text (NULL: no memory for one), in place of
 * an older one.  Always -1.
 */
extern int fail (char **ret_error, const char *fmt, ...)
  __attribute__ ((format (printf, 2, 3)));
/* Put a prefix before the text; always -1. */
extern int fail_note (char **ret_error, const char *fmt, ...)
  __attribute__ ((format (printf, 2, 3)));
/* Log the text and free it. */
extern void fail_log (char **error);

#endif /* BTRNBDD_DAEMON_FAIL_H */
