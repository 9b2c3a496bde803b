/* nbd: requests and replies of the transmission phase, without I/O. */
#ifndef BTRNBDD_NBD_REQUEST_H
#define BTRNBDD_NBD_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include "nbd/proto.h"

/* How the two sides talk after the handshake; constant per connection. */
struct nbd_dialect {
  bool structured, extended;   /* extended implies structured */
  bool meta_allocation;
  uint16_t tx_flags;           /* NBD_TX_* that were sent */
  uint64_t size;               /* of the export, bytes */
};

struct nbd_request {
  uint64_t cookie, offset, length;
  uint16_t type, flags;        /* enum nbd_cmd, NBD_CMD_FLAG_* */
};

/* Bytes of a request header in this dialect. */
static inline size_t
nbd_request_size (const struct nbd_dialect *d)
{
  return d->extended ? sizeof (struct nbd_wire_request_ext)
    : sizeof (struct nbd_wire_request);
}

/* Decode nbd_request_size bytes.  False: wrong magic, the stream is lost. */
extern bool nbd_request_decode (const struct nbd_dialect *, const void *wire,
                                struct nbd_request *ret);
/* Bytes of payload that follow the header. */
extern uint64_t nbd_request_payload (const struct nbd_dialect *,
                                     const struct nbd_request *);
/* 0, or the NBD error that answers the request without asking the plugin;
 * *ret_why is a static sentence.
 */
extern uint32_t nbd_request_check (const struct nbd_dialect *,
                                   const struct nbd_request *,
                                   const char **ret_why);
/* The NBD error for an errno of the plugin. */
extern uint32_t nbd_error_from_errno (int err, const struct nbd_request *);

/* --- replies ---
 *
 * Every function writes the bytes that come before the data (or the whole
 * reply) to DST and returns their number, at most NBD_REPLY_HEAD_MAX.
 */
#define NBD_REPLY_HEAD_MAX 64
#define NBD_ERROR_TEXT_MAX 512

/* Success without data. */
extern size_t nbd_reply_ok (const struct nbd_dialect *,
                            const struct nbd_request *, uint8_t *dst);
/* Success of a read: the head; LENGTH bytes of data follow. */
extern size_t nbd_reply_read_head (const struct nbd_dialect *,
                                   const struct nbd_request *, uint8_t *dst);
/* An error with an optional text; DST has room for NBD_REPLY_HEAD_MAX +
 * NBD_ERROR_TEXT_MAX.
 */
extern size_t nbd_reply_error (const struct nbd_dialect *,
                               const struct nbd_request *, uint32_t error,
                               const char *text, uint8_t *dst);

struct nbd_extent {
  uint64_t length;
  uint32_t flags;              /* of base:allocation: 1 hole, 2 zero */
};
/* Bytes of a block status reply with N extents, and the reply itself. */
extern size_t nbd_reply_extents_size (const struct nbd_dialect *, size_t n);
extern void nbd_reply_extents (const struct nbd_dialect *,
                               const struct nbd_request *,
                               const struct nbd_extent *, size_t n,
                               uint8_t *dst);

#endif /* BTRNBDD_NBD_REQUEST_H */
