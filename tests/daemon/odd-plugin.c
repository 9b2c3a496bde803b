/* A plugin that is within the letter of nbdkit-plugin(3), where "true" is any
 * number but 0 and -1, and beyond it: it says it can do what it has no
 * callback for.
 */
#include <config.h>

#include <string.h>

#define NBDKIT_API_VERSION 2
#pragma GCC visibility push(default)
#include <nbdkit-plugin.h>
#pragma GCC visibility pop

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

static char handle;

static void *
odd_open (int readonly)
{
  (void) readonly;
  return &handle;
}

static int64_t
odd_get_size (void *h)
{
  (void) h;
  return 1 << 20;
}

static int
odd_true (void *h)
{
  (void) h;
  return 4;
}

static int
odd_can_fua (void *h)
{
  (void) h;
  return NBDKIT_FUA_NATIVE;
}

static int
odd_pread (void *h, void *buf, uint32_t count, uint64_t offset,
           uint32_t flags)
{
  (void) h;
  (void) offset;
  (void) flags;
  memset (buf, 7, count);
  return 0;
}

static struct nbdkit_plugin plugin = {
  .name = "odd",
  .version = PACKAGE_VERSION,
  .open = odd_open,
  .get_size = odd_get_size,
  .can_write = odd_true,
  .can_flush = odd_true,
  .is_rotational = odd_true,
  .can_trim = odd_true,
  .can_zero = odd_true,
  .can_fast_zero = odd_true,
  .can_extents = odd_true,
  .can_multi_conn = odd_true,
  .can_fua = odd_can_fua,
  .pread = odd_pread,
};

NBDKIT_REGISTER_PLUGIN (plugin)
