/* io: a device that remembers every write, for crash tests.
 *
 * The log holds writes with their data, discards, completed flushes and
 * marks, in the order in which they were issued (flushes and marks: in which
 * they completed).  From it the contents of the disk after a power cut at any
 * place can be made.
 *
 * What a power cut before event CUT leaves behind: a write is certain if it
 * completed before a flush was issued that completed before the cut, or if it
 * carried FUA and completed before the cut.  Every other write issued before
 * the cut may be there, or not, or be torn at sector boundaries.
 */
#ifndef BTRNBD_IO_RECORD_H
#define BTRNBD_IO_RECORD_H

#include "io/device.h"

enum record_kind { RECORD_WRITE, RECORD_DISCARD, RECORD_FLUSH, RECORD_MARK };

struct record_event {
  enum record_kind kind;
  bool fua;
  uint64_t offset, len;
  uint64_t tag;            /* RECORD_MARK */
};

/* Wraps INNER, which it owns from then on. */
extern int record_new (struct device *inner, struct device **ret);
/* "The test has been told X by now." */
extern int record_mark (struct device *, uint64_t tag);
/* Events so far: cuts go from 0 to this. */
extern size_t record_count (struct device *);
extern bool record_get (struct device *, size_t index,
                        struct record_event *ret);
/* Bytes of all recorded writes. */
extern uint64_t record_bytes (struct device *);

/* Writes and discards that were started while another one that touches the
 * same bytes was under way: a disk may carry them out in either order.  The
 * index of the first is stored in *ret_first unless there is none.
 */
extern size_t record_overlaps (struct device *, size_t *ret_first);

/* Replays the log of a recorder that nobody uses any more, up to cuts that
 * come in ascending order.
 */
struct record_player;
/* START: a memory device with the contents the recorded device had in the
 * beginning, owned by the player from then on.
 */
extern int record_player_new (struct device *recorder, struct device *start,
                              struct record_player **ret);
extern void record_player_free (struct record_player *);

enum record_keep {
  RECORD_KEEP_NONE,        /* of the uncertain writes: none */
  RECORD_KEEP_ALL,
  RECORD_KEEP_RANDOM,      /* each by a coin */
  RECORD_KEEP_TORN,        /* each: whole, none, or some of its sectors */
};
struct record_cut {
  size_t at;               /* number of events before the cut */
  enum record_keep keep;
  uint64_t seed;           /* same seed, same image */
  uint32_t sector;         /* of torn writes; 0: 512 bytes */
};
/* The disk after that cut: a memory device over the player's, to be closed
 * before the next image is asked for.  CUT->at must not go down.
 */
extern int record_image (struct record_player *, const struct record_cut *,
                         struct device **ret);
/* Writes whose fate the last cut left open. */
extern size_t record_uncertain (const struct record_player *);

#endif /* BTRNBD_IO_RECORD_H */
