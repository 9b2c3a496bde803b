/* nbd: requests and replies. */
#include <config.h>

#include <assert.h>
#include <errno.h>

#include "nbd/request.h"

bool
nbd_request_decode (const struct nbd_dialect *d, const void *wire,
                    struct nbd_request *ret)
{
  if (d->extended) {
    struct nbd_wire_request_ext w;

    memcpy (&w, wire, sizeof w);
    if (be32_get (w.magic) != NBD_REQUEST_MAGIC_EXT)
      return false;
    *ret = (struct nbd_request) {
      .cookie = be64_get (w.cookie), .offset = be64_get (w.offset),
      .length = be64_get (w.length), .type = be16_get (w.type),
      .flags = be16_get (w.flags),
    };
  }
  else {
    struct nbd_wire_request w;

    memcpy (&w, wire, sizeof w);
    if (be32_get (w.magic) != NBD_REQUEST_MAGIC)
      return false;
    *ret = (struct nbd_request) {
      .cookie = be64_get (w.cookie), .offset = be64_get (w.offset),
      .length = be32_get (w.length), .type = be16_get (w.type),
      .flags = be16_get (w.flags),
    };
  }
  return true;
}

uint64_t
nbd_request_payload (const struct nbd_dialect *d,
                     const struct nbd_request *r)
{
  if (r->type == NBD_CMD_WRITE)
    return r->length;
  /* The payload is read and refused; in other dialects the flag is unknown,
   * and what follows is the next request.
   */
  return d->extended && r->flags & NBD_CMD_FLAG_PAYLOAD_LEN ? r->length : 0;
}

/* Flags that each command knows. */
static uint16_t
flags_allowed (const struct nbd_dialect *d, const struct nbd_request *r)
{
  const uint16_t fua = d->tx_flags & NBD_TX_SEND_FUA ? NBD_CMD_FLAG_FUA : 0;

  switch (r->type) {
  case NBD_CMD_READ:
    return fua | (d->structured ? NBD_CMD_FLAG_DF : 0);
  case NBD_CMD_WRITE:
    return fua | (d->extended ? NBD_CMD_FLAG_PAYLOAD_LEN : 0);
  case NBD_CMD_WRITE_ZEROES:
    return fua | NBD_CMD_FLAG_NO_HOLE |
      (d->tx_flags & NBD_TX_SEND_FAST_ZERO ? NBD_CMD_FLAG_FAST_ZERO : 0);
  case NBD_CMD_BLOCK_STATUS:
    return fua | NBD_CMD_FLAG_REQ_ONE;
  default:
    return fua;
  }
}

/* What an export must have announced for a command; 0: nothing. */
static uint16_t
tx_needed (uint16_t type)
{
  switch (type) {
  case NBD_CMD_FLUSH: return NBD_TX_SEND_FLUSH;
  case NBD_CMD_TRIM: return NBD_TX_SEND_TRIM;
  case NBD_CMD_CACHE: return NBD_TX_SEND_CACHE;
  case NBD_CMD_WRITE_ZEROES: return NBD_TX_SEND_WRITE_ZEROES;
  default: return 0;
  }
}

static uint32_t
check_range (const struct nbd_dialect *d, const struct nbd_request *r,
             const char **ret_why)
{
  const bool grows = r->type == NBD_CMD_WRITE ||
    r->type == NBD_CMD_WRITE_ZEROES;

  if (r->offset > d->size || r->length > d->size - r->offset) {
    *ret_why = "range is beyond the end of the export";
    return grows ? NBD_ENOSPC : NBD_EINVAL;
  }
  if (r->length == 0) {
    *ret_why = "length is zero";
    return NBD_EINVAL;
  }
  if ((r->type == NBD_CMD_READ || r->type == NBD_CMD_WRITE) &&
      r->length > NBD_MAX_PAYLOAD) {
    *ret_why = "request is too large";
    return r->type == NBD_CMD_READ && d->extended ? NBD_EOVERFLOW
      : NBD_EINVAL;
  }
  return 0;
}

uint32_t
nbd_request_check (const struct nbd_dialect *d, const struct nbd_request *r,
                   const char **ret_why)
{
  const uint16_t needed = tx_needed (r->type);
  const bool changes = r->type == NBD_CMD_WRITE || r->type == NBD_CMD_TRIM ||
    r->type == NBD_CMD_WRITE_ZEROES;

  if (r->type > NBD_CMD_BLOCK_STATUS) {
    *ret_why = "unknown command";
    return NBD_EINVAL;
  }
  if (r->flags & ~flags_allowed (d, r)) {
    *ret_why = "command flag is not allowed here";
    return NBD_EINVAL;
  }
  if (changes && d->tx_flags & NBD_TX_READ_ONLY) {
    *ret_why = "export is read-only";
    return NBD_EPERM;
  }
  if (needed && !(d->tx_flags & needed)) {
    *ret_why = "command was not offered";
    return NBD_EINVAL;
  }
  if (r->type == NBD_CMD_BLOCK_STATUS && !d->meta_allocation) {
    *ret_why = "no metadata context was negotiated";
    return NBD_EINVAL;
  }
  if (r->type == NBD_CMD_FLUSH) {
    if (r->offset == 0 && r->length == 0)
      return 0;
    *ret_why = "a flush has no range";
    return NBD_EINVAL;
  }
  return check_range (d, r, ret_why);
}

uint32_t
nbd_error_from_errno (int err, const struct nbd_request *r)
{
  switch (err) {
  case EROFS:
  case EPERM:
    return NBD_EPERM;
  case EIO:
    return NBD_EIO;
  case ENOMEM:
    return NBD_ENOMEM;
  case EDQUOT:
  case EFBIG:
  case ENOSPC:
    return NBD_ENOSPC;
  case ESHUTDOWN:
    return NBD_ESHUTDOWN;
  case ENOTSUP:
    return r->flags & NBD_CMD_FLAG_FAST_ZERO ? NBD_ENOTSUP : NBD_EINVAL;
  default:
    return NBD_EINVAL;
  }
}

/* The head of one reply chunk with LENGTH bytes of payload. */
static size_t
chunk_head (const struct nbd_dialect *d, const struct nbd_request *r,
            uint16_t type, uint64_t length, uint8_t *dst)
{
  if (d->extended) {
    struct nbd_wire_chunk_ext c = {
      .magic = be32_make (NBD_EXTENDED_REPLY_MAGIC),
      .flags = be16_make (NBD_REPLY_FLAG_DONE), .type = be16_make (type),
      .cookie = be64_make (r->cookie), .offset = be64_make (r->offset),
      .length = be64_make (length),
    };

    memcpy (dst, &c, sizeof c);
    return sizeof c;
  }
  else {
    struct nbd_wire_chunk c = {
      .magic = be32_make (NBD_STRUCTURED_REPLY_MAGIC),
      .flags = be16_make (NBD_REPLY_FLAG_DONE), .type = be16_make (type),
      .cookie = be64_make (r->cookie), .length = be32_make (length),
    };

    memcpy (dst, &c, sizeof c);
    return sizeof c;
  }
}

static size_t
simple_head (const struct nbd_request *r, uint32_t error, uint8_t *dst)
{
  struct nbd_wire_simple_reply s = {
    .magic = be32_make (NBD_SIMPLE_REPLY_MAGIC),
    .error = be32_make (error), .cookie = be64_make (r->cookie),
  };

  memcpy (dst, &s, sizeof s);
  return sizeof s;
}

size_t
nbd_reply_ok (const struct nbd_dialect *d, const struct nbd_request *r,
              uint8_t *dst)
{
  /* A simple reply is allowed for everything without data, unless extended
   * headers rule it out; it is the shorter one.
   */
  if (d->extended)
    return chunk_head (d, r, NBD_REPLY_NONE, 0, dst);
  return simple_head (r, 0, dst);
}

size_t
nbd_reply_read_head (const struct nbd_dialect *d, const struct nbd_request *r,
                     uint8_t *dst)
{
  be64 offset = be64_make (r->offset);
  size_t n;

  if (!d->structured && !d->extended)
    return simple_head (r, 0, dst);
  n = chunk_head (d, r, NBD_REPLY_OFFSET_DATA, sizeof offset + r->length,
                  dst);
  memcpy (dst + n, &offset, sizeof offset);
  return n + sizeof offset;
}

size_t
nbd_reply_error (const struct nbd_dialect *d, const struct nbd_request *r,
                 uint32_t error, const char *text, uint8_t *dst)
{
  size_t len = text ? strlen (text) : 0, n;
  be32 raw_error = be32_make (error);
  be16 raw_len;

  if (!d->structured && !d->extended)
    return simple_head (r, error, dst);
  if (len > NBD_ERROR_TEXT_MAX)
    len = NBD_ERROR_TEXT_MAX;
  raw_len = be16_make (len);
  n = chunk_head (d, r, NBD_REPLY_ERROR,
                  sizeof raw_error + sizeof raw_len + len, dst);
  memcpy (dst + n, &raw_error, sizeof raw_error);
  n += sizeof raw_error;
  memcpy (dst + n, &raw_len, sizeof raw_len);
  n += sizeof raw_len;
  memcpy (dst + n, text ? text : "", len);
  return n + len;
}

size_t
nbd_reply_extents_size (const struct nbd_dialect *d, size_t n)
{
  if (d->extended)
    return sizeof (struct nbd_wire_chunk_ext) + 8 + 16 * n;
  return sizeof (struct nbd_wire_chunk) + 4 + 8 * n;
}

static uint8_t *
put32 (uint8_t *p, uint32_t v)
{
  be32 raw = be32_make (v);

  memcpy (p, &raw, sizeof raw);
  return p + sizeof raw;
}

static uint8_t *
put64 (uint8_t *p, uint64_t v)
{
  be64 raw = be64_make (v);

  memcpy (p, &raw, sizeof raw);
  return p + sizeof raw;
}

void
nbd_reply_extents (const struct nbd_dialect *d, const struct nbd_request *r,
                   const struct nbd_extent *extents, size_t n, uint8_t *dst)
{
  const size_t total = nbd_reply_extents_size (d, n);
  uint8_t *p = dst;
  size_t i;

  if (d->extended) {
    p += chunk_head (d, r, NBD_REPLY_BLOCK_STATUS_EXT,
                     total - sizeof (struct nbd_wire_chunk_ext), p);
    p = put32 (p, NBD_META_ALLOCATION_ID);
    p = put32 (p, n);
    for (i = 0; i < n; ++i) {
      p = put64 (p, extents[i].length);
      p = put64 (p, extents[i].flags);
    }
  }
  else {
    p += chunk_head (d, r, NBD_REPLY_BLOCK_STATUS,
                     total - sizeof (struct nbd_wire_chunk), p);
    p = put32 (p, NBD_META_ALLOCATION_ID);
    for (i = 0; i < n; ++i) {
      assert (extents[i].length <= UINT32_MAX);
      p = put32 (p, extents[i].length);
      p = put32 (p, extents[i].flags);
    }
  }
  assert ((size_t) (p - dst) == total);
}
