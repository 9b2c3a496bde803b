/* daemon: the settings: one table for the command line and [server]. */
#include <config.h>

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/fail.h"
#include "daemon/options.h"
#include "daemon/tcp_where.h"

enum setting_kind { SET_SWITCH, SET_STRING, SET_LIST, SET_NUMBER, SET_SIZE,
                    SET_TLS };

#define LINE_ONLY 1u           /* not in a file */

struct setting {
  const char *name;
  char letter;                 /* short option, or 0 */
  enum setting_kind kind;
  size_t offset;               /* in struct options */
  uint64_t min, max;           /* of numbers and sizes */
  unsigned flags;
  int (*check) (const char *value, char **ret_error); /* of texts; or NULL */
};

static int
check_metrics (const char *value, char **ret_error)
{
  struct tcp_where w;

  return strcmp (value, "off") == 0 ? 0
    : tcp_where_parse (value, &w, ret_error);
}

#define AT(field) offsetof (struct options, field)
#define YEAR_SECONDS (86400 * 365)

static const struct setting settings[] = {
  { "config", 'c', SET_STRING, AT (config), .flags = LINE_ONLY },
  { "check-config", 0, SET_SWITCH, AT (check_only), .flags = LINE_ONLY },
  { "device", 'd', SET_LIST, AT (devices), .flags = LINE_ONLY },
  { "plugin", 0, SET_STRING, AT (plugin), .flags = LINE_ONLY },
  { "plugin-dir", 0, SET_STRING, AT (plugin_dirs) },
  { "debug", 'D', SET_LIST, AT (debug) },
  { "listen", 'l', SET_LIST, AT (listen), .check = listen_check },
  { "read-only", 'r', SET_SWITCH, AT (read_only) },
  { "verbose", 'v', SET_SWITCH, AT (verbose) },
  { "tls", 0, SET_TLS, AT (tls_policy) },
  { "tls-certificates", 0, SET_STRING, AT (tls.certificates) },
  { "tls-psk", 0, SET_STRING, AT (tls.psk_file) },
  { "tls-verify-peer", 0, SET_SWITCH, AT (tls.verify_peer) },
  { "max-connections", 0, SET_NUMBER, AT (limits.connections), 1, 65536 },
  { "max-peer-connections", 0, SET_NUMBER, AT (limits.peer_connections), 0,
    65536 },
  { "max-requests", 0, SET_NUMBER, AT (limits.conn_requests), 1, 65536 },
  { "max-memory", 0, SET_SIZE, AT (limits.total_bytes),
    2 * (uint64_t) NBD_MAX_PAYLOAD, INT64_MAX },
  { "handshake-timeout", 0, SET_NUMBER, AT (limits.handshake_seconds), 1,
    3600 },
  { "idle-timeout", 0, SET_NUMBER, AT (limits.idle_seconds), 0,
    YEAR_SECONDS },
  { "drain-timeout", 0, SET_NUMBER, AT (limits.drain_seconds), 0, 3600 },
  { "stay-awake", 0, SET_NUMBER, AT (limits.awake_us), 0, 1000 },
  { "loops", 0, SET_NUMBER, AT (loops), 1, 256 },
  { "workers", 0, SET_NUMBER, AT (workers), 1, 1024 },
  { "control", 0, SET_STRING, AT (control) },
  { "metrics", 0, SET_STRING, AT (metrics), .check = check_metrics },
  { "pidfile", 0, SET_STRING, AT (pidfile) },
};
#define COUNT ((int) (sizeof settings / sizeof settings[0]))

/* --- names --- */

const struct option *
settings_getopt (void)
{
  static struct option list[COUNT + 3];
  int i;

  for (i = 0; i < COUNT; ++i) {
    list[i].name = settings[i].name;
    list[i].has_arg = settings[i].kind == SET_SWITCH ? no_argument
      : required_argument;
    list[i].val = settings[i].letter ? settings[i].letter
      : SETTING_FIRST + i;
  }
  list[i++] = (struct option) { "help", no_argument, NULL, 'h' };
  list[i] = (struct option) { "version", no_argument, NULL, 'V' };
  return list;
}

const char *
settings_letters (void)
{
  static char letters[2 * COUNT + 4];
  size_t n = 0;
  int i;

  letters[n++] = '+'; /* what follows the first parameter is the plugin's */
  for (i = 0; i < COUNT; ++i)
    if (settings[i].letter) {
      letters[n++] = settings[i].letter;
      if (settings[i].kind != SET_SWITCH)
        letters[n++] = ':';
    }
  letters[n++] = 'h';
  letters[n++] = 'V';
  letters[n] = '\0';
  return letters;
}

int
setting_by_val (int val)
{
  int i;

  if (val >= SETTING_FIRST && val < SETTING_FIRST + COUNT)
    return val - SETTING_FIRST;
  for (i = 0; i < COUNT; ++i)
    if (settings[i].letter && settings[i].letter == val)
      return i;
  return -1;
}

int
setting_by_name (const char *name)
{
  int i;

  for (i = 0; i < COUNT; ++i)
    if (strcmp (settings[i].name, name) == 0)
      return i;
  return -1;
}

const char *
setting_name (int index)
{
  return settings[index].name;
}

bool
setting_in_file (int index)
{
  return !(settings[index].flags & LINE_ONLY);
}

bool
setting_is_list (int index)
{
  return settings[index].kind == SET_LIST;
}

/* --- values --- */

static int
set_switch (bool *to, const char *value, char **ret_error)
{
  if (value == NULL || strcasecmp (value, "yes") == 0 ||
      strcasecmp (value, "true") == 0 || strcasecmp (value, "on") == 0 ||
      strcmp (value, "1") == 0)
    *to = true;
  else if (strcasecmp (value, "no") == 0 || strcasecmp (value, "false") == 0 ||
           strcasecmp (value, "off") == 0 || strcmp (value, "0") == 0)
    *to = false;
  else
    return fail (ret_error, "must be yes or no, not \"%s\"", value);
  return 0;
}

static int
set_list (struct option_list *list, const char *value, char **ret_error)
{
  const char **v;

  if (list->count == OPTION_LIST_MAX)
    return fail (ret_error, "more than %d of them", OPTION_LIST_MAX);
  v = realloc (list->v, (list->count + 1) * sizeof *v);
  if (v == NULL)
    return fail (ret_error, "out of memory");
  list->v = v;
  list->v[list->count++] = value;
  return 0;
}

/* A number; a size may have K, M, G or T behind it (powers of 1024). */
static int
parse_number (const struct setting *s, const char *value, uint64_t *ret,
              char **ret_error)
{
  static const char units[] = "kmgt";
  unsigned long long n;
  unsigned shift = 0;
  const char *unit;
  char *end;

  errno = 0;
  n = strtoull (value, &end, 10);
  if (s->kind == SET_SIZE && *end) {
    unit = strchr (units, tolower ((unsigned char) *end));
    if (unit) {
      shift = 10 * (unit - units + 1);
      end++;
    }
  }
  if (!isdigit ((unsigned char) *value) || *end || errno)
    return fail (ret_error, "\"%s\" is not a %s", value,
                 s->kind == SET_SIZE ? "size" : "number");
  if (n > (s->max >> shift) || n << shift < s->min)
    return fail (ret_error, "%s is out of range, which begins at %llu%s",
                 value, (unsigned long long) s->min,
                 s->kind == SET_SIZE ? " bytes" : "");
  *ret = n << shift;
  return 0;
}

static int
set_tls (enum handshake_tls_policy *to, const char *value, char **ret_error)
{
  if (strcmp (value, "off") == 0)
    *to = HS_TLS_OFF;
  else if (strcmp (value, "on") == 0)
    *to = HS_TLS_ON;
  else if (strcmp (value, "require") == 0)
    *to = HS_TLS_REQUIRE;
  else
    return fail (ret_error, "must be off, on or require, not \"%s\"", value);
  return 0;
}

int
setting_set (struct options *o, int index, const char *value,
             char **ret_error)
{
  const struct setting *s = &settings[index];
  void *field = (char *) o + s->offset;
  uint64_t n;

  if (s->kind == SET_SWITCH)
    return set_switch (field, value, ret_error);
  if (*value == '\0')
    return fail (ret_error, "the value is empty");
  switch (s->kind) {
  case SET_NUMBER:
    if (parse_number (s, value, &n, ret_error) == -1)
      return -1;
    *(atomic_uint *) field = n;
    return 0;
  case SET_SIZE:
    if (parse_number (s, value, &n, ret_error) == -1)
      return -1;
    *(atomic_size_t *) field = n;
    return 0;
  case SET_TLS:
    return set_tls (field, value, ret_error);
  default:
    if (s->check && s->check (value, ret_error) == -1)
      return -1;
    value = options_strdup (o, value);
    if (value == NULL)
      return fail (ret_error, "out of memory");
    if (s->kind == SET_LIST)
      return set_list (field, value, ret_error);
    *(const char **) field = value;
    return 0;
  }
}

/* --- what the options own --- */

const char *
options_strdup (struct options *o, const char *text)
{
  struct host_string *s = malloc (sizeof *s + strlen (text) + 1);

  if (s == NULL)
    return NULL;
  strcpy (s->text, text);
  SLIST_INSERT_HEAD (&o->strings, s, next);
  return s->text;
}

int
options_add_param (struct options *o, const char *text, const char *where,
                   char **ret_error)
{
  struct option_param *v =
    realloc (o->params, (o->nparams + 1) * sizeof *v);

  if (v == NULL)
    return fail (ret_error, "out of memory");
  o->params = v;
  v[o->nparams].text = options_strdup (o, text);
  v[o->nparams].where = options_strdup (o, where);
  if (v[o->nparams].text == NULL || v[o->nparams].where == NULL)
    return fail (ret_error, "out of memory");
  o->nparams++;
  return 0;
}

void
options_done (struct options *o)
{
  free (o->listen.v);
  free (o->devices.v);
  free (o->debug.v);
  free (o->params);
  rules_unref (o->rules);
  host_strings_free (&o->strings);
  *o = (struct options) { .config = NULL };
}
