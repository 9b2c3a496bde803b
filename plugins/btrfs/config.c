/* Parameters of the plugin, and --dump-plugin. */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

#define CACHE_MIN (INT64_C (1) << 20)
#define CACHE_MAX (INT64_C (1) << 40)
#define IMAGE_RESERVE_MIN (INT64_C (1) << 20)
#define COMMIT_INTERVAL_MAX 3600
#define WORKERS_MAX 256
#define DEVICES_MAX 1024

struct plugin_config plugin_config;

/* -D btrfs.nocow=N: for measurements, left out of the test for writes in place
 * are 1, the early look at generations, and 2, the kept verdicts.
 */
NBDKIT_DLL_PUBLIC int btrfs_debug_nocow;

static int
add_device (const char *value)
{
  char **bigger, *path;

  if (value[0] == '\0') {
    nbdkit_error ("device: the path is empty");
    return -1;
  }
  if (plugin_config.num_devices == DEVICES_MAX) {
    nbdkit_error ("device: more than %d devices", DEVICES_MAX);
    return -1;
  }
  /* The server changes its directory when it goes into the background. */
  if (strncmp (value, "nbd:", 4) == 0 || strncmp (value, "nbds:", 5) == 0 ||
      strncmp (value, "nbd+", 4) == 0 || strncmp (value, "nbds+", 5) == 0)
    path = strdup (value);
  else
    path = nbdkit_absolute_path (value);
  if (path == NULL)
    return -1;
  bigger = realloc (plugin_config.devices,
                    (plugin_config.num_devices + 1) * sizeof *bigger);
  if (bigger == NULL) {
    nbdkit_error ("realloc: %m");
    free (path);
    return -1;
  }
  plugin_config.devices = bigger;
  plugin_config.devices[plugin_config.num_devices++] = path;
  return 0;
}

static int
set_readonly (const char *value)
{
  int b = nbdkit_parse_bool (value);

  if (b < 0)
    return -1;
  plugin_config.opts.read_only = b;
  return 0;
}

static int
set_cache_size (const char *value)
{
  int64_t n = nbdkit_parse_size (value);

  if (n < 0)
    return -1;
  if (n < CACHE_MIN || n > CACHE_MAX) {
    nbdkit_error ("cache-size=%s: must be between 1M and 1T", value);
    return -1;
  }
  plugin_config.opts.cache_size = n;
  return 0;
}

static int
set_bool (const char *value, bool *to)
{
  int r = nbdkit_parse_bool (value);

  if (r < 0)
    return -1;
  *to = r;
  return 0;
}

static int
set_image_reserve (const char *value)
{
  int64_t n = nbdkit_parse_size (value);

  if (n < 0)
    return -1;
  if (n > 0 && n < IMAGE_RESERVE_MIN) {
    nbdkit_error ("image-reserve=%s: must be 0 or at least 1M", value);
    return -1;
  }
  plugin_config.opts.no_image = n == 0;
  plugin_config.opts.image_reserve = n;
  return 0;
}

static int
set_regroup (const char *value)
{
  int r = nbdkit_parse_bool (value);

  if (r < 0)
    return -1;
  plugin_config.opts.no_regroup = !r;
  return 0;
}

static int
set_control (const char *value)
{
  free (plugin_config.control);
  plugin_config.control = nbdkit_absolute_path (value);
  return plugin_config.control ? 0 : -1;
}

static int
set_number (const char *key, const char *value, unsigned max, unsigned *ret)
{
  unsigned n;

  if (nbdkit_parse_unsigned (key, value, &n) < 0)
    return -1;
  if (n < 1 || n > max) {
    nbdkit_error ("%s=%s: must be between 1 and %u", key, value, max);
    return -1;
  }
  *ret = n;
  return 0;
}

static int
set_log (const char *value)
{
  if (strcmp (value, "replay") != 0 && strcmp (value, "ignore") != 0) {
    nbdkit_error ("log=%s: must be replay or ignore", value);
    return -1;
  }
  plugin_config.opts.ignore_log = strcmp (value, "ignore") == 0;
  return 0;
}

int
plugin_config_set (const char *key, const char *value)
{
  if (strcmp (key, "device") == 0)
    return add_device (value);
  if (strcmp (key, "readonly") == 0)
    return set_readonly (value);
  if (strcmp (key, "cache-size") == 0)
    return set_cache_size (value);
  if (strcmp (key, "commit-interval") == 0)
    return set_number (key, value, COMMIT_INTERVAL_MAX,
                       &plugin_config.opts.commit_interval);
  if (strcmp (key, "control") == 0)
    return set_control (value);
  if (strcmp (key, "discard") == 0)
    return set_bool (value, &plugin_config.opts.discard);
  if (strcmp (key, "write-through") == 0)
    return set_bool (value, &plugin_config.write_through);
  if (strcmp (key, "image-reserve") == 0)
    return set_image_reserve (value);
  if (strcmp (key, "regroup") == 0)
    return set_regroup (value);
  if (strcmp (key, "super-copy") == 0)
    return set_number (key, value, 2, &plugin_config.opts.super_copy);
  if (strcmp (key, "log") == 0)
    return set_log (value);
  if (strcmp (key, "workers") == 0)
    return set_number (key, value, WORKERS_MAX, &plugin_config.opts.workers);
  nbdkit_error ("unknown parameter '%s' (nbdkit btrfs --help lists them)",
                key);
  return -1;
}

int
plugin_config_complete (void)
{
  size_t i, j;

  if (plugin_config.num_devices == 0) {
    nbdkit_error ("name the pool: nbdkit btrfs DEVICE...");
    return -1;
  }
  for (i = 0; i < plugin_config.num_devices; i++)
    for (j = 0; j < i; j++)
      if (strcmp (plugin_config.devices[i], plugin_config.devices[j]) == 0) {
        nbdkit_error ("device %s is given twice", plugin_config.devices[i]);
        return -1;
      }
  plugin_config.opts.nocow_no_early = btrfs_debug_nocow & 1;
  plugin_config.opts.nocow_no_cache = btrfs_debug_nocow & 2;
  return 0;
}

void
plugin_config_free (void)
{
  size_t i;

  for (i = 0; i < plugin_config.num_devices; i++)
    free (plugin_config.devices[i]);
  free (plugin_config.devices);
  plugin_config.devices = NULL;
  plugin_config.num_devices = 0;
  free (plugin_config.control);
  plugin_config.control = NULL;
}

void
plugin_dump (void)
{
  printf ("btrfs_version=%s\n", PACKAGE_VERSION);
  printf ("btrfs_checksums=crc32c,xxhash,sha256,blake2b\n");
  printf ("btrfs_decompress=zlib,lzo,zstd\n");
  printf ("btrfs_profiles=single,dup,raid0\n");
  printf ("btrfs_multi_device=no\n");
  printf ("btrfs_log_tree=yes\n");
  printf ("btrfs_device_nbd=yes\n");
  printf ("btrfs_image=yes\n");
}
