/* control: reading and writing a descriptor that somebody passed along. */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/methods_priv.h"
#include "control/stream.h"

#define POLL_MS 200
#define PIPE_STEP 4096          /* a pipe that polls writable takes this */

bool
control_cancelled (struct control_call *call)
{
  if (call->cancel == NULL || !atomic_load (call->cancel))
    return false;
  control_refused (call, RPC_BUSY, "cancelled: the server is ending or the "
                   "client is gone");
  return true;
}

static int
failed (struct control_stream *s, const char *what)
{
  control_refused (s->call, RPC_FAILED, "%s: %s", what, strerror (errno));
  return -1;
}

int
control_stream_init (struct control_stream *s, struct control_call *call)
{
  struct stat st;
  off_t at, end;
  int flags;

  *s = (struct control_stream) { .call = call, .fd = call->fd };
  if (s->fd < 0) {
    control_refused (call, RPC_INVALID_PARAMS, "%s needs a descriptor sent "
                     "along with it", call->method);
    return -1;
  }
  if (fstat (s->fd, &st) < 0)
    return failed (s, "fstat");
  if (!S_ISREG (st.st_mode) && !S_ISBLK (st.st_mode))
    return 0;
  /* A shell's `{ echo; btrnbd get a -; } >f` goes on where it stands. */
  flags = fcntl (s->fd, F_GETFL);
  at = lseek (s->fd, 0, SEEK_CUR);
  if (flags < 0 || at < 0)
    return failed (s, "lseek");
  if (at > 0 || flags & O_APPEND)
    return 0;
  end = lseek (s->fd, 0, SEEK_END);
  if (end < 0 || lseek (s->fd, 0, SEEK_SET) < 0)
    return failed (s, "lseek");
  s->size = end;
  s->seekable = true;
  s->regular = S_ISREG (st.st_mode);
  return 0;
}

/* Wait until the descriptor can be read or written. */
static int
wait_for (struct control_stream *s, short events)
{
  struct pollfd p = { .fd = s->fd, .events = events };
  int n;

  for (;;) {
    if (control_cancelled (s->call))
      return -1;
    n = poll (&p, 1, POLL_MS);
    if (n > 0)
      return 0;
    if (n < 0 && errno != EINTR)
      return failed (s, "poll");
  }
}

ssize_t
control_stream_read (struct control_stream *s, void *buf, size_t len)
{
  ssize_t n;

  for (;;) {
    if (s->call->cancel && wait_for (s, POLLIN) < 0)
      return -1;
    n = read (s->fd, buf, len);
    if (n >= 0)
      return n;
    if (errno != EINTR && errno != EAGAIN)
      return failed (s, "read");
    if (errno == EAGAIN && wait_for (s, POLLIN) < 0)
      return -1;
  }
}

ssize_t
control_stream_pread (struct control_stream *s, void *buf, size_t len,
                      uint64_t offset)
{
  ssize_t n;

  if (control_cancelled (s->call))
    return -1;
  do
    n = pread (s->fd, buf, len, offset);
  while (n < 0 && errno == EINTR);
  return n < 0 ? failed (s, "read") : n;
}

int
control_stream_write (struct control_stream *s, const void *buf, size_t len)
{
  const char *p = buf;
  ssize_t n;

  while (len > 0) {
    size_t step = len;

    if (s->call->cancel) {
      if (wait_for (s, POLLOUT) < 0)
        return -1;
      step = len < PIPE_STEP ? len : PIPE_STEP;
    }
    /* A socket is not waited for, whatever its buffer says. */
    n = send (s->fd, p, step, MSG_NOSIGNAL |
              (s->call->cancel ? MSG_DONTWAIT : 0));
    if (n < 0 && errno == ENOTSOCK)
      n = write (s->fd, p, step);
    if (n > 0) {
      p += n;
      len -= n;
    }
    else if (n < 0 && errno == EAGAIN) {
      if (wait_for (s, POLLOUT) < 0)
        return -1;
    }
    else if (n < 0 && errno != EINTR)
      return failed (s, "write");
  }
  return 0;
}

int
control_stream_pwrite (struct control_stream *s, const void *buf, size_t len,
                       uint64_t offset)
{
  const char *p = buf;
  ssize_t n;

  if (control_cancelled (s->call))
    return -1;
  while (len > 0) {
    n = pwrite (s->fd, p, len, offset);
    if (n < 0 && errno != EINTR)
      return failed (s, "write");
    if (n > 0) {
      p += n;
      len -= n;
      offset += n;
    }
  }
  return 0;
}
