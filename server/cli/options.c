/* cli: a table-driven option parser over getopt_long. */
#include <config.h>

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#define OPTS_MAX 24
#define LONG_BASE 256           /* getopt value of the first table entry */
#define COMMON_JSON 512
#define COMMON_HELP 513
#define COMMON_SUPER_COPY 514
#define COMMON_SOCKET 515

bool
cli_add_device (struct cli *c, const char *name)
{
  if (c->num_devices == CLI_DEVICES_MAX) {
    cli_error ("more than %d devices", CLI_DEVICES_MAX);
    return false;
  }
  c->devices[c->num_devices++] = name;
  return true;
}

/* Decimal, or hexadecimal behind 0x; a leading zero means nothing. */
static bool
parse_number (const char *s, uint64_t *ret, const char **ret_end)
{
  char *end;

  if (!isdigit ((unsigned char) *s))
    return false;
  errno = 0;
  *ret = strtoull (s, &end, s[0] == '0' && (s[1] == 'x' || s[1] == 'X')
                   ? 16 : 10);
  *ret_end = end;
  return errno == 0;
}

bool
cli_parse_size (const char *what, const char *s, uint64_t *ret)
{
  static const char units[] = "KMGTPE";
  const char *end, *unit;
  uint64_t n;

  if (!parse_number (s, &n, &end))
    goto bad;
  unit = *end ? strchr (units, toupper ((unsigned char) *end)) : NULL;
  if (unit) {
    const unsigned shift = 10 * (unit - units + 1);

    if (n > UINT64_MAX >> shift)
      goto bad;
    n <<= shift;
    end++;
    if (end[0] == 'i' && end[1] == 'B')
      end += 2;
  }
  else if (*end == 'B' || *end == 'b')
    end++;
  if (*end || n > INT64_MAX)
    goto bad;
  *ret = n;
  return true;

bad:
  cli_error ("%s: \"%s\" is not a size", what, s);
  return false;
}

static bool
store (const struct cli_opt *o, const char *value)
{
  uint64_t n = 0;
  const char *end;

  switch (o->kind) {
  case CLI_FLAG:
    *(bool *) o->dest = true;
    return true;
  case CLI_STRING:
    *(const char **) o->dest = value;
    return true;
  case CLI_SIZE:
    return cli_parse_size (o->name, value, o->dest);
  case CLI_U32:
    if (!cli_parse_size (o->name, value, &n))
      return false;
    if (n > UINT32_MAX) {
      cli_error ("%s: \"%s\" is too large", o->name, value);
      return false;
    }
    *(uint32_t *) o->dest = n;
    return true;
  case CLI_COUNT:
    if (!parse_number (value, &n, &end) || *end) {
      cli_error ("%s: \"%s\" is not a number", o->name, value);
      return false;
    }
    if (n >= UINT32_MAX) {
      cli_error ("%s: \"%s\" is too large", o->name, value);
      return false;
    }
    *(uint32_t *) o->dest = n;
    return true;
  case CLI_U64:
    if (parse_number (value, &n, &end) && !*end) {
      *(uint64_t *) o->dest = n;
      return true;
    }
    cli_error ("%s: \"%s\" is not a number", o->name, value);
    return false;
  }
  return false;
}

static void
print_option (char letter, const char *name, const char *arg,
              const char *help)
{
  char left[40];

  snprintf (left, sizeof left, "%c%c%c --%s%s%s", letter ? '-' : ' ',
            letter ? letter : ' ', letter ? ',' : ' ', name, arg ? " " : "",
            arg ? arg : "");
  printf ("  %-26s %s\n", left, help);
}

static bool
has_letter (const struct cli_opt *opts, char letter)
{
  for (; opts->name; opts++)
    if (opts->letter == letter)
      return true;
  return false;
}

void
cli_print_help (const struct cli_command *command, const struct cli_opt *opts)
{
  static const char *const reach[] = {
    [CLI_DEVICES] = "-d DEVICE...", [CLI_POOL] = "-d DEVICE...|-s SOCKET",
    [CLI_SERVER] = "-s SOCKET",
  };

  printf ("usage: btrnbd %s %s [OPTION...]%s%s\n\n%c%s.\n\n"
          "Options:\n", reach[command->reach], command->name,
          *command->args ? " " : "", command->args,
          toupper ((unsigned char) command->summary[0]),
          command->summary + 1);
  for (const struct cli_opt *o = opts; o->name; o++)
    print_option (o->letter, o->name, o->kind == CLI_FLAG ? NULL : o->arg,
                  o->help);
  if (command->reach != CLI_SERVER)
    print_option ('d', "device", "DEVICE",
                  "a device of the pool (repeatable)");
  if (command->reach != CLI_DEVICES)
    print_option (has_letter (opts, 's') ? 0 : 's', "socket", "SOCKET",
                  "the control socket of a server");
  print_option (0, "json", NULL, "print JSON");
  if (command->reach != CLI_SERVER)
    print_option (0, "super-copy", "N",
                  "recovery: open from superblock copy 1 or 2");
  print_option ('h', "help", NULL, "this text");
}

bool
cli_set_super_copy (struct cli *c, const char *number)
{
  if (strcmp (number, "1") != 0 && strcmp (number, "2") != 0) {
    cli_error ("super-copy: \"%s\" is not 1 or 2", number);
    return false;
  }
  c->super_copy = *number - '0';
  return true;
}

/* getopt's form of the table: the long options, and the letters. */
static void
make_getopt (const struct cli_opt *opts, struct option *longs, char *letters)
{
  struct option *l = longs;
  char *s = letters;

  for (const struct cli_opt *o = opts; o->name; o++) {
    const int has_arg = o->kind == CLI_FLAG ? no_argument : required_argument;

    assert (o - opts < OPTS_MAX);
    *l++ = (struct option) { o->name, has_arg, NULL,
                             LONG_BASE + (int) (o - opts) };
    if (o->letter) {
      *s++ = o->letter;
      if (has_arg)
        *s++ = ':';
    }
  }
  *l++ = (struct option) { "device", required_argument, NULL, 'd' };
  *l++ = (struct option) { "socket", required_argument, NULL,
                           COMMON_SOCKET };
  *l++ = (struct option) { "json", no_argument, NULL, COMMON_JSON };
  *l++ = (struct option) { "super-copy", required_argument, NULL,
                           COMMON_SUPER_COPY };
  *l++ = (struct option) { "help", no_argument, NULL, COMMON_HELP };
  *l = (struct option) { 0 };
  /* A letter of the command's own comes before -s SOCKET. */
  strcpy (s, has_letter (opts, 's') ? "d:h" : "d:hs:");
}

static const struct cli_opt *
find_opt (const struct cli_opt *opts, int value)
{
  if (value >= LONG_BASE && value < LONG_BASE + OPTS_MAX)
    return opts + (value - LONG_BASE);
  for (const struct cli_opt *o = opts; o->name; o++)
    if (o->letter == value)
      return o;
  return NULL;
}

static char **
over (struct cli *c, int status)
{
  if (status == 2)
    fprintf (stderr, "Try 'btrnbd %s --help'.\n", c->command->name);
  c->status = status;
  return NULL;
}

/* Devices or a socket, as the command needs it. */
static bool
pool_is_known (struct cli *c)
{
  const enum cli_reach reach = c->command->reach;

  if (reach == CLI_DEVICES && c->socket)
    cli_error ("%s works on devices (-d), not through a server (-s)",
               c->command->name);
  else if (reach == CLI_SERVER && c->num_devices > 0)
    cli_error ("%s asks a server (-s), not devices (-d)", c->command->name);
  else if (c->socket && c->num_devices > 0)
    cli_error ("give the devices (-d) or the socket of their server (-s), "
               "not both");
  else if (c->socket || c->num_devices > 0)
    return true;
  else if (reach == CLI_DEVICES)
    cli_error ("which device? give it with -d");
  else {
    c->socket = cli_default_socket (c->socket_buf, sizeof c->socket_buf);
    if (c->socket)
      return true;
    if (reach == CLI_POOL)
      cli_error ("which device? give it with -d, or the socket of its "
                 "server with -s");
    else
      cli_error ("which server? give its control socket with -s");
  }
  return false;
}

char **
cli_parse (struct cli *c, const struct cli_opt *opts)
{
  struct option longs[OPTS_MAX + 6];
  char letters[2 * OPTS_MAX + 6], name[64];
  int value, n;

  make_getopt (opts, longs, letters);
  /* getopt names the program in its messages. */
  snprintf (name, sizeof name, "btrnbd %s", c->command->name);
  c->argv[0] = name;
  optind = 0;
  while ((value = getopt_long (c->argc, c->argv, letters, longs, NULL)) != -1)
    switch (value) {
    case 'd':
      if (!cli_add_device (c, optarg))
        return over (c, 2);
      break;
    case COMMON_SOCKET:
      c->socket = optarg;
      break;
    case COMMON_JSON:
      c->json = true;
      break;
    case COMMON_SUPER_COPY:
      if (!cli_set_super_copy (c, optarg))
        return over (c, 2);
      break;
    case 'h':
    case COMMON_HELP:
      cli_print_help (c->command, opts);
      return over (c, cli_finish_output (0));
    default: {
      const struct cli_opt *o = find_opt (opts, value);

      if (!o && value == 's') {
        c->socket = optarg;
        break;
      }
      if (!o || !store (o, optarg))
        return over (c, 2);
      break;
    }
    }

  n = c->argc - optind;
  if (n < c->command->min_args ||
      (c->command->max_args >= 0 && n > c->command->max_args)) {
    cli_error ("%s takes %s%s", c->command->name,
               *c->command->args ? "the arguments " : "no arguments",
               c->command->args);
    return over (c, 2);
  }
  return pool_is_known (c) ? c->argv + optind : over (c, 2);
}
