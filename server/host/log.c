/* host: messages.  One write per line, so lines of threads do not mix. */
#include <config.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "host/log.h"

#define LINE_MAX_BYTES 2048

static bool log_priorities;     /* constant once threads run */
static atomic_bool log_verbose;

void
host_log_setup (bool priorities, bool verbose)
{
  log_priorities = priorities;
  log_verbose = verbose;
}

void
host_log_set_verbose (bool verbose)
{
  log_verbose = verbose;
}

bool
host_log_verbose (void)
{
  return log_verbose;
}

void
host_vlog (enum host_log_level level, const char *fmt, va_list args)
{
  static const char *const priority[] = { "<3>", "<4>", "<6>", "<7>" };
  static const char *const word[] = { "error: ", "warning: ", "", "debug: " };
  const int saved_errno = errno;
  char line[LINE_MAX_BYTES];
  size_t len;
  int n;
  char *p;

  if (level == HOST_LOG_DEBUG && !log_verbose)
    return;
  len = snprintf (line, sizeof line, "%sbtrnbdd: %s",
                  log_priorities ? priority[level] : "", word[level]);
  errno = saved_errno; /* for %m */
  n = vsnprintf (line + len, sizeof line - len - 1, fmt, args);
  if (n > 0)
    len = len + n < sizeof line - 1 ? len + n : sizeof line - 2;
  /* One message is one line, whatever a client put into a name. */
  for (p = line; p < line + len; ++p)
    if ((unsigned char) *p < ' ')
      *p = ' ';
  line[len++] = '\n';
  (void) !write (STDERR_FILENO, line, len);
  errno = saved_errno;
}

void
host_log (enum host_log_level level, const char *fmt, ...)
{
  va_list args;

  va_start (args, fmt);
  host_vlog (level, fmt, args);
  va_end (args);
}
