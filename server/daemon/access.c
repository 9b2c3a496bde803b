/* daemon: access rules. */
#include <config.h>

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <linux/vm_sockets.h>
#include <pwd.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/access.h"
#include "daemon/fail.h"
#include "host/context.h"

#define TERMS_MAX 10000        /* of one rule */

enum term_kind { TERM_ANY, TERM_NONE, TERM_UNIX, TERM_TCP, TERM_VSOCK,
                 TERM_TLS, TERM_UID, TERM_ADDR, TERM_CN, TERM_DN, TERM_PSK };

struct term {
  enum term_kind kind;
  bool first;                  /* begins an alternative */
  bool any_number;             /* vsock without a CID */
  uint32_t number;             /* uid, CID */
  uint8_t addr[16];            /* v4 as ::ffff:a.b.c.d */
  unsigned bits;               /* of addr that count */
  char *text;                  /* cn, dn, psk */
};

struct access {
  size_t count;
  struct term *terms;
};

/* --- parsing --- */

static int
parse_number (const char *what, const char *s, uint32_t *ret,
              char **ret_error)
{
  unsigned long long n;
  char *end;

  errno = 0;
  n = strtoull (s, &end, 10);
  if (!isdigit ((unsigned char) *s) || *end || errno || n >= UINT32_MAX)
    return fail (ret_error, "%s:%s: not a number", what, s);
  *ret = n;
  return 0;
}

static int
parse_user (struct term *t, const char *name, char **ret_error)
{
  const struct passwd *pw = getpwnam (name);

  if (pw == NULL)
    return fail (ret_error, "user:%s: there is no such user", name);
  t->kind = TERM_UID;
  t->number = pw->pw_uid;
  return 0;
}

static const uint8_t v4_prefix[12] = { [10] = 0xff, [11] = 0xff };

/* The bits behind the prefix must be zero: 10.1.2.3/8 is a mistake. */
static bool
tail_is_zero (const struct term *t)
{
  unsigned i;

  for (i = t->bits; i < 128; ++i)
    if (t->addr[i / 8] & (0x80 >> i % 8))
      return false;
  return true;
}

static int
parse_addr (struct term *t, const char *s, char **ret_error)
{
  const char *slash = strchrnul (s, '/');
  char host[INET6_ADDRSTRLEN];
  unsigned width = 128, base = 0;
  uint32_t bits;

  t->kind = TERM_ADDR;
  if ((size_t) (slash - s) >= sizeof host)
    return fail (ret_error, "addr:%s: not an address", s);
  memcpy (host, s, slash - s);
  host[slash - s] = '\0';
  if (inet_pton (AF_INET, host, t->addr + 12) == 1) {
    memcpy (t->addr, v4_prefix, sizeof v4_prefix);
    width = 32;
    base = 96;
  }
  else if (inet_pton (AF_INET6, host, t->addr) != 1)
    return fail (ret_error, "addr:%s: not an address or ADDRESS/BITS", s);
  bits = width;
  if (*slash && (parse_number ("addr", slash + 1, &bits, ret_error) == -1 ||
                 bits > width))
    return fail (ret_error, "addr:%s: the prefix must have 0 to %u bits", s,
                 width);
  t->bits = base + bits;
  if (!tail_is_zero (t))
    return fail (ret_error, "addr:%s: the address has bits behind its "
                 "prefix", s);
  return 0;
}

static const struct word {
  const char *name;            /* with ':': takes a value */
  enum term_kind kind;
} words[] = {
  { "any", TERM_ANY }, { "none", TERM_NONE }, { "unix", TERM_UNIX },
  { "tcp", TERM_TCP }, { "tls", TERM_TLS }, { "vsock", TERM_VSOCK },
  { "vsock:", TERM_VSOCK }, { "uid:", TERM_UID }, { "user:", TERM_UID },
  { "addr:", TERM_ADDR }, { "cn:", TERM_CN }, { "dn:", TERM_DN },
  { "psk:", TERM_PSK },
};

static int
parse_value (struct term *t, const char *name, const char *value,
             char **ret_error)
{
  if (*value == '\0')
    return fail (ret_error, "%s needs a value", name);
  switch (t->kind) {
  case TERM_UID:
    return strcmp (name, "user:") == 0 ? parse_user (t, value, ret_error)
      : parse_number ("uid", value, &t->number, ret_error);
  case TERM_VSOCK:
    return parse_number ("vsock", value, &t->number, ret_error);
  case TERM_ADDR:
    return parse_addr (t, value, ret_error);
  default:
    t->text = strdup (value);
    return t->text ? 0 : fail (ret_error, "out of memory");
  }
}

static int
parse_term (struct term *t, const char *s, char **ret_error)
{
  const char *colon = strchr (s, ':');
  const size_t len = colon ? (size_t) (colon - s) + 1 : strlen (s);
  size_t i;

  for (i = 0; i < sizeof words / sizeof words[0]; ++i)
    if (strlen (words[i].name) == len &&
        strncmp (words[i].name, s, len) == 0) {
      t->kind = words[i].kind;
      t->any_number = colon == NULL;
      return colon ? parse_value (t, words[i].name, colon + 1, ret_error)
        : 0;
    }
  return fail (ret_error, "\"%s\" is not one of any, none, unix, tcp, vsock, "
               "tls, uid:, user:, addr:, cn:, dn:, psk:", s);
}

/* One term from *TEXT to BUF, without its quotes; false at the end or where
 * a quote is not closed.  *TEXT is left at what ended it.
 */
static bool
next_term (const char **text, char *buf)
{
  const char *s = *text;
  bool quoted = false;

  for (; *s && (quoted || (!isspace ((unsigned char) *s) && *s != '&')); ++s)
    if (*s == '"')
      quoted = !quoted;
    else
      *buf++ = *s;
  *buf = '\0';
  *text = s;
  return !quoted;
}

static int
add_term (struct access *a, const char *s, bool first, char **ret_error)
{
  struct term t = { .kind = TERM_NONE }, *v;

  if (a->count == TERMS_MAX)
    return fail (ret_error, "more than %d terms", TERMS_MAX);
  if (parse_term (&t, s, ret_error) == -1)
    return -1;
  t.first = first;
  v = realloc (a->terms, (a->count + 1) * sizeof t);
  if (v == NULL) {
    free (t.text);
    return fail (ret_error, "out of memory");
  }
  a->terms = v;
  a->terms[a->count++] = t;
  return 0;
}

static int
add_terms (struct access *a, const char *text, char *buf, char **ret_error)
{
  const char *s = text;
  bool first = true;

  for (;;) {
    while (isspace ((unsigned char) *s))
      s++;
    if (*s == '\0')
      break;
    if (!next_term (&s, buf))
      return fail (ret_error, "a quote is not closed");
    if (*buf == '\0')
      return fail (ret_error, "& joins two terms");
    if (add_term (a, buf, first, ret_error) == -1)
      return -1;
    while (isspace ((unsigned char) *s))
      s++;
    first = *s != '&';
    if (!first)
      s++;
  }
  if (!first)
    return fail (ret_error, "& joins two terms");
  return 0;
}

int
access_add (struct access **rule, const char *text, char **ret_error)
{
  char *buf;
  size_t before;
  int r;

  if (*rule == NULL)
    *rule = calloc (1, sizeof **rule);
  buf = malloc (strlen (text) + 1);
  if (*rule == NULL || buf == NULL)
    r = fail (ret_error, "out of memory");
  else {
    before = (*rule)->count;
    r = add_terms (*rule, text, buf, ret_error);
    if (r == 0 && (*rule)->count == before)
      r = fail (ret_error, "empty: say none, or any");
  }
  free (buf);
  return r;
}

void
access_free (struct access *a)
{
  size_t i;

  if (a == NULL)
    return;
  for (i = 0; i < a->count; ++i)
    free (a->terms[i].text);
  free (a->terms);
  free (a);
}

/* --- asking --- */

unsigned
access_wants (const struct access *a)
{
  unsigned wants = 0;
  size_t i;

  for (i = 0; a && i < a->count; ++i)
    switch (a->terms[i].kind) {
    case TERM_TLS:
      wants |= ACCESS_WANTS_TLS;
      break;
    case TERM_CN:
    case TERM_DN:
      wants |= ACCESS_WANTS_CERTIFICATES;
      break;
    case TERM_PSK:
      wants |= ACCESS_WANTS_PSK;
      break;
    default:
      break;
    }
  return wants;
}

static bool
is_v4 (const uint8_t *addr)
{
  return memcmp (addr, v4_prefix, sizeof v4_prefix) == 0;
}

static bool
addr_matches (const struct term *t, const struct sockaddr_storage *ss)
{
  const bool v4 = is_v4 (t->addr) && t->bits >= 96;
  uint8_t a[16];
  unsigned i;

  if (ss->ss_family == AF_INET) {
    memcpy (a, v4_prefix, sizeof v4_prefix);
    memcpy (a + 12, &((const struct sockaddr_in *) ss)->sin_addr, 4);
  }
  else if (ss->ss_family == AF_INET6)
    memcpy (a, &((const struct sockaddr_in6 *) ss)->sin6_addr, 16);
  else
    return false;
  if (is_v4 (a) != v4) /* ::/0 is no statement about IPv4 */
    return false;
  for (i = 0; i < t->bits; ++i)
    if ((a[i / 8] ^ t->addr[i / 8]) & (0x80 >> i % 8))
      return false;
  return true;
}

static bool
same_text (const char *have, const char *want)
{
  return have && strcmp (have, want) == 0;
}

static bool
term_holds (const struct term *t, const struct host_context *c)
{
  const int family = c->peer.addr.ss_family;

  switch (t->kind) {
  case TERM_ANY:
    return true;
  case TERM_NONE:
    return false;
  case TERM_UNIX:
    return family == AF_UNIX;
  case TERM_TCP:
    return family == AF_INET || family == AF_INET6;
  case TERM_VSOCK:
    return family == AF_VSOCK &&
      (t->any_number || t->number ==
       ((const struct sockaddr_vm *) &c->peer.addr)->svm_cid);
  case TERM_TLS:
    return c->tls;
  case TERM_UID:
    return family == AF_UNIX && c->peer.uid == (int64_t) t->number;
  case TERM_ADDR:
    return addr_matches (t, &c->peer.addr);
  case TERM_CN:
    return same_text (c->tls_cn, t->text);
  case TERM_DN:
    return same_text (c->tls_dn, t->text);
  case TERM_PSK:
    return same_text (c->tls_psk_user, t->text);
  }
  return false;
}

bool
access_allows (const struct access *a, const struct host_context *c)
{
  bool holds = a == NULL;
  size_t i;

  for (i = 0; a && i < a->count; ++i) {
    if (a->terms[i].first) {
      if (holds)
        return true;
      holds = true;
    }
    holds = holds && term_holds (&a->terms[i], c);
  }
  return holds;
}
