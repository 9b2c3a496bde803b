/* control: reading and writing a descriptor that somebody passed along.
 *
 * It may be a file, a device, a pipe or a socket, and whoever holds the other
 * end may stall: a call that can be cancelled never waits in read or write.
 * Functions return 0 or more, or -1 after control_refused.
 */
#ifndef BTRNBD_CONTROL_STREAM_H
#define BTRNBD_CONTROL_STREAM_H

#include <sys/types.h>

#include "control/methods.h"

struct control_stream {
  struct control_call *call;
  int fd;
  bool seekable;               /* a regular file or block device, used from
                                  its start on: not where the descriptor
                                  stands elsewhere or appends */
  bool regular;                /* seekable, and a regular file */
  uint64_t size;               /* where seekable: to its end */
};

extern int control_stream_init (struct control_stream *,
                                struct control_call *);
/* What is there now, up to LEN bytes; 0 at the end. */
extern ssize_t control_stream_read (struct control_stream *, void *buf,
                                    size_t len);
extern ssize_t control_stream_pread (struct control_stream *, void *buf,
                                     size_t len, uint64_t offset);
extern int control_stream_write (struct control_stream *, const void *buf,
                                 size_t len);
extern int control_stream_pwrite (struct control_stream *, const void *buf,
                                  size_t len, uint64_t offset);
extern bool control_cancelled (struct control_call *);

#endif /* BTRNBD_CONTROL_STREAM_H */
