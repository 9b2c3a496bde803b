/* daemon: when a loop stays awake: one that has answered looks for the next
 * request for a while before it sleeps.
 *
 * To wake a thread on another CPU can cost more than all the work of a small
 * request, and in a virtual machine several times as much; a client that
 * waits for each reply pays that twice.  Where CPUs are short, staying awake
 * takes them from those who have work.  No figure of the system tells which
 * it is, so it is tried: for a short time without, for a short time with,
 * and the better of both is kept for a while, or until the loop finds that it
 * loses its CPU meanwhile.  A loop whose clients bring many requests at once,
 * or few in a second, does not stay awake at all.
 *
 * This is the decision alone; times are those of stats_now.
 */
#ifndef BTRNBDD_DAEMON_AWAKE_H
#define BTRNBDD_DAEMON_AWAKE_H

#include <stdbool.h>
#include <stdint.h>

#define AWAKE_MICROSECONDS 100 /* unless said */

enum awake_phase { AWAKE_WITHOUT, AWAKE_WITH, AWAKE_KEEP };

/* Zero is a new one. */
struct awake {
  enum awake_phase phase;
  bool on;
  bool looking;                /* until `until`, if nothing comes */
  uint64_t since;              /* the phase began */
  uint64_t looked;             /* at the clock, last */
  uint64_t until;
  unsigned events, requests;   /* in this phase */
  unsigned failed;             /* times in a row that nothing came in time */
  unsigned lost;               /* times that it had lost its CPU ... */
  uint64_t lost_since;         /* ... since then */
  double rate_without;
};

/* An event of a socket brought REQUESTS, and what could be answered at once
 * has been.  True: stay awake, for MAX_NS at most.
 */
extern bool awake_served (struct awake *, unsigned requests, uint64_t max_ns,
                          uint64_t now);
/* Nothing has come yet.  False: sleep. */
extern bool awake_goes_on (struct awake *, uint64_t now);

#endif /* BTRNBDD_DAEMON_AWAKE_H */
