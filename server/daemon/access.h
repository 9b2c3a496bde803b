/* daemon: who may open an export: the text of allow= as a rule.
 *
 *   allow = any
 *   allow = user:backup addr:10.0.0.0/8&tls cn:"web server"
 *
 * A rule is a list of alternatives; one that holds lets the peer in.  The
 * terms of an alternative, joined by &, must all hold.  What a peer is stands
 * in its host_context; names of certificates are there only when the
 * certificate was verified.
 */
#ifndef BTRNBDD_DAEMON_ACCESS_H
#define BTRNBDD_DAEMON_ACCESS_H

#include <stdbool.h>

struct access;
struct host_context;

/* Kinds of identities that a rule asks for; TLS gives them. */
#define ACCESS_WANTS_TLS 1u
#define ACCESS_WANTS_CERTIFICATES 2u
#define ACCESS_WANTS_PSK 4u

/* Add the alternatives in TEXT to *RULE, which is made when it is NULL.  -1
 * with a sentence in *RET_ERROR; *RULE remains valid.
 */
extern int access_add (struct access **rule, const char *text,
                       char **ret_error);
extern void access_free (struct access *); /* accepts NULL */
extern unsigned access_wants (const struct access *); /* ACCESS_WANTS_* */
/* No rule (NULL) lets everybody in. */
extern bool access_allows (const struct access *,
                           const struct host_context *);

#endif /* BTRNBDD_DAEMON_ACCESS_H */
