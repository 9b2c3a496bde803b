/* volume: open, close, devices and their counters. */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "base/math.h"
#include "format/super.h"
#include "volume/volume_priv.h"

static int
add_sys_chunk (void *opaque, struct key key, const struct btrfs_chunk *chunk,
               uint32_t size)
{
  struct volume *v = opaque;
  int r = chunk_check (&v->format, chunk, size, key.offset);

  if (r == 0)
    r = volume_add_chunk (v, key.offset, chunk);
  return err_note (r, "system chunk array");
}

int
volume_open_copy (struct device **devs, size_t n, bool read_only,
                  unsigned copy, struct volume **ret)
{
  struct volume *v = calloc (1, sizeof *v);
  char why[SUPER_WHY_MAX];
  enum super_access access;
  int r;

  if (v == NULL)
    return err_new (ERR_nomem, "volume");
  chunk_map_init (v);
  v->read_only = read_only;
  r = n > 0 && copy < BTRFS_SUPER_COPIES ? 0
    : err_new (ERR_invalid, "%zu devices, superblock copy %u", n, copy);
  if (r == 0)
    r = supers_load (v, devs, n, copy);
  if (r == 0)
    r = super_access (&v->super, &access, why);
  if (r == 0) {
    format_info_init (&v->format, &v->super);
    r = super_sys_chunks (&v->super, add_sys_chunk, v);
  }
  if (r < 0) {
    /* The devices stay the caller's. */
    for (unsigned i = 0; i < v->ndevs; ++i)
      v->devs[i].pub.dev = NULL;
    volume_close (v);
    return r;
  }
  *ret = v;
  return 0;
}

int
volume_open (struct device **devs, size_t n, bool read_only,
             struct volume **ret)
{
  return volume_open_copy (devs, n, read_only, 0, ret);
}

void
volume_close (struct volume *v)
{
  if (v == NULL)
    return;
  for (unsigned i = 0; i < v->ndevs; ++i)
    device_close (v->devs[i].pub.dev);
  chunk_map_done (v);
  free (v->devs);
  free (v);
}

bool
volume_read_only (const struct volume *v)
{
  return atomic_load (&v->read_only);
}

void
volume_set_read_only (struct volume *v)
{
  atomic_store (&v->read_only, true);
}

const struct format_info *
volume_format (const struct volume *v)
{
  return &v->format;
}

void
volume_set_chunk_tree_uuid (struct volume *v,
                            const uint8_t uuid[BTRFS_UUID_SIZE])
{
  memcpy (v->format.chunk_tree_uuid, uuid, BTRFS_UUID_SIZE);
}

const struct btrfs_super *
volume_super (const struct volume *v)
{
  return &v->super;
}

unsigned
volume_num_devices (const struct volume *v)
{
  return v->ndevs;
}

const struct volume_device *
volume_device (const struct volume *v, unsigned index)
{
  return &v->devs[index].pub;
}

void
volume_device_set_bytes (struct volume *v, unsigned index,
                         uint64_t total_bytes, uint64_t bytes_used)
{
  rwlock_wrlock (&v->lock);
  v->devs[index].pub.total_bytes = total_bytes;
  v->devs[index].pub.bytes_used = bytes_used;
  rwlock_unlock (&v->lock);
}

uint64_t
volume_dev_stat (const struct volume *v, unsigned index, enum dev_stat stat)
{
  return v->devs[index].stats[stat];
}

void
volume_dev_stat_set (struct volume *v, unsigned index, enum dev_stat stat,
                     uint64_t value)
{
  v->devs[index].stats[stat] = value;
}

/* --- flush --- */

struct flush_job {
  struct volume *v;
  unsigned dev;
  bool started;
  pthread_t thread;
  int result;
  char *notes;
};

static void *
flush_one (void *opaque)
{
  struct flush_job *job = opaque;

  job->result = device_flush (job->v->devs[job->dev].pub.dev);
  if (job->result < 0)
    job->notes = err_take ();
  return NULL;
}

/* All devices at once: the slowest decides how long a commit takes. */
static int
flush_many (struct volume *v, struct flush_job *jobs, bool *lost)
{
  int first = 0;
  char *notes = NULL;

  for (unsigned i = 0; i < v->ndevs; ++i) {
    jobs[i] = (struct flush_job) { .v = v, .dev = i };
    jobs[i].started = i > 0 &&
      pthread_create (&jobs[i].thread, NULL, flush_one, &jobs[i]) == 0;
  }
  for (unsigned i = 0; i < v->ndevs; ++i) {
    if (jobs[i].started)
      pthread_join (jobs[i].thread, NULL);
    else
      flush_one (&jobs[i]);
    if (jobs[i].result == 0)
      continue;
    lost[i] = true;
    dev_stat_add (v, i, DEV_STAT_FLUSH);
    if (first == 0) {
      first = jobs[i].result;
      notes = take (jobs[i].notes);
    }
    free (jobs[i].notes);
  }
  if (first < 0)
    err_put (notes);
  return first;
}

int
volume_flush (struct volume *v)
{
  if (volume_read_only (v))
    return err_new (ERR_dev_readonly, "flush");
  if (v->ndevs == 1) {
    int r = device_flush (v->devs[0].pub.dev);

    if (r < 0)
      dev_stat_add (v, 0, DEV_STAT_FLUSH);
    return r;
  }

  CLEANUP_FREE struct flush_job *jobs = calloc (v->ndevs, sizeof *jobs);
  CLEANUP_FREE bool *lost = calloc (v->ndevs, sizeof *lost);
  int r;

  if (jobs == NULL || lost == NULL)
    return err_new (ERR_nomem, "flush");
  r = flush_many (v, jobs, lost);
  if (r == 0 || !chunk_map_is_whole (v) || !chunk_map_survives (v, lost))
    return r;
  log_warning ("flush: %s; the other copies are enough", err_text (r));
  err_clear ();
  return 0;
}
