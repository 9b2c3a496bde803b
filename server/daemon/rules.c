/* daemon: the [export] sections of the configuration. */
#include <config.h>

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/access.h"
#include "daemon/exports.h"
#include "daemon/fail.h"
#include "daemon/ini.h"
#include "host/plugin.h"

#define MAX_CONNECTIONS 65536

struct rule {
  char *name;                  /* without the * of a pattern; once settled of
                                  an exact one what rule_name makes of it */
  size_t len;
  char *said;                  /* of an exact one: as it stands in the file */
  unsigned line;               /* of the file */
  bool pattern;
  struct access *allow;        /* NULL: not said here, as below */
  bool has_read_only, has_write_through, has_max, has_iops, has_bandwidth;
  struct export_settings set;
};

struct rules {
  atomic_uint refs;
  size_t count;
  struct rule *v;              /* exact names, then patterns, longest first */
  /* The plugin's; NULL: names are what they are. */
  int (*rule_name) (const char *name, char *buf, size_t size);
};

struct rules *
rules_new (void)
{
  struct rules *x = calloc (1, sizeof *x);

  if (x)
    x->refs = 1;
  return x;
}

struct rules *
rules_ref (struct rules *x)
{
  x->refs++;
  return x;
}

static void
rule_done (struct rule *r)
{
  access_free (r->allow);
  free (r->name);
  free (r->said);
}

void
rules_unref (struct rules *x)
{
  size_t i;

  if (x == NULL || --x->refs > 0)
    return;
  for (i = 0; i < x->count; ++i)
    rule_done (&x->v[i]);
  free (x->v);
  free (x);
}

/* --- parsing --- */

static int
parse_bool (const char *s, bool *ret, char **ret_error)
{
  static const char *const yes[] = { "yes", "true", "on", "1" };
  static const char *const no[] = { "no", "false", "off", "0" };
  size_t i;

  for (i = 0; i < 4; ++i)
    if (strcasecmp (s, yes[i]) == 0 || strcasecmp (s, no[i]) == 0) {
      *ret = strcasecmp (s, yes[i]) == 0;
      return 0;
    }
  return fail (ret_error, "must be yes or no");
}

/* A number with K, M, G (powers of 1024) or none; up to 2^50. */
static int
parse_rate (const char *s, double *ret, char **ret_error)
{
  static const char units[] = "kmgt";
  unsigned long long n;
  const char *unit;
  char *end;

  errno = 0;
  n = strtoull (s, &end, 10);
  if (!isdigit ((unsigned char) *s) || errno)
    return fail (ret_error, "must be a number, or one with K, M or G");
  *ret = n;
  if (*end) {
    unit = strchr (units, tolower ((unsigned char) *end));
    if (unit == NULL || end[1])
      return fail (ret_error, "must be a number, or one with K, M or G");
    *ret *= UINT64_C (1) << 10 * (unit - units + 1);
  }
  if (*ret < 1 || *ret > (double) (UINT64_C (1) << 50))
    return fail (ret_error, "is out of range; leave it out for no limit");
  return 0;
}

static int
parse_count (const char *s, unsigned *ret, char **ret_error)
{
  unsigned long n;
  char *end;

  errno = 0;
  n = strtoul (s, &end, 10);
  if (!isdigit ((unsigned char) *s) || *end || errno || n < 1 ||
      n > MAX_CONNECTIONS)
    return fail (ret_error, "must be a number from 1 to %u",
                 MAX_CONNECTIONS);
  *ret = n;
  return 0;
}

/* One line; only allow= may be repeated. */
static int
parse_entry (struct rule *r, const struct ini_entry *e, char **ret_error)
{
  bool *seen;
  int result;

  if (strcmp (e->key, "allow") == 0)
    return access_add (&r->allow, e->value, ret_error);
  if (strcmp (e->key, "readonly") == 0) {
    seen = &r->has_read_only;
    result = parse_bool (e->value, &r->set.read_only, ret_error);
  }
  else if (strcmp (e->key, "write-through") == 0) {
    seen = &r->has_write_through;
    result = parse_bool (e->value, &r->set.write_through, ret_error);
  }
  else if (strcmp (e->key, "iops") == 0) {
    seen = &r->has_iops;
    result = parse_rate (e->value, &r->set.iops, ret_error);
  }
  else if (strcmp (e->key, "bandwidth") == 0) {
    seen = &r->has_bandwidth;
    result = parse_rate (e->value, &r->set.bandwidth, ret_error);
  }
  else if (strcmp (e->key, "max-connections") == 0) {
    seen = &r->has_max;
    result = parse_count (e->value, &r->set.max_connections, ret_error);
  }
  else
    return fail (ret_error, "an export has no such setting (there are allow, "
                 "readonly, write-through, iops, bandwidth, max-connections)");
  if (result == 0 && *seen)
    return fail (ret_error, "is there twice");
  *seen = true;
  return result;
}

/* The order that rules_find wants, and lines among equals. */
static int
by_speciality (const void *a, const void *b)
{
  const struct rule *x = a, *y = b;

  if (x->pattern != y->pattern)
    return x->pattern ? 1 : -1;
  if (x->pattern && x->len != y->len)
    return x->len > y->len ? -1 : 1;
  return (x->line > y->line) - (x->line < y->line);
}

static int
add (struct rules *x, const struct rule *r)
{
  struct rule *v = realloc (x->v, (x->count + 1) * sizeof *v);

  if (v == NULL)
    return -1;
  x->v = v;
  v[x->count++] = *r;
  return 0;
}

int
rules_add (struct rules *x, const struct ini_section *s, const char *path,
           char **ret_error)
{
  struct rule r = { .len = strlen (s->name), .line = s->line };
  size_t i;

  if (r.len > NBD_MAX_STRING)
    return fail (ret_error, "%s:%u: the name is too long", path, s->line);
  r.pattern = r.len > 0 && s->name[r.len - 1] == '*';
  r.len -= r.pattern;
  r.name = strndup (s->name, r.len);
  r.said = strdup (s->name);
  if (r.name == NULL || r.said == NULL) {
    rule_done (&r);
    return fail (ret_error, "out of memory");
  }
  for (i = 0; i < s->count; ++i)
    if (parse_entry (&r, &s->entries[i], ret_error) == -1) {
      fail_note (ret_error, "%s:%u: %s: ", path, s->entries[i].line,
                 s->entries[i].key);
      rule_done (&r);
      return -1;
    }
  if (add (x, &r) == -1) {
    rule_done (&r);
    return fail (ret_error, "out of memory");
  }
  return 0;
}

/* --- one name for each export --- */

typedef int (*name_fn) (const char *name, char *buf, size_t size);

/* R's name becomes what FN says of it; -1 with FN's reason in CALL. */
static int
rename_rule (struct rule *r, name_fn fn, struct host_call *call)
{
  char name[NBD_MAX_STRING + 2], buf[NBD_MAX_STRING + 2], *copy;
  int result;

  /* A pattern is the beginning of a name: one that goes on is asked about. */
  snprintf (name, sizeof name, "%s%s", r->name, r->pattern ? "x" : "");
  host_call_begin (call, NULL);
  call->quiet = true;
  result = fn (name, buf, sizeof buf);
  host_call_end (call);
  if (result == -1)
    return -1;
  if (r->pattern)
    buf[strlen (buf) - 1] = '\0';
  copy = strdup (buf);
  if (copy == NULL)
    return -1;
  free (r->name);
  r->name = copy;
  r->len = strlen (copy);
  return 0;
}

static int
check_twice (const struct rules *x, const char *path, char **ret_error)
{
  size_t i, k;

  for (i = 0; i < x->count; ++i)
    for (k = 0; k < i; ++k)
      if (x->v[i].pattern == x->v[k].pattern &&
          strcmp (x->v[i].name, x->v[k].name) == 0) {
        const bool later = x->v[i].line > x->v[k].line;

        return fail (ret_error, "%s:%u: section [export %s%s] is there twice, "
                     "first in line %u", path, x->v[later ? i : k].line,
                     x->v[i].name, x->v[i].pattern ? "*" : "",
                     x->v[later ? k : i].line);
      }
  return 0;
}

int
rules_settle (struct rules *x, const struct plugin *pl, bool serving,
              const char *path, char **ret_error)
{
  struct host_call call;
  size_t i;

  x->rule_name = pl->ext.rule_name;
  for (i = 0; x->rule_name && i < x->count; ++i) {
    struct rule *r = &x->v[i];

    if (rename_rule (r, x->rule_name, &call) == -1)
      return fail (ret_error, "%s:%u: [export %s%s]: %s", path, r->line,
                   r->name, r->pattern ? "*" : "",
                   call.text[0] ? call.text : "out of memory");
    /* An image that the pool has not is nobody's to open. */
    if (serving && !r->pattern && r->name[0] == '@' && pl->ext.export_name)
      rename_rule (r, pl->ext.export_name, &call);
  }
  if (x->count > 0)
    qsort (x->v, x->count, sizeof *x->v, by_speciality);
  return check_twice (x, path, ret_error);
}

/* --- asking --- */

unsigned
rules_wants (const struct rules *x)
{
  unsigned wants = 0;
  size_t i;

  for (i = 0; i < x->count; ++i)
    wants |= access_wants (x->v[i].allow);
  return wants;
}

const char *
rules_name (const struct rules *x, size_t i)
{
  return i < x->count && !x->v[i].pattern ? x->v[i].said : NULL;
}

/* An export's name as rules are compared with it. */
struct asked {
  const char *name;            /* what patterns begin */
  char key[NBD_MAX_STRING + 2]; /* what exact names are */
};

static void
ask_for (const struct rules *x, const char *name, struct asked *ret)
{
  struct host_call call;

  ret->name = name;
  host_call_begin (&call, NULL);
  call.quiet = true;
  if (x->rule_name == NULL ||
      x->rule_name (name, ret->key, sizeof ret->key) == -1)
    snprintf (ret->key, sizeof ret->key, "%s", name);
  host_call_end (&call);
}

static bool
applies (const struct rule *r, const struct asked *a)
{
  return r->pattern ? strncmp (a->name, r->name, r->len) == 0
    : strcmp (a->key, r->name) == 0;
}

struct export_settings
rules_find (const struct rules *x, const char *name)
{
  struct asked asked;
  struct export_settings set = { .allow = NULL };
  bool read_only = false, through = false, max = false, iops = false,
    bandwidth = false;
  size_t i;

  ask_for (x, name, &asked);
  for (i = 0; i < x->count; ++i) {
    const struct rule *r = &x->v[i];

    if (!applies (r, &asked))
      continue;
    if (set.allow == NULL)
      set.allow = r->allow;
    if (r->has_read_only && !read_only)
      set.read_only = r->set.read_only;
    if (r->has_write_through && !through)
      set.write_through = r->set.write_through;
    if (r->has_max && !max)
      set.max_connections = r->set.max_connections;
    if (r->has_iops && !iops)
      set.iops = r->set.iops;
    if (r->has_bandwidth && !bandwidth)
      set.bandwidth = r->set.bandwidth;
    read_only |= r->has_read_only;
    through |= r->has_write_through;
    max |= r->has_max;
    iops |= r->has_iops;
    bandwidth |= r->has_bandwidth;
  }
  return set;
}

/* A rule of its own, not of all exports. */
static bool
names_image (const struct rule *r, const struct asked *a)
{
  return r->name[0] == '@' && r->allow != NULL && applies (r, a);
}

/* TO (NBD_MAX_STRING + 1 bytes) becomes the name of what NAME was once: a
 * pool's "vm1@nightly" was vm1.  0: it is no snapshot; else the bytes of NAME
 * with which a pattern that means snapshots at least begins.
 */
static size_t
snapshot_of (const struct rules *x, const char *name, char *to)
{
  const size_t top = strcspn (name, "/");
  const char *at = memchr (name, '@', top);

  if (x->rule_name == NULL || at == NULL || strlen (name) > NBD_MAX_STRING)
    return 0;
  memcpy (to, name, at - name);
  strcpy (to + (at - name), name + top);
  return at - name + 1;
}

/* A rule for NAME's first LEN bytes or more, not for a shorter beginning. */
static bool
has_own_rule (const struct rules *x, const char *name, size_t len)
{
  struct asked asked;
  size_t i;

  ask_for (x, name, &asked);
  for (i = 0; i < x->count; ++i) {
    const struct rule *r = &x->v[i];

    if (r->allow != NULL && (!r->pattern || r->len >= len) &&
        applies (r, &asked))
      return true;
  }
  return false;
}

bool
rules_let_in (const struct rules *x, const char *name,
              const struct host_context *c)
{
  char original[NBD_MAX_STRING + 1];
  struct asked asked;
  size_t i, len;

  if (!access_allows (rules_find (x, name).allow, c))
    return false;
  if (name[0] != '@') {
    len = snapshot_of (x, name, original);
    return len == 0 || has_own_rule (x, name, len) ||
      access_allows (rules_find (x, original).allow, c);
  }
  ask_for (x, name, &asked);
  for (i = 0; i < x->count; ++i)
    if (names_image (&x->v[i], &asked))
      return true;
  return rules_hide_nothing (x, c);
}

bool
rules_hide_nothing (const struct rules *x, const struct host_context *c)
{
  size_t i;

  for (i = 0; i < x->count; ++i)
    if (!access_allows (x->v[i].allow, c))
      return false;
  return true;
}
