/* daemon: TLS through GnuTLS, on non-blocking sockets. */
#ifndef BTRNBDD_DAEMON_TLS_H
#define BTRNBDD_DAEMON_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

struct tls_server;
struct tls_session;

struct tls_options {
  const char *certificates;    /* directory: ca-cert.pem, server-cert.pem,
                                  server-key.pem, ca-crl.pem; or NULL */
  const char *psk_file;        /* "user:hexkey" lines; or NULL */
  bool verify_peer;            /* clients must show a certificate of the CA */
};

/* NULL with a text when the credentials cannot be loaded.  Certificates are
 * read from their files now, never again: renewed ones make another server.
 */
extern struct tls_server *tls_server_new (const struct tls_options *,
                                          char **ret_error);
extern struct tls_server *tls_server_ref (struct tls_server *);
extern void tls_server_unref (struct tls_server *); /* accepts NULL */

/* Holds a reference on the server. */
extern struct tls_session *tls_session_new (struct tls_server *, int fd);
extern void tls_session_free (struct tls_session *); /* accepts NULL */

enum tls_result { TLS_AGAIN, TLS_READY, TLS_FAILED };
extern enum tls_result tls_session_handshake (struct tls_session *);
extern bool tls_session_wants_write (const struct tls_session *);
extern const char *tls_session_error (const struct tls_session *);
/* Whom the peer has proven to be: malloc'd texts, NULL where there is none; a
 * certificate's only when it was verified.
 */
struct tls_identity {
  char *dn, *cn;               /* distinguished name; its common name */
  char *psk_user;
};
extern void tls_session_identity (const struct tls_session *,
                                  struct tls_identity *ret);

/* As recv and writev with errno. */
extern ssize_t tls_session_recv (struct tls_session *, void *, size_t);
extern ssize_t tls_session_send (struct tls_session *, const struct iovec *,
                                 int n);
/* Bytes have been read from the socket that recv has not yet returned. */
extern bool tls_session_pending (const struct tls_session *);

#endif /* BTRNBDD_DAEMON_TLS_H */
