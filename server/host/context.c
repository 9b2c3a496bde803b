/* host: the caller's context. */
#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host/context.h"

static __thread struct host_call *current;

void
host_strings_free (struct host_strings *list)
{
  struct host_string *s;

  while ((s = SLIST_FIRST (list)) != NULL) {
    SLIST_REMOVE_HEAD (list, next);
    free (s);
  }
}

void
host_context_init (struct host_context *c)
{
  memset (c, 0, sizeof *c);
  c->peer.pid = c->peer.uid = c->peer.gid = -1;
  c->export_name = "";
  pthread_mutex_init (&c->strings_lock, NULL);
  SLIST_INIT (&c->strings);
}

void
host_context_done (struct host_context *c)
{
  host_strings_free (&c->strings);
  free (c->tls_dn);
  free (c->tls_cn);
  free (c->tls_psk_user);
  pthread_mutex_destroy (&c->strings_lock);
}

void
host_call_begin (struct host_call *call, struct host_context *context)
{
  call->context = context;
  call->outer = current;
  call->error = 0;
  call->quiet = false;
  call->text[0] = '\0';
  current = call;
}

void
host_call_end (struct host_call *call)
{
  assert (current == call);
  current = call->outer;
}

struct host_call *
host_call_current (void)
{
  return current;
}

int
host_call_errno (const struct host_call *call, bool errno_is_preserved,
                 int err)
{
  if (call->error != 0)
    return call->error;
  if (errno_is_preserved && err != 0)
    return err;
  return EIO;
}
