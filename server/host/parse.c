/* host: the nbdkit_* functions that parse values of parameters. */
#include <config.h>

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <termios.h>
#include <unistd.h>

#include "host/nbdkit.h"

char *
nbdkit_absolute_path (const char *path)
{
  char *cwd, *ret = NULL;

  if (path == NULL || *path == '\0') {
    nbdkit_error ("cannot convert an empty path to an absolute path");
    return NULL;
  }
  if (*path == '/') {
    ret = strdup (path);
    if (ret == NULL)
      nbdkit_error ("out of memory");
    return ret;
  }
  cwd = getcwd (NULL, 0);
  if (cwd == NULL || asprintf (&ret, "%s/%s", cwd, path) == -1) {
    nbdkit_error ("cannot make an absolute path: %s", strerror (errno));
    ret = NULL;
  }
  free (cwd);
  return ret;
}

char *
nbdkit_realpath (const char *path)
{
  char *ret;

  if (path == NULL || *path == '\0') {
    nbdkit_error ("cannot resolve an empty path");
    return NULL;
  }
  ret = realpath (path, NULL);
  if (ret == NULL)
    nbdkit_error ("%s: %s", path, strerror (errno));
  return ret;
}

/* Sizes: a number and one of b k m g t p e (any case, powers of 1024), s for
 * 512-byte sectors.
 */
int64_t
nbdkit_parse_size (const char *str)
{
  static const char units[] = "bkmgtpe";
  unsigned long long n;
  uint64_t size, scale;
  const char *unit;
  char *end;
  int c;

  errno = 0;
  n = strtoull (str, &end, 10);
  if (end == str || strchr (str, '-') != NULL) {
    nbdkit_error ("could not parse size string (%s)", str);
    return -1;
  }
  scale = 1;
  c = tolower ((unsigned char) *end);
  if (c == 's')
    scale = 512;
  else if (c != '\0') {
    unit = strchr (units, c);
    if (unit == NULL) {
      nbdkit_error ("could not parse size: unknown unit '%c' (%s)", *end,
                    str);
      return -1;
    }
    scale = UINT64_C (1) << (10 * (unit - units));
  }
  if (*end != '\0' && end[1] != '\0') {
    nbdkit_error ("could not parse size string (%s)", str);
    return -1;
  }
  if (errno == ERANGE || __builtin_mul_overflow (n, scale, &size) ||
      size > INT64_MAX) {
    nbdkit_error ("size is too large (%s)", str);
    return -1;
  }
  return size;
}

int
nbdkit_parse_bool (const char *str)
{
  static const char *const yes[] = { "1", "true", "t", "yes", "y", "on" };
  static const char *const no[] = { "0", "false", "f", "no", "n", "off" };
  size_t i;

  for (i = 0; i < sizeof yes / sizeof yes[0]; ++i)
    if (strcasecmp (str, yes[i]) == 0)
      return 1;
  for (i = 0; i < sizeof no / sizeof no[0]; ++i)
    if (strcasecmp (str, no[i]) == 0)
      return 0;
  nbdkit_error ("could not decipher boolean (%s)", str);
  return -1;
}

/* A whole signed number in [MIN, MAX]. */
static int
parse_signed (const char *what, const char *str, long long min,
              long long max, long long *ret)
{
  long long n;
  char *end;

  errno = 0;
  n = strtoll (str, &end, 0);
  if (end == str || *end != '\0') {
    nbdkit_error ("%s: could not parse number: \"%s\"", what, str);
    return -1;
  }
  if (errno == ERANGE || n < min || n > max) {
    nbdkit_error ("%s: number is out of range: \"%s\"", what, str);
    return -1;
  }
  *ret = n;
  return 0;
}

static int
parse_unsigned (const char *what, const char *str, unsigned long long max,
                unsigned long long *ret)
{
  unsigned long long n;
  const char *p = str;
  char *end;

  while (isspace ((unsigned char) *p))
    ++p;
  if (*p == '-') { /* strtoull would wrap it */
    nbdkit_error ("%s: negative numbers are not allowed", what);
    return -1;
  }
  errno = 0;
  n = strtoull (p, &end, 0);
  if (end == p || *end != '\0') {
    nbdkit_error ("%s: could not parse number: \"%s\"", what, str);
    return -1;
  }
  if (errno == ERANGE || n > max) {
    nbdkit_error ("%s: number is out of range: \"%s\"", what, str);
    return -1;
  }
  *ret = n;
  return 0;
}

#define DEFINE_SIGNED(name, type, min, max)                             \
  int                                                                   \
  nbdkit_parse_##name (const char *what, const char *str, type *r)      \
  {                                                                     \
    long long n;                                                        \
                                                                        \
    if (parse_signed (what, str, min, max, &n) == -1)                   \
      return -1;                                                        \
    if (r)                                                              \
      *r = n;                                                           \
    return 0;                                                           \
  }
#define DEFINE_UNSIGNED(name, type, max)                                \
  int                                                                   \
  nbdkit_parse_##name (const char *what, const char *str, type *r)      \
  {                                                                     \
    unsigned long long n;                                               \
                                                                        \
    if (parse_unsigned (what, str, max, &n) == -1)                      \
      return -1;                                                        \
    if (r)                                                              \
      *r = n;                                                           \
    return 0;                                                           \
  }
DEFINE_SIGNED (int, int, INT_MIN, INT_MAX)
DEFINE_SIGNED (int8_t, int8_t, INT8_MIN, INT8_MAX)
DEFINE_SIGNED (int16_t, int16_t, INT16_MIN, INT16_MAX)
DEFINE_SIGNED (int32_t, int32_t, INT32_MIN, INT32_MAX)
DEFINE_SIGNED (int64_t, int64_t, INT64_MIN, INT64_MAX)
DEFINE_UNSIGNED (unsigned, unsigned, UINT_MAX)
DEFINE_UNSIGNED (uint8_t, uint8_t, UINT8_MAX)
DEFINE_UNSIGNED (uint16_t, uint16_t, UINT16_MAX)
DEFINE_UNSIGNED (uint32_t, uint32_t, UINT32_MAX)
DEFINE_UNSIGNED (uint64_t, uint64_t, UINT64_MAX)

/* The first line of FD, which is closed. */
static int
password_from_fd (const char *what, int fd, char **password)
{
  FILE *fp = fdopen (fd, "r");
  size_t size = 0;
  ssize_t n;

  *password = NULL;
  if (fp == NULL) {
    nbdkit_error ("%s: %s", what, strerror (errno));
    close (fd);
    return -1;
  }
  n = getline (password, &size, fp);
  if (n == -1 && ferror (fp)) {
    nbdkit_error ("%s: could not read the password: %s", what,
                  strerror (errno));
    free (*password);
    *password = NULL;
    fclose (fp);
    return -1;
  }
  fclose (fp);
  if (n == -1) { /* empty input is an empty password */
    free (*password);
    *password = strdup ("");
    n = 0;
  }
  if (*password && n > 0 && (*password)[n - 1] == '\n')
    (*password)[n - 1] = '\0';
  return *password ? 0 : -1;
}

static int
password_from_terminal (char **password)
{
  struct termios old, quiet;
  int fd, r;

  if (!isatty (STDIN_FILENO)) {
    nbdkit_error ("stdin is not a terminal, cannot read a password");
    return -1;
  }
  fd = dup (STDIN_FILENO);
  if (fd == -1 || tcgetattr (fd, &old) == -1) {
    nbdkit_error ("cannot read a password: %s", strerror (errno));
    if (fd >= 0)
      close (fd);
    return -1;
  }
  fputs ("password: ", stdout);
  fflush (stdout);
  quiet = old;
  quiet.c_lflag &= ~ECHO;
  tcsetattr (STDIN_FILENO, TCSAFLUSH, &quiet);
  r = password_from_fd ("password", fd, password);
  tcsetattr (STDIN_FILENO, TCSAFLUSH, &old);
  fputc ('\n', stdout);
  return r;
}

int
nbdkit_read_password (const char *value, char **password)
{
  int fd;

  *password = NULL;
  if (strcmp (value, "-") == 0)
    return password_from_terminal (password);
  if (value[0] == '-') {
    if (nbdkit_parse_int ("password file descriptor", value + 1, &fd) == -1)
      return -1;
    if (fd <= STDERR_FILENO) {
      nbdkit_error ("a password cannot be read from file descriptor %d", fd);
      return -1;
    }
    return password_from_fd ("password", fd, password);
  }
  if (value[0] == '+') {
    fd = open (value + 1, O_CLOEXEC | O_RDONLY);
    if (fd == -1) {
      nbdkit_error ("open %s: %s", value + 1, strerror (errno));
      return -1;
    }
    return password_from_fd (value + 1, fd, password);
  }
  *password = strdup (value);
  return *password ? 0 : -1;
}
