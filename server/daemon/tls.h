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

/* NULL with a message printed when the credentials cannot be loaded. */
extern struct tls_server *tls_server_new (const struct tls_options *);
extern void tls_server_free (struct tls_server *); /* accepts NULL */

extern struct tls_session *tls_session_new (struct tls_server *, int fd);
extern void tls_session_free (struct tls_session *); /* accepts NULL */

enum tls_result { TLS_AGAIN, TLS_READY, TLS_FAILED };
extern enum tls_result tls_session_handshake (struct tls_session *);
extern bool tls_session_wants_write (const struct tls_session *);
extern const char *tls_session_error (const struct tls_session *);
/* Distinguished name or PSK user of the peer, "" when it showed none. */
extern const char *tls_session_identity (const struct tls_session *);

/* As recv and writev with errno. */
extern ssize_t tls_session_recv (struct tls_session *, void *, size_t);
extern ssize_t tls_session_send (struct tls_session *, const struct iovec *,
                                 int n);
/* Bytes have been read from the socket that recv has not yet returned. */
extern bool tls_session_pending (const struct tls_session *);

#endif /* BTRNBDD_DAEMON_TLS_H */
