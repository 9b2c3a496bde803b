/* nbd: the fixed newstyle handshake as a state machine without I/O.
 *
 * The owner feeds bytes from the client and sends what appears in `out`.
 * What only the host can answer (which exports exist, what an export is,
 * whether TLS may start) comes back as a question; the machine stands still
 * until it is answered, so the answer may come from another thread's work.
 */
#ifndef BTRNBDD_NBD_HANDSHAKE_H
#define BTRNBDD_NBD_HANDSHAKE_H

#include "nbd/buf.h"
#include "nbd/proto.h"

enum handshake_event {
  HS_MORE,             /* feed more bytes */
  HS_ASK_LIST,         /* answer with handshake_list_add.., _list_end */
  HS_ASK_EXPORT,       /* answer with handshake_export; see `name`, `final` */
  HS_ASK_TLS,          /* send `out`, start TLS, then handshake_tls_done */
  HS_DONE,             /* transmission begins behind the consumed bytes */
  HS_END,              /* send `out`, then close: client left or broke rules */
};

/* What the host says of an export. */
struct handshake_export {
  bool ok;
  const char *error;           /* when !ok: the reason, or NULL */
  bool full;                   /* when !ok: it is there, for others */
  uint64_t size;
  uint16_t flags;              /* NBD_TX_* without DF and CAN_MULTI.. rules */
  const char *name;            /* canonical name, or NULL for the asked one */
  const char *description;     /* or NULL */
  uint32_t block_min, block_preferred, block_max; /* 0: not told */
  bool can_extents;
};

enum handshake_tls_policy { HS_TLS_OFF, HS_TLS_ON, HS_TLS_REQUIRE };

struct handshake {
  /* Set by the owner before the first feed. */
  enum handshake_tls_policy tls_policy;

  struct buf out;

  /* The question (HS_ASK_EXPORT). */
  char name[NBD_MAX_STRING + 1];
  size_t name_len;
  bool final;                  /* GO or EXPORT_NAME: keep the export open */

  /* The result. */
  bool tls, structured, extended, meta_allocation;
  const char *end_reason;      /* HS_END: for the log; static string */

  /* Private. */
  enum { HS_STATE_GREET, HS_STATE_FLAGS, HS_STATE_OPTION, HS_STATE_ASKED,
         HS_STATE_TLS, HS_STATE_DONE } state;
  bool fixed, no_zeroes;
  unsigned options;            /* handled so far, bounded */
  uint32_t option;             /* being handled */
  uint16_t infos;              /* bit per NBD_INFO_* asked for */
  bool meta_set;               /* a SET_META_CONTEXT is in force for ... */
  char meta_name[NBD_MAX_STRING + 1];
};

extern void handshake_init (struct handshake *,
                            enum handshake_tls_policy);
extern void handshake_done (struct handshake *);

/* Handle what is in IN as far as possible; consumes from it. */
extern enum handshake_event handshake_feed (struct handshake *,
                                            struct buf *in);

/* Answers.  Each returns the event to act on next (feed again on HS_MORE). */
extern bool handshake_list_add (struct handshake *, const char *name,
                                const char *description);
extern enum handshake_event handshake_list_end (struct handshake *,
                                                bool ok);
extern enum handshake_event
handshake_export (struct handshake *, const struct handshake_export *);
extern enum handshake_event handshake_tls_done (struct handshake *);

#endif /* BTRNBDD_NBD_HANDSHAKE_H */
