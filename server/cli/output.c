/* cli: messages, opening the pool, printing. */
#include <config.h>

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "control/rpc.h"

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

/* Whoever serves a pool can be asked in its place. */
static int
open_failed (struct cli *c, int r)
{
  char *text = strdup (btrnbd_last_error (r)), path[256];
  int status;

  if (text && cli_find_server (text, path, sizeof path))
    status = cli_error ("%s: %s; use -s %s", c->devices[0], text, path);
  else
    status = cli_error ("%s: %s", c->devices[0], text ? text
                        : "out of memory");
  free (text);
  return status;
}

int
cli_open (struct cli *c, bool read_only)
{
  const struct btrnbd_open_opts opts = { .read_only = read_only,
                                         .super_copy = c->super_copy };
  int r;

  if (c->socket)
    return cli_error ("%s works on devices (-d), not through a server (-s)",
                      c->command->name);
  r = btrnbd_pool_open (c->devices, c->num_devices, &opts, &c->pool);
  return r < 0 ? open_failed (c, r) : 0;
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

const char *
cli_seconds (double s, char buf[CLI_SIZE_MAX])
{
  if (s <= 0)
    return "-";
  if (s < 1e-6)
    snprintf (buf, CLI_SIZE_MAX, "%.0f ns", s * 1e9);
  else if (s < 1e-3)
    snprintf (buf, CLI_SIZE_MAX, s < 1e-5 ? "%.1f us" : "%.0f us", s * 1e6);
  else if (s < 1)
    snprintf (buf, CLI_SIZE_MAX, "%.*f ms", s < 1e-2 ? 2 : s < 1e-1 ? 1 : 0,
              s * 1e3);
  else
    snprintf (buf, CLI_SIZE_MAX, "%.2f s", s);
  return buf;
}

const char *
cli_count (double n, char buf[CLI_SIZE_MAX])
{
  static const char *const units[] = { "", "k", "M", "G", "T", "P" };
  unsigned u = 0;

  for (; n >= 10000 && u < 5; u++)
    n /= 1000;
  snprintf (buf, CLI_SIZE_MAX, u > 0 && n < 100 ? "%.1f%s" : "%.0f%s", n,
            units[u]);
  return buf;
}

double
cli_json_real (const json_t *object, const char *key)
{
  return json_number_value (json_object_get (object, key));
}

uint64_t
cli_json_u64 (const json_t *object, const char *key)
{
  const json_int_t n = json_integer_value (json_object_get (object, key));

  return n < 0 ? 0 : n;
}

const char *
cli_json_text (const json_t *object, const char *key)
{
  const char *s = json_string_value (json_object_get (object, key));

  return s ? s : "";
}

bool
cli_json_bool (const json_t *object, const char *key)
{
  return json_is_true (json_object_get (object, key));
}

static int
print_json (json_t *value, size_t layout)
{
  const size_t flags = layout | JSON_PRESERVE_ORDER | JSON_ENCODE_ANY;
  char *text;
  int r;

  if (!value)
    return cli_error ("out of memory");
  text = json_dumps (value, flags);
  if (!text) {
    json_t *copy = rpc_sanitized (value);

    text = json_dumps (copy, flags);
    json_decref (copy);
  }
  json_decref (value);
  r = text ? puts (text) : EOF;
  free (text);
  return r < 0 ? cli_error ("standard output: write error") : 0;
}

int
cli_print_json (json_t *value)
{
  return print_json (value, JSON_INDENT (2));
}

int
cli_print_json_line (json_t *value)
{
  return print_json (value, JSON_COMPACT);
}

void
cli_print_name (const char *s, int width)
{
  for (; *s; s++, width--)
    putchar (iscntrl ((unsigned char) *s) ? '?' : *s);
  for (; width > 0; width--)
    putchar (' ');
}

void
cli_say_rounded (struct cli *c, const char *name, uint64_t wanted,
                 const json_t *result)
{
  const uint64_t size = cli_json_u64 (result, "size");

  if (result != NULL && size != wanted && !c->json)
    cli_error ("%s: the size is %" PRIu64 " bytes, whole sectors", name, size);
}
