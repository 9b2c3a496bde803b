/* host: what the nbdkit_* functions need to know about the caller.
 *
 * A plugin's callback runs in some thread on behalf of one connection; the
 * thread points at that connection's context while it does.  The context is
 * used by one callback at a time per thread, never shared between threads at
 * the same moment for writing: `error` and `error_text` belong to the call,
 * so they live in a struct host_call on the caller's stack.
 */
#ifndef BTRNBDD_HOST_CONTEXT_H
#define BTRNBDD_HOST_CONTEXT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>

#define HOST_ERROR_TEXT_MAX 512

struct host_peer {
  struct sockaddr_storage addr;
  socklen_t addrlen;
  int64_t pid, uid, gid;       /* unix sockets only, else -1 */
};

/* Strings that a plugin interned for the life of a connection (or, in the
 * global list, of the server).
 */
struct host_string {
  SLIST_ENTRY (host_string) next;
  char text[];
};
SLIST_HEAD (host_strings, host_string);
extern void host_strings_free (struct host_strings *);

struct host_context {
  struct host_peer peer;
  const char *export_name;     /* as the client said it; "" before */
  bool tls;
  /* Whom TLS has proven the client to be; owned, NULL: nobody. */
  char *tls_dn, *tls_cn, *tls_psk_user;
  atomic_int disconnect;       /* nbdkit_disconnect: 0 no, 1 gently, 2 now */
  pthread_mutex_t strings_lock; /* protects strings */
  struct host_strings strings;
};
extern void host_context_init (struct host_context *);
extern void host_context_done (struct host_context *);

struct host_call {
  struct host_context *context; /* may be NULL: no connection */
  struct host_call *outer;      /* restored by host_call_end */
  int error;                    /* nbdkit_set_error; 0: not called */
  char text[HOST_ERROR_TEXT_MAX]; /* last nbdkit_error; "" */
  bool quiet;                   /* errors are not logged, only kept in text */
};
extern void host_call_begin (struct host_call *, struct host_context *);
extern void host_call_end (struct host_call *);
/* The thread's current call, or NULL. */
extern struct host_call *host_call_current (void);

/* The errno of a callback that returned -1 (its errno value in ERR). */
extern int host_call_errno (const struct host_call *, bool errno_is_preserved,
                            int err);

#endif /* BTRNBDD_HOST_CONTEXT_H */
