/* daemon: errors as texts. */
#include <config.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/fail.h"
#include "host/log.h"

int
fail (char **ret_error, const char *fmt, ...)
{
  va_list args;

  free (*ret_error);
  va_start (args, fmt);
  if (vasprintf (ret_error, fmt, args) == -1)
    *ret_error = NULL;
  va_end (args);
  return -1;
}

int
fail_note (char **ret_error, const char *fmt, ...)
{
  char *prefix = NULL, *text = NULL;
  va_list args;

  va_start (args, fmt);
  if (vasprintf (&prefix, fmt, args) == -1)
    prefix = NULL;
  va_end (args);
  if (prefix && *ret_error &&
      asprintf (&text, "%s%s", prefix, *ret_error) != -1) {
    free (*ret_error);
    *ret_error = text;
  }
  free (prefix);
  return -1;
}

void
fail_log (char **error)
{
  host_log (HOST_LOG_ERROR, "%s", *error ? *error : "out of memory");
  free (*error);
  *error = NULL;
}
