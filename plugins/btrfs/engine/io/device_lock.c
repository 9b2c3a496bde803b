/* io: nobody else may use a device of an open pool.
 *
 * Block devices: the kernel's exclusive open, which also keeps mounts, device
 * mapper, md and swap away; the same call by another process fails.  Regular
 * files: an open file description lock over the whole file, exclusive, or
 * shared when nothing will be written.  The kernel's loop driver takes no
 * such lock, so files behind a loop device are looked for.
 *
 * A lock of this kind has no process id; who holds it is found through the
 * open files under /proc.  All of that is for the message only.
 */
#include <config.h>

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "base/math.h"
#include "io/device_impl.h"

/* Identity of what is looked for. */
struct target {
  dev_t dev;                /* of the file system, or of the block device */
  ino_t ino;                /* 0: a block device */
};

static bool
is_target (const struct target *t, const struct stat *st)
{
  if (t->ino == 0)
    return S_ISBLK (st->st_mode) && st->st_rdev == t->dev;
  return S_ISREG (st->st_mode) && st->st_dev == t->dev &&
    st->st_ino == t->ino;
}

static void
fclosep (FILE **fp)
{
  if (*fp != NULL)
    fclose (*fp);
}

static void
closedirp (DIR **d)
{
  if (*d != NULL)
    closedir (*d);
}

#define CLEANUP_FCLOSE __attribute__ ((cleanup (fclosep)))
#define CLEANUP_CLOSEDIR __attribute__ ((cleanup (closedirp)))

/* First line of a small file, without its newline; false when unreadable. */
static bool
read_line (const char *path, char *buf, size_t len)
{
  CLEANUP_FCLOSE FILE *fp = fopen (path, "re");

  if (fp == NULL || fgets (buf, len, fp) == NULL)
    return false;
  buf[strcspn (buf, "\n")] = '\0';
  return true;
}

/* --- mounts --- */

/* mountinfo writes blanks and backslashes in octal. */
static void
unescape (char *s)
{
  char *out = s;

  for (; *s; ++s) {
    if (s[0] == '\\' && isdigit (s[1]) && isdigit (s[2]) && isdigit (s[3])) {
      *out++ = (s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0');
      s += 3;
    }
    else
      *out++ = *s;
  }
  *out = '\0';
}

/* Where block device RDEV, or a partition of it, is mounted. */
static bool
find_mount (dev_t rdev, char *where, size_t len)
{
  CLEANUP_FCLOSE FILE *fp = fopen ("/proc/self/mountinfo", "re");
  CLEANUP_FREE char *line = NULL;
  size_t cap = 0;

  while (fp != NULL && getline (&line, &cap, fp) > 0) {
    char *save = NULL, *point = NULL, *source = NULL, *field;
    unsigned index = 0, dash = 0;
    struct stat st;

    for (field = strtok_r (line, " \n", &save); field != NULL;
         field = strtok_r (NULL, " \n", &save), ++index) {
      if (index == 4)
        point = field;
      if (dash == 0 && strcmp (field, "-") == 0)
        dash = index;
      if (dash != 0 && index == dash + 2)
        source = field;
    }
    if (point == NULL || source == NULL)
      continue;
    unescape (source);
    if (source[0] != '/' || stat (source, &st) < 0 || !S_ISBLK (st.st_mode))
      continue;
    if (st.st_rdev == rdev) {
      unescape (point);
      snprintf (where, len, "%s", point);
      return true;
    }
  }
  return false;
}

/* "mounted on /x" for RDEV or one of its partitions. */
static bool
describe_mount (dev_t rdev, char *buf, size_t len)
{
  char path[64 + NAME_MAX], where[512], number[32];
  struct dirent *e;
  unsigned ma, mi;

  if (find_mount (rdev, where, sizeof where)) {
    snprintf (buf, len, "mounted on %s", where);
    return true;
  }
  snprintf (path, sizeof path, "/sys/dev/block/%u:%u", major (rdev),
            minor (rdev));
  CLEANUP_CLOSEDIR DIR *d = opendir (path);

  while (d != NULL && (e = readdir (d)) != NULL) {
    snprintf (path, sizeof path, "/sys/dev/block/%u:%u/%s/dev", major (rdev),
              minor (rdev), e->d_name);
    if (e->d_name[0] == '.' || strcmp (e->d_name, "bdi") == 0 ||
        !read_line (path, number, sizeof number) ||
        sscanf (number, "%u:%u", &ma, &mi) != 2 ||
        !find_mount (makedev (ma, mi), where, sizeof where))
      continue;
    snprintf (buf, len, "its partition %s is mounted on %s", e->d_name,
              where);
    return true;
  }
  return false;
}

/* "held by dm-0" and so on. */
static bool
describe_holder (dev_t rdev, char *buf, size_t len)
{
  char path[64];
  struct dirent *e;

  snprintf (path, sizeof path, "/sys/dev/block/%u:%u/holders", major (rdev),
            minor (rdev));
  CLEANUP_CLOSEDIR DIR *d = opendir (path);

  while (d != NULL && (e = readdir (d)) != NULL)
    if (e->d_name[0] != '.') {
      snprintf (buf, len, "held by %s", e->d_name);
      return true;
    }
  return false;
}

/* --- processes --- */

/* Does descriptor FD of process PID hold a lock? */
static bool
fd_has_lock (const char *pid, const char *fd)
{
  char path[64 + 2 * NAME_MAX], line[256];

  snprintf (path, sizeof path, "/proc/%s/fdinfo/%s", pid, fd);
  CLEANUP_FCLOSE FILE *fp = fopen (path, "re");

  while (fp != NULL && fgets (line, sizeof line, fp) != NULL)
    if (strncmp (line, "lock:", 5) == 0)
      return true;
  return false;
}

static bool
process_uses (const char *pid, const struct target *t)
{
  char path[64 + 2 * NAME_MAX];
  struct dirent *e;
  struct stat st;

  snprintf (path, sizeof path, "/proc/%s/fd", pid);
  CLEANUP_CLOSEDIR DIR *d = opendir (path);

  while (d != NULL && (e = readdir (d)) != NULL) {
    snprintf (path, sizeof path, "/proc/%s/fd/%s", pid, e->d_name);
    if (isdigit (e->d_name[0]) && stat (path, &st) == 0 &&
        is_target (t, &st) && (t->ino == 0 || fd_has_lock (pid, e->d_name)))
      return true;
  }
  return false;
}

/* "in use by process 123 (nbdkit)"; ourselves only when SELF. */
static bool
describe_process (const struct target *t, bool self, char *buf, size_t len)
{
  CLEANUP_CLOSEDIR DIR *d = opendir ("/proc");
  char path[64 + NAME_MAX], comm[64];
  struct dirent *e;

  while (d != NULL && (e = readdir (d)) != NULL) {
    if (!isdigit (e->d_name[0]) ||
        (atol (e->d_name) == (long) getpid ()) != self ||
        !process_uses (e->d_name, t))
      continue;
    snprintf (path, sizeof path, "/proc/%s/comm", e->d_name);
    if (!read_line (path, comm, sizeof comm))
      strcpy (comm, "?");
    snprintf (buf, len, "in use by %sprocess %s (%s)",
              self ? "this same " : "", e->d_name, comm);
    return true;
  }
  return false;
}

static bool
describe_any_process (const struct target *t, char *buf, size_t len)
{
  return describe_process (t, false, buf, len) ||
    describe_process (t, true, buf, len);
}

int
device_busy (const char *name)
{
  char who[1024];
  struct stat st;

  if (stat (name, &st) == 0 && S_ISBLK (st.st_mode)) {
    struct target t = { .dev = st.st_rdev };

    if (describe_mount (st.st_rdev, who, sizeof who) ||
        describe_holder (st.st_rdev, who, sizeof who) ||
        describe_any_process (&t, who, sizeof who))
      return err_new (ERR_dev_busy, "%s: %s", name, who);
  }
  return err_new (ERR_dev_busy, "%s: by whom cannot be told", name);
}

/* --- loop devices --- */

/* Is the file behind loop device LOOP ("loop3") the target?  The ioctl knows
 * the inode but needs the device node; sysfs knows a path, which may be of
 * another mount namespace.
 */
static bool
loop_is_behind (const char *loop, const struct target *t)
{
  char path[64 + NAME_MAX], file[4096];
  struct loop_info64 info;
  struct stat st;

  snprintf (path, sizeof path, "/sys/block/%s/loop/backing_file", loop);
  if (!read_line (path, file, sizeof file))
    return false; /* not in use */
  snprintf (path, sizeof path, "/dev/%s", loop);
  CLEANUP_CLOSE int fd = open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

  /* The kernel packs the device number of user space there in its own way;
   * the inode number decides together with a comparison of both forms.
   */
  if (fd >= 0 && ioctl (fd, LOOP_GET_STATUS64, &info) == 0 &&
      info.lo_inode == t->ino &&
      (info.lo_device == t->dev ||
       info.lo_device == ((uint64_t) minor (t->dev) & 0xff) +
       ((uint64_t) major (t->dev) << 8) +
       (((uint64_t) minor (t->dev) & ~0xffull) << 12)))
    return true;
  return stat (file, &st) == 0 && is_target (t, &st);
}

static int
refuse_loop (const struct target *t, const char *name)
{
  CLEANUP_CLOSEDIR DIR *d = opendir ("/sys/block");
  char path[64 + NAME_MAX], where[1024];
  struct dirent *e;
  struct stat st;

  while (d != NULL && (e = readdir (d)) != NULL) {
    if (strncmp (e->d_name, "loop", 4) != 0 || !loop_is_behind (e->d_name, t))
      continue;
    snprintf (path, sizeof path, "/dev/%s", e->d_name);
    if (stat (path, &st) == 0 && S_ISBLK (st.st_mode) &&
        describe_mount (st.st_rdev, where, sizeof where))
      return err_new (ERR_dev_busy, "%s: backs %s, %s", name, path, where);
    return err_new (ERR_dev_busy, "%s: backs %s", name, path);
  }
  return 0;
}

int
device_claim_file (int fd, const char *name, bool read_only)
{
  struct flock lock = {
    .l_type = read_only ? F_RDLCK : F_WRLCK, .l_whence = SEEK_SET,
  };
  struct target t;
  struct stat st;
  char who[1024];

  if (fstat (fd, &st) < 0)
    return err_new (ERR_dev_open, "%s: %s", name, strerror (errno));
  t = (struct target) { .dev = st.st_dev, .ino = st.st_ino };
  if (fcntl (fd, F_OFD_SETLK, &lock) < 0) {
    if (errno == EAGAIN || errno == EACCES) {
      if (!describe_any_process (&t, who, sizeof who))
        strcpy (who, "locked, by whom cannot be told");
      return err_new (ERR_dev_busy, "%s: %s", name, who);
    }
    log_warning ("%s: the file system has no locks: %s", name,
                 strerror (errno));
  }
  return refuse_loop (&t, name);
}
