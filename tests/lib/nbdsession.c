/* Sessions of NBD clients, see nbdsession.h. */
#include <config.h>

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "lib/nbdsession.h"
#include "nbd/proto.h"

struct maker {
  struct session *s;
  uint64_t *state;
  const char *name;
  uint64_t size;
  uint32_t max_data;
  bool extended;
  uint64_t cookie;
};

uint64_t
session_random (uint64_t *state, uint64_t n)
{
  *state = *state * UINT64_C (6364136223846793005) + 1442695040888963407;
  return (*state >> 33) % n;
}

static uint64_t
pick (struct maker *m, uint64_t n)
{
  return session_random (m->state, n);
}

static void
put (struct maker *m, const void *data, size_t len)
{
  assert (m->s->len + len <= SESSION_MAX);
  memcpy (m->s->data + m->s->len, data, len);
  m->s->len += len;
}

static void
put16 (struct maker *m, uint16_t v)
{
  be16 raw = be16_make (v);

  put (m, &raw, sizeof raw);
}

static void
put32 (struct maker *m, uint32_t v)
{
  be32 raw = be32_make (v);

  put (m, &raw, sizeof raw);
}

/* What follows belongs to one piece. */
static void
begin_piece (struct maker *m)
{
  assert (m->s->pieces < SESSION_PIECES);
  m->s->piece[m->s->pieces++] = m->s->len;
}

/* An option whose data is put next, LEN bytes. */
static void
option (struct maker *m, uint32_t number, uint32_t len)
{
  const struct nbd_option o = {
    .magic = be64_make (NBD_OPTS_MAGIC), .option = be32_make (number),
    .length = be32_make (len),
  };

  begin_piece (m);
  put (m, &o, sizeof o);
}

static void
go (struct maker *m, uint32_t number)
{
  static const uint16_t infos[] = { NBD_INFO_EXPORT, NBD_INFO_NAME,
    NBD_INFO_DESCRIPTION, NBD_INFO_BLOCK_SIZE, 77 };
  const uint32_t len = strlen (m->name);
  const unsigned n = pick (m, 6);
  unsigned i;

  option (m, number, 4 + len + 2 + 2 * n);
  put32 (m, len);
  put (m, m->name, len);
  put16 (m, n);
  for (i = 0; i < n; ++i)
    put16 (m, infos[i]);
}

static void
meta (struct maker *m, uint32_t number)
{
  static const char *const queries[] = { "base:allocation", "base:",
    "x-unknown:context" };
  const uint32_t len = strlen (m->name);
  const unsigned n = pick (m, 4);
  uint32_t total = 4 + len + 4;
  unsigned i;

  for (i = 0; i < n; ++i)
    total += 4 + strlen (queries[i]);
  option (m, number, total);
  put32 (m, len);
  put (m, m->name, len);
  put32 (m, n);
  for (i = 0; i < n; ++i) {
    put32 (m, strlen (queries[i]));
    put (m, queries[i], strlen (queries[i]));
  }
}

static void
some_option (struct maker *m)
{
  switch (pick (m, 8)) {
  case 0: option (m, NBD_OPT_LIST, 0); break;
  case 1: go (m, NBD_OPT_INFO); break;
  case 2: option (m, NBD_OPT_STRUCTURED_REPLY, 0); break;
  case 3:
    option (m, NBD_OPT_EXTENDED_HEADERS, 0);
    m->extended = true;
    break;
  case 4: meta (m, NBD_OPT_LIST_META_CONTEXT); break;
  case 5: case 6: meta (m, NBD_OPT_SET_META_CONTEXT); break;
  default:
    option (m, 99, 5);
    put (m, "what?", 5);
  }
}

static void
request (struct maker *m, uint16_t type, uint16_t flags, uint64_t offset,
         uint64_t length)
{
  const uint64_t cookie = ++m->cookie;

  begin_piece (m);
  if (m->extended) {
    const struct nbd_wire_request_ext w = {
      .magic = be32_make (NBD_REQUEST_MAGIC_EXT), .flags = be16_make (flags),
      .type = be16_make (type), .cookie = be64_make (cookie),
      .offset = be64_make (offset), .length = be64_make (length),
    };

    put (m, &w, sizeof w);
  }
  else {
    const struct nbd_wire_request w = {
      .magic = be32_make (NBD_REQUEST_MAGIC), .flags = be16_make (flags),
      .type = be16_make (type), .cookie = be64_make (cookie),
      .offset = be64_make (offset), .length = be32_make (length),
    };

    put (m, &w, sizeof w);
  }
}

static void
some_request (struct maker *m)
{
  static const uint16_t flags[] = {
    [NBD_CMD_READ] = NBD_CMD_FLAG_FUA,
    [NBD_CMD_WRITE] = NBD_CMD_FLAG_FUA,
    [NBD_CMD_TRIM] = NBD_CMD_FLAG_FUA,
    [NBD_CMD_WRITE_ZEROES] = NBD_CMD_FLAG_FUA | NBD_CMD_FLAG_NO_HOLE |
      NBD_CMD_FLAG_FAST_ZERO,
    [NBD_CMD_BLOCK_STATUS] = NBD_CMD_FLAG_REQ_ONE,
  };
  const uint16_t type = pick (m, NBD_CMD_BLOCK_STATUS + 1);
  const uint64_t most = type == NBD_CMD_WRITE ? m->max_data
    : type == NBD_CMD_READ ? 4 * m->max_data : m->size;
  const uint64_t length = 1 + pick (m, most < m->size ? most : m->size);
  const uint64_t offset = pick (m, m->size - length + 1);
  uint64_t i;

  switch (type) {
  case NBD_CMD_DISC:
    return; /* at the end */
  case NBD_CMD_FLUSH:
    request (m, type, 0, 0, 0);
    return;
  default:
    request (m, type, flags[type] & pick (m, 32), offset, length);
  }
  if (type != NBD_CMD_WRITE)
    return;
  if (m->extended) { /* its length is the payload's, and says so */
    uint8_t *at = m->s->data + m->s->len
      - sizeof (struct nbd_wire_request_ext)
      + offsetof (struct nbd_wire_request_ext, flags);

    at[1] |= NBD_CMD_FLAG_PAYLOAD_LEN;
  }
  for (i = 0; i < length; ++i) {
    const uint8_t byte = offset + i;

    put (m, &byte, 1);
  }
}

void
session_make (struct session *s, uint64_t *state, const char *name,
              uint64_t size, uint32_t max_data)
{
  struct maker m = { .s = s, .state = state, .name = name, .size = size,
                     .max_data = max_data };
  unsigned n;

  s->len = 0;
  s->pieces = 0;
  begin_piece (&m);
  put32 (&m, NBD_FLAG_FIXED_NEWSTYLE | (pick (&m, 2) ? NBD_FLAG_NO_ZEROES
                                        : 0));
  for (n = pick (&m, 7); n > 0; --n)
    some_option (&m);
  if (pick (&m, 16) == 0)
    option (&m, NBD_OPT_ABORT, 0);
  else if (pick (&m, 5) > 0)
    go (&m, NBD_OPT_GO);
  else {
    option (&m, NBD_OPT_EXPORT_NAME, strlen (name));
    put (&m, name, strlen (name));
  }
  for (n = pick (&m, 14); n > 0; --n)
    some_request (&m);
  request (&m, NBD_CMD_DISC, 0, 0, 0);
  s->piece[s->pieces] = s->len;
}
