/* nbd: constants and wire structures of the NBD protocol.
 *
 * Source: doc/proto.md of the NetworkBlockDevice project.  Integers on the
 * wire are big-endian; the be types have alignment 1.
 */
#ifndef BTRNBDD_NBD_PROTO_H
#define BTRNBDD_NBD_PROTO_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

typedef struct { uint8_t b[2]; } be16;
typedef struct { uint8_t b[4]; } be32;
typedef struct { uint8_t b[8]; } be64;

#define NBD_DEFINE_BE(bits)                                             \
  static inline uint##bits##_t                                          \
  be##bits##_get (be##bits v)                                           \
  {                                                                     \
    uint##bits##_t n;                                                   \
    memcpy (&n, v.b, sizeof n);                                         \
    return be##bits##toh (n);                                           \
  }                                                                     \
  static inline be##bits                                                \
  be##bits##_make (uint##bits##_t n)                                    \
  {                                                                     \
    be##bits v;                                                         \
    n = htobe##bits (n);                                                \
    memcpy (v.b, &n, sizeof n);                                         \
    return v;                                                           \
  }
NBD_DEFINE_BE (16)
NBD_DEFINE_BE (32)
NBD_DEFINE_BE (64)
#undef NBD_DEFINE_BE

/* Greeting and options. */
#define NBD_MAGIC UINT64_C (0x4e42444d41474943)        /* NBDMAGIC */
#define NBD_OPTS_MAGIC UINT64_C (0x49484156454F5054)   /* IHAVEOPT */
#define NBD_REP_MAGIC UINT64_C (0x0003e889045565a9)
#define NBD_FLAG_FIXED_NEWSTYLE 1u
#define NBD_FLAG_NO_ZEROES 2u

enum nbd_opt {
  NBD_OPT_EXPORT_NAME = 1,
  NBD_OPT_ABORT = 2,
  NBD_OPT_LIST = 3,
  NBD_OPT_STARTTLS = 5,
  NBD_OPT_INFO = 6,
  NBD_OPT_GO = 7,
  NBD_OPT_STRUCTURED_REPLY = 8,
  NBD_OPT_LIST_META_CONTEXT = 9,
  NBD_OPT_SET_META_CONTEXT = 10,
  NBD_OPT_EXTENDED_HEADERS = 11,
};

#define NBD_REP_ACK 1u
#define NBD_REP_SERVER 2u
#define NBD_REP_INFO 3u
#define NBD_REP_META_CONTEXT 4u
#define NBD_REP_ERR(n) (UINT32_C (0x80000000) | (n))
#define NBD_REP_ERR_UNSUP NBD_REP_ERR (1)
#define NBD_REP_ERR_POLICY NBD_REP_ERR (2)
#define NBD_REP_ERR_INVALID NBD_REP_ERR (3)
#define NBD_REP_ERR_TLS_REQD NBD_REP_ERR (5)
#define NBD_REP_ERR_UNKNOWN NBD_REP_ERR (6)
#define NBD_REP_ERR_SHUTDOWN NBD_REP_ERR (7)
#define NBD_REP_ERR_TOO_BIG NBD_REP_ERR (9)

#define NBD_INFO_EXPORT 0u
#define NBD_INFO_NAME 1u
#define NBD_INFO_DESCRIPTION 2u
#define NBD_INFO_BLOCK_SIZE 3u

/* Transmission flags of an export. */
#define NBD_TX_HAS_FLAGS (1u << 0)
#define NBD_TX_READ_ONLY (1u << 1)
#define NBD_TX_SEND_FLUSH (1u << 2)
#define NBD_TX_SEND_FUA (1u << 3)
#define NBD_TX_ROTATIONAL (1u << 4)
#define NBD_TX_SEND_TRIM (1u << 5)
#define NBD_TX_SEND_WRITE_ZEROES (1u << 6)
#define NBD_TX_SEND_DF (1u << 7)
#define NBD_TX_CAN_MULTI_CONN (1u << 8)
#define NBD_TX_SEND_CACHE (1u << 10)
#define NBD_TX_SEND_FAST_ZERO (1u << 11)

/* Requests. */
#define NBD_REQUEST_MAGIC UINT32_C (0x25609513)
#define NBD_REQUEST_MAGIC_EXT UINT32_C (0x21e41c71)
enum nbd_cmd {
  NBD_CMD_READ = 0,
  NBD_CMD_WRITE = 1,
  NBD_CMD_DISC = 2,
  NBD_CMD_FLUSH = 3,
  NBD_CMD_TRIM = 4,
  NBD_CMD_CACHE = 5,
  NBD_CMD_WRITE_ZEROES = 6,
  NBD_CMD_BLOCK_STATUS = 7,
};
#define NBD_CMD_FLAG_FUA (1u << 0)
#define NBD_CMD_FLAG_NO_HOLE (1u << 1)
#define NBD_CMD_FLAG_DF (1u << 2)
#define NBD_CMD_FLAG_REQ_ONE (1u << 3)
#define NBD_CMD_FLAG_FAST_ZERO (1u << 4)
#define NBD_CMD_FLAG_PAYLOAD_LEN (1u << 5)

/* Replies. */
#define NBD_SIMPLE_REPLY_MAGIC UINT32_C (0x67446698)
#define NBD_STRUCTURED_REPLY_MAGIC UINT32_C (0x668e33ef)
#define NBD_EXTENDED_REPLY_MAGIC UINT32_C (0x6e8a278c)
#define NBD_REPLY_FLAG_DONE 1u
#define NBD_REPLY_NONE 0u
#define NBD_REPLY_OFFSET_DATA 1u
#define NBD_REPLY_OFFSET_HOLE 2u
#define NBD_REPLY_BLOCK_STATUS 5u
#define NBD_REPLY_BLOCK_STATUS_EXT 6u
#define NBD_REPLY_ERROR 0x8001u

/* Errors on the wire. */
#define NBD_EPERM 1u
#define NBD_EIO 5u
#define NBD_ENOMEM 12u
#define NBD_EINVAL 22u
#define NBD_ENOSPC 28u
#define NBD_EOVERFLOW 75u
#define NBD_ENOTSUP 95u
#define NBD_ESHUTDOWN 108u

/* Bounds: of the protocol (names, strings) and of this server. */
#define NBD_MAX_STRING 4096u
#define NBD_MAX_OPTION (64u * 1024)     /* data of one option, bytes */
#define NBD_MAX_OPTIONS 128u            /* options of one handshake */
#define NBD_MAX_PAYLOAD (64u << 20)     /* of a read or write, bytes */
#define NBD_MAX_EXTENTS 8192u           /* in one block status reply */

#define NBD_META_ALLOCATION "base:allocation"
#define NBD_META_ALLOCATION_ID 1u

struct nbd_greeting {
  be64 magic, opts_magic;
  be16 flags;
};
struct nbd_option {
  be64 magic;
  be32 option, length;
};
struct nbd_option_reply {
  be64 magic;
  be32 option, type, length;
};
struct nbd_wire_request {
  be32 magic;
  be16 flags, type;
  be64 cookie, offset;
  be32 length;
};
struct nbd_wire_request_ext {
  be32 magic;
  be16 flags, type;
  be64 cookie, offset, length;
};
struct nbd_wire_simple_reply {
  be32 magic, error;
  be64 cookie;
};
struct nbd_wire_chunk {
  be32 magic;
  be16 flags, type;
  be64 cookie;
  be32 length;
};
struct nbd_wire_chunk_ext {
  be32 magic;
  be16 flags, type;
  be64 cookie, offset, length;
};

_Static_assert (sizeof (struct nbd_greeting) == 18, "greeting");
_Static_assert (sizeof (struct nbd_option) == 16, "option");
_Static_assert (sizeof (struct nbd_option_reply) == 20, "option reply");
_Static_assert (sizeof (struct nbd_wire_request) == 28, "request");
_Static_assert (sizeof (struct nbd_wire_request_ext) == 32, "request");
_Static_assert (sizeof (struct nbd_wire_simple_reply) == 16, "reply");
_Static_assert (sizeof (struct nbd_wire_chunk) == 20, "chunk");
_Static_assert (sizeof (struct nbd_wire_chunk_ext) == 32, "chunk");

#endif /* BTRNBDD_NBD_PROTO_H */
