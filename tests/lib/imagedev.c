/* An image in memory as a device of the engine, see imagedev.h. */
#include <config.h>

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "io/device_impl.h"
#include "lib/imagedev.h"
#include "lib/readall.h"
#include "lib/sparse.h"

int
imagedev_new (const uint8_t *base, uint64_t size, struct device **ret)
{
  static const uint8_t zero[SPARSE_BLOCK];
  struct device *dev;
  int r;

  r = device_mem_new ("image", size, &dev);
  for (uint64_t i = 0; r == 0 && i + SPARSE_BLOCK <= size; i += SPARSE_BLOCK)
    if (memcmp (base + i, zero, SPARSE_BLOCK) != 0) {
      r = device_write (dev, i, base + i, SPARSE_BLOCK);
      if (r < 0)
        device_close (dev);
    }
  if (r == 0)
    *ret = dev;
  return r;
}

int
imagedev_overlay (struct device *below, const uint8_t *base,
                  const struct imagedev_patch *patches, unsigned n,
                  struct device **ret)
{
  struct device *dev;
  int r;

  r = device_mem_overlay ("damaged", below, &dev);
  for (unsigned i = 0; r == 0 && i < n; ++i) {
    r = device_write (dev, patches[i].at - base, patches[i].at,
                      patches[i].len);
    if (r < 0)
      device_close (dev);
  }
  if (r == 0)
    *ret = dev;
  return r;
}

static int
open_pool (struct device *dev, bool read_only, struct btrnbd_pool **ret)
{
  struct btrnbd_open_opts opts = { .read_only = read_only,
    .cache_size = 16 << 20, .commit_interval = UINT_MAX, .workers = 1,
    .no_lock = true };

  return btrnbd_pool_open_devices (&dev, 1, &opts, ret);
}

int
imagedev_read_pool (struct device *dev, char *what)
{
  struct btrnbd_pool *pool;
  int r;

  what[0] = '\0';
  r = open_pool (dev, true, &pool);
  if (r < 0) {
    snprintf (what, READALL_TEXT, "open: %s", btrnbd_last_error (r));
    return r;
  }
  r = readall (pool, what);
  btrnbd_pool_close (pool);
  return r;
}

static void
change_things (struct btrnbd_pool *pool)
{
  static const char text[10000] = "text";
  struct btrnbd_file *f;

  btrnbd_create (pool, "made", 0644, false);
  if (btrnbd_file_open (pool, "made", 0, &f) == 0) {
    btrnbd_pwrite (f, text, sizeof text, 5, 0);
    btrnbd_flush (f);
    btrnbd_file_close (f);
  }
  if (btrnbd_file_open (pool, "plain", 0, &f) == 0) {
    btrnbd_pwrite (f, text, 100, 9000, 0);
    btrnbd_trim (f, 65536, 65536, 0);
    btrnbd_flush (f);
    btrnbd_file_close (f);
  }
  btrnbd_unlink (pool, "prealloc");
  btrnbd_unlink (pool, "sub/clone-3");
  btrnbd_mkdir (pool, "newdir", 0755);
  btrnbd_rename (pool, "inline", "newdir/inline", 0);
  btrnbd_pool_sync (pool);
}

int
imagedev_write_pool (struct device *dev, bool *ret_writable)
{
  struct btrnbd_pool_info info;
  struct btrnbd_pool *pool;
  int r;

  *ret_writable = false;
  r = open_pool (dev, false, &pool);
  if (r < 0)
    return r;
  btrnbd_pool_identify (pool, &info);
  *ret_writable = !info.read_only;
  change_things (pool);
  btrnbd_pool_close (pool);
  return 0;
}
