/* host: the nbdkit_* functions about messages, callers and strings. */
#include <config.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/context.h"
#include "host/log.h"
#include "host/nbdkit.h"
#include "host/plugin.h"

/* Interned outside of any connection: for the server's life. */
static pthread_mutex_t global_strings_lock = PTHREAD_MUTEX_INITIALIZER;
static struct host_strings global_strings =
  SLIST_HEAD_INITIALIZER (global_strings);

void
host_symbols_done (void)
{
  host_strings_free (&global_strings);
}

void
nbdkit_verror (const char *fmt, va_list args)
{
  const int saved_errno = errno;
  struct host_call *call = host_call_current ();
  va_list again;

  if (call) {
    va_copy (again, args);
    vsnprintf (call->text, sizeof call->text, fmt, again);
    va_end (again);
    errno = saved_errno;
  }
  if (call == NULL || !call->quiet)
    host_vlog (HOST_LOG_ERROR, fmt, args);
  errno = saved_errno;
}

void
nbdkit_error (const char *fmt, ...)
{
  va_list args;

  va_start (args, fmt);
  nbdkit_verror (fmt, args);
  va_end (args);
}

void
nbdkit_vdebug (const char *fmt, va_list args)
{
  host_vlog (HOST_LOG_DEBUG, fmt, args);
}

void
nbdkit_debug (const char *fmt, ...)
{
  va_list args;

  va_start (args, fmt);
  nbdkit_vdebug (fmt, args);
  va_end (args);
}

void
nbdkit_set_error (int err)
{
  struct host_call *call = host_call_current ();

  if (call)
    call->error = err;
}

static struct host_context *
current_context (void)
{
  struct host_call *call = host_call_current ();

  return call ? call->context : NULL;
}

const char *
nbdkit_export_name (void)
{
  struct host_context *c = current_context ();

  if (c == NULL) {
    nbdkit_error ("nbdkit_export_name: no client is connected");
    return NULL;
  }
  return c->export_name;
}

int
nbdkit_is_tls (void)
{
  struct host_context *c = current_context ();

  if (c == NULL) {
    nbdkit_error ("nbdkit_is_tls: no client is connected");
    return -1;
  }
  return c->tls;
}

int
nbdkit_peer_name (struct sockaddr *addr, socklen_t *addrlen)
{
  struct host_context *c = current_context ();

  if (c == NULL) {
    nbdkit_error ("nbdkit_peer_name: no client is connected");
    return -1;
  }
  memcpy (addr, &c->peer.addr,
          *addrlen < c->peer.addrlen ? *addrlen : c->peer.addrlen);
  *addrlen = c->peer.addrlen;
  return 0;
}

/* FIELD of a unix peer; -1 with a message for anyone else. */
static int64_t
peer_field (const char *fn, size_t offset)
{
  struct host_context *c = current_context ();
  int64_t v = -1;

  if (c)
    memcpy (&v, (const char *) &c->peer + offset, sizeof v);
  if (v == -1)
    nbdkit_error ("%s: not available for this client", fn);
  return v;
}

int64_t
nbdkit_peer_pid (void)
{
  return peer_field ("nbdkit_peer_pid", offsetof (struct host_peer, pid));
}

int64_t
nbdkit_peer_uid (void)
{
  return peer_field ("nbdkit_peer_uid", offsetof (struct host_peer, uid));
}

int64_t
nbdkit_peer_gid (void)
{
  return peer_field ("nbdkit_peer_gid", offsetof (struct host_peer, gid));
}

const char *
nbdkit_strndup_intern (const char *text, size_t n)
{
  struct host_context *c = current_context ();
  pthread_mutex_t *lock = c ? &c->strings_lock : &global_strings_lock;
  struct host_strings *list = c ? &c->strings : &global_strings;
  struct host_string *s;

  if (text == NULL) {
    nbdkit_error ("nbdkit_strndup_intern: no string");
    errno = EINVAL;
    return NULL;
  }
  n = strnlen (text, n);
  s = malloc (sizeof *s + n + 1);
  if (s == NULL) {
    nbdkit_error ("out of memory");
    return NULL;
  }
  memcpy (s->text, text, n);
  s->text[n] = '\0';
  pthread_mutex_lock (lock);
  SLIST_INSERT_HEAD (list, s, next);
  pthread_mutex_unlock (lock);
  return s->text;
}

const char *
nbdkit_strdup_intern (const char *text)
{
  return nbdkit_strndup_intern (text, SIZE_MAX);
}

const char *
nbdkit_vprintf_intern (const char *fmt, va_list args)
{
  char *text;
  const char *ret;

  if (vasprintf (&text, fmt, args) == -1) {
    nbdkit_error ("out of memory");
    return NULL;
  }
  ret = nbdkit_strdup_intern (text);
  free (text);
  return ret;
}

const char *
nbdkit_printf_intern (const char *fmt, ...)
{
  va_list args;
  const char *ret;

  va_start (args, fmt);
  ret = nbdkit_vprintf_intern (fmt, args);
  va_end (args);
  return ret;
}

void
nbdkit_shutdown (void)
{
  host_shutdown_request ();
}

/* Newer than the header of 1.32 that this is built with; plugins look it up
 * to learn that the host survives clients that die.
 */
extern __attribute__ ((visibility ("default"))) void nbdkit_disconnect (int);

void
nbdkit_disconnect (int force)
{
  struct host_context *c = current_context ();

  if (c)
    c->disconnect = force ? 2 : 1;
  else
    nbdkit_error ("nbdkit_disconnect: no client is connected");
}

int
nbdkit_nanosleep (unsigned sec, unsigned nsec)
{
  if (sec >= INT32_MAX - nsec / 1000000000) {
    nbdkit_error ("nbdkit_nanosleep: the time is too long");
    errno = EINVAL;
    return -1;
  }
  /* Ends early, with ESHUTDOWN, when the server is told to stop. */
  if (host_shutdown_wait (sec + nsec / 1000000000, nsec % 1000000000)) {
    nbdkit_error ("sleep ended by shutdown");
    errno = ESHUTDOWN;
    return -1;
  }
  return 0;
}

int
nbdkit_stdio_safe (void)
{
  return 1; /* this host never serves a client on stdin and stdout */
}
