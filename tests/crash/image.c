/* What a power cut left on a disk, see image.h. */
#include <config.h>

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/math.h"
#include "crash/image.h"
#include "format/super.h"
#include "io/device.h"

static struct btrfs_super *
read_super (struct device *image)
{
  struct btrfs_super *s = io_alloc (sizeof *s);

  if (s != NULL && device_read (image, super_offset (0), s, sizeof *s) == 0 &&
      super_check (s, super_offset (0)) == 0)
    return s;
  free (s);
  return NULL;
}

bool
image_first_super_is_bad (struct device *image)
{
  struct btrfs_super *s = read_super (image);
  bool bad = s == NULL;

  free (s);
  return bad;
}

bool
image_has_log (struct device *image)
{
  struct btrfs_super *s = read_super (image);
  bool has = s != NULL && le64_get (s->log_root) != 0;

  free (s);
  return has;
}

void
image_dump (struct device *image, const char *path)
{
  uint64_t size = device_get_info (image)->size;
  const size_t chunk = 65536;
  uint8_t *buf = io_alloc (chunk);
  int fd = open (path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

  if (fd < 0 || ftruncate (fd, size) < 0 || buf == NULL) {
    perror (path);
    exit (99);
  }
  for (uint64_t off = 0; off < size; off += chunk) {
    size_t len = MIN (size - off, (uint64_t) chunk);

    if (device_read (image, off, buf, len) < 0)
      exit (99);
    for (size_t in = 0; in < len; in += 4096) {
      size_t n = MIN (len - in, (size_t) 4096);

      if (memcmp (buf + in, buf + in + 1, n - 1) == 0 && buf[in] == 0)
        continue;
      if (pwrite (fd, buf + in, n, off + in) != (ssize_t) n) {
        perror (path);
        exit (99);
      }
    }
  }
  close (fd);
  free (buf);
}

/* Its output goes to PATH.log. */
static bool
shell (const char *path, const char *cmd)
{
  char line[PATH_MAX * 3 + 200];
  int status;

  snprintf (line, sizeof line, "( %s ) >%s.log 2>&1", cmd, path);
  fflush (stdout);
  status = system (line);
  return WIFEXITED (status) && WEXITSTATUS (status) == 0;
}

static void
drop_log (const char *path)
{
  char log[PATH_MAX];

  snprintf (log, sizeof log, "%s.log", path);
  unlink (log);
}

bool
image_check (const char *path, unsigned copy)
{
  char cmd[PATH_MAX * 2 + 200];

  snprintf (cmd, sizeof cmd, "btrfs check --readonly %s %s",
            copy ? "-s 1" : "", path);
  if (!shell (path, cmd)) {
    snprintf (cmd, sizeof cmd, "sed 's/^/# /' %s.log | head -n 40", path);
    if (system (cmd) < 0)
      perror ("sed");
    return false;
  }
  drop_log (path);
  return true;
}

/* The first line of PATH.log. */
static void
first_line (const char *path, char *line, int max)
{
  char log[PATH_MAX];
  FILE *f;

  snprintf (log, sizeof log, "%s.log", path);
  f = fopen (log, "r");
  if (f == NULL || fgets (line, max, f) == NULL)
    snprintf (line, max, "no reason given");
  line[strcspn (line, "\n")] = '\0';
  if (f != NULL)
    fclose (f);
}

bool
image_mount (const char *path, const char *top, char why[JWHY_MAX])
{
  char cmd[PATH_MAX * 3 + 200], said[JWHY_MAX - 40];
  bool ok;

  snprintf (cmd, sizeof cmd, "mkdir -p %s && mount -t btrfs -o loop %s %s",
            top, path, top);
  if (!shell (path, cmd)) {
    first_line (path, said, sizeof said);
    snprintf (why, JWHY_MAX, "Linux does not mount it: %s", said);
    return false;
  }
  snprintf (cmd, sizeof cmd, "find %s -type f -exec cat {} + | cksum", top);
  ok = shell (path, cmd);
  if (!ok)
    snprintf (why, JWHY_MAX, "Linux cannot read it all");
  snprintf (cmd, sizeof cmd, "umount %s && rmdir %s", top, top);
  if (!shell (path, cmd)) {
    snprintf (why, JWHY_MAX, "Linux does not unmount it");
    return false;
  }
  if (ok)
    drop_log (path);
  return ok;
}
