/* What the plugin offers to hosts with an event loop, see
 * <btrnbd/plugin-ext.h>: reads and writes that find everything in memory, the
 * pool's control methods, names of exports.
 */
#include <config.h>

#include <btrnbd/plugin-ext.h>

#include "plugin.h"

static int
ext_try_pread (void *handle, void *buf, uint32_t count, uint64_t offset,
               uint32_t flags)
{
  (void) flags;
  return btrnbd_try_pread (plugin_handle_file (handle), buf, count, offset)
    ? BTRNBD_TRY_DONE : BTRNBD_TRY_WOULD_BLOCK;
}

/* Durable before it is answered: never without waiting. */
static int
ext_try_pwrite (void *handle, const void *buf, uint32_t count,
                uint64_t offset, uint32_t flags)
{
  if (flags & NBDKIT_FLAG_FUA || plugin_config.write_through)
    return BTRNBD_TRY_WOULD_BLOCK;
  return btrnbd_try_pwrite (plugin_handle_file (handle), buf, count, offset)
    ? BTRNBD_TRY_DONE : BTRNBD_TRY_WOULD_BLOCK;
}

static int
ext_export_name (const char *name, char *buf, size_t size)
{
  const int r = btrnbd_export_name (plugin_pool, name, buf, size);

  return r < 0 ? plugin_fail (r, "the name of an export") : 0;
}

static int
ext_rule_name (const char *name, char *buf, size_t size)
{
  const int r = btrnbd_export_rule_name (name, buf, size);

  if (r < 0)
    nbdkit_error ("%s", btrnbd_last_error (r));
  return r < 0 ? -1 : 0;
}

static int
ext_handle_name (void *handle, const char *was, char *buf, size_t size)
{
  const int r = btrnbd_file_name (plugin_handle_file (handle), was, buf,
                                  size);

  return r < 0 ? plugin_fail (r, "the name of an export") : 0;
}

static const struct btrnbd_plugin_ext extension = {
  .version = BTRNBD_PLUGIN_EXT_VERSION,
  .size = sizeof extension,
  .try_pread = ext_try_pread,
  .try_pwrite = ext_try_pwrite,
  .control = plugin_control_call,
  .control_events = plugin_control_events,
  .log_to = plugin_log_to,
  .export_name = ext_export_name,
  .rule_name = ext_rule_name,
  .handle_name = ext_handle_name,
};

extern __attribute__ ((visibility ("default")))
const struct btrnbd_plugin_ext *btrnbd_plugin_ext_init (void);

const struct btrnbd_plugin_ext *
btrnbd_plugin_ext_init (void)
{
  return &extension;
}
