/* The nbdkit plugin "btrfs": callbacks, each a call of the engine.
 *
 * Life of the pool: get_ready claims the devices and opens the pool once for
 * reading, so that a wrong parameter, a pool that somebody else has or one
 * that is damaged fails before the server goes into the background (a command
 * of --run would wait for ever); after_fork opens the pool, because threads
 * do not survive the fork in between; cleanup commits and closes.  nbdkit
 * does not call `close` for clients that are connected when it ends: their
 * handles are closed by cleanup.
 */
#include <config.h>

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "plugin.h"

/* The real model is decided at run time, see plugin_thread_model. */
#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

struct handle {
  struct btrnbd_file *file;
  bool read_only;
  char *name;                  /* as asked for, or NULL: it is not told */
  LIST_ENTRY (handle) entry;
};

struct btrnbd_pool *plugin_pool;

struct btrnbd_file *
plugin_handle_file (void *handle)
{
  struct handle *h = handle;

  return h->file;
}

static struct btrnbd_claim *claim;
static bool rotational;
static pthread_mutex_t handles_lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD (, handle) handles = LIST_HEAD_INITIALIZER (handles);
static unsigned num_handles;

/* Clients see a number, and nbdkit passes only some of them on; everything
 * else would become EINVAL, which is wrong for a disk that is damaged.
 */
static int
wire_errno (int code)
{
  int err = btrnbd_error_errno (code);

  switch (err) {
  case EROFS: case EPERM: case ENOMEM: case ENOSPC: case EDQUOT: case EFBIG:
  case ESHUTDOWN: case EINVAL: case EOPNOTSUPP:
    return err;
  default:
    return EIO;
  }
}

int
plugin_fail (int code, const char *what)
{
  nbdkit_error ("%s: %s", what, btrnbd_last_error (code));
  errno = wire_errno (code);
  nbdkit_set_error (errno);
  return -1;
}

unsigned
plugin_open_handles (void)
{
  unsigned n;

  pthread_mutex_lock (&handles_lock);
  n = num_handles;
  pthread_mutex_unlock (&handles_lock);
  return n;
}

/* --- life of the server --- */

/* nbdkit before 1.34 aborts when a client goes away while several replies are
 * queued on its connection.  nbdkit_disconnect came with the fix.
 */
static int
plugin_thread_model (void)
{
  if (dlsym (RTLD_DEFAULT, "nbdkit_disconnect") == NULL)
    return NBDKIT_THREAD_MODEL_SERIALIZE_REQUESTS;
  return NBDKIT_THREAD_MODEL_PARALLEL;
}

static void (*host_log) (int level, const char *line); /* or NULL */

void
plugin_log_to (void (*fn) (int level, const char *line))
{
  host_log = fn;
}

static void
log_line (void *opaque, int level, const char *line)
{
  static const char *const names[] = { "error", "warning" };

  (void) opaque;
  if (host_log)
    host_log (level, line);
  else if (level <= 1) /* nbdkit calls all of them errors */
    nbdkit_error ("%s: %s", names[level < 0 ? 0 : level], line);
  else
    nbdkit_debug ("%s", line);
}

static int
plugin_get_ready (void)
{
  int r;

  btrnbd_set_log (log_line, NULL, 3);
  r = btrnbd_pool_claim ((const char *const *) plugin_config.devices,
                         plugin_config.num_devices, &plugin_config.opts,
                         &claim);
  if (r == 0)
    r = btrnbd_pool_try ((const char *const *) plugin_config.devices,
                         plugin_config.num_devices, &plugin_config.opts);
  if (r < 0)
    return plugin_fail (r, "cannot open the pool");
  return plugin_control_listen ();
}

static int
plugin_after_fork (void)
{
  struct btrnbd_pool_info info;
  struct btrnbd_claim *c = claim;
  int r;

  claim = NULL;
  plugin_config.opts.image_ended = plugin_control_image_ended;
  r = btrnbd_claim_open (c, &plugin_config.opts, &plugin_pool);
  if (r < 0)
    return plugin_fail (r, "cannot open the pool");
  btrnbd_pool_identify (plugin_pool, &info);
  rotational = info.rotational;
  if (info.read_only && !plugin_config.opts.read_only)
    nbdkit_error ("pool %s is open read-only: %s", info.uuid,
                  info.read_only_reason);
  nbdkit_debug ("pool %s \"%s\" generation %llu", info.uuid, info.label,
                (unsigned long long) info.generation);
  if (plugin_control_start () < 0)
    return -1;
  return shutdown_start ();
}

static void
plugin_cleanup (void)
{
  struct handle *h;
  int r;

  shutdown_stop ();
  plugin_control_stop ();
  while ((h = LIST_FIRST (&handles)) != NULL) {
    LIST_REMOVE (h, entry);
    btrnbd_file_close (h->file);
    free (h->name);
    free (h);
  }
  num_handles = 0;
  if (plugin_pool != NULL) {
    r = btrnbd_pool_close (plugin_pool);
    plugin_pool = NULL;
    if (r < 0)
      plugin_fail (r, "closing the pool");
  }
}

static void
plugin_unload (void)
{
  btrnbd_claim_free (claim);
  claim = NULL;
  plugin_control_stop ();
  plugin_config_free ();
}

static int
plugin_preconnect (int readonly)
{
  (void) readonly;
  return shutdown_draining () ? -1 : 0;
}

/* --- handles --- */

/* An export name as it may stand in a message: it came from a client. */
static void
printable (const char *name, char *buf, size_t size)
{
  size_t i;

  for (i = 0; name[i] != '\0' && i + 1 < size; i++)
    buf[i] = (unsigned char) name[i] < ' ' || (unsigned char) name[i] >= 0x7f
      ? '?' : name[i];
  buf[i] = '\0';
}

static void *
plugin_open (int readonly)
{
  const char *name = nbdkit_export_name ();
  unsigned flags = readonly ? BTRNBD_OPEN_RDONLY : 0;
  char shown[256];
  struct handle *h;
  int r;

  if (name == NULL)
    return NULL;
  h = calloc (1, sizeof *h);
  if (h == NULL) {
    nbdkit_error ("calloc: %m");
    return NULL;
  }
  r = btrnbd_export_open (plugin_pool, name, flags, &h->file);
  if (r < 0) {
    free (h);
    printable (name, shown, sizeof shown);
    nbdkit_error ("export \"%s\": %s", shown, btrnbd_last_error (r));
    nbdkit_set_error (btrnbd_error_errno (r));
    return NULL;
  }
  h->read_only = readonly || btrnbd_file_read_only (h->file);
  pthread_mutex_lock (&handles_lock);
  LIST_INSERT_HEAD (&handles, h, entry);
  num_handles++;
  pthread_mutex_unlock (&handles_lock);
  h->name = strdup (name);
  if (h->name)
    plugin_control_export ("export.opened", h->name);
  return h;
}

static void
plugin_close (void *handle)
{
  struct handle *h = handle;

  pthread_mutex_lock (&handles_lock);
  LIST_REMOVE (h, entry);
  pthread_mutex_unlock (&handles_lock);
  btrnbd_file_close (h->file);
  if (h->name)
    plugin_control_export ("export.closed", h->name);
  free (h->name);
  free (h);
  /* Last: whoever drains may go on as soon as it sees zero. */
  pthread_mutex_lock (&handles_lock);
  num_handles--;
  pthread_mutex_unlock (&handles_lock);
}

static const char *
plugin_export_description (void *handle)
{
  struct handle *h = handle;
  const char *text = btrnbd_file_description (h->file);

  return text == NULL ? NULL : nbdkit_strdup_intern (text);
}

static int64_t
plugin_get_size (void *handle)
{
  struct handle *h = handle;
  uint64_t size = btrnbd_file_size (h->file);

  if (size > INT64_MAX) {
    nbdkit_error ("the file is too large for an export");
    return -1;
  }
  return size;
}

static int
plugin_block_size (void *handle, uint32_t *minimum, uint32_t *preferred,
                   uint32_t *maximum)
{
  (void) handle;
  *minimum = 1;
  *preferred = 4096;
  *maximum = 32 * 1024 * 1024;
  return 0;
}

static int
plugin_can_write (void *handle)
{
  struct handle *h = handle;

  return !h->read_only;
}

static int
plugin_yes (void *handle)
{
  (void) handle;
  return 1;
}

static int
plugin_is_rotational (void *handle)
{
  (void) handle;
  return rotational;
}

/* A FLUSH or FUA covers what any connection to any export was told is done:
 * all of them share one in-memory file.
 */
static int
plugin_can_fua (void *handle)
{
  (void) handle;
  return NBDKIT_FUA_NATIVE;
}

static int
plugin_can_cache (void *handle)
{
  (void) handle;
  return NBDKIT_CACHE_NATIVE;
}

/* --- data --- */

static int
plugin_pread (void *handle, void *buf, uint32_t count, uint64_t offset,
              uint32_t flags)
{
  struct handle *h = handle;
  int r;

  (void) flags;
  r = btrnbd_pread (h->file, buf, count, offset);
  return r < 0 ? plugin_fail (r, "read") : 0;
}

static unsigned
durability (uint32_t flags)
{
  return flags & NBDKIT_FLAG_FUA || plugin_config.write_through
    ? BTRNBD_FUA : 0;
}

static int
plugin_pwrite (void *handle, const void *buf, uint32_t count, uint64_t offset,
               uint32_t flags)
{
  struct handle *h = handle;
  int r;

  r = btrnbd_pwrite (h->file, buf, count, offset, durability (flags));
  return r < 0 ? plugin_fail (r, "write") : 0;
}

static int
plugin_flush (void *handle, uint32_t flags)
{
  struct handle *h = handle;
  int r;

  (void) flags;
  r = btrnbd_flush (h->file);
  return r < 0 ? plugin_fail (r, "flush") : 0;
}

static int
plugin_trim (void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
  struct handle *h = handle;
  int r;

  r = btrnbd_trim (h->file, offset, count, durability (flags));
  return r < 0 ? plugin_fail (r, "trim") : 0;
}

static int
plugin_zero (void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
  struct handle *h = handle;
  unsigned f = durability (flags);
  int r;

  if (flags & NBDKIT_FLAG_MAY_TRIM)
    f |= BTRNBD_MAY_TRIM;
  if (flags & NBDKIT_FLAG_FAST_ZERO)
    f |= BTRNBD_FAST_ZERO;
  r = btrnbd_zero (h->file, offset, count, f);
  return r < 0 ? plugin_fail (r, "zero") : 0;
}

static int
add_extent (void *opaque, uint64_t offset, uint64_t len, unsigned type)
{
  uint32_t t = 0;

  if (type & BTRNBD_EXTENT_HOLE)
    t |= NBDKIT_EXTENT_HOLE;
  if (type & BTRNBD_EXTENT_ZERO)
    t |= NBDKIT_EXTENT_ZERO;
  return nbdkit_add_extent (opaque, offset, len, t) < 0
    ? -BTRNBD_ERR_BASE : 0;
}

/* The engine clips to the range asked for: nbdkit 1.32 aborts on an extent of
 * 4 GiB or more.
 */
static int
plugin_extents (void *handle, uint32_t count, uint64_t offset, uint32_t flags,
                struct nbdkit_extents *extents)
{
  struct handle *h = handle;
  int r;

  (void) flags;
  r = btrnbd_extents (h->file, offset, count, add_extent, extents);
  if (r == -BTRNBD_ERR_BASE) /* nbdkit has said why */
    return -1;
  return r < 0 ? plugin_fail (r, "extents") : 0;
}

static int
plugin_cache (void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
  struct handle *h = handle;
  int r;

  (void) flags;
  r = btrnbd_prefetch (h->file, offset, count);
  return r < 0 ? plugin_fail (r, "cache") : 0;
}

static struct nbdkit_plugin plugin = {
  .name = "btrfs",
  .longname = "btrnbd: network disks from btrfs pools",
  .version = PACKAGE_VERSION,
  .description = "Serve the volumes and files of a btrfs pool on raw disks.",
  .config_help = PLUGIN_CONFIG_HELP,
  .magic_config_key = "device",
  .errno_is_preserved = 1,

  .load = shutdown_load,
  .unload = plugin_unload,
  .dump_plugin = plugin_dump,
  .config = plugin_config_set,
  .config_complete = plugin_config_complete,
  .thread_model = plugin_thread_model,
  .get_ready = plugin_get_ready,
  .after_fork = plugin_after_fork,
  .cleanup = plugin_cleanup,
  .preconnect = plugin_preconnect,
  .list_exports = plugin_list_exports,
  .default_export = plugin_default_export,

  .open = plugin_open,
  .close = plugin_close,
  .export_description = plugin_export_description,
  .get_size = plugin_get_size,
  .block_size = plugin_block_size,
  .can_write = plugin_can_write,
  .can_flush = plugin_yes,
  .is_rotational = plugin_is_rotational,
  .can_trim = plugin_yes,
  .can_zero = plugin_yes,
  .can_fast_zero = plugin_yes,
  .can_fua = plugin_can_fua,
  .can_multi_conn = plugin_yes,
  .can_extents = plugin_yes,
  .can_cache = plugin_can_cache,

  .pread = plugin_pread,
  .pwrite = plugin_pwrite,
  .flush = plugin_flush,
  .trim = plugin_trim,
  .zero = plugin_zero,
  .extents = plugin_extents,
  .cache = plugin_cache,
};

NBDKIT_REGISTER_PLUGIN (plugin)
