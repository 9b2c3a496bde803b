/* Mutated sessions thrown at a server, while an innocent client verifies data.
 *
 * mutate WHERE COUNT SEED VICTIM INNOCENT [SIZE]
 *
 * WHERE is the path of a socket; VICTIM and INNOCENT are exports of SIZE
 * (1 MiB) bytes.  Each of COUNT sessions is valid (tests/lib/nbdsession.c) but
 * for a few mutations: bytes, numbers, lengths, the order of its pieces, its
 * end.  It is sent whole or in portions; then the client leaves at once, with
 * a reset, or after it has read all that the server answers, which has to end
 * the connection in time.  The same seed makes the same sessions.
 *
 * Prints TAP lines without numbers.
 */
#include <config.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "lib/nbdsession.h"
#include "nbd/proto.h"

#define PATIENCE_MS 60000      /* for the server to do what it has to */
#define MAX_DATA 1500          /* bytes of a write */
#define BLOCK 4096

static const char *path, *victim, *innocent;
static uint64_t size = 1 << 20;
static atomic_bool stop;

static _Noreturn void
broken (const char *what)
{
  printf ("not ok %s: %s\n", what, strerror (errno));
  exit (1);
}

static int
dial (void)
{
  struct sockaddr_un un = { .sun_family = AF_UNIX };
  int fd = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

  snprintf (un.sun_path, sizeof un.sun_path, "%s", path);
  if (fd == -1 || connect (fd, (void *) &un, sizeof un) == -1)
    broken ("the server takes connections");
  return fd;
}

/* --- the innocent --- */

static void
all (int fd, void *buf, size_t len, bool out)
{
  uint8_t *p = buf;
  ssize_t r;

  for (; len > 0; p += r, len -= r) {
    r = out ? send (fd, p, len, MSG_NOSIGNAL) : recv (fd, p, len, 0);
    if (r <= 0)
      broken ("the innocent is served");
  }
}

static void
ask (int fd, uint16_t type, uint64_t block, uint8_t *data)
{
  struct nbd_wire_request w = {
    .magic = be32_make (NBD_REQUEST_MAGIC), .type = be16_make (type),
    .cookie = be64_make (block), .offset = be64_make (block * BLOCK),
    .length = be32_make (BLOCK),
  };
  struct nbd_wire_simple_reply r;

  all (fd, &w, sizeof w, true);
  if (type == NBD_CMD_WRITE)
    all (fd, data, BLOCK, true);
  all (fd, &r, sizeof r, false);
  if (be32_get (r.magic) != NBD_SIMPLE_REPLY_MAGIC || be32_get (r.error) != 0
      || be64_get (r.cookie) != block)
    broken ("the innocent gets its replies");
  if (type == NBD_CMD_READ)
    all (fd, data, BLOCK, false);
}

static int
innocent_dial (void)
{
  const size_t len = strlen (innocent);
  const be32 flags = be32_make (NBD_FLAG_FIXED_NEWSTYLE | NBD_FLAG_NO_ZEROES);
  struct nbd_option o = {
    .magic = be64_make (NBD_OPTS_MAGIC),
    .option = be32_make (NBD_OPT_EXPORT_NAME), .length = be32_make (len),
  };
  uint8_t buf[sizeof (struct nbd_greeting)];
  int fd = dial ();

  all (fd, buf, sizeof (struct nbd_greeting), false);
  all (fd, (void *) &flags, sizeof flags, true);
  all (fd, &o, sizeof o, true);
  all (fd, (void *) innocent, len, true);
  all (fd, buf, 10, false); /* size and flags */
  return fd;
}

static void *
be_innocent (void *opaque)
{
  const int fd = innocent_dial ();
  uint8_t *version = calloc (1, size / BLOCK), data[BLOCK], want[BLOCK];
  unsigned long *operations = opaque;
  uint64_t state = 1, block;

  if (version == NULL)
    broken ("memory");
  while (!stop) {
    block = session_random (&state, size / BLOCK);
    if (session_random (&state, 2)) {
      ++version[block];
      memset (data, version[block] ^ block, BLOCK);
      ask (fd, NBD_CMD_WRITE, block, data);
    }
    else {
      memset (want, version[block] ? version[block] ^ block : 0, BLOCK);
      ask (fd, NBD_CMD_READ, block, data);
      if (version[block] && memcmp (data, want, BLOCK) != 0)
        broken ("the innocent reads what it wrote");
    }
    ++*operations;
  }
  close (fd);
  free (version);
  return NULL;
}

/* --- mutations --- */

static void
put_number (struct session *s, uint64_t *state)
{
  static const uint64_t odd[] = { 0, 1, 2, 3, 4, 0x7f, 0x80, 0xff, 0xffff,
    0x10000, 0x10001, 0x7fffffff, 0x80000000, 0xffffffff, 0x4000000,
    0x4000001, UINT64_MAX, UINT64_C (1) << 32, INT64_MAX, 1 << 20 };
  const be64 raw = be64_make (odd[session_random (state, sizeof odd
                                                  / sizeof odd[0])]);
  const unsigned width = 1u << session_random (state, 4);
  size_t at;

  if (s->len < width)
    return;
  at = session_random (state, s->len - width + 1);
  memcpy (s->data + at, raw.b + 8 - width, width);
}

/* The length in the head of an option or request, about right or not. */
static void
put_length (struct session *s, uint64_t *state)
{
  const unsigned i = 1 + session_random (state, s->pieces - 1);
  const size_t at = s->piece[i] + (session_random (state, 2) ? 12 : 24);
  be32 raw;

  if (at + sizeof raw > s->len)
    return;
  memcpy (&raw, s->data + at, sizeof raw);
  raw = be32_make (be32_get (raw) + session_random (state, 9) - 4);
  memcpy (s->data + at, &raw, sizeof raw);
}

/* Pieces in another order, twice or not at all. */
static void
shuffle (struct session *s, uint64_t *state)
{
  const struct session old = *s;
  unsigned n = 1 + session_random (state, 3);
  unsigned char order[SESSION_PIECES];
  unsigned i;

  for (i = 0; i < s->pieces; ++i)
    order[i] = i;
  while (n-- > 0)
    order[session_random (state, s->pieces)]
      = session_random (state, s->pieces);
  s->len = 0;
  for (i = 0; i < old.pieces; ++i) {
    const size_t from = old.piece[order[i]];
    const size_t len = old.piece[order[i] + 1] - from;

    if (s->len + len > SESSION_MAX)
      return;
    memcpy (s->data + s->len, old.data + from, len);
    s->len += len;
  }
}

static void
insert (struct session *s, uint64_t *state)
{
  const size_t n = 1 + session_random (state, 40);
  const size_t at = session_random (state, s->len + 1);
  size_t i;

  if (s->len + n > SESSION_MAX)
    return;
  memmove (s->data + at + n, s->data + at, s->len - at);
  for (i = 0; i < n; ++i)
    s->data[at + i] = session_random (state, 256);
  s->len += n;
}

static void
cut_out (struct session *s, uint64_t *state)
{
  const size_t at = session_random (state, s->len);
  const size_t n = 1 + session_random (state, 40);

  if (at + n >= s->len) {
    s->len = at + 1;
    return;
  }
  memmove (s->data + at, s->data + at + n, s->len - at - n);
  s->len -= n;
}

static void
mutate (struct session *s, uint64_t *state)
{
  unsigned n = session_random (state, 5);

  if (session_random (state, 4) == 0)
    shuffle (s, state);
  while (n-- > 0)
    switch (session_random (state, 8)) {
    case 0: case 1:
      s->data[session_random (state, s->len)] = session_random (state, 256);
      break;
    case 2: s->data[session_random (state, s->len)] ^=
        1u << session_random (state, 8);
      break;
    case 3: case 4: put_number (s, state); break;
    case 5: put_length (s, state); break;
    case 6: insert (s, state); break;
    default: cut_out (s, state);
    }
  if (session_random (state, 4) == 0)
    s->len = 1 + session_random (state, s->len);
}

/* --- sending --- */

enum leave { LEAVE_READ, LEAVE_CLOSE, LEAVE_RESET };

static bool
read_some (int fd)
{
  static uint8_t sink[1 << 16];
  const ssize_t r = recv (fd, sink, sizeof sink, MSG_DONTWAIT);

  return r > 0 || (r == -1 && errno == EAGAIN);
}

/* False: the server has ended it. */
static bool
send_all (int fd, const struct session *s, uint64_t *state)
{
  const size_t portion = session_random (state, 4) ? s->len
    : 1 + session_random (state, 200);
  struct pollfd p = { .fd = fd, .events = POLLIN | POLLOUT };
  size_t sent = 0;
  ssize_t r;

  while (sent < s->len) {
    if (poll (&p, 1, PATIENCE_MS) != 1)
      broken ("the server reads or ends a session");
    if (p.revents & (POLLIN | POLLHUP) && !read_some (fd))
      return false;
    if (!(p.revents & POLLOUT))
      continue;
    r = send (fd, s->data + sent,
              s->len - sent < portion ? s->len - sent : portion,
              MSG_DONTWAIT | MSG_NOSIGNAL);
    if (r == -1 && errno != EAGAIN)
      return false;
    sent += r > 0 ? r : 0;
  }
  return true;
}

static void
throw (const struct session *s, uint64_t *state)
{
  const struct linger reset = { .l_onoff = 1 };
  const enum leave leave = session_random (state, 3);
  struct pollfd p = { .events = POLLIN };

  p.fd = dial ();
  if (send_all (p.fd, s, state) && leave == LEAVE_READ) {
    shutdown (p.fd, SHUT_WR);
    do
      if (poll (&p, 1, PATIENCE_MS) != 1)
        broken ("the server ends a session that the client has ended");
    while (read_some (p.fd));
  }
  if (leave == LEAVE_RESET)
    setsockopt (p.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  close (p.fd);
}

int
main (int argc, char **argv)
{
  unsigned long count, i, operations = 0;
  struct session s;
  uint64_t seed;
  pthread_t thread;

  if (argc < 6)
    return 2;
  path = argv[1];
  count = strtoul (argv[2], NULL, 0);
  seed = strtoull (argv[3], NULL, 0);
  victim = argv[4];
  innocent = argv[5];
  if (argc > 6)
    size = strtoull (argv[6], NULL, 0);
  setvbuf (stdout, NULL, _IONBF, 0);
  if (pthread_create (&thread, NULL, be_innocent, &operations) != 0)
    broken ("a thread");
  for (i = 0; i < count; ++i) {
    uint64_t state = seed + i * UINT64_C (0x9e3779b97f4a7c15);

    session_make (&s, &state, victim, size, MAX_DATA);
    mutate (&s, &state);
    throw (&s, &state);
  }
  stop = true;
  pthread_join (thread, NULL);
  printf ("%sok %lu mutated sessions, seed %llu; the innocent did %lu "
          "operations\n", operations > 0 ? "" : "not ", count,
          (unsigned long long) seed, operations);
  return operations == 0;
}
