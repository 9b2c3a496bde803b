/* nbd: the fixed newstyle handshake.
 *
 *   GREET -> FLAGS -> OPTION <-> ASKED (question to the host) -> DONE
 *                        \-> TLS -> OPTION (state before TLS is forgotten)
 *
 * Bounds: the length of an option, the number of options; the owner bounds
 * the time.  Rules that a client may break without being cut off get an error
 * reply; broken framing ends the connection.
 */
#include <config.h>

#include <assert.h>
#include <stdlib.h>

#include "nbd/handshake.h"

#define FLAGS_LEN 4

void
handshake_init (struct handshake *hs, enum handshake_tls_policy policy)
{
  memset (hs, 0, sizeof *hs);
  hs->tls_policy = policy;
}

void
handshake_done (struct handshake *hs)
{
  buf_done (&hs->out);
}

static enum handshake_event
end (struct handshake *hs, const char *reason)
{
  hs->end_reason = reason;
  return HS_END;
}

static enum handshake_event
reply (struct handshake *hs, uint32_t type, const void *data, uint32_t len)
{
  struct nbd_option_reply r = {
    .magic = be64_make (NBD_REP_MAGIC),
    .option = be32_make (hs->option),
    .type = be32_make (type),
    .length = be32_make (len),
  };

  if (!buf_append (&hs->out, &r, sizeof r) ||
      !buf_append (&hs->out, data, len))
    return end (hs, "out of memory");
  return HS_MORE;
}

static enum handshake_event
reply_text (struct handshake *hs, uint32_t type, const char *text)
{
  return reply (hs, type, text, text ? strlen (text) : 0);
}

/* A string of the protocol: LEN bytes at DATA, to the terminated DST.  NUL
 * inside is refused here, everything else is the host's to judge.
 */
static bool
take_name (const uint8_t *data, uint32_t len, char *dst, size_t *ret_len)
{
  if (len > NBD_MAX_STRING || memchr (data, '\0', len) != NULL)
    return false;
  memcpy (dst, data, len);
  dst[len] = '\0';
  if (ret_len)
    *ret_len = len;
  return true;
}

static enum handshake_event
greet (struct handshake *hs)
{
  struct nbd_greeting g = {
    .magic = be64_make (NBD_MAGIC),
    .opts_magic = be64_make (NBD_OPTS_MAGIC),
    .flags = be16_make (NBD_FLAG_FIXED_NEWSTYLE | NBD_FLAG_NO_ZEROES),
  };

  hs->state = HS_STATE_FLAGS;
  if (!buf_append (&hs->out, &g, sizeof g))
    return end (hs, "out of memory");
  return HS_MORE;
}

static enum handshake_event
client_flags (struct handshake *hs, struct buf *in)
{
  be32 raw;
  uint32_t flags;

  memcpy (&raw, buf_front (in), sizeof raw);
  buf_consume (in, sizeof raw);
  flags = be32_get (raw);
  if (flags & ~(NBD_FLAG_FIXED_NEWSTYLE | NBD_FLAG_NO_ZEROES))
    return end (hs, "unknown client flags");
  hs->fixed = flags & NBD_FLAG_FIXED_NEWSTYLE;
  hs->no_zeroes = flags & NBD_FLAG_NO_ZEROES;
  hs->state = HS_STATE_OPTION;
  return HS_MORE;
}

static enum handshake_event
opt_export_name (struct handshake *hs, const uint8_t *data, uint32_t len)
{
  if (hs->tls_policy == HS_TLS_REQUIRE && !hs->tls)
    return end (hs, "TLS is required");
  if (!take_name (data, len, hs->name, &hs->name_len))
    return end (hs, "bad export name");
  hs->final = true;
  hs->infos = 0;
  hs->state = HS_STATE_ASKED;
  return HS_ASK_EXPORT;
}

/* name length, name, number of infos, infos */
static enum handshake_event
opt_go (struct handshake *hs, const uint8_t *data, uint32_t len)
{
  be32 raw_len;
  be16 raw;
  uint32_t name_len, infos;

  if (len < sizeof raw_len + sizeof raw)
    return reply_text (hs, NBD_REP_ERR_INVALID, "option is too short");
  memcpy (&raw_len, data, sizeof raw_len);
  name_len = be32_get (raw_len);
  if (name_len > len - sizeof raw_len - sizeof raw ||
      !take_name (data + sizeof raw_len, name_len, hs->name, &hs->name_len))
    return reply_text (hs, NBD_REP_ERR_INVALID, "bad export name");
  data += sizeof raw_len + name_len;
  len -= sizeof raw_len + name_len;
  memcpy (&raw, data, sizeof raw);
  infos = be16_get (raw);
  data += sizeof raw;
  len -= sizeof raw;
  if (len != infos * sizeof raw)
    return reply_text (hs, NBD_REP_ERR_INVALID, "wrong number of infos");
  hs->infos = 0;
  for (; infos > 0; --infos, data += sizeof raw) {
    memcpy (&raw, data, sizeof raw);
    if (be16_get (raw) < 16)
      hs->infos |= 1u << be16_get (raw);
  }
  hs->final = hs->option == NBD_OPT_GO;
  hs->state = HS_STATE_ASKED;
  return HS_ASK_EXPORT;
}

/* Does a query name base:allocation (also by the wildcard "base:" in a
 * listing)?
 */
static bool
query_matches (const uint8_t *q, uint32_t len, bool listing)
{
  static const char full[] = NBD_META_ALLOCATION;

  if (len == strlen (full) && memcmp (q, full, len) == 0)
    return true;
  return listing && len == 5 && memcmp (q, "base:", 5) == 0;
}

static enum handshake_event
reply_allocation (struct handshake *hs, bool listing)
{
  uint8_t data[4 + sizeof NBD_META_ALLOCATION - 1];
  be32 id = be32_make (listing ? 0 : NBD_META_ALLOCATION_ID);

  memcpy (data, &id, 4);
  memcpy (data + 4, NBD_META_ALLOCATION, sizeof data - 4);
  return reply (hs, NBD_REP_META_CONTEXT, data, sizeof data);
}

/* name length, name, number of queries, (length, query)... */
static enum handshake_event
opt_meta (struct handshake *hs, const uint8_t *data, uint32_t len)
{
  const bool listing = hs->option == NBD_OPT_LIST_META_CONTEXT;
  be32 raw;
  uint32_t name_len, queries, qlen;
  bool match;

  if (!hs->structured && !hs->extended)
    return reply_text (hs, NBD_REP_ERR_INVALID,
                       "structured replies come first");
  if (len < 2 * sizeof raw)
    return reply_text (hs, NBD_REP_ERR_INVALID, "option is too short");
  memcpy (&raw, data, sizeof raw);
  name_len = be32_get (raw);
  if (name_len > len - 2 * sizeof raw ||
      !take_name (data + sizeof raw, name_len, hs->meta_name, NULL))
    return reply_text (hs, NBD_REP_ERR_INVALID, "bad export name");
  data += sizeof raw + name_len;
  len -= sizeof raw + name_len;
  memcpy (&raw, data, sizeof raw);
  queries = be32_get (raw);
  data += sizeof raw;
  len -= sizeof raw;

  match = listing && queries == 0;
  for (; queries > 0; --queries) {
    if (len < sizeof raw)
      return reply_text (hs, NBD_REP_ERR_INVALID, "query is cut short");
    memcpy (&raw, data, sizeof raw);
    qlen = be32_get (raw);
    data += sizeof raw;
    len -= sizeof raw;
    if (qlen > len)
      return reply_text (hs, NBD_REP_ERR_INVALID, "query is cut short");
    match |= query_matches (data, qlen, listing);
    data += qlen;
    len -= qlen;
  }
  if (len > 0)
    return reply_text (hs, NBD_REP_ERR_INVALID, "bytes after the queries");
  if (!listing) {
    hs->meta_set = true;
    hs->meta_allocation = match;
  }
  if (match && reply_allocation (hs, listing) == HS_END)
    return HS_END;
  return reply (hs, NBD_REP_ACK, NULL, 0);
}

static enum handshake_event
opt_starttls (struct handshake *hs, uint32_t len)
{
  if (len != 0)
    return reply_text (hs, NBD_REP_ERR_INVALID, "option has no data");
  if (hs->tls)
    return reply_text (hs, NBD_REP_ERR_INVALID, "TLS is on already");
  if (hs->tls_policy == HS_TLS_OFF)
    return reply_text (hs, NBD_REP_ERR_POLICY, "TLS is not offered");
  if (reply (hs, NBD_REP_ACK, NULL, 0) == HS_END)
    return HS_END;
  hs->state = HS_STATE_TLS;
  return HS_ASK_TLS;
}

static enum handshake_event
opt_switch (struct handshake *hs, uint32_t len, bool *flag)
{
  if (len != 0)
    return reply_text (hs, NBD_REP_ERR_INVALID, "option has no data");
  *flag = true;
  return reply (hs, NBD_REP_ACK, NULL, 0);
}

static enum handshake_event
handle_option (struct handshake *hs, const uint8_t *data, uint32_t len)
{
  const bool need_tls = hs->tls_policy == HS_TLS_REQUIRE && !hs->tls;

  if (need_tls && hs->option != NBD_OPT_STARTTLS &&
      hs->option != NBD_OPT_ABORT && hs->option != NBD_OPT_EXPORT_NAME)
    return reply_text (hs, NBD_REP_ERR_TLS_REQD, "TLS is required");

  switch (hs->option) {
  case NBD_OPT_EXPORT_NAME:
    return opt_export_name (hs, data, len);
  case NBD_OPT_ABORT:
    (void) reply (hs, NBD_REP_ACK, NULL, 0);
    return end (hs, "client aborted the handshake");
  case NBD_OPT_LIST:
    if (len != 0)
      return reply_text (hs, NBD_REP_ERR_INVALID, "option has no data");
    hs->state = HS_STATE_ASKED;
    return HS_ASK_LIST;
  case NBD_OPT_STARTTLS:
    return opt_starttls (hs, len);
  case NBD_OPT_INFO:
  case NBD_OPT_GO:
    return opt_go (hs, data, len);
  case NBD_OPT_STRUCTURED_REPLY:
    if (hs->extended)
      return reply_text (hs, NBD_REP_ERR_INVALID,
                         "extended headers are on already");
    return opt_switch (hs, len, &hs->structured);
  case NBD_OPT_EXTENDED_HEADERS:
    return opt_switch (hs, len, &hs->extended);
  case NBD_OPT_LIST_META_CONTEXT:
  case NBD_OPT_SET_META_CONTEXT:
    if (hs->option == NBD_OPT_SET_META_CONTEXT)
      hs->meta_set = hs->meta_allocation = false;
    return opt_meta (hs, data, len);
  default:
    return reply (hs, NBD_REP_ERR_UNSUP, NULL, 0);
  }
}

/* One option from IN, if it is there whole. */
static enum handshake_event
feed_option (struct handshake *hs, struct buf *in, bool *ret_progress)
{
  struct nbd_option o;
  uint32_t len;
  enum handshake_event ev;

  *ret_progress = false;
  if (buf_len (in) < sizeof o)
    return HS_MORE;
  memcpy (&o, buf_front (in), sizeof o);
  if (be64_get (o.magic) != NBD_OPTS_MAGIC)
    return end (hs, "bad option magic");
  len = be32_get (o.length);
  if (len > NBD_MAX_OPTION)
    return end (hs, "option is too long");
  if (buf_len (in) < sizeof o + len)
    return HS_MORE;
  if (++hs->options > NBD_MAX_OPTIONS)
    return end (hs, "too many options");
  hs->option = be32_get (o.option);
  if (!hs->fixed && hs->option != NBD_OPT_EXPORT_NAME)
    return end (hs, "option without fixed newstyle");
  ev = handle_option (hs, buf_front (in) + sizeof o, len);
  buf_consume (in, sizeof o + len);
  *ret_progress = true;
  return ev;
}

enum handshake_event
handshake_feed (struct handshake *hs, struct buf *in)
{
  enum handshake_event ev;
  bool progress = true;

  if (hs->state == HS_STATE_GREET && greet (hs) == HS_END)
    return HS_END;
  if (hs->state == HS_STATE_FLAGS) {
    if (buf_len (in) < FLAGS_LEN)
      return HS_MORE;
    if (client_flags (hs, in) == HS_END)
      return HS_END;
  }
  assert (hs->state == HS_STATE_OPTION);
  do
    ev = feed_option (hs, in, &progress);
  while (ev == HS_MORE && progress);
  return ev;
}

bool
handshake_list_add (struct handshake *hs, const char *name,
                    const char *description)
{
  const size_t nlen = strlen (name);
  const size_t dlen = description ? strlen (description) : 0;
  struct nbd_option_reply r = {
    .magic = be64_make (NBD_REP_MAGIC),
    .option = be32_make (hs->option),
    .type = be32_make (NBD_REP_SERVER),
    .length = be32_make (4 + nlen + dlen),
  };
  be32 raw = be32_make (nlen);

  assert (hs->state == HS_STATE_ASKED && hs->option == NBD_OPT_LIST);
  if (nlen > NBD_MAX_STRING || dlen > NBD_MAX_STRING)
    return true; /* cannot be told in this protocol */
  return buf_append (&hs->out, &r, sizeof r) &&
    buf_append (&hs->out, &raw, sizeof raw) &&
    buf_append (&hs->out, name, nlen) &&
    buf_append (&hs->out, description, dlen);
}

enum handshake_event
handshake_list_end (struct handshake *hs, bool ok)
{
  assert (hs->state == HS_STATE_ASKED && hs->option == NBD_OPT_LIST);
  hs->state = HS_STATE_OPTION;
  if (!ok)
    return reply_text (hs, NBD_REP_ERR_POLICY, "exports are not listed");
  return reply (hs, NBD_REP_ACK, NULL, 0);
}

static enum handshake_event
reply_info_text (struct handshake *hs, uint16_t type, const char *text)
{
  uint8_t data[2 + NBD_MAX_STRING];
  be16 raw = be16_make (type);
  size_t len = strlen (text);

  if (len > NBD_MAX_STRING)
    return HS_MORE;
  memcpy (data, &raw, 2);
  memcpy (data + 2, text, len);
  return reply (hs, NBD_REP_INFO, data, 2 + len);
}

static enum handshake_event
reply_infos (struct handshake *hs, const struct handshake_export *x,
             uint16_t flags)
{
  struct { be16 type; be64 size; be16 flags; } e = {
    be16_make (NBD_INFO_EXPORT), be64_make (x->size), be16_make (flags),
  };
  struct { be16 type; be32 min, preferred, max; } b = {
    be16_make (NBD_INFO_BLOCK_SIZE), be32_make (x->block_min),
    be32_make (x->block_preferred), be32_make (x->block_max),
  };
  const char *name = x->name ? x->name : hs->name;

  if (reply (hs, NBD_REP_INFO, &e, sizeof e) == HS_END)
    return HS_END;
  if (hs->infos & (1u << NBD_INFO_NAME) &&
      reply_info_text (hs, NBD_INFO_NAME, name) == HS_END)
    return HS_END;
  if (hs->infos & (1u << NBD_INFO_DESCRIPTION) && x->description &&
      reply_info_text (hs, NBD_INFO_DESCRIPTION, x->description) == HS_END)
    return HS_END;
  if (x->block_min > 0)
    return reply (hs, NBD_REP_INFO, &b, sizeof b);
  return HS_MORE;
}

static enum handshake_event
answer_export_name (struct handshake *hs, const struct handshake_export *x,
                    uint16_t flags)
{
  struct { be64 size; be16 flags; uint8_t zeroes[124]; } r = {
    .size = be64_make (x->size), .flags = be16_make (flags),
  };

  if (!x->ok)
    return end (hs, x->error ? x->error : "unknown export");
  if (!buf_append (&hs->out, &r, hs->no_zeroes ? 10 : sizeof r))
    return end (hs, "out of memory");
  hs->state = HS_STATE_DONE;
  return HS_DONE;
}

enum handshake_event
handshake_export (struct handshake *hs, const struct handshake_export *x)
{
  uint16_t flags = x->flags | NBD_TX_HAS_FLAGS;

  assert (hs->state == HS_STATE_ASKED && hs->option != NBD_OPT_LIST);
  hs->state = HS_STATE_OPTION;
  if (hs->structured || hs->extended)
    flags |= NBD_TX_SEND_DF;
  /* Contexts hold only for the export they were set for. */
  if (x->ok && hs->final &&
      (!hs->meta_set || strcmp (hs->meta_name, hs->name) != 0 ||
       !x->can_extents))
    hs->meta_allocation = false;

  if (hs->option == NBD_OPT_EXPORT_NAME)
    return answer_export_name (hs, x, flags);
  if (!x->ok)
    return reply_text (hs, x->full ? NBD_REP_ERR_POLICY
                       : NBD_REP_ERR_UNKNOWN, x->error);
  if (reply_infos (hs, x, flags) == HS_END ||
      reply (hs, NBD_REP_ACK, NULL, 0) == HS_END)
    return HS_END;
  if (!hs->final)
    return HS_MORE;
  hs->state = HS_STATE_DONE;
  return HS_DONE;
}

enum handshake_event
handshake_tls_done (struct handshake *hs)
{
  assert (hs->state == HS_STATE_TLS);
  /* The protocol wants everything said in clear text forgotten. */
  hs->structured = hs->extended = false;
  hs->meta_set = hs->meta_allocation = false;
  hs->tls = true;
  hs->state = HS_STATE_OPTION;
  return HS_MORE;
}
