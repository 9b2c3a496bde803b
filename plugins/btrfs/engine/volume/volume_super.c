/* volume: superblocks of the devices, reading and writing.
 *
 * The truth is the copy at 64 KiB of the device with the newest generation,
 * as for Linux.  The other two copies may lag behind (a log sync writes only
 * the first), so they are looked at only to tell the user about them, or when
 * one is asked for by number.
 */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "base/math.h"
#include "format/super.h"
#include "volume/volume_priv.h"

/* Read and check copy COPY of DEV. */
static int
read_copy (struct device *dev, unsigned copy, struct btrfs_super *super)
{
  uint64_t offset = super_offset (copy), end = offset + BTRFS_SUPER_SIZE;
  int r;

  if (end > device_get_info (dev)->size)
    return err_new (ERR_super_magic, "%s: no room at %llu",
                    device_get_info (dev)->name, (unsigned long long) offset);
  r = device_read (dev, offset, super, sizeof *super);
  if (r == 0)
    r = super_check (super, offset);
  return err_note (r, "%s: superblock at %llu", device_get_info (dev)->name,
                   (unsigned long long) offset);
}

/* Copy COPY of DEV is bad with error R: add what the others look like. */
static int
tell_others (struct device *dev, unsigned copy, struct btrfs_super *scratch,
             int r)
{
  char *notes = err_take ();
  unsigned good = BTRFS_SUPER_COPIES;
  uint64_t generation = 0;

  for (unsigned i = 0; i < BTRFS_SUPER_COPIES; ++i)
    if (i != copy && read_copy (dev, i, scratch) == 0 &&
        le64_get (scratch->generation) >= generation) {
      good = i;
      generation = le64_get (scratch->generation);
    }
  err_put (notes);
  if (good < BTRFS_SUPER_COPIES)
    return err_note (r, "copy %u at %llu is intact, of generation %llu; it "
                     "may be older than the last flush and is used only on "
                     "request", good,
                     (unsigned long long) super_offset (good),
                     (unsigned long long) generation);
  if (r == -ERR_super_magic)
    return err_new (ERR_no_super, "%s", device_get_info (dev)->name);
  return r;
}

static int
check_size (const struct device *dev, const struct btrfs_super *super)
{
  uint64_t total = le64_get (super->dev_item.total_bytes);
  const struct device_info *info = device_get_info (dev);

  if (total <= info->size)
    return 0;
  return err_new (ERR_too_small,
                  "%s: has %llu bytes, the pool was made for %llu",
                  info->name, (unsigned long long) info->size,
                  (unsigned long long) total);
}

/* Does SUPER belong to the same pool as the first device's? */
static int
check_same_pool (const struct volume *v, const struct device *dev,
                 const struct btrfs_super *super)
{
  const struct btrfs_super *other = &v->super;
  bool uuid = le64_get (other->incompat_flags) &
    BTRFS_INCOMPAT_METADATA_UUID;

  if (memcmp (super->fsid, other->fsid, BTRFS_UUID_SIZE) != 0 ||
      ((le64_get (super->incompat_flags) ^
        le64_get (other->incompat_flags)) & BTRFS_INCOMPAT_METADATA_UUID) ||
      (uuid && memcmp (super->metadata_uuid, other->metadata_uuid,
                       BTRFS_UUID_SIZE) != 0))
    return err_new (ERR_device_fsid, "%s", device_get_info (dev)->name);
  for (unsigned i = 0; i < v->ndevs; ++i)
    if (v->devs[i].pub.devid == le64_get (super->dev_item.devid))
      return err_new (ERR_device_fsid, "%s and %s are both device %llu",
                      device_get_info (v->devs[i].pub.dev)->name,
                      device_get_info (dev)->name,
                      (unsigned long long) v->devs[i].pub.devid);
  return 0;
}

static int
load_one (struct volume *v, struct device *dev, unsigned copy,
          struct btrfs_super *super, uint64_t *ret_generation)
{
  struct vol_dev *d = &v->devs[v->ndevs];
  int r = read_copy (dev, copy, super);

  if (r < 0) {
    CLEANUP_FREE struct btrfs_super *scratch = io_alloc (sizeof *scratch);

    return scratch ? tell_others (dev, copy, scratch, r) : r;
  }
  r = check_size (dev, super);
  if (r == 0 && v->ndevs > 0)
    r = check_same_pool (v, dev, super);
  if (r < 0)
    return r;

  d->item = super->dev_item;
  d->pub = (struct volume_device) {
    .devid = le64_get (super->dev_item.devid), .dev = dev,
    .total_bytes = le64_get (super->dev_item.total_bytes),
    .bytes_used = le64_get (super->dev_item.bytes_used),
  };
  memcpy (d->pub.uuid, super->dev_item.uuid, BTRFS_UUID_SIZE);
  *ret_generation = le64_get (super->generation);
  if (v->ndevs == 0 || *ret_generation > le64_get (v->super.generation))
    v->super = *super;
  v->ndevs++;
  return 0;
}

int
supers_load (struct volume *v, struct device **devs, size_t n, unsigned copy)
{
  CLEANUP_FREE struct btrfs_super *super = io_alloc (sizeof *super);
  CLEANUP_FREE uint64_t *generations = calloc (n, sizeof *generations);
  uint64_t newest, count;

  v->devs = calloc (n, sizeof *v->devs);
  if (v->devs == NULL || super == NULL || generations == NULL)
    return err_new (ERR_nomem, "superblocks");
  for (size_t i = 0; i < n; ++i) {
    int r = load_one (v, devs[i], copy, super, &generations[i]);

    if (r < 0)
      return r;
  }

  newest = le64_get (v->super.generation);
  count = le64_get (v->super.num_devices);
  if (n < count)
    return err_new (ERR_device_missing, "%zu of %llu devices given", n,
                    (unsigned long long) count);
  if (n > count)
    return err_new (ERR_device_fsid, "%zu devices given, the pool has %llu",
                    n, (unsigned long long) count);
  for (size_t i = 0; i < n; ++i)
    if (generations[i] < newest) {
      v->devs[i].pub.stale = true;
      log_warning ("%s: generation %llu, the pool is at %llu",
                   device_get_info (devs[i])->name,
                   (unsigned long long) generations[i],
                   (unsigned long long) newest);
    }
  return 0;
}

/* --- writing --- */

void
volume_super_fill (struct volume *v, unsigned index, struct btrfs_super *super)
{
  const struct vol_dev *d = &v->devs[index];

  super->dev_item = d->item;
  rwlock_rdlock (&v->lock);
  super->dev_item.total_bytes = le64_make (d->pub.total_bytes);
  super->dev_item.bytes_used = le64_make (d->pub.bytes_used);
  rwlock_unlock (&v->lock);
  super->dev_item.generation = le64_make (0);
  super->flags = le64_make (le64_get (super->flags) |
                            BTRFS_SUPER_FLAG_WRITTEN);
}

/* SUPER, of device INDEX, becomes its copy COPY. */
static int
seal_copy (struct volume *v, unsigned index, unsigned copy,
           struct btrfs_super *super)
{
  int r;

  super_seal_copy (super, copy);
  r = super_check (super, super_offset (copy));
  return err_note (r, "%s: refusing to write superblock",
                   device_get_info (v->devs[index].pub.dev)->name);
}

static bool
has_copy (const struct btrfs_super *super, unsigned copy)
{
  return super_offset (copy) + BTRFS_SUPER_SIZE
    < le64_get (super->dev_item.total_bytes);
}

static int
write_copy (struct volume *v, unsigned index, unsigned copy,
            struct btrfs_super *super)
{
  struct device *dev = v->devs[index].pub.dev;
  uint64_t offset = super_offset (copy);
  int r = seal_copy (v, index, copy, super);

  if (r < 0)
    return r;
  if (copy == 0)
    r = device_write_fua (dev, offset, super, sizeof *super);
  else
    r = device_write (dev, offset, super, sizeof *super);
  if (r < 0)
    dev_stat_add (v, index, DEV_STAT_WRITE);
  return err_note (r, "superblock at %llu", (unsigned long long) offset);
}

static void
write_others (struct volume *v, unsigned index, struct btrfs_super *super)
{
  int r;

  for (unsigned i = 1; i < BTRFS_SUPER_COPIES; ++i) {
    if (!has_copy (super, i))
      continue;
    r = write_copy (v, index, i, super);
    if (r < 0) {
      log_warning ("%s: %s", device_get_info (v->devs[index].pub.dev)->name,
                   err_text (r));
      err_clear ();
    }
  }
}

/* The other copies follow when the first is safe: whatever a power cut tears,
 * a whole one is left.
 */
static int
write_device (struct volume *v, unsigned index, struct btrfs_super *super,
              enum super_copies copies)
{
  int r = 0;

  volume_super_fill (v, index, super);
  if (copies != SUPER_OTHERS)
    r = write_copy (v, index, 0, super);
  if (r == 0 && copies != SUPER_FIRST)
    write_others (v, index, super);
  return r;
}

int
volume_write_supers (struct volume *v, const struct btrfs_super *super,
                     enum super_copies copies)
{
  CLEANUP_FREE struct btrfs_super *copy = io_alloc (sizeof *copy);
  unsigned failed = 0;
  int first = 0;

  if (copy == NULL)
    return err_new (ERR_nomem, "superblock");
  if (volume_read_only (v))
    return err_new (ERR_dev_readonly, "superblock");
  for (unsigned i = 0; i < v->ndevs; ++i) {
    int r;

    *copy = *super;
    r = write_device (v, i, copy, copies);
    if (r < 0) {
      failed++;
      first = first ? first : r;
    }
  }
  if (failed == 0)
    return 0;
  if (failed == v->ndevs)
    return first;
  log_warning ("superblock: %s; written to the other devices",
               err_text (first));
  err_clear ();
  return 0;
}

int
supers_prepare_others (struct volume *v, const struct btrfs_super *super,
                       struct super_copy *ret, size_t *ret_n)
{
  struct btrfs_super *copy;
  int r;

  *ret_n = 0;
  for (unsigned i = 0; i < v->ndevs; ++i)
    for (unsigned k = 1; k < BTRFS_SUPER_COPIES; ++k) {
      copy = io_alloc (sizeof *copy);
      if (copy == NULL)
        return err_new (ERR_nomem, "superblock");
      ret[*ret_n] = (struct super_copy) { .dev = i,
        .offset = super_offset (k), .iov = { copy, sizeof *copy } };
      *copy = *super;
      volume_super_fill (v, i, copy);
      if (!has_copy (copy, k)) {
        free (copy);
        continue;
      }
      ++*ret_n;
      r = seal_copy (v, i, k, copy);
      if (r < 0)
        return r;
    }
  return 0;
}

int
volume_super_read (struct volume *v, unsigned index, unsigned copy,
                   struct btrfs_super *super)
{
  return read_copy (v->devs[index].pub.dev, copy, super);
}

bool
volume_supers_current (struct volume *v, uint64_t generation)
{
  CLEANUP_FREE struct btrfs_super *copy = io_alloc (sizeof *copy);

  if (copy == NULL)
    return false;
  for (unsigned i = 0; i < v->ndevs; ++i)
    for (unsigned k = 0; k < BTRFS_SUPER_COPIES; ++k) {
      if (super_offset (k) + BTRFS_SUPER_SIZE >= v->devs[i].pub.total_bytes)
        continue;
      if (read_copy (v->devs[i].pub.dev, k, copy) < 0) {
        err_clear ();
        return false;
      }
      if (le64_get (copy->generation) != generation)
        return false;
    }
  return true;
}
