/* daemon: when a loop stays awake. */
#include <config.h>

#include "daemon/awake.h"

#define TRY_NS 20000000        /* one phase of a trial: some time slices */
#define KEEP_NS 500000000
#define EVENTS_MIN 100         /* in a phase of a trial; fewer do not pay */
#define GAIN_MIN 1.15          /* by less no CPU is kept awake */
#define FAILED_MAX 8
#define LOST_NS 500000         /* a gap between two looks at the clock */
#define LOST_MAX 3             /* of them, within ... */
#define LOST_WITHIN_NS 100000000

static void
begin_phase (struct awake *x, enum awake_phase phase, bool on, uint64_t now)
{
  x->phase = phase;
  x->on = on;
  x->looking = x->looking && on;
  x->since = now;
  x->events = x->requests = x->failed = 0;
}

/* While it was awake somebody else had its CPU, over and over: CPUs are
 * short.  Once says little: a virtual machine may have been stopped.
 */
static bool
lost_cpu (struct awake *x, uint64_t now)
{
  const bool lost = x->looking && now - x->looked > LOST_NS;

  x->looked = now;
  if (!lost)
    return false;
  if (now - x->lost_since > LOST_WITHIN_NS) {
    x->lost_since = now;
    x->lost = 0;
  }
  return ++x->lost == LOST_MAX;
}

bool
awake_goes_on (struct awake *x, uint64_t now)
{
  if (lost_cpu (x, now))
    begin_phase (x, AWAKE_KEEP, false, now);
  else if (x->looking && now >= x->until) {
    x->looking = false;
    if (++x->failed == FAILED_MAX)
      begin_phase (x, AWAKE_KEEP, false, now);
  }
  return x->looking;
}

/* Clients that wait for each reply, and are quick to ask again. */
static bool
one_by_one (const struct awake *x)
{
  return x->events >= EVENTS_MIN && x->requests < 2 * x->events;
}

static void
next_phase (struct awake *x, uint64_t now)
{
  const uint64_t took = now - x->since;
  const double rate = (double) x->events / took;

  /* A trial with a pause in it says nothing. */
  if (x->phase == AWAKE_KEEP || took > 2 * TRY_NS)
    begin_phase (x, AWAKE_WITHOUT, false, now);
  else if (!one_by_one (x))
    begin_phase (x, AWAKE_KEEP, false, now);
  else if (x->phase == AWAKE_WITHOUT) {
    x->rate_without = rate;
    begin_phase (x, AWAKE_WITH, true, now);
  }
  else
    begin_phase (x, AWAKE_KEEP, rate >= GAIN_MIN * x->rate_without, now);
}

bool
awake_served (struct awake *x, unsigned requests, uint64_t max_ns,
              uint64_t now)
{
  x->events++;
  x->requests += requests;
  if (x->looking)
    x->failed = 0;
  if (lost_cpu (x, now))
    begin_phase (x, AWAKE_KEEP, false, now);
  else if (now - x->since >= (x->phase == AWAKE_KEEP ? KEEP_NS : TRY_NS))
    next_phase (x, now);
  x->looking = x->on && max_ns > 0;
  x->until = now + max_ns;
  return x->looking;
}
