/* A plugin for tests and benchmarks of hosts: memory, with the try-calls of
 * <btrnbd/plugin-ext.h>, and ways to make trouble on request:
 *
 *   size=SIZE      of every export (default 16M)
 *   exports=N      names e0 .. e(N-1) (default 1; "" is e0)
 *   try=false      never answer try-calls
 *   delay-ms=N     every blocking call sleeps first
 *   open-delay-ms=N  so does open, whatever the host wishes
 *   bad-at=OFFSET  reads and writes that touch it fail with EIO and a text
 *   model=N        thread model (0 .. 3, default 3)
 *   log=FILE       a line per open and close
 *
 * With a model below 3 it aborts when it is called against that model.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NBDKIT_API_VERSION 2
#pragma GCC visibility push(default)
#include <nbdkit-plugin.h>
#pragma GCC visibility pop
#include <btrnbd/plugin-ext.h>

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

static int64_t size = 16 << 20, bad_at = -1;
static unsigned exports = 1, delay_ms, open_delay_ms, model = 3;
static bool try_calls = true;
static const char *log_file;
static char **memory;
static atomic_int in_plugin;

/* The memory of an export is a disk: clients may race for its bytes, and
 * ThreadSanitizer has no business there.
 */
#ifdef __SANITIZE_THREAD__
__attribute__ ((no_sanitize ("thread"))) static void
disk_copy (void *to, const void *from, size_t n)
{
  volatile char *t = to;
  const volatile char *f = from;

  while (n-- > 0)
    *t++ = *f++;
}

__attribute__ ((no_sanitize ("thread"))) static bool
disk_is_zero (const void *from, size_t n)
{
  const volatile char *f = from;

  while (n > 0 && *f++ == 0)
    n--;
  return n == 0;
}
#else
static void
disk_copy (void *to, const void *from, size_t n)
{
  memcpy (to, from, n);
}

static bool
disk_is_zero (const void *from, size_t n)
{
  static const char zeroes[4096];

  return memcmp (from, zeroes, n) == 0;
}
#endif

struct export_handle {
  char *data;
  atomic_int in_handle;
};

static int
test_config (const char *key, const char *value)
{
  int r;

  if (strcmp (key, "size") == 0)
    return (size = nbdkit_parse_size (value)) < 0 ? -1 : 0;
  if (strcmp (key, "bad-at") == 0)
    return (bad_at = nbdkit_parse_size (value)) < 0 ? -1 : 0;
  if (strcmp (key, "exports") == 0)
    return nbdkit_parse_unsigned (key, value, &exports);
  if (strcmp (key, "delay-ms") == 0)
    return nbdkit_parse_unsigned (key, value, &delay_ms);
  if (strcmp (key, "open-delay-ms") == 0)
    return nbdkit_parse_unsigned (key, value, &open_delay_ms);
  if (strcmp (key, "model") == 0)
    return nbdkit_parse_unsigned (key, value, &model);
  if (strcmp (key, "log") == 0) {
    log_file = value;
    return 0;
  }
  if (strcmp (key, "try") == 0) {
    r = nbdkit_parse_bool (value);
    try_calls = r;
    return r == -1 ? -1 : 0;
  }
  nbdkit_error ("unknown parameter \"%s\"", key);
  return -1;
}

static int
test_thread_model (void)
{
  return model;
}

static int
test_get_ready (void)
{
  unsigned i;

  memory = calloc (exports, sizeof *memory);
  for (i = 0; memory && i < exports; ++i) {
    memory[i] = calloc (1, size);
    if (memory[i] == NULL)
      return -1;
  }
  return memory ? 0 : -1;
}

static void
test_unload (void)
{
  unsigned i;

  for (i = 0; memory && i < exports; ++i)
    free (memory[i]);
  free (memory);
}

static void
log_line (const char *what)
{
  char line[64];
  int fd, n;

  if (log_file == NULL)
    return;
  n = snprintf (line, sizeof line, "%s %s\n", what, nbdkit_export_name ());
  fd = open (log_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd == -1 || write (fd, line, n) != n)
    abort ();
  close (fd);
}

static int
test_list_exports (int readonly, int is_tls, struct nbdkit_exports *x)
{
  char name[16];
  unsigned i;

  (void) readonly;
  (void) is_tls;
  for (i = 0; i < exports; ++i) {
    snprintf (name, sizeof name, "e%u", i);
    if (nbdkit_add_export (x, name, "some memory") == -1)
      return -1;
  }
  return 0;
}

static const char *
test_default_export (int readonly, int is_tls)
{
  (void) readonly;
  (void) is_tls;
  return "e0";
}

static void *
test_open (int readonly)
{
  const char *name = nbdkit_export_name ();
  struct export_handle *h;
  unsigned n;
  char end;

  (void) readonly;
  if (sscanf (name, "e%u%c", &n, &end) != 1 || n >= exports) {
    nbdkit_error ("no export is named \"%s\"", name);
    return NULL;
  }
  if (open_delay_ms > 0) {
    log_line ("opening");
    usleep (open_delay_ms * 1000);
  }
  h = calloc (1, sizeof *h);
  if (h) {
    h->data = memory[n];
    log_line ("open");
  }
  return h;
}

static void
test_close (void *handle)
{
  log_line ("close");
  free (handle);
}

static const char *
test_export_description (void *handle)
{
  (void) handle;
  return "some memory";
}

static int64_t
test_get_size (void *handle)
{
  (void) handle;
  return size;
}

static int
yes (void *handle)
{
  (void) handle;
  return 1;
}

static int
test_can_fua (void *handle)
{
  (void) handle;
  return NBDKIT_FUA_NATIVE;
}

static int
test_block_size (void *handle, uint32_t *min, uint32_t *preferred,
                 uint32_t *max)
{
  (void) handle;
  *min = 1;
  *preferred = 4096;
  *max = 32 << 20;
  return 0;
}

/* Called around every blocking operation. */
static void
enter (struct export_handle *h)
{
  if (atomic_fetch_add (&in_plugin, 1) > 0 &&
      model <= NBDKIT_THREAD_MODEL_SERIALIZE_ALL_REQUESTS)
    abort ();
  if (atomic_fetch_add (&h->in_handle, 1) > 0 &&
      model <= NBDKIT_THREAD_MODEL_SERIALIZE_REQUESTS)
    abort ();
  if (delay_ms > 0)
    nbdkit_nanosleep (delay_ms / 1000, delay_ms % 1000 * 1000000);
}

static void
leave (struct export_handle *h)
{
  atomic_fetch_sub (&h->in_handle, 1);
  atomic_fetch_sub (&in_plugin, 1);
}

static bool
is_bad (uint64_t offset, uint64_t count)
{
  return bad_at >= 0 && (uint64_t) bad_at >= offset &&
    (uint64_t) bad_at - offset < count;
}

static int
fail_bad (void)
{
  nbdkit_error ("the byte at %lld is bad", (long long) bad_at);
  nbdkit_set_error (EIO);
  return -1;
}

static int
test_pread (void *handle, void *buf, uint32_t count, uint64_t offset,
            uint32_t flags)
{
  struct export_handle *h = handle;

  (void) flags;
  if (is_bad (offset, count))
    return fail_bad ();
  enter (h);
  disk_copy (buf, h->data + offset, count);
  leave (h);
  return 0;
}

static int
test_pwrite (void *handle, const void *buf, uint32_t count, uint64_t offset,
             uint32_t flags)
{
  struct export_handle *h = handle;

  (void) flags;
  if (is_bad (offset, count))
    return fail_bad ();
  enter (h);
  disk_copy (h->data + offset, buf, count);
  leave (h);
  return 0;
}

static int
test_zero (void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
  static const char zeroes[4096];
  struct export_handle *h = handle;
  uint32_t done, n;

  (void) flags;
  enter (h);
  for (done = 0; done < count; done += n) {
    n = count - done < sizeof zeroes ? count - done : sizeof zeroes;
    disk_copy (h->data + offset + done, zeroes, n);
  }
  leave (h);
  return 0;
}

static int
test_flush (void *handle, uint32_t flags)
{
  (void) flags;
  enter (handle);
  leave (handle);
  return 0;
}

/* Blocks of 4096 bytes that are zero are holes. */
static int
test_extents (void *handle, uint32_t count, uint64_t offset, uint32_t flags,
              struct nbdkit_extents *x)
{
  struct export_handle *h = handle;
  uint64_t end = offset + count, n;
  uint32_t type;

  (void) flags;
  for (; offset < end; offset += n) {
    n = 4096 - offset % 4096;
    if (n > end - offset)
      n = end - offset;
    type = disk_is_zero (h->data + offset, n)
      ? NBDKIT_EXTENT_HOLE | NBDKIT_EXTENT_ZERO : 0;
    if (nbdkit_add_extent (x, offset, n, type) == -1)
      return -1;
  }
  return 0;
}

static int
test_cache (void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
  (void) handle;
  (void) count;
  (void) offset;
  (void) flags;
  return 0;
}

static struct nbdkit_plugin plugin = {
  .name = "btrnbdtest",
  .version = "1",
  .config = test_config,
  .thread_model = test_thread_model,
  .get_ready = test_get_ready,
  .unload = test_unload,
  .list_exports = test_list_exports,
  .default_export = test_default_export,
  .open = test_open,
  .close = test_close,
  .export_description = test_export_description,
  .get_size = test_get_size,
  .can_multi_conn = yes,
  .can_fast_zero = yes,
  .can_fua = test_can_fua,
  .block_size = test_block_size,
  .pread = test_pread,
  .pwrite = test_pwrite,
  .flush = test_flush,
  .trim = test_zero,
  .zero = test_zero,
  .extents = test_extents,
  .cache = test_cache,
  .errno_is_preserved = 1,
};
NBDKIT_REGISTER_PLUGIN (plugin)

static int
test_try_pread (void *handle, void *buf, uint32_t count, uint64_t offset,
                uint32_t flags)
{
  struct export_handle *h = handle;

  (void) flags;
  if (!try_calls || delay_ms > 0 || is_bad (offset, count))
    return BTRNBD_TRY_WOULD_BLOCK;
  disk_copy (buf, h->data + offset, count);
  return BTRNBD_TRY_DONE;
}

static int
test_try_pwrite (void *handle, const void *buf, uint32_t count,
                 uint64_t offset, uint32_t flags)
{
  struct export_handle *h = handle;

  (void) flags;
  if (!try_calls || delay_ms > 0 || is_bad (offset, count))
    return BTRNBD_TRY_WOULD_BLOCK;
  disk_copy (h->data + offset, buf, count);
  return BTRNBD_TRY_DONE;
}

static const struct btrnbd_plugin_ext extension = {
  .version = BTRNBD_PLUGIN_EXT_VERSION,
  .size = sizeof extension,
  .try_pread = test_try_pread,
  .try_pwrite = test_try_pwrite,
};

extern __attribute__ ((visibility ("default")))
const struct btrnbd_plugin_ext *btrnbd_plugin_ext_init (void);

const struct btrnbd_plugin_ext *
btrnbd_plugin_ext_init (void)
{
  return &extension;
}
