/* daemon: what a connection has yet to send.
 *
 * A chain of segments.  Small replies are packed into the last segment; large
 * ones get a segment of their own, or hand over the buffer that a worker
 * filled, so data is never copied twice.
 */
#ifndef BTRNBDD_DAEMON_OUT_H
#define BTRNBDD_DAEMON_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/uio.h>

struct out_segment;
struct out {
  TAILQ_HEAD (out_segments, out_segment) segments;
  size_t bytes;                /* not yet sent */
};

extern void out_init (struct out *);
extern void out_done (struct out *);

/* LEN contiguous writable bytes at the end; they are sent only after
 * out_commit (of up to LEN).  NULL: out of memory.
 */
extern uint8_t *out_space (struct out *, size_t len);
extern void out_commit (struct out *, size_t len);
extern bool out_append (struct out *, const void *data, size_t len);
/* DATA (malloc'd) becomes the chain's; LEN > 0 bytes from OFFSET on are
 * sent.  On failure it is freed.
 */
extern bool out_adopt (struct out *, uint8_t *data, size_t offset,
                       size_t len);

/* The same before everything else, of which nothing has been sent. */
extern bool out_adopt_first (struct out *, uint8_t *data, size_t offset,
                             size_t len);

/* Up to MAX pieces from the front; the number filled in. */
extern int out_iovec (const struct out *, struct iovec *, int max);
extern void out_sent (struct out *, size_t len);

#endif /* BTRNBDD_DAEMON_OUT_H */
