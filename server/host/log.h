/* host: messages to the operator, with journald priorities. */
#ifndef BTRNBDD_HOST_LOG_H
#define BTRNBDD_HOST_LOG_H

#include <stdarg.h>
#include <stdbool.h>

enum host_log_level { HOST_LOG_ERROR, HOST_LOG_WARNING, HOST_LOG_INFO,
                      HOST_LOG_DEBUG };

/* PRIORITIES: prefix lines with "<N>" (stderr is the journal).  VERBOSE lets
 * debug lines through.  Called once before threads start.
 */
extern void host_log_setup (bool priorities, bool verbose);
extern void host_log_set_verbose (bool);
extern bool host_log_verbose (void);
extern void host_log (enum host_log_level, const char *fmt, ...)
  __attribute__ ((format (printf, 2, 3)));
extern void host_vlog (enum host_log_level, const char *fmt, va_list)
  __attribute__ ((format (printf, 2, 0)));

#endif /* BTRNBDD_HOST_LOG_H */
