/* control: methods that move data through a descriptor of the caller.
 *
 * Holes stay holes: of a regular file or device that is read, and of a
 * regular file that is written.  Copies into the pool are durable when the
 * call succeeds; one that fails, or is cut, leaves what was there before,
 * unless it was to be made in place.
 */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "control/methods_priv.h"
#include "control/stream.h"

#define BUFFER_BYTES (1u << 20)
#define STEP_BYTES (UINT64_C (1) << 30)  /* of one look at the extents */
#define CALLER_STEPS 20        /* of 10 ms */

struct piece {
  uint64_t offset, len;
  bool zero;
};

struct copy {
  struct control_call *call;
  struct control_stream stream;
  struct btrnbd_file *file;
  const char *path;
  bool volume;                  /* its size stays as it is */
  char *buf;
  uint64_t done, total;
  struct piece *pieces;         /* get: of one step */
  size_t num_pieces, max_pieces;
};

static void
progress (struct copy *c, uint64_t len)
{
  c->done += len;
  if (c->call->progress)
    c->call->progress (c->call->progress_opaque, c->done, c->total);
}

static int
engine_failed (struct copy *c, int r)
{
  control_failed (c->call, r);
  return -1;
}

/* --- get --- */

static int
collect (void *opaque, uint64_t offset, uint64_t len, unsigned type)
{
  struct copy *c = opaque;
  const bool zero = type & BTRNBD_EXTENT_ZERO;

  if (c->num_pieces > 0) {
    struct piece *last = &c->pieces[c->num_pieces - 1];

    if (last->zero == zero && last->offset + last->len == offset) {
      last->len += len;
      return 0;
    }
  }
  if (c->num_pieces == c->max_pieces) {
    const size_t max = c->max_pieces ? 2 * c->max_pieces : 64;
    void *p = realloc (c->pieces, max * sizeof *c->pieces);

    if (!p)
      return -ERR_nomem;
    c->pieces = p;
    c->max_pieces = max;
  }
  c->pieces[c->num_pieces++] = (struct piece) { offset, len, zero };
  return 0;
}

static int
get_piece (struct copy *c, const struct piece *p)
{
  const uint64_t end = p->offset + p->len;
  int r;

  if (p->zero && c->stream.regular) {
    progress (c, p->len);
    return control_cancelled (c->call) ? -1 : 0;
  }
  for (uint64_t at = p->offset; at < end; ) {
    const size_t len = end - at < BUFFER_BYTES ? end - at : BUFFER_BYTES;

    r = 0;
    if (p->zero)
      memset (c->buf, 0, len);
    else
      r = btrnbd_pread (c->file, c->buf, len, at);
    if (r < 0)
      return engine_failed (c, r);
    if (c->stream.seekable)
      r = control_stream_pwrite (&c->stream, c->buf, len, at);
    else
      r = control_stream_write (&c->stream, c->buf, len);
    if (r < 0)
      return -1;
    at += len;
    progress (c, len);
  }
  return 0;
}

static int
get_all (struct copy *c)
{
  c->total = btrnbd_file_size (c->file);
  if (c->stream.regular && (ftruncate (c->stream.fd, 0) < 0 ||
                            ftruncate (c->stream.fd, c->total) < 0)) {
    control_refused (c->call, RPC_FAILED, "ftruncate: %s", strerror (errno));
    return -1;
  }
  for (uint64_t at = 0; at < c->total; at += STEP_BYTES) {
    const uint64_t len = c->total - at < STEP_BYTES ? c->total - at
      : STEP_BYTES;
    int r;

    c->num_pieces = 0;
    r = btrnbd_extents (c->file, at, len, collect, c);
    if (r < 0)
      return engine_failed (c, r);
    for (size_t i = 0; i < c->num_pieces; i++)
      if (get_piece (c, &c->pieces[i]) < 0)
        return -1;
  }
  /* Who shares the descriptor goes on behind. */
  if (c->stream.seekable)
    lseek (c->stream.fd, c->total, SEEK_SET);
  return 0;
}

/* --- put --- */

/* Make [start, end) of the target read as zeroes. */
static int
put_hole (struct copy *c, uint64_t start, uint64_t end)
{
  int r;

  if (end <= start)
    return 0;
  r = btrnbd_zero (c->file, start, end - start, BTRNBD_MAY_TRIM);
  return r < 0 ? engine_failed (c, r) : 0;
}

static int
put_data (struct copy *c, uint64_t start, uint64_t end)
{
  while (start < end) {
    const size_t want =
      end - start < BUFFER_BYTES ? end - start : BUFFER_BYTES;
    ssize_t n = control_stream_pread (&c->stream, c->buf, want, start);
    int r;

    if (n < 0)
      return -1;
    if (n == 0) {
      control_refused (c->call, RPC_FAILED,
                       "the source became shorter while it was read");
      return -1;
    }
    r = btrnbd_pwrite (c->file, c->buf, n, start, 0);
    if (r < 0)
      return engine_failed (c, r);
    start += n;
    progress (c, n);
  }
  return 0;
}

/* Data and holes in turn, as the source's filesystem tells them. */
static int
put_seekable (struct copy *c)
{
  const uint64_t size = c->stream.size;
  uint64_t at = 0;
  int r = 0;

  while (r == 0 && at < size) {
    off_t data = lseek (c->stream.fd, at, SEEK_DATA), hole;

    if (data < 0)
      data = errno == ENXIO ? (off_t) size : (off_t) at;
    if ((uint64_t) data > size)
      data = size;
    hole = (uint64_t) data < size ? lseek (c->stream.fd, data, SEEK_HOLE)
      : data;
    if (hole < 0 || (uint64_t) hole > size)
      hole = size;
    r = put_hole (c, at, data);
    progress (c, data - at);
    if (r == 0)
      r = put_data (c, data, hole);
    at = hole;
  }
  return r;
}

/* Fill the buffer as far as the stream goes. */
static ssize_t
read_full (struct copy *c)
{
  size_t done = 0;

  while (done < BUFFER_BYTES) {
    ssize_t n = control_stream_read (&c->stream, c->buf + done,
                                     BUFFER_BYTES - done);

    if (n < 0)
      return -1;
    if (n == 0)
      break;
    done += n;
  }
  return done;
}

static int
too_large (struct copy *c)
{
  control_refused (c->call, RPC_FAILED, "the source is larger than %s, "
                   "which has %llu bytes", c->path,
                   (unsigned long long) btrnbd_file_size (c->file));
  return -1;
}

/* A pipe: the size is known at its end, so a file grows by doubling. */
static int
put_stream (struct copy *c, uint64_t *ret_size)
{
  uint64_t at = 0;
  ssize_t n;
  int r;

  while ((n = read_full (c)) > 0) {
    if (at + n > btrnbd_file_size (c->file)) {
      if (c->volume)
        return too_large (c);
      r = btrnbd_truncate (c->file, at > (uint64_t) n ? 2 * at : at + n);
      if (r < 0)
        return engine_failed (c, r);
    }
    r = btrnbd_pwrite (c->file, c->buf, n, at, 0);
    if (r < 0)
      return engine_failed (c, r);
    at += n;
    progress (c, n);
  }
  *ret_size = at;
  return n < 0 ? -1 : 0;
}

/* The target takes the size of the source; a volume keeps its own. */
static int
put_all (struct copy *c)
{
  uint64_t size = c->stream.size;
  int r;

  c->total = size;
  if (c->stream.seekable && c->volume && size > btrnbd_file_size (c->file))
    return too_large (c);
  if ((c->stream.seekable ? put_seekable (c) : put_stream (c, &size)) < 0)
    return -1;
  if (c->volume && put_hole (c, size, btrnbd_file_size (c->file)) < 0)
    return -1;
  if (!c->volume && !c->stream.seekable) {
    r = btrnbd_truncate (c->file, size);
    if (r < 0)
      return engine_failed (c, r);
  }
  r = btrnbd_flush (c->file);
  return r < 0 ? engine_failed (c, r) : 0;
}

/* What begins with @ is never an export, but may well be a file: subvolumes of
 * other people's systems are named so.
 */
static bool
is_path_only (const char *path)
{
  return path[strspn (path, "/")] == '@';
}

static int
open_named (struct copy *c, unsigned flags)
{
  return is_path_only (c->path)
    ? btrnbd_file_open (c->call->pool, c->path, flags, &c->file)
    : btrnbd_export_open (c->call->pool, c->path, flags, &c->file);
}

/* Of put in place.  Clients that hold the file open were told its size:
 * btrnbd_volume_resize refuses to take from it, so it comes before the file is
 * opened here.
 */
static int
open_target (struct copy *c)
{
  struct btrnbd_pool *pool = c->call->pool;
  const uint64_t size = c->stream.seekable ? c->stream.size : 0;
  struct btrnbd_stat st = { 0 };
  int r = btrnbd_stat (pool, c->path, &st);

  c->volume = st.is_subvol;
  if (r == 0 && !c->volume && !is_path_only (c->path))
    r = btrnbd_volume_resize (pool, c->path, size);
  if (r == 0)
    r = open_named (c, 0);
  if (r == 0 && is_path_only (c->path))
    r = btrnbd_truncate (c->file, size);
  return r;
}

/* --- both --- */

static bool
copy_start (struct copy *c, struct control_call *call)
{
  c->call = call;
  if (control_stream_init (&c->stream, call) < 0)
    return false;
  c->buf = malloc (BUFFER_BYTES);
  if (c->buf == NULL)
    control_refused (call, RPC_INTERNAL, "out of memory");
  return c->buf != NULL;
}

static void
copy_end (struct copy *c)
{
  if (c->file)
    btrnbd_file_close (c->file);
  free (c->pieces);
  free (c->buf);
}

void
control_file_get (struct control_call *call)
{
  struct copy c = { 0 };
  int r;

  if (!control_params (call, "{s:s}", "path", &c.path))
    return;
  if (!copy_start (&c, call))
    ;
  else if (btrnbd_pool_is_on (call->pool, call->fd))
    control_refused (call, RPC_FAILED,
                     "the target is a device of the pool itself");
  else {
    r = open_named (&c, BTRNBD_OPEN_RDONLY);
    if (r < 0)
      control_failed (call, r);
    else
      get_all (&c);
  }
  copy_end (&c);
}

/* The end of a pipe may be that of a whole pipeline that was interrupted: then
 * the caller has gone with it, and the news of that gets some time to arrive
 * before what was there is given up for a part of something.
 */
static bool
caller_stays (struct copy *c)
{
  const struct timespec step = { .tv_nsec = 10 * 1000 * 1000 };
  unsigned i;

  if (c->stream.seekable || c->call->cancel == NULL)
    return true;
  for (i = 0; i < CALLER_STEPS && !control_cancelled (c->call); ++i)
    nanosleep (&step, NULL);
  return i == CALLER_STEPS;
}

static void
put_in_place (struct copy *c)
{
  const int r = open_target (c);

  if (r < 0)
    control_failed (c->call, r);
  else
    put_all (c);
}

static void
put_beside (struct copy *c, bool nocow)
{
  struct btrnbd_replace *rep;
  int r = btrnbd_replace_begin (c->call->pool, c->path, nocow, &rep);

  if (r < 0) {
    control_failed (c->call, r);
    return;
  }
  c->file = btrnbd_replace_file (rep);
  c->volume = btrnbd_replace_is_volume (rep);
  if (!c->volume && c->stream.seekable)
    r = btrnbd_truncate (c->file, c->stream.size);
  if (r < 0)
    control_failed (c->call, r);
  else
    r = put_all (c);
  c->file = NULL;
  if (r < 0 || !caller_stays (c)) {
    btrnbd_replace_abort (rep);
    return;
  }
  r = btrnbd_replace_commit (rep);
  if (r < 0)
    control_failed (c->call, r);
}

void
control_file_put (struct control_call *call)
{
  struct copy c = { 0 };
  int nocow = 0, in_place = 0;

  if (!control_params (call, "{s:s,s?b,s?b}", "path", &c.path, "nocow",
                       &nocow, "in_place", &in_place))
    return;
  if (nocow && in_place) {
    control_refused (call, RPC_INVALID_PARAMS,
                     "nocow is for new files, in_place for others");
    return;
  }
  if (!copy_start (&c, call))
    ;
  else if (in_place)
    put_in_place (&c);
  else
    put_beside (&c, nocow);
  copy_end (&c);
}

/* --- dump-tree --- */

static ssize_t
write_cookie (void *opaque, const char *buf, size_t len)
{
  /* 0, not -1, tells stdio of an error. */
  return control_stream_write (opaque, buf, len) < 0 ? 0 : (ssize_t) len;
}

void
control_pool_dump_tree (struct control_call *call)
{
  json_int_t tree = 0, block = 0;
  struct control_stream stream;
  FILE *fp;
  int r;

  if (!control_params (call, "{s?I,s?I}", "tree", &tree, "block", &block) ||
      control_stream_init (&stream, call) < 0)
    return;
  fp = fopencookie (&stream, "w",
                    (cookie_io_functions_t) { .write = write_cookie });
  if (fp == NULL) {
    control_refused (call, RPC_INTERNAL, "out of memory");
    return;
  }
  r = btrnbd_dump_tree (call->pool, tree, block, fp);
  if (fclose (fp) != 0 && call->code == 0 && r == 0)
    control_refused (call, RPC_FAILED, "write: %s", strerror (errno));
  if (r < 0 && call->code == 0)
    control_failed (call, r);
}
