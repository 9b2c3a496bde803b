/* cli: messages, opening the pool, printing. */
#include <config.h>

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

int
cli_error (const char *fmt, ...)
{
  va_list ap;

  fputs ("btrnbd: ", stderr);
  va_start (ap, fmt);
  vfprintf (stderr, fmt, ap);
  va_end (ap);
  putc ('\n', stderr);
  return 1;
}

int
cli_fail (int code, const char *fmt, ...)
{
  va_list ap;

  fputs ("btrnbd: ", stderr);
  va_start (ap, fmt);
  vfprintf (stderr, fmt, ap);
  va_end (ap);
  fprintf (stderr, ": %s\n", btrnbd_last_error (code));
  return 1;
}

int
cli_usage_error (const struct cli *c, const char *fmt, ...)
{
  va_list ap;

  fprintf (stderr, "btrnbd: %s: ", c->command->name);
  va_start (ap, fmt);
  vfprintf (stderr, fmt, ap);
  va_end (ap);
  fprintf (stderr, "\nTry 'btrnbd %s --help'.\n", c->command->name);
  return 2;
}

int
cli_open (struct cli *c, bool read_only)
{
  const struct btrnbd_open_opts opts = { .read_only = read_only,
                                         .super_copy = c->super_copy };
  int r = btrnbd_pool_open (c->devices, c->num_devices, &opts, &c->pool);

  if (r < 0)
    return cli_fail (r, "%s", c->devices[0]);
  return 0;
}

int
cli_close (struct cli *c, int status)
{
  int r = btrnbd_pool_close (c->pool);

  c->pool = NULL;
  if (r < 0 && status == 0)
    status = cli_fail (r, "%s", c->devices[0]);
  return cli_finish_output (status);
}

int
cli_finish_output (int status)
{
  if ((fflush (stdout) != 0 || ferror (stdout)) && status == 0)
    return cli_error ("standard output: write error");
  return status;
}

const char *
cli_size (uint64_t bytes, char buf[CLI_SIZE_MAX])
{
  static const char *const units[] = {
    "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"
  };
  double n = bytes;
  unsigned u = 0;

  for (; n >= 1024; u++)
    n /= 1024;
  if (u == 0)
    snprintf (buf, CLI_SIZE_MAX, "%" PRIu64 " B", bytes);
  else
    snprintf (buf, CLI_SIZE_MAX, n < 10 ? "%.2f %s" : n < 100 ? "%.1f %s" :
              "%.0f %s", n, units[u]);
  return buf;
}

json_t *
cli_json_string (const char *s)
{
  json_t *j = json_string (s);
  char *escaped, *out;

  if (j)
    return j;
  escaped = out = malloc (4 * strlen (s) + 1);
  if (!escaped)
    return NULL;
  for (; *s; s++)
    if (isascii ((unsigned char) *s))
      *out++ = *s;
    else
      out += sprintf (out, "\\x%02x", (unsigned char) *s);
  *out = '\0';
  j = json_string (escaped);
  free (escaped);
  return j;
}

int
cli_print_json (json_t *value)
{
  int r;

  if (!value)
    return cli_error ("out of memory");
  r = json_dumpf (value, stdout, JSON_INDENT (2) | JSON_PRESERVE_ORDER);
  putchar ('\n');
  json_decref (value);
  return r < 0 ? cli_error ("standard output: write error") : 0;
}

void
cli_print_name (const char *s, int width)
{
  for (; *s; s++, width--)
    putchar (iscntrl ((unsigned char) *s) ? '?' : *s);
  for (; width > 0; width--)
    putchar (' ');
}
