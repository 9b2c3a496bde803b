/* io: the recorder and its player, see record.h.
 *
 * A clock ticks at every issue and completion.  A flush is entered in the log
 * when it has completed, with the tick of its issue: writes whose completion
 * tick is lower are covered by it.
 */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/math.h"
#include "io/device_impl.h"
#include "io/record.h"

struct event {
  struct record_event e;
  uint64_t tick;            /* entered in the log */
  uint64_t issued;          /* RECORD_FLUSH: tick of its issue */
  uint64_t done;            /* writes: tick of completion; 0: not, or failed */
  uint8_t *data;            /* RECORD_WRITE */
};

struct record {
  struct device base;       /* must be first */
  struct device *inner;     /* owned */
  struct mutex lock;        /* protects everything below */
  uint64_t clock;
  uint64_t bytes;
  size_t count, max;
  struct event *events;
};

/* Room for one more event, under the lock; NULL when out of memory. */
static struct event *
event_add (struct record *rec, enum record_kind kind)
{
  if (rec->count == rec->max) {
    size_t max = rec->max ? 2 * rec->max : 1024;
    struct event *events = reallocarray (rec->events, max, sizeof *events);

    if (events == NULL)
      return NULL;
    rec->events = events;
    rec->max = max;
  }
  struct event *ev = &rec->events[rec->count++];

  *ev = (struct event) { .e.kind = kind, .tick = ++rec->clock };
  return ev;
}

/* Before OP runs: its index in the log, or its tick if it is a flush.
 * UINT64_MAX when out of memory.
 */
static uint64_t
enter (struct record *rec, const struct io_op *op)
{
  uint8_t *data = NULL;
  struct event *ev;

  if (op->kind == IO_WRITE) {
    data = malloc (op->len);
    if (data == NULL)
      return UINT64_MAX;
    iov_to_buf (op->iov, op->iovcnt, 0, data, op->len);
  }
  SCOPED_LOCK (&rec->lock);
  if (op->kind == IO_READ || op->kind == IO_FLUSH)
    return ++rec->clock;
  ev = event_add (rec, op->kind == IO_WRITE ? RECORD_WRITE : RECORD_DISCARD);
  if (ev == NULL) {
    free (data);
    return UINT64_MAX;
  }
  ev->e.fua = op->fua;
  ev->e.offset = op->offset;
  ev->e.len = op->len;
  ev->data = data;
  if (data != NULL)
    rec->bytes += op->len;
  return rec->count - 1;
}

/* After OP ran. */
static void
leave (struct record *rec, const struct io_op *op, uint64_t token)
{
  struct event *ev;

  if (op->result < 0 || op->kind == IO_READ)
    return;
  SCOPED_LOCK (&rec->lock);
  if (op->kind == IO_FLUSH) {
    ev = event_add (rec, RECORD_FLUSH);
    if (ev != NULL) /* a flush less only makes the test harder */
      ev->issued = token;
  }
  else
    rec->events[token].done = ++rec->clock;
}

static void
record_run (struct device *dev, struct io_op *ops, size_t n)
{
  struct record *rec = (struct record *) dev;
  CLEANUP_FREE uint64_t *tokens = calloc (n, sizeof *tokens);
  bool ok = tokens != NULL;

  for (size_t i = 0; i < n && ok; ++i) {
    tokens[i] = enter (rec, &ops[i]);
    ok = tokens[i] != UINT64_MAX;
  }
  if (!ok) {
    for (size_t i = n; i-- > 0;)
      ops[i].result = device_error (dev, &ops[i], ENOMEM);
    return;
  }
  device_run (rec->inner, ops, n);
  for (size_t i = 0; i < n; ++i)
    leave (rec, &ops[i], tokens[i]);
}

static void
record_close (struct device *dev)
{
  struct record *rec = (struct record *) dev;

  for (size_t i = 0; i < rec->count; ++i)
    free (rec->events[i].data);
  free (rec->events);
  device_close (rec->inner);
  mutex_done (&rec->lock);
  free (rec);
}

static const struct device_ops record_ops = {
  .run = record_run,
  .close = record_close,
};

int
record_new (struct device *inner, struct device **ret)
{
  struct record *rec = calloc (1, sizeof *rec);

  if (rec == NULL)
    return err_new (ERR_nomem, "recorder");
  rec->base.ops = &record_ops;
  rec->base.info = *device_get_info (inner);
  rec->inner = inner;
  mutex_init (&rec->lock, RANK_DEVICE);
  *ret = &rec->base;
  return 0;
}

int
record_mark (struct device *dev, uint64_t tag)
{
  struct record *rec = (struct record *) dev;
  struct event *ev;

  SCOPED_LOCK (&rec->lock);
  ev = event_add (rec, RECORD_MARK);
  if (ev == NULL)
    return err_new (ERR_nomem, "recorder");
  ev->e.tag = tag;
  return 0;
}

size_t
record_count (struct device *dev)
{
  struct record *rec = (struct record *) dev;

  SCOPED_LOCK (&rec->lock);
  return rec->count;
}

uint64_t
record_bytes (struct device *dev)
{
  struct record *rec = (struct record *) dev;

  SCOPED_LOCK (&rec->lock);
  return rec->bytes;
}

bool
record_get (struct device *dev, size_t index, struct record_event *ret)
{
  struct record *rec = (struct record *) dev;

  SCOPED_LOCK (&rec->lock);
  if (index >= rec->count)
    return false;
  *ret = rec->events[index].e;
  return true;
}

static bool
changes_disk (const struct event *ev)
{
  return ev->e.kind == RECORD_WRITE || ev->e.kind == RECORD_DISCARD;
}

static bool
touch (const struct event *a, const struct event *b)
{
  return a->e.offset < b->e.offset + b->e.len &&
    b->e.offset < a->e.offset + a->e.len;
}

/* Looking back from each event to the oldest that was still under way. */
size_t
record_overlaps (struct device *dev, size_t *ret_first)
{
  struct record *rec = (struct record *) dev;
  size_t oldest = 0, count = 0;

  SCOPED_LOCK (&rec->lock);
  for (size_t i = 0; i < rec->count; ++i) {
    const struct event *ev = &rec->events[i];

    if (!changes_disk (ev))
      continue;
    for (size_t k = oldest; k < i; ++k) {
      const struct event *old = &rec->events[k];
      bool over = !changes_disk (old) || old->done == 0 ||
        old->done < ev->tick;

      if (over && k == oldest)
        oldest++;
      if (over || !touch (old, ev))
        continue;
      if (count++ == 0)
        *ret_first = i;
      break;
    }
  }
  return count;
}

/* --- the player --- */

struct record_player {
  struct record *rec;       /* borrowed */
  struct device *disk;      /* events before `applied`, all certain */
  size_t applied;
  size_t scanned;           /* flushes before this are in covered */
  uint64_t covered;         /* highest issue tick of a completed flush */
  size_t last_at, uncertain;
};

int
record_player_new (struct device *recorder, struct device *start,
                   struct record_player **ret)
{
  struct record_player *p = calloc (1, sizeof *p);

  if (p == NULL)
    return err_new (ERR_nomem, "player");
  p->rec = (struct record *) recorder;
  p->disk = start;
  *ret = p;
  return 0;
}

void
record_player_free (struct record_player *p)
{
  if (p == NULL)
    return;
  device_close (p->disk);
  free (p);
}

/* splitmix64 */
static uint64_t
coin (uint64_t *state)
{
  uint64_t z = *state += UINT64_C (0x9e3779b97f4a7c15);

  z = (z ^ (z >> 30)) * UINT64_C (0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C (0x94d049bb133111eb);
  return z ^ (z >> 31);
}

/* Is EV certainly on the disk when power goes right after tick NOW? */
static bool
is_certain (const struct record_player *p, const struct event *ev,
            uint64_t now)
{
  if (ev->done == 0)
    return false;
  return ev->done < p->covered || (ev->e.fua && ev->done < now);
}

static int
apply (struct device *disk, const struct event *ev)
{
  if (ev->e.kind == RECORD_DISCARD)
    return device_discard (disk, ev->e.offset, ev->e.len);
  return device_write (disk, ev->e.offset, ev->data, ev->e.len);
}

/* Some of the sectors. */
static int
apply_torn (struct device *disk, const struct event *ev, uint32_t sector,
            uint64_t *rng)
{
  for (uint64_t in = 0; in < ev->e.len; in += sector) {
    struct event part = *ev;
    int r;

    if (coin (rng) & 1)
      continue;
    part.e.offset += in;
    part.e.len = MIN (ev->e.len - in, (uint64_t) sector);
    if (part.data != NULL)
      part.data += in;
    r = apply (disk, &part);
    if (r < 0)
      return r;
  }
  return 0;
}

static int
apply_maybe (struct device *disk, const struct event *ev,
             const struct record_cut *cut, uint64_t *rng)
{
  uint64_t roll = coin (rng);

  switch (cut->keep) {
  case RECORD_KEEP_NONE:
    return 0;
  case RECORD_KEEP_ALL:
    return apply (disk, ev);
  case RECORD_KEEP_RANDOM:
    return roll & 1 ? apply (disk, ev) : 0;
  case RECORD_KEEP_TORN:
    if (roll % 3 == 0)
      return 0;
    if (roll % 3 == 1)
      return apply (disk, ev);
    return apply_torn (disk, ev, cut->sector ? cut->sector : 512, rng);
  }
  return 0;
}

/* Move the certain beginning of the log into the player's own disk. */
static int
advance (struct record_player *p, size_t at, uint64_t now)
{
  for (; p->scanned < at; ++p->scanned) {
    const struct event *ev = &p->rec->events[p->scanned];

    if (ev->e.kind == RECORD_FLUSH)
      p->covered = MAX (p->covered, ev->issued);
  }
  for (; p->applied < at; ++p->applied) {
    const struct event *ev = &p->rec->events[p->applied];

    if (!changes_disk (ev))
      continue;
    if (!is_certain (p, ev, now))
      break;
    int r = apply (p->disk, ev);

    if (r < 0)
      return r;
  }
  return 0;
}

int
record_image (struct record_player *p, const struct record_cut *cut,
              struct device **ret)
{
  size_t at = MIN (cut->at, p->rec->count);
  uint64_t now = at == 0 ? 0 : p->rec->events[at - 1].tick;
  uint64_t rng = cut->seed;
  struct device *image;
  int r;

  if (at < p->last_at)
    return err_new (ERR_invalid, "cut %zu after cut %zu", at, p->last_at);
  p->last_at = at;
  p->uncertain = 0;
  r = advance (p, at, now);
  if (r < 0)
    return r;
  r = device_mem_overlay ("crashed", p->disk, &image);
  if (r < 0)
    return r;
  for (size_t i = p->applied; i < at && r == 0; ++i) {
    const struct event *ev = &p->rec->events[i];

    if (!changes_disk (ev))
      continue;
    if (is_certain (p, ev, now))
      r = apply (image, ev);
    else {
      p->uncertain++;
      r = apply_maybe (image, ev, cut, &rng);
    }
  }
  if (r < 0) {
    device_close (image);
    return r;
  }
  *ret = image;
  return 0;
}

size_t
record_uncertain (const struct record_player *p)
{
  return p->uncertain;
}
