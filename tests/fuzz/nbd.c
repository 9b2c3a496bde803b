/* Fuzz target: the NBD protocol of btrnbdd, without I/O: handshake and
 * transmission against an export in memory.  No input may crash or hang; what
 * the server says is well-formed, answers what was asked, and does not depend
 * on the portions in which the client's bytes arrive.
 *
 * Input: byte 0 is what the server is (TLS policy, read-only, no listing),
 * byte 1 chooses the portions; then what the client sends.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "lib/nbdsession.h"
#include "nbd/handshake.h"
#include "nbd/request.h"

#define EXPORT "e7"
#define SIZE 65536
#define EXTENTS 3

struct server {
  uint8_t kind;
  struct handshake hs;
  struct nbd_dialect dialect;
  struct buf in, out;          /* `out`: all that was ever sent */
  size_t transmission;         /* of `out`, from there on */
  bool transmitting, ended;
  uint64_t skip;               /* payload of a refused request */
  uint8_t disk[SIZE];
};

static void
must (bool good)
{
  if (!good)
    abort ();
}

/* --- handshake --- */

static struct handshake_export
describe (const struct server *s)
{
  struct handshake_export e = {
    .ok = s->hs.name_len == 0 || strcmp (s->hs.name, EXPORT) == 0,
    .error = "there is no such export", .size = SIZE,
    .flags = NBD_TX_SEND_FLUSH | NBD_TX_SEND_TRIM | NBD_TX_SEND_CACHE |
      NBD_TX_CAN_MULTI_CONN,
    .name = EXPORT, .description = "some memory", .block_min = 1,
    .block_preferred = 4096, .block_max = 1 << 20,
    .can_extents = true,
  };

  if (s->kind & 8)
    e.flags |= NBD_TX_READ_ONLY;
  else
    e.flags |= NBD_TX_SEND_FUA | NBD_TX_SEND_WRITE_ZEROES |
      NBD_TX_SEND_FAST_ZERO;
  return e;
}

static void
take_out (struct server *s)
{
  must (buf_append (&s->out, buf_front (&s->hs.out), buf_len (&s->hs.out)));
  buf_consume (&s->hs.out, buf_len (&s->hs.out));
}

/* False: more bytes, or the end. */
static bool
handshake_act (struct server *s, enum handshake_event ev)
{
  const struct handshake_export e = describe (s);

  switch (ev) {
  case HS_MORE:
    return false;
  case HS_ASK_LIST:
    must (handshake_list_add (&s->hs, EXPORT, "some memory"));
    must (handshake_list_add (&s->hs, "", NULL));
    ev = handshake_list_end (&s->hs, !(s->kind & 16));
    break;
  case HS_ASK_EXPORT:
    must (s->hs.name_len == strlen (s->hs.name));
    ev = handshake_export (&s->hs, &e);
    break;
  case HS_ASK_TLS:
    must (s->hs.tls_policy != HS_TLS_OFF && !s->hs.tls);
    ev = handshake_tls_done (&s->hs);
    break;
  case HS_DONE:
  case HS_END:
    break;
  }
  if (ev == HS_DONE) {
    must (s->hs.tls_policy != HS_TLS_REQUIRE || s->hs.tls);
    s->transmitting = true;
    s->dialect = (struct nbd_dialect) {
      .structured = s->hs.structured || s->hs.extended,
      .extended = s->hs.extended, .meta_allocation = s->hs.meta_allocation,
      .tx_flags = e.flags, .size = e.size,
    };
    must (!s->hs.meta_allocation || s->dialect.structured);
    return false;
  }
  s->ended = ev == HS_END;
  return !s->ended;
}

static void
do_handshake (struct server *s)
{
  while (handshake_act (s, handshake_feed (&s->hs, &s->in)))
    continue;
  take_out (s);
  if (!s->transmitting)
    s->transmission = buf_len (&s->out);
}

/* --- transmission --- */

/* LEN bytes at P answer R, and nothing else. */
static void
check_reply (const struct nbd_dialect *d, const struct nbd_request *r,
             const uint8_t *p, size_t len)
{
  be32 magic;
  be64 cookie;

  must (len >= sizeof (struct nbd_wire_simple_reply));
  memcpy (&magic, p, sizeof magic);
  memcpy (&cookie, p + 8, sizeof cookie);
  must (be64_get (cookie) == r->cookie);
  if (d->extended) {
    struct nbd_wire_chunk_ext c;

    must (len >= sizeof c);
    memcpy (&c, p, sizeof c);
    must (be32_get (magic) == NBD_EXTENDED_REPLY_MAGIC
          && be16_get (c.flags) == NBD_REPLY_FLAG_DONE
          && be64_get (c.length) == len - sizeof c
          && be64_get (c.offset) == r->offset);
  }
  else if (be32_get (magic) == NBD_STRUCTURED_REPLY_MAGIC) {
    struct nbd_wire_chunk c;

    must (d->structured && len >= sizeof c);
    memcpy (&c, p, sizeof c);
    must (be16_get (c.flags) == NBD_REPLY_FLAG_DONE
          && be32_get (c.length) == len - sizeof c);
  }
  else {
    struct nbd_wire_simple_reply c;

    memcpy (&c, p, sizeof c);
    must (be32_get (magic) == NBD_SIMPLE_REPLY_MAGIC);
    /* With structured replies a read is never answered by a simple one. */
    must (!d->structured || (r->type != NBD_CMD_READ && !c.error.b[3]));
    must (len == sizeof c
          + (r->type == NBD_CMD_READ && !c.error.b[3] ? r->length : 0));
  }
}

static void
say (struct server *s, const struct nbd_request *r, const void *reply,
     size_t len)
{
  check_reply (&s->dialect, r, reply, len);
  must (buf_append (&s->out, reply, len));
}

static void
do_status (struct server *s, const struct nbd_request *r)
{
  static uint8_t reply[NBD_REPLY_HEAD_MAX + 16 * EXTENTS];
  struct nbd_extent v[EXTENTS];
  uint64_t left = r->length;
  size_t n = 0;

  while (left > 0 && n < (r->flags & NBD_CMD_FLAG_REQ_ONE ? 1 : EXTENTS)) {
    v[n].length = left < 5000 ? left : 5000;
    v[n].flags = n % 4;
    left -= v[n++].length;
  }
  must (nbd_reply_extents_size (&s->dialect, n) <= sizeof reply);
  nbd_reply_extents (&s->dialect, r, v, n, reply);
  say (s, r, reply, nbd_reply_extents_size (&s->dialect, n));
}

/* It is allowed, and its payload (if any) is there. */
static void
execute (struct server *s, const struct nbd_request *r, const uint8_t *data)
{
  static uint8_t reply[NBD_REPLY_HEAD_MAX + SIZE];
  size_t n;

  must (r->type == NBD_CMD_FLUSH
        || (r->length > 0 && r->offset < SIZE
            && r->length <= SIZE - r->offset));
  switch (r->type) {
  case NBD_CMD_READ:
    n = nbd_reply_read_head (&s->dialect, r, reply);
    must (n <= NBD_REPLY_HEAD_MAX);
    memcpy (reply + n, s->disk + r->offset, r->length);
    say (s, r, reply, n + r->length);
    return;
  case NBD_CMD_WRITE:
    memcpy (s->disk + r->offset, data, r->length);
    break;
  case NBD_CMD_WRITE_ZEROES:
  case NBD_CMD_TRIM:
    memset (s->disk + r->offset, 0, r->length);
    break;
  case NBD_CMD_BLOCK_STATUS:
    do_status (s, r);
    return;
  }
  must (r->type == NBD_CMD_FLUSH || r->type == NBD_CMD_CACHE
        || !(s->kind & 8));
  n = nbd_reply_ok (&s->dialect, r, reply);
  must (n <= NBD_REPLY_HEAD_MAX);
  say (s, r, reply, n);
}

static void
refuse (struct server *s, const struct nbd_request *r, uint32_t error,
        const char *why)
{
  uint8_t reply[NBD_REPLY_HEAD_MAX + NBD_ERROR_TEXT_MAX];
  size_t n;

  must (why != NULL && nbd_error_from_errno (EINVAL, r) != 0);
  n = nbd_reply_error (&s->dialect, r, error, why, reply);
  must (n <= sizeof reply);
  say (s, r, reply, n);
  s->skip = nbd_request_payload (&s->dialect, r);
  s->ended = s->skip > NBD_MAX_PAYLOAD;
}

static void
skip_payload (struct server *s)
{
  const size_t n = buf_len (&s->in) < s->skip ? buf_len (&s->in) : s->skip;

  buf_consume (&s->in, n);
  s->skip -= n;
}

/* One request from `in`, if it is there whole. */
static bool
do_request (struct server *s)
{
  const size_t head = nbd_request_size (&s->dialect);
  const char *why = NULL;
  struct nbd_request r;
  uint32_t error;

  skip_payload (s);
  if (s->skip > 0 || buf_len (&s->in) < head)
    return false;
  if (!nbd_request_decode (&s->dialect, buf_front (&s->in), &r)
      || r.type == NBD_CMD_DISC) {
    s->ended = true;
    return false;
  }
  error = nbd_request_check (&s->dialect, &r, &why);
  if (error != 0) {
    buf_consume (&s->in, head);
    refuse (s, &r, error, why);
    return !s->ended;
  }
  if (r.type == NBD_CMD_WRITE) {
    must (nbd_request_payload (&s->dialect, &r) == r.length);
    if (buf_len (&s->in) < head + r.length)
      return false;
  }
  execute (s, &r, buf_front (&s->in) + head);
  buf_consume (&s->in, head + (r.type == NBD_CMD_WRITE ? r.length : 0));
  return true;
}

/* --- a session --- */

/* Greeting, replies to options, and, of EXPORT_NAME, what has no head. */
static void
check_handshake (const struct server *s)
{
  const uint8_t *p = buf_front ((struct buf *) &s->out);
  size_t left = s->transmitting || s->ended ? s->transmission
    : buf_len (&s->out);
  struct nbd_option_reply r;

  must (left >= sizeof (struct nbd_greeting));
  p += sizeof (struct nbd_greeting);
  left -= sizeof (struct nbd_greeting);
  while (left >= sizeof r) {
    memcpy (&r, p, sizeof r);
    if (be64_get (r.magic) != NBD_REP_MAGIC)
      break;
    must (be32_get (r.length) <= left - sizeof r);
    p += sizeof r + be32_get (r.length);
    left -= sizeof r + be32_get (r.length);
  }
  must (left == 0 || (s->transmitting && (left == 10 || left == 134)));
}

static void
feed (struct server *s, const uint8_t *data, size_t size)
{
  const bool before = s->transmitting;

  must (buf_append (&s->in, data, size));
  if (!s->transmitting && !s->ended)
    do_handshake (s);
  if (s->transmitting && !before)
    s->transmission = buf_len (&s->out);
  while (s->transmitting && !s->ended && do_request (s))
    continue;
}

static void
serve (struct server *s, uint8_t kind, unsigned portions,
       const uint8_t *data, size_t size)
{
  uint64_t state = portions;

  memset (s, 0, sizeof *s);
  s->kind = kind;
  handshake_init (&s->hs, (kind & 3) % 3);
  feed (s, data, 0);
  while (size > 0 && !s->ended) {
    const size_t n = portions == 0 ? size
      : 1 + session_random (&state, size < 40 ? size : 40);

    feed (s, data, n);
    data += n;
    size -= n;
  }
  check_handshake (s);
}

static void
server_done (struct server *s)
{
  handshake_done (&s->hs);
  buf_done (&s->in);
  buf_done (&s->out);
}

int
LLVMFuzzerInitialize (int *argc, char ***argv)
{
  (void) argc;
  (void) argv;
  return 0;
}

/* Now and then a new session: mutations seldom find one. */
size_t
LLVMFuzzerCustomMutator (uint8_t *data, size_t size, size_t max_size,
                         unsigned seed)
{
  static struct session s;
  uint64_t state = seed;

  if (size < 2 || seed % 32 == 0) {
    session_make (&s, &state, EXPORT, SIZE, 200);
    if (max_size < 2)
      return size;
    size = s.len < max_size - 2 ? s.len : max_size - 2;
    data[0] = seed >> 8;
    data[1] = seed >> 16;
    memcpy (data + 2, s.data, size);
    size += 2;
  }
  return LLVMFuzzerMutate (data, size, max_size);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  static struct server whole, parts;

  if (size < 2)
    return 0;
  serve (&whole, data[0], 0, data + 2, size - 2);
  serve (&parts, data[0], 1 + data[1], data + 2, size - 2);
  must (whole.ended == parts.ended
        && buf_len (&whole.out) == buf_len (&parts.out)
        && memcmp (buf_front (&whole.out), buf_front (&parts.out),
                   buf_len (&whole.out)) == 0
        && memcmp (whole.disk, parts.disk, SIZE) == 0);
  server_done (&whole);
  server_done (&parts);
  return 0;
}
