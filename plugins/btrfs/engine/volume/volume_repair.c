/* volume: reading what can be verified, and mending copies that are bad.
 *
 * Only data that has passed the caller's check is ever written back, and only
 * over copies that failed it (or could not be read) in the same call.
 *
 * The range may be written anew at any time, be it in place or because it was
 * freed.  So the good copy is read and checked once more while nobody writes
 * to the volume (mend_lock): what is then put on the bad copy is what the good
 * one holds, and nothing at all when that is not what the caller is after any
 * more.
 */
#include <config.h>

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "base/math.h"
#include "io/device.h"
#include "volume/volume_priv.h"

/* Where copy MIRROR of LOGICAL begins. */
static bool
locate (struct volume *v, uint64_t logical, unsigned mirror,
        struct place *ret)
{
  const struct chunk *c;
  struct piece p;
  bool ok;

  rwlock_rdlock (&v->lock);
  c = chunk_find (v, logical);
  ok = c != NULL && chunk_map (c, logical, 1, &p) == 0 &&
    mirror <= p.copies;
  rwlock_unlock (&v->lock);
  if (ok)
    *ret = p.at[mirror - 1];
  return ok;
}

/* Copy MIRROR failed verification with ERR. */
static void
count_bad (struct volume *v, uint64_t logical, unsigned mirror, int err)
{
  struct place at;

  if (!locate (v, logical, mirror, &at))
    return;
  dev_stat_add (v, at.dev, err == -ERR_block_parent ? DEV_STAT_GENERATION
                : DEV_STAT_CORRUPTION);
}

static void
mend (struct volume *v, uint64_t logical, unsigned mirror, const void *buf,
      size_t len)
{
  struct place at = { 0 };
  int r = volume_write_mirror (v, logical, mirror, buf, len);

  locate (v, logical, mirror, &at);
  if (r < 0) {
    log_warning ("copy %u of %llu could not be repaired: %s", mirror,
                 (unsigned long long) logical, err_text (r));
    err_clear ();
    return;
  }
  log_warning ("repaired copy %u of %llu + %zu, on %s at %llu", mirror,
               (unsigned long long) logical, len,
               device_get_info (v->devs[at.dev].pub.dev)->name,
               (unsigned long long) at.physical);
}

/* The bits of BAD are mirrors, 1 .. COPIES_MAX; GOOD has passed VERIFY. */
static void
mend_all (struct volume *v, uint64_t logical, size_t len, unsigned good,
          unsigned bad, volume_verify_fn verify, void *opaque)
{
  CLEANUP_FREE void *buf = NULL;
  int r;

  if (bad == 0 || volume_read_only (v))
    return;
  r = volume_load_chunks (v);
  if (r < 0) {
    log_warning ("no copy of %llu is repaired: %s",
                 (unsigned long long) logical, err_text (r));
    return;
  }
  buf = io_alloc (len);
  if (buf == NULL)
    return;                     /* the next reader will try */
  rwlock_wrlock (&v->mend_lock);
  if (volume_read (v, logical, good, buf, len) == 0 &&
      verify (opaque, buf, len) == 0)
    for (unsigned m = 1; m <= COPIES_MAX; ++m)
      if (bad & (1u << m))
        mend (v, logical, m, buf, len);
  rwlock_unlock (&v->mend_lock);
}

static int
no_mirror (uint64_t logical, size_t len, unsigned copies)
{
  CLEANUP_FREE char *notes = err_take ();
  int r = err_new (ERR_no_mirror, "%llu + %zu, %u copies tried",
                   (unsigned long long) logical, len, copies);

  return notes ? err_note (r, "%s", notes) : r;
}

/* The copy to begin with: what a plain read would choose is not told, so the
 * first that is not on a stale device.
 */
static unsigned
start_with (struct volume *v, uint64_t logical, unsigned copies)
{
  for (unsigned m = 1; m <= copies; ++m) {
    struct place at;

    if (locate (v, logical, m, &at) && !v->devs[at.dev].pub.stale)
      return m;
  }
  return 1;
}

static int
read_mirror (struct volume *v, uint64_t logical, unsigned mirror, void *buf,
             size_t len)
{
  struct iovec iov = { buf, len };
  struct volume_op op = { .kind = IO_READ, .mirror = mirror,
                          .logical = logical, .len = len, .iov = &iov,
                          .iovcnt = 1 };

  return volume_run_mapped (v, &op, 1);
}

/* The first copy that passes, *ret_good, of an address that is mapped, FIRST
 * not among them; the bits of *ret_bad are those that did not.
 */
static int
read_good (struct volume *v, uint64_t logical, struct iovec buf,
           unsigned first, volume_verify_fn verify, void *opaque,
           unsigned *ret_good, unsigned *ret_bad)
{
  unsigned copies = volume_num_mirrors (v, logical);
  unsigned start = first > 0 ? first : start_with (v, logical, copies);

  *ret_bad = 0;
  if (copies == 0)
    return err_new (ERR_unmapped, "%llu + %zu",
                    (unsigned long long) logical, buf.iov_len);
  if (first > copies)
    return err_new (ERR_invalid, "copy %u of %u", first, copies);
  if (first > 0) {
    *ret_bad |= 1u << first;
    count_bad (v, logical, first, 0);
  }
  for (unsigned i = first > 0; i < copies; ++i) {
    unsigned m = (start - 1 + i) % copies + 1;
    int r = read_mirror (v, logical, m, buf.iov_base, buf.iov_len);

    if (r == -ERR_unmapped || r == -ERR_profile || r == -ERR_nomem)
      return r;
    if (r == 0) {
      r = verify (opaque, buf.iov_base, buf.iov_len);
      if (r == 0) {
        *ret_good = m;
        return 0;
      }
      count_bad (v, logical, m, r);
    }
    *ret_bad |= 1u << m;
  }
  return no_mirror (logical, buf.iov_len, copies);
}

int
volume_read_verified (struct volume *v, uint64_t logical, void *buf,
                      size_t len, unsigned first, volume_verify_fn verify,
                      void *opaque)
{
  const struct iovec to = { buf, len };
  unsigned good, bad;
  int r = chunk_need (v, logical);

  if (r == 0)
    r = read_good (v, logical, to, first, verify, opaque, &good, &bad);
  if (r < 0)
    return r;
  mend_all (v, logical, len, good, bad, verify, opaque);
  err_clear ();
  return 0;
}

int
volume_read_mapped (struct volume *v, uint64_t logical, void *buf,
                    size_t len, volume_verify_fn verify, void *opaque)
{
  const struct iovec to = { buf, len };
  unsigned good, bad;
  int r = read_good (v, logical, to, 0, verify, opaque, &good, &bad);

  if (r == 0)
    err_clear ();
  return r;
}
