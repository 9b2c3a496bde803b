/* cli: btrnbd put: copy a file into the pool.
 *
 * An existing volume keeps its size (what is behind the end of FILE becomes a
 * hole); an existing file takes FILE's; a new file is created.  Holes of FILE
 * stay holes.  The copy is durable when the command ends with success.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

#define BUFFER_BYTES (1u << 20)

struct put {
  const char *source, *path;
  int fd;
  bool seekable;
  uint64_t size;                /* of the source when seekable */
  bool fixed_size;              /* the target is a volume */
  struct btrnbd_file *file;
  char *buf;
  struct cli_progress progress;
};

static int
read_error (const struct put *p)
{
  return cli_error ("%s: %s", p->source, strerror (errno));
}

/* Make [start, end) of the target read as zeroes. */
static int
put_hole (struct put *p, uint64_t start, uint64_t end)
{
  int r;

  if (end <= start)
    return 0;
  r = btrnbd_zero (p->file, start, end - start, BTRNBD_MAY_TRIM);
  if (r < 0)
    return cli_fail (r, "%s", p->path);
  return 0;
}

static int
put_data (struct put *p, uint64_t start, uint64_t end)
{
  while (start < end) {
    const size_t want =
      end - start < BUFFER_BYTES ? end - start : BUFFER_BYTES;
    ssize_t n = pread (p->fd, p->buf, want, start);
    int r;

    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return read_error (p);
    if (n == 0)
      return cli_error ("%s: became shorter while it was read", p->source);
    r = btrnbd_pwrite (p->file, p->buf, n, start, 0);
    if (r < 0)
      return cli_fail (r, "%s", p->path);
    start += n;
    cli_progress_add (&p->progress, n);
  }
  return 0;
}

/* Data and holes in turn, as the source's filesystem tells them. */
static int
put_seekable (struct put *p)
{
  uint64_t at = 0;
  int status = 0;

  while (status == 0 && at < p->size) {
    off_t data = lseek (p->fd, at, SEEK_DATA), hole;

    if (data < 0)
      data = errno == ENXIO ? (off_t) p->size : (off_t) at;
    if ((uint64_t) data > p->size)
      data = p->size;
    hole = (uint64_t) data < p->size ? lseek (p->fd, data, SEEK_HOLE) : data;
    if (hole < 0 || (uint64_t) hole > p->size)
      hole = p->size;
    status = put_hole (p, at, data);
    cli_progress_add (&p->progress, data - at);
    if (status == 0)
      status = put_data (p, data, hole);
    at = hole;
  }
  return status;
}

static ssize_t
read_full (int fd, char *buf, size_t len)
{
  size_t done = 0;

  while (done < len) {
    ssize_t n = read (fd, buf + done, len - done);

    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return -1;
    if (n == 0)
      break;
    done += n;
  }
  return done;
}

/* A pipe: the size is known at its end, so a file grows by doubling. */
static int
put_stream (struct put *p, uint64_t *ret_size)
{
  uint64_t at = 0;
  ssize_t n;
  int r;

  while ((n = read_full (p->fd, p->buf, BUFFER_BYTES)) > 0) {
    if (at + n > btrnbd_file_size (p->file)) {
      if (p->fixed_size)
        return cli_error ("%s: larger than %s", p->source, p->path);
      r = btrnbd_truncate (p->file, at > (uint64_t) n ? 2 * at : at + n);
      if (r < 0)
        return cli_fail (r, "%s", p->path);
    }
    r = btrnbd_pwrite (p->file, p->buf, n, at, 0);
    if (r < 0)
      return cli_fail (r, "%s", p->path);
    at += n;
    cli_progress_add (&p->progress, n);
  }
  if (n < 0)
    return read_error (p);
  *ret_size = at;
  return 0;
}

static int
copy (struct put *p)
{
  uint64_t size = p->size;
  int r, status;

  if (p->seekable && p->fixed_size && size > btrnbd_file_size (p->file))
    return cli_error ("%s: larger than %s, which has %" PRIu64 " bytes",
                      p->source, p->path, btrnbd_file_size (p->file));
  if (p->seekable && !p->fixed_size) {
    r = btrnbd_truncate (p->file, size);
    if (r < 0)
      return cli_fail (r, "%s", p->path);
  }
  status = p->seekable ? put_seekable (p) : put_stream (p, &size);
  if (status)
    return status;
  if (p->fixed_size)
    status = put_hole (p, size, btrnbd_file_size (p->file));
  else if (!p->seekable) {
    r = btrnbd_truncate (p->file, size);
    if (r < 0)
      status = cli_fail (r, "%s", p->path);
  }
  if (status)
    return status;
  r = btrnbd_flush (p->file);
  if (r < 0)
    return cli_fail (r, "%s", p->path);
  return 0;
}

static int
open_source (struct put *p)
{
  struct stat st;
  off_t end;

  p->fd = strcmp (p->source, "-") == 0 ? STDIN_FILENO
    : open (p->source, O_RDONLY | O_CLOEXEC);
  if (p->fd < 0 || fstat (p->fd, &st) < 0)
    return read_error (p);
  if (S_ISDIR (st.st_mode))
    return cli_error ("%s: is a directory", p->source);
  end = S_ISREG (st.st_mode) || S_ISBLK (st.st_mode)
    ? lseek (p->fd, 0, SEEK_END) : -1;
  p->seekable = end >= 0;
  p->size = p->seekable ? end : 0;
  return 0;
}

static int
open_target (struct cli *c, struct put *p, bool nocow)
{
  struct btrnbd_stat st;
  int r = btrnbd_stat (c->pool, p->path, &st);

  if (r == -ERR_not_found) {
    r = btrnbd_create (c->pool, p->path, 0644, nocow);
    if (r == 0)
      r = btrnbd_file_open (c->pool, p->path, 0, &p->file);
  }
  else if (r == 0) {
    p->fixed_size = st.is_subvol;
    r = btrnbd_export_open (c->pool, p->path, 0, &p->file);
  }
  if (r < 0)
    return cli_fail (r, "%s", p->path);
  return 0;
}

int
cmd_put (struct cli *c)
{
  bool nocow = false;
  const struct cli_opt opts[] = {
    { "nocow", 0, CLI_FLAG, &nocow, NULL,
      "a new file is overwritten in place, without checksums" },
    { NULL }
  };
  char **args = cli_parse (c, opts);
  struct put p = { 0 };
  int status;

  if (!args)
    return c->status;
  p.source = args[0];
  p.path = args[1];
  status = open_source (&p);
  if (status)
    return status;
  p.buf = malloc (BUFFER_BYTES);
  if (!p.buf)
    return cli_error ("out of memory");
  status = cli_open (c, false);
  if (status == 0) {
    status = open_target (c, &p, nocow);
    if (status == 0) {
      cli_progress_start (&p.progress, p.path, p.size);
      status = copy (&p);
      cli_progress_end (&p.progress);
      btrnbd_file_close (p.file);
    }
    status = cli_close (c, status);
  }
  free (p.buf);
  return status;
}
