/* A load for NBD servers that costs little itself: one thread, epoll, all
 * replies of a read and all requests of a write at once, nothing verified.
 * One connection with one request at a time is served without epoll.
 *
 * nbd-load [-c CONNECTIONS] [-q DEPTH] [-b BYTES] [-w WRITE-PERCENT]
 *          [-s SPAN-BYTES] [-t SECONDS] [-1] WHERE EXPORT
 *
 * WHERE is unix:PATH or a port on 127.0.0.1.  Offsets are random multiples of
 * BYTES below SPAN.  -1 sends every request by itself, as the Linux kernel
 * and QEMU do.  The result is one line of JSON.
 */
#include <config.h>

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "nbd/proto.h"

#define DEPTH_MAX 1024
#define READ_CHUNK (1u << 20)
#define IOV_BATCH 64

/* Latencies: of each power of two of nanoseconds 16 steps. */
#define STEP_BITS 4
#define STEPS (64 << STEP_BITS)

struct slot {
  struct nbd_wire_request wire;
  uint64_t sent;               /* ns */
  bool write;
};

struct conn {
  int fd;
  struct slot *slots;
  uint16_t *queue;             /* slots to send, a ring of `depth` + 1 */
  unsigned head, tail;
  size_t head_sent;            /* bytes of the first of them */
  uint8_t reply[sizeof (struct nbd_wire_simple_reply)];
  unsigned have;               /* bytes of the next reply's head */
  uint64_t skip;               /* data of a read that is still to come */
  bool want_out;
};

static struct {
  const char *where, *export;
  unsigned connections, depth, bytes, write_percent, seconds;
  uint64_t span;
  bool single;
} opt = { .connections = 1, .depth = 1, .bytes = 4096, .seconds = 2,
          .span = 64 << 20 };

static uint8_t *payload, *sink;
static uint64_t histogram[STEPS], operations, max_ns, random_state = 88172645;
static unsigned in_flight;
static bool stopping;
static int epoll_fd;

static void
die (const char *what)
{
  fprintf (stderr, "nbd-load: %s: %s\n", what, strerror (errno));
  exit (1);
}

static uint64_t
now_ns (void)
{
  struct timespec t;

  clock_gettime (CLOCK_MONOTONIC, &t);
  return t.tv_sec * UINT64_C (1000000000) + t.tv_nsec;
}

static uint64_t
next_random (void)
{
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return random_state;
}

static unsigned
step_of (uint64_t ns)
{
  const unsigned log = 63 - __builtin_clzll (ns | 1u << STEP_BITS);

  return (log << STEP_BITS)
    | (ns >> (log - STEP_BITS) & ((1u << STEP_BITS) - 1));
}

/* The lower end of the step that has it. */
static double
percentile_us (double part)
{
  const uint64_t rank = operations * part;
  uint64_t seen = 0;
  unsigned i;

  for (i = 0; i < STEPS; ++i) {
    seen += histogram[i];
    if (seen > rank)
      break;
  }
  return ((UINT64_C (1) << (i >> STEP_BITS))
          + ((uint64_t) (i & ((1u << STEP_BITS) - 1))
             << ((i >> STEP_BITS) - STEP_BITS))) / 1e3;
}

/* --- connecting --- */

static int
dial (void)
{
  struct sockaddr_un un = { .sun_family = AF_UNIX };
  struct sockaddr_in in = { .sin_family = AF_INET };
  const bool is_unix = strncmp (opt.where, "unix:", 5) == 0;
  int fd = socket (is_unix ? AF_UNIX : AF_INET, SOCK_STREAM, 0), one = 1;
  int r;

  if (is_unix) {
    snprintf (un.sun_path, sizeof un.sun_path, "%s", opt.where + 5);
    r = connect (fd, (void *) &un, sizeof un);
  }
  else {
    in.sin_port = htobe16 (atoi (opt.where));
    in.sin_addr.s_addr = htobe32 (INADDR_LOOPBACK);
    r = connect (fd, (void *) &in, sizeof in);
    setsockopt (fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  }
  if (fd == -1 || r == -1)
    die (opt.where);
  return fd;
}

static void
read_all (int fd, void *buf, size_t len)
{
  size_t n = 0;
  ssize_t r;

  for (; n < len; n += r) {
    r = read (fd, (uint8_t *) buf + n, len - n);
    if (r <= 0)
      die ("handshake");
  }
}

static void
handshake (int fd)
{
  const uint32_t len = strlen (opt.export);
  struct nbd_greeting greeting;
  struct nbd_option_reply rep;
  uint8_t out[4 + sizeof (struct nbd_option) + 4 + NBD_MAX_STRING + 2], *p;
  const be32 flags = be32_make (NBD_FLAG_FIXED_NEWSTYLE | NBD_FLAG_NO_ZEROES);
  const be32 name_len = be32_make (len);
  const struct nbd_option go = {
    .magic = be64_make (NBD_OPTS_MAGIC), .option = be32_make (NBD_OPT_GO),
    .length = be32_make (4 + len + 2),
  };

  read_all (fd, &greeting, sizeof greeting);
  p = out;
  memcpy (p, &flags, sizeof flags);
  p += sizeof flags;
  memcpy (p, &go, sizeof go);
  p += sizeof go;
  memcpy (p, &name_len, sizeof name_len);
  p += sizeof name_len;
  memcpy (p, opt.export, len);
  p += len;
  memset (p, 0, 2); /* no infos */
  p += 2;
  if (write (fd, out, p - out) != p - out)
    die ("handshake");
  do {
    uint8_t data[NBD_MAX_OPTION];

    read_all (fd, &rep, sizeof rep);
    if (be32_get (rep.length) > sizeof data)
      die ("handshake");
    read_all (fd, data, be32_get (rep.length));
    if (be32_get (rep.type) & NBD_REP_ERR (0)) {
      fprintf (stderr, "nbd-load: export \"%s\" is refused\n", opt.export);
      exit (1);
    }
  } while (be32_get (rep.type) != NBD_REP_ACK);
}

/* --- requests --- */

static void
enqueue (struct conn *c, unsigned i)
{
  struct slot *s = &c->slots[i];

  s->write = next_random () % 100 < opt.write_percent;
  s->wire = (struct nbd_wire_request) {
    .magic = be32_make (NBD_REQUEST_MAGIC),
    .type = be16_make (s->write ? NBD_CMD_WRITE : NBD_CMD_READ),
    .cookie = be64_make (i),
    .offset = be64_make (next_random () % (opt.span / opt.bytes)
                         * opt.bytes),
    .length = be32_make (opt.bytes),
  };
  c->queue[c->tail] = i;
  c->tail = (c->tail + 1) % (opt.depth + 1);
  in_flight++;
}

static size_t
slot_bytes (const struct slot *s)
{
  return sizeof s->wire + (s->write ? opt.bytes : 0);
}

/* The queue, from what of its first request is sent already. */
static int
gather (struct conn *c, struct iovec *iov, uint64_t now)
{
  size_t skip = c->head_sent;
  unsigned at;
  int n = 0;

  for (at = c->head; at != c->tail && n + 2 <= IOV_BATCH;
       at = (at + 1) % (opt.depth + 1)) {
    struct slot *s = &c->slots[c->queue[at]];
    const size_t head = skip < sizeof s->wire ? skip : sizeof s->wire;

    if (skip == 0)
      s->sent = now;
    if (head < sizeof s->wire)
      iov[n++] = (struct iovec) { (uint8_t *) &s->wire + head,
                                  sizeof s->wire - head };
    if (s->write)
      iov[n++] = (struct iovec) { payload + (skip - head),
                                  opt.bytes - (skip - head) };
    skip = 0;
    if (opt.single)
      break;
  }
  return n;
}

static void
send_queue (struct conn *c)
{
  struct iovec iov[IOV_BATCH];
  bool full = false;
  ssize_t r;

  while (c->head != c->tail && !full) {
    struct msghdr m = { .msg_iov = iov };

    m.msg_iovlen = gather (c, iov, now_ns ());
    r = sendmsg (c->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (r == -1 && errno != EAGAIN)
      die ("send");
    full = r == -1;
    c->head_sent += r == -1 ? 0 : r;
    while (c->head != c->tail
           && c->head_sent >= slot_bytes (&c->slots[c->queue[c->head]])) {
      c->head_sent -= slot_bytes (&c->slots[c->queue[c->head]]);
      c->head = (c->head + 1) % (opt.depth + 1);
    }
  }
  if (full != c->want_out) {
    struct epoll_event ev = { .events = EPOLLIN | (full ? EPOLLOUT : 0),
                              .data.ptr = c };

    epoll_ctl (epoll_fd, EPOLL_CTL_MOD, c->fd, &ev);
    c->want_out = full;
  }
}

static void
answered (struct conn *c, uint64_t now)
{
  struct nbd_wire_simple_reply r;
  struct slot *s;
  uint64_t ns;

  memcpy (&r, c->reply, sizeof r);
  if (be32_get (r.magic) != NBD_SIMPLE_REPLY_MAGIC || be32_get (r.error) != 0
      || be64_get (r.cookie) >= opt.depth) {
    fprintf (stderr, "nbd-load: error %u\n", be32_get (r.error));
    exit (1);
  }
  s = &c->slots[be64_get (r.cookie)];
  ns = now - s->sent;
  c->skip = s->write ? 0 : opt.bytes;
  histogram[step_of (ns)]++;
  max_ns = ns > max_ns ? ns : max_ns;
  operations++;
  in_flight--;
  if (!stopping)
    enqueue (c, be64_get (r.cookie));
}

/* Then the client may wait for a reply as Linux does, in recv: epoll would be
 * a third of its work.
 */
static bool
one_by_one (void)
{
  return opt.connections == 1 && opt.depth == 1;
}

static void
take_replies (struct conn *c)
{
  const ssize_t r = recv (c->fd, sink, READ_CHUNK,
                          one_by_one () ? 0 : MSG_DONTWAIT);
  const uint64_t now = now_ns ();
  size_t at = 0, n;

  if (r == 0 || (r == -1 && errno != EAGAIN))
    die ("the server hung up");
  while (r > 0 && at < (size_t) r) {
    if (c->skip > 0) {
      n = c->skip < r - at ? c->skip : r - at;
      c->skip -= n;
      at += n;
      continue;
    }
    n = sizeof c->reply - c->have;
    n = n < r - at ? n : r - at;
    memcpy (c->reply + c->have, sink + at, n);
    c->have += n;
    at += n;
    if (c->have == sizeof c->reply) {
      c->have = 0;
      answered (c, now);
    }
  }
}

static void
start (struct conn *c)
{
  struct epoll_event ev = { .events = EPOLLIN, .data.ptr = c };
  unsigned i;

  c->fd = dial ();
  handshake (c->fd);
  c->slots = calloc (opt.depth, sizeof *c->slots);
  c->queue = calloc (opt.depth + 1, sizeof *c->queue);
  if (c->slots == NULL || c->queue == NULL
      || epoll_ctl (epoll_fd, EPOLL_CTL_ADD, c->fd, &ev) == -1)
    die ("start");
  for (i = 0; i < opt.depth; ++i)
    enqueue (c, i);
}

static void
turn (struct conn *conns)
{
  struct epoll_event ev[64] = { { .events = EPOLLIN, .data.ptr = conns } };
  int n = one_by_one () ? 1 : epoll_wait (epoll_fd, ev, 64, 1000);

  while (n-- > 0) {
    struct conn *c = ev[n].data.ptr;

    if (ev[n].events & ~EPOLLOUT)
      take_replies (c);
    send_queue (c);
  }
}

/* To the last reply: nbdkit 1.32 aborts when a client leaves before it. */
static double
run (struct conn *conns)
{
  const uint64_t begin = now_ns (), end = begin + opt.seconds * 1000000000ull;
  unsigned i;

  for (i = 0; i < opt.connections; ++i)
    send_queue (&conns[i]);
  while (now_ns () < end)
    turn (conns);
  stopping = true;
  while (in_flight > 0)
    turn (conns);
  return (now_ns () - begin) / 1e9;
}

static void
parse (int argc, char **argv)
{
  int o;

  while ((o = getopt (argc, argv, "c:q:b:w:s:t:1")) != -1)
    switch (o) {
    case 'c': opt.connections = atoi (optarg); break;
    case 'q': opt.depth = atoi (optarg); break;
    case 'b': opt.bytes = atoi (optarg); break;
    case 'w': opt.write_percent = atoi (optarg); break;
    case 's': opt.span = strtoull (optarg, NULL, 0); break;
    case 't': opt.seconds = atoi (optarg); break;
    case '1': opt.single = true; break;
    default: exit (2);
    }
  if (argc - optind != 2 || opt.depth == 0 || opt.depth > DEPTH_MAX
      || opt.connections == 0 || opt.bytes == 0 || opt.span < opt.bytes
      || strlen (argv[optind + 1]) > NBD_MAX_STRING) {
    fputs ("nbd-load: see the head of nbd-load.c\n", stderr);
    exit (2);
  }
  opt.where = argv[optind];
  opt.export = argv[optind + 1];
}

int
main (int argc, char **argv)
{
  struct conn *conns;
  struct rusage ru;
  double seconds;
  unsigned i;

  parse (argc, argv);
  epoll_fd = epoll_create1 (0);
  conns = calloc (opt.connections, sizeof *conns);
  payload = malloc (opt.bytes);
  sink = malloc (READ_CHUNK);
  if (epoll_fd == -1 || conns == NULL || payload == NULL || sink == NULL)
    die ("start");
  for (i = 0; i < opt.bytes; ++i)
    payload[i] = next_random ();
  for (i = 0; i < opt.connections; ++i)
    start (&conns[i]);
  seconds = run (conns);
  getrusage (RUSAGE_SELF, &ru);
  printf ("{\"ops\": %llu, \"seconds\": %.3f, \"p50_us\": %.1f, "
          "\"p99_us\": %.1f, \"max_us\": %.1f, \"cpu\": %.3f}\n",
          (unsigned long long) operations, seconds, percentile_us (0.5),
          percentile_us (0.99), max_ns / 1e3,
          ru.ru_utime.tv_sec + ru.ru_utime.tv_usec / 1e6
          + ru.ru_stime.tv_sec + ru.ru_stime.tv_usec / 1e6);
  return 0;
}
