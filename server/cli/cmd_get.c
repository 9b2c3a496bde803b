/* cli: btrnbd get: copy a volume or file out of the pool.
 *
 * Holes become holes of a regular file, and zeroes of anything else.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

#define BUFFER_BYTES (1u << 20)
#define STEP_BYTES (UINT64_C (1) << 30)  /* of one look at the extents */

struct piece {
  uint64_t offset, len;
  bool zero;
};

struct get {
  const char *path, *target;
  int fd;
  bool sparse;                  /* the target is a regular file */
  struct btrnbd_file *file;
  char *buf;
  struct piece *pieces;         /* of one step */
  size_t num_pieces, max_pieces;
  struct cli_progress progress;
};

static int
collect (void *opaque, uint64_t offset, uint64_t len, unsigned type)
{
  struct get *g = opaque;
  const bool zero = type & BTRNBD_EXTENT_ZERO;

  if (g->num_pieces > 0) {
    struct piece *last = &g->pieces[g->num_pieces - 1];

    if (last->zero == zero && last->offset + last->len == offset) {
      last->len += len;
      return 0;
    }
  }
  if (g->num_pieces == g->max_pieces) {
    const size_t max = g->max_pieces ? 2 * g->max_pieces : 64;
    void *p = realloc (g->pieces, max * sizeof *g->pieces);

    if (!p)
      return -ERR_nomem;
    g->pieces = p;
    g->max_pieces = max;
  }
  g->pieces[g->num_pieces++] = (struct piece) { offset, len, zero };
  return 0;
}

static int
write_full (struct get *g, size_t len, uint64_t offset)
{
  size_t done = 0;

  while (done < len) {
    ssize_t n = g->sparse
      ? pwrite (g->fd, g->buf + done, len - done, offset + done)
      : write (g->fd, g->buf + done, len - done);

    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return cli_error ("%s: %s", g->target, strerror (errno));
    done += n;
  }
  return 0;
}

static int
get_piece (struct get *g, const struct piece *p)
{
  const uint64_t end = p->offset + p->len;

  if (p->zero && g->sparse) {
    cli_progress_add (&g->progress, p->len);
    return 0;
  }
  for (uint64_t at = p->offset; at < end; ) {
    const size_t len = end - at < BUFFER_BYTES ? end - at : BUFFER_BYTES;
    int r = 0;

    if (p->zero)
      memset (g->buf, 0, len);
    else
      r = btrnbd_pread (g->file, g->buf, len, at);
    if (r < 0)
      return cli_fail (r, "%s", g->path);
    r = write_full (g, len, at);
    if (r)
      return r;
    at += len;
    cli_progress_add (&g->progress, len);
  }
  return 0;
}

static int
copy (struct get *g)
{
  const uint64_t size = btrnbd_file_size (g->file);

  if (g->sparse && ftruncate (g->fd, size) < 0)
    return cli_error ("%s: %s", g->target, strerror (errno));
  for (uint64_t at = 0; at < size; at += STEP_BYTES) {
    const uint64_t len = size - at < STEP_BYTES ? size - at : STEP_BYTES;
    int r;

    g->num_pieces = 0;
    r = btrnbd_extents (g->file, at, len, collect, g);
    if (r < 0)
      return cli_fail (r, "%s", g->path);
    for (size_t i = 0; i < g->num_pieces; i++) {
      r = get_piece (g, &g->pieces[i]);
      if (r)
        return r;
    }
  }
  return 0;
}

/* After the source is open, so that a wrong name leaves no empty file. */
static int
open_target (struct get *g)
{
  struct stat st;

  if (strcmp (g->target, "-") == 0) {
    g->fd = STDOUT_FILENO;
    return 0;
  }
  g->fd = open (g->target, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (g->fd < 0 || fstat (g->fd, &st) < 0)
    return cli_error ("%s: %s", g->target, strerror (errno));
  g->sparse = S_ISREG (st.st_mode);
  return 0;
}

static int
close_target (struct get *g, int status)
{
  if (g->fd > STDERR_FILENO && close (g->fd) < 0 && status == 0)
    return cli_error ("%s: %s", g->target, strerror (errno));
  return status;
}

int
cmd_get (struct cli *c)
{
  const struct cli_opt opts[] = { { NULL } };
  char **args = cli_parse (c, opts);
  struct get g = { .fd = -1 };
  int r, status;

  if (!args)
    return c->status;
  g.path = args[0];
  g.target = args[1];
  g.buf = malloc (BUFFER_BYTES);
  if (!g.buf)
    return cli_error ("out of memory");
  status = cli_open (c, true);
  if (status == 0) {
    r = btrnbd_export_open (c->pool, g.path, BTRNBD_OPEN_RDONLY, &g.file);
    if (r < 0)
      status = cli_fail (r, "%s", g.path);
    else {
      status = open_target (&g);
      if (status == 0) {
        cli_progress_start (&g.progress, g.path, btrnbd_file_size (g.file));
        status = copy (&g);
        cli_progress_end (&g.progress);
      }
      status = close_target (&g, status);
      btrnbd_file_close (g.file);
    }
    status = cli_close (c, status);
  }
  free (g.pieces);
  free (g.buf);
  return status;
}
