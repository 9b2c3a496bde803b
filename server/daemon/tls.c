/* daemon: TLS. */
#include <config.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "daemon/fail.h"
#include "daemon/tls.h"

struct tls_server {
  atomic_uint refs;
  gnutls_certificate_credentials_t cert; /* NULL: none */
  gnutls_psk_server_credentials_t psk;   /* NULL: none */
  bool verify_peer;
};

struct tls_session {
  gnutls_session_t s;
  struct tls_server *server;
  size_t unsent;               /* bytes GnuTLS took but could not send */
  const char *error;           /* static */
};

/* -1 with the file's name in the text. */
static int
cannot_load (const char *path, int r, char **ret_error)
{
  return fail (ret_error, "TLS: cannot load %s: %s", path,
               gnutls_strerror (r));
}

static int
load_certificates (struct tls_server *t, const char *dir, char **ret_error)
{
  char ca[4096], crl[4096], cert[4096], key[4096];
  int r;

  snprintf (ca, sizeof ca, "%s/ca-cert.pem", dir);
  snprintf (crl, sizeof crl, "%s/ca-crl.pem", dir);
  snprintf (cert, sizeof cert, "%s/server-cert.pem", dir);
  snprintf (key, sizeof key, "%s/server-key.pem", dir);
  r = gnutls_certificate_allocate_credentials (&t->cert);
  if (r < 0)
    return fail (ret_error, "TLS: %s", gnutls_strerror (r));
  r = gnutls_certificate_set_x509_key_file (t->cert, cert, key,
                                            GNUTLS_X509_FMT_PEM);
  if (r < 0)
    return cannot_load (cert, r, ret_error);
  r = gnutls_certificate_set_x509_trust_file (t->cert, ca,
                                              GNUTLS_X509_FMT_PEM);
  if (r < 0 && (t->verify_peer || r != GNUTLS_E_FILE_ERROR))
    return cannot_load (ca, r, ret_error);
  r = gnutls_certificate_set_x509_crl_file (t->cert, crl,
                                            GNUTLS_X509_FMT_PEM);
  if (r < 0 && r != GNUTLS_E_FILE_ERROR)
    return cannot_load (crl, r, ret_error);
  return 0;
}

static int
load_psk (struct tls_server *t, const char *file, char **ret_error)
{
  int r = gnutls_psk_allocate_server_credentials (&t->psk);

  if (r < 0)
    return fail (ret_error, "TLS: %s", gnutls_strerror (r));
  r = gnutls_psk_set_server_credentials_file (t->psk, file);
  return r < 0 ? cannot_load (file, r, ret_error) : 0;
}

struct tls_server *
tls_server_new (const struct tls_options *o, char **ret_error)
{
  struct tls_server *t = calloc (1, sizeof *t);

  if (t == NULL) {
    fail (ret_error, "out of memory");
    return NULL;
  }
  t->refs = 1;
  t->verify_peer = o->verify_peer;
  gnutls_global_init ();
  if ((o->certificates &&
       load_certificates (t, o->certificates, ret_error) == -1) ||
      (o->psk_file && load_psk (t, o->psk_file, ret_error) == -1)) {
    tls_server_unref (t);
    return NULL;
  }
  return t;
}

struct tls_server *
tls_server_ref (struct tls_server *t)
{
  t->refs++;
  return t;
}

void
tls_server_unref (struct tls_server *t)
{
  if (t == NULL || --t->refs > 0)
    return;
  if (t->cert)
    gnutls_certificate_free_credentials (t->cert);
  if (t->psk)
    gnutls_psk_free_server_credentials (t->psk);
  gnutls_global_deinit ();
  free (t);
}

static int
session_setup (struct tls_session *x, int fd)
{
  const struct tls_server *t = x->server;
  const char *priority = t->psk ? "NORMAL:+ECDHE-PSK:+DHE-PSK:+PSK"
    : "NORMAL";
  int r;

  r = gnutls_init (&x->s, GNUTLS_SERVER | GNUTLS_NONBLOCK |
                   GNUTLS_NO_SIGNAL);
  if (r < 0)
    return r;
  r = gnutls_priority_set_direct (x->s, priority, NULL);
  if (r >= 0 && t->cert)
    r = gnutls_credentials_set (x->s, GNUTLS_CRD_CERTIFICATE, t->cert);
  if (r >= 0 && t->psk)
    r = gnutls_credentials_set (x->s, GNUTLS_CRD_PSK, t->psk);
  if (r < 0)
    return r;
  if (t->verify_peer) {
    gnutls_certificate_server_set_request (x->s, GNUTLS_CERT_REQUIRE);
    gnutls_session_set_verify_cert (x->s, NULL, 0);
  }
  gnutls_transport_set_int (x->s, fd);
  return 0;
}

struct tls_session *
tls_session_new (struct tls_server *t, int fd)
{
  struct tls_session *x = t ? calloc (1, sizeof *x) : NULL;

  if (x == NULL)
    return NULL;
  x->server = tls_server_ref (t);
  if (session_setup (x, fd) < 0) {
    tls_session_free (x);
    return NULL;
  }
  return x;
}

void
tls_session_free (struct tls_session *x)
{
  if (x == NULL)
    return;
  if (x->s) {
    gnutls_bye (x->s, GNUTLS_SHUT_WR); /* may not get through: no matter */
    gnutls_deinit (x->s);
  }
  tls_server_unref (x->server);
  free (x);
}

enum tls_result
tls_session_handshake (struct tls_session *x)
{
  int r;

  do {
    r = gnutls_handshake (x->s);
    if (r == GNUTLS_E_AGAIN || r == GNUTLS_E_INTERRUPTED)
      return TLS_AGAIN;
  } while (r < 0 && !gnutls_error_is_fatal (r));
  if (r < 0) {
    x->error = gnutls_strerror (r);
    return TLS_FAILED;
  }
  return TLS_READY;
}

bool
tls_session_wants_write (const struct tls_session *x)
{
  return gnutls_record_get_direction (x->s) == 1;
}

const char *
tls_session_error (const struct tls_session *x)
{
  return x->error ? x->error : "TLS failed";
}

/* A malloc'd copy of what GET puts into a buffer; NULL when it has none. */
static char *
certificate_text (gnutls_x509_crt_t crt,
                  int (*get) (gnutls_x509_crt_t, char *, size_t *))
{
  size_t size = 0;
  char *text;

  if (get (crt, NULL, &size) != GNUTLS_E_SHORT_MEMORY_BUFFER)
    return NULL;
  text = malloc (size);
  /* A NUL inside would make it look like a shorter one. */
  if (text && (get (crt, text, &size) < 0 || strlen (text) != size)) {
    free (text);
    text = NULL;
  }
  return text;
}

static int
get_common_name (gnutls_x509_crt_t crt, char *buf, size_t *size)
{
  return gnutls_x509_crt_get_dn_by_oid (crt, GNUTLS_OID_X520_COMMON_NAME, 0,
                                        0, buf, size);
}

void
tls_session_identity (const struct tls_session *x, struct tls_identity *ret)
{
  const gnutls_datum_t *chain;
  const char *user;
  gnutls_x509_crt_t crt;
  unsigned n = 0;

  *ret = (struct tls_identity) { .dn = NULL };
  if (gnutls_auth_get_type (x->s) == GNUTLS_CRD_PSK) {
    user = gnutls_psk_server_get_username (x->s);
    ret->psk_user = user ? strdup (user) : NULL;
    return;
  }
  chain = x->server->verify_peer
    ? gnutls_certificate_get_peers (x->s, &n) : NULL;
  if (chain == NULL || n == 0 || gnutls_x509_crt_init (&crt) < 0)
    return;
  if (gnutls_x509_crt_import (crt, &chain[0], GNUTLS_X509_FMT_DER) >= 0) {
    ret->dn = certificate_text (crt, gnutls_x509_crt_get_dn);
    ret->cn = certificate_text (crt, get_common_name);
  }
  gnutls_x509_crt_deinit (crt);
}

/* A GnuTLS result as a system call's. */
static ssize_t
as_errno (ssize_t r)
{
  if (r >= 0)
    return r;
  if (r == GNUTLS_E_AGAIN || r == GNUTLS_E_INTERRUPTED ||
      r == GNUTLS_E_REHANDSHAKE || !gnutls_error_is_fatal (r))
    errno = EAGAIN;
  else
    errno = EIO;
  return -1;
}

ssize_t
tls_session_recv (struct tls_session *x, void *buf, size_t len)
{
  ssize_t r = gnutls_record_recv (x->s, buf, len);

  return r == GNUTLS_E_PREMATURE_TERMINATION ? 0 : as_errno (r);
}

/* One piece at a time.  Bytes that GnuTLS has taken but could not send must
 * not be offered again: the next call only pushes them out.
 */
ssize_t
tls_session_send (struct tls_session *x, const struct iovec *iov, int n)
{
  ssize_t sent = 0, r;
  int i;

  for (i = 0; i < n; ++i) {
    size_t done = 0;

    while (done < iov[i].iov_len) {
      if (x->unsent > 0)
        r = gnutls_record_send (x->s, NULL, 0);
      else
        r = gnutls_record_send (x->s, (char *) iov[i].iov_base + done,
                                iov[i].iov_len - done);
      if (r < 0) {
        if (as_errno (r) == -1 && errno == EAGAIN)
          x->unsent = 1;
        return sent > 0 ? sent : -1;
      }
      x->unsent = 0;
      done += r;
      sent += r;
    }
  }
  return sent;
}

bool
tls_session_pending (const struct tls_session *x)
{
  return gnutls_record_check_pending (x->s) > 0;
}
