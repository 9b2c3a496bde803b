/* base: messages to the operator.
 *
 * Rooms return errors; they log only what no caller can be told: a repaired
 * mirror, a background failure, the switch to read-only.  The host sets the
 * sink once before threads start.
 */
#ifndef BTRNBD_BASE_LOG_H
#define BTRNBD_BASE_LOG_H

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO,
                 LOG_LEVEL_DEBUG };

typedef void (*log_sink_fn) (void *opaque, enum log_level, const char *line);

/* NULL restores the default (stderr, warnings and errors).  MAX is the most
 * verbose level that is formatted at all.
 */
extern void log_set_sink (log_sink_fn, void *opaque, enum log_level max);
extern void log_msg (enum log_level, const char *fmt, ...)
  __attribute__ ((format (printf, 2, 3)));

#define log_error(...) log_msg (LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_msg (LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...) log_msg (LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_msg (LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif /* BTRNBD_BASE_LOG_H */
