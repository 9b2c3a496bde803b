/* base: messages to the operator. */
#include <config.h>

#include <stdarg.h>
#include <stdio.h>

#include "base/log.h"

static log_sink_fn sink;
static void *sink_opaque;
static enum log_level sink_max = LOG_LEVEL_WARNING;

void
log_set_sink (log_sink_fn fn, void *opaque, enum log_level max)
{
  sink = fn;
  sink_opaque = opaque;
  sink_max = fn == NULL ? LOG_LEVEL_WARNING : max;
}

void
log_msg (enum log_level level, const char *fmt, ...)
{
  char line[1024];
  va_list ap;

  if (level > sink_max)
    return;
  va_start (ap, fmt);
  vsnprintf (line, sizeof line, fmt, ap);
  va_end (ap);
  if (sink != NULL)
    sink (sink_opaque, level, line);
  else
    fprintf (stderr, "btrnbd: %s%s\n",
             level == LOG_LEVEL_ERROR ? "error: " : "warning: ", line);
}
