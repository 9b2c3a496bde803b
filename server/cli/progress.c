/* cli: a line on the terminal that tells how far a copy is. */
#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

#define INTERVAL_NS UINT64_C (200000000)

static uint64_t
now_ns (void)
{
  struct timespec ts;

  clock_gettime (CLOCK_MONOTONIC, &ts);
  return (uint64_t) ts.tv_sec * 1000000000 + ts.tv_nsec;
}

void
cli_progress_start (struct cli_progress *p, const char *what, uint64_t total)
{
  *p = (struct cli_progress) {
    .what = what,
    .total = total,
    .start_ns = now_ns (),
    .on = isatty (STDERR_FILENO),
  };
}

static void
draw (struct cli_progress *p, uint64_t now)
{
  const double seconds = (now - p->start_ns) / 1e9;
  char done[CLI_SIZE_MAX], total[CLI_SIZE_MAX], rate[CLI_SIZE_MAX];
  int width;

  cli_size (p->done, done);
  cli_size (seconds > 0 ? p->done / seconds : 0, rate);
  if (p->total > 0)
    width = fprintf (stderr, "\r%s  %3u %%  %s of %s  %s/s", p->what,
                     (unsigned) (100.0 * p->done / p->total), done,
                     cli_size (p->total, total), rate);
  else
    width = fprintf (stderr, "\r%s  %s  %s/s", p->what, done, rate);
  /* Cover what is left of a longer line. */
  if (width < p->width)
    fprintf (stderr, "%*s", p->width - width, "");
  p->width = width;
  fflush (stderr);
}

void
cli_progress_add (struct cli_progress *p, uint64_t bytes)
{
  uint64_t now;

  p->done += bytes;
  if (!p->on)
    return;
  now = now_ns ();
  if (now - p->last_ns < INTERVAL_NS)
    return;
  p->last_ns = now;
  draw (p, now);
}

void
cli_progress_end (struct cli_progress *p)
{
  if (!p->on)
    return;
  draw (p, now_ns ());
  putc ('\n', stderr);
}
