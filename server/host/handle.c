/* host: one open export: what it can do, and doing it.
 *
 * The defaults for callbacks that a plugin lacks are those of
 * nbdkit-plugin(3): can_X is true when the callback X exists; FUA is emulated
 * by a flush when there is one; zeroing falls back to writing zeroes; caching
 * is emulated by reading.
 */
#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host/log.h"
#include "host/plugin.h"

#define BOUNCE_MAX (1u << 20)  /* bytes written or read at once in fallbacks */

/* One can_* answer: the callback's, or DEFAULT without one. */
static int
ask (int (*fn) (void *), void *h, int fallback)
{
  return fn ? fn (h) : fallback;
}

/* Of yes and no: everything that is neither 0 nor -1 is yes. */
static int
ask_bool (int (*fn) (void *), void *h, bool fallback)
{
  const int r = ask (fn, h, fallback);

  return r == -1 ? -1 : r != 0;
}

static bool
block_sizes_ok (uint32_t min, uint32_t preferred, uint32_t max)
{
  if (min == 0)
    return preferred == 0 && max == 0;
  return (min & (min - 1)) == 0 && min <= 65536 &&
    (preferred & (preferred - 1)) == 0 && preferred >= 512 &&
    preferred <= (32u << 20) && preferred >= min &&
    (max == UINT32_MAX || (max % min == 0 && max >= preferred));
}

static int
ask_block_size (struct handle *x)
{
  const struct nbdkit_plugin *p = &x->plugin->p;

  if (p->block_size == NULL)
    return 0;
  if (p->block_size (x->h, &x->block_min, &x->block_preferred,
                     &x->block_max) == -1)
    return -1;
  if (!block_sizes_ok (x->block_min, x->block_preferred, x->block_max)) {
    nbdkit_error ("plugin reports impossible block sizes");
    return -1;
  }
  return 0;
}

/* Ask for every property once; they are constant for the connection. */
static int
ask_properties (struct handle *x)
{
  const struct nbdkit_plugin *p = &x->plugin->p;
  int write, flush, trim, zero, fast, multi, rotational, extents;

  write = x->read_only ? 0 : ask_bool (p->can_write, x->h, p->pwrite);
  flush = ask_bool (p->can_flush, x->h, p->flush);
  rotational = ask_bool (p->is_rotational, x->h, false);
  multi = ask_bool (p->can_multi_conn, x->h, false);
  extents = ask_bool (p->can_extents, x->h, p->extents);
  x->can_cache = ask (p->can_cache, x->h, p->cache ? NBDKIT_CACHE_NATIVE
                      : NBDKIT_CACHE_NONE);
  trim = write == 1 ? ask_bool (p->can_trim, x->h, p->trim) : 0;
  zero = write == 1 ? ask_bool (p->can_zero, x->h, p->zero) : 0;
  /* Without .zero, the answer ENOTSUP to a fast zero is fast. */
  fast = write == 1 ? ask_bool (p->can_fast_zero, x->h, !(zero && p->zero))
    : 0;
  x->can_fua = write == 1
    ? ask (p->can_fua, x->h, flush == 1 ? NBDKIT_FUA_EMULATE
           : NBDKIT_FUA_NONE) : NBDKIT_FUA_NONE;
  if (write == -1 || flush == -1 || rotational == -1 || multi == -1 ||
      extents == -1 || x->can_cache == -1 || trim == -1 || zero == -1 ||
      fast == -1 || x->can_fua == -1)
    return -1;
  x->can_write = write;
  x->can_flush = flush;
  x->can_trim = trim;
  x->can_zero = zero && p->zero;
  x->can_fast_zero = fast;
  x->can_extents = extents && p->extents;
  x->tx_flags = NBD_TX_HAS_FLAGS |
    (write ? NBD_TX_SEND_WRITE_ZEROES : NBD_TX_READ_ONLY) |
    (flush ? NBD_TX_SEND_FLUSH : 0) |
    (x->can_fua != NBDKIT_FUA_NONE ? NBD_TX_SEND_FUA : 0) |
    (rotational ? NBD_TX_ROTATIONAL : 0) | (trim ? NBD_TX_SEND_TRIM : 0) |
    (multi ? NBD_TX_CAN_MULTI_CONN : 0) |
    (x->can_cache != NBDKIT_CACHE_NONE ? NBD_TX_SEND_CACHE : 0) |
    (fast ? NBD_TX_SEND_FAST_ZERO : 0);
  return ask_block_size (x);
}

static int
ask_size (struct handle *x)
{
  int64_t size = x->plugin->p.get_size (x->h);

  if (size < 0)
    return -1;
  x->size = size;
  return 0;
}

/* "" is the default export where the plugin knows one. */
static int
resolve_name (struct plugin *pl, struct host_context *context,
              char **ret_name)
{
  const char *name = context->export_name;
  char canonical[NBD_MAX_STRING + 1];

  if (*name == '\0' && pl->p.default_export) {
    name = pl->p.default_export (pl->read_only, context->tls);
    if (name == NULL) {
      nbdkit_error ("there is no default export, name one");
      return -1;
    }
  }
  if (pl->ext.export_name) {
    if (pl->ext.export_name (name, canonical, sizeof canonical) == -1)
      return -1;
    name = canonical;
  }
  *ret_name = strdup (name);
  return *ret_name ? 0 : -1;
}

int
handle_name (struct plugin *pl, struct host_context *context,
             char **ret_name, char **ret_error)
{
  struct host_call call;
  int r;

  host_call_begin (&call, context);
  r = resolve_name (pl, context, ret_name);
  if (r == -1 && call.text[0])
    *ret_error = strdup (call.text);
  host_call_end (&call);
  return r;
}

int
handle_open (struct plugin *pl, struct host_context *context, char *name,
             bool read_only, struct handle **ret, char **ret_error)
{
  struct handle *x = calloc (1, sizeof *x);
  const char *asked = context->export_name, *description;
  struct host_call call;

  *ret_error = NULL;
  if (x == NULL) {
    free (name);
    return -1;
  }
  x->plugin = pl;
  x->name = name;
  x->read_only = read_only || pl->read_only;
  host_call_begin (&call, context);
  context->export_name = x->name;
  x->h = pl->p.open (x->read_only);
  if (x->h == NULL || ask_size (x) == -1 || ask_properties (x) == -1)
    goto error;
  if (pl->p.export_description &&
      (description = pl->p.export_description (x->h)) != NULL) {
    x->description = strdup (description);
    if (x->description == NULL)
      goto error;
  }
  host_call_end (&call);
  *ret = x;
  return 0;

 error:
  context->export_name = asked;
  if (call.text[0])
    *ret_error = strdup (call.text);
  if (x->h && pl->p.close)
    pl->p.close (x->h);
  host_call_end (&call);
  free (x->name);
  free (x->description);
  free (x);
  return -1;
}

char *
handle_current_name (struct handle *x, struct host_context *context,
                     const char *was)
{
  char now[NBD_MAX_STRING + 1];
  struct host_call call;
  int r;

  host_call_begin (&call, context);
  r = x->plugin->ext.handle_name (x->h, was, now, sizeof now);
  host_call_end (&call);
  return r == 0 ? strdup (now) : NULL;
}

void
handle_close (struct handle *x, struct host_context *context)
{
  struct host_call call;

  if (x == NULL)
    return;
  host_call_begin (&call, context);
  if (x->plugin->p.close)
    x->plugin->p.close (x->h);
  host_call_end (&call);
  free (x->name);
  free (x->description);
  free (x);
}

void
handle_describe (const struct handle *x, struct handshake_export *e)
{
  *e = (struct handshake_export) {
    .ok = true, .size = x->size, .flags = x->tx_flags, .name = x->name,
    .description = x->description, .block_min = x->block_min,
    .block_preferred = x->block_preferred, .block_max = x->block_max,
    .can_extents = true, /* without .extents everything is data */
  };
}

/* The result of a callback: 0 or its errno. */
static int
result (const struct handle *x, const struct host_call *call, int r)
{
  return r == 0 ? 0
    : host_call_errno (call, x->plugin->p.errno_is_preserved, errno);
}

int
handle_pread (struct handle *x, struct host_call *call, void *buf,
              uint32_t count, uint64_t offset)
{
  errno = 0;
  return result (x, call, x->plugin->p.pread (x->h, buf, count, offset, 0));
}

int
handle_flush (struct handle *x, struct host_call *call)
{
  if (x->plugin->p.flush == NULL)
    return EINVAL; /* it said that it could */
  errno = 0;
  return result (x, call, x->plugin->p.flush (x->h, 0));
}

/* FUA as the plugin wants it: its flag, or a flush afterwards. */
static uint32_t
fua_flag (const struct handle *x, bool fua)
{
  return fua && x->can_fua == NBDKIT_FUA_NATIVE ? NBDKIT_FLAG_FUA : 0;
}

static int
fua_after (struct handle *x, struct host_call *call, bool fua, int err)
{
  if (err != 0 || !fua || x->can_fua != NBDKIT_FUA_EMULATE)
    return err;
  return handle_flush (x, call);
}

int
handle_pwrite (struct handle *x, struct host_call *call, const void *buf,
               uint32_t count, uint64_t offset, bool fua)
{
  int err;

  if (x->plugin->p.pwrite == NULL)
    return EROFS;
  errno = 0;
  err = result (x, call, x->plugin->p.pwrite (x->h, buf, count, offset,
                                              fua_flag (x, fua)));
  return fua_after (x, call, fua, err);
}

/* Counts of the plugin API have 32 bits: FN in steps. */
#define STEP_MAX (1u << 31)

int
handle_trim (struct handle *x, struct host_call *call, uint64_t count,
             uint64_t offset, bool fua)
{
  int err = x->plugin->p.trim ? 0 : EINVAL;

  while (err == 0 && count > 0) {
    const uint32_t n = count < STEP_MAX ? count : STEP_MAX;

    errno = 0;
    err = result (x, call, x->plugin->p.trim (x->h, n, offset,
                                              fua_flag (x, fua)));
    offset += n;
    count -= n;
  }
  return fua_after (x, call, fua, err);
}

static int
write_zeroes (struct handle *x, struct host_call *call, uint64_t count,
              uint64_t offset, uint32_t flags)
{
  static const uint8_t zeroes[BOUNCE_MAX];
  int err = x->plugin->p.pwrite ? 0 : EROFS;

  while (err == 0 && count > 0) {
    const uint32_t n = count < BOUNCE_MAX ? count : BOUNCE_MAX;

    errno = 0;
    err = result (x, call, x->plugin->p.pwrite (x->h, zeroes, n, offset,
                                                flags));
    offset += n;
    count -= n;
  }
  return err;
}

int
handle_zero (struct handle *x, struct host_call *call, uint64_t count,
             uint64_t offset, bool may_trim, bool fast, bool fua)
{
  const uint32_t flags = (may_trim ? NBDKIT_FLAG_MAY_TRIM : 0) |
    (fast ? NBDKIT_FLAG_FAST_ZERO : 0) | fua_flag (x, fua);
  int err = x->can_zero ? 0 : ENOTSUP;

  while (err == 0 && count > 0) {
    const uint32_t n = count < STEP_MAX ? count : STEP_MAX;

    errno = 0;
    err = result (x, call, x->plugin->p.zero (x->h, n, offset, flags));
    if (err == 0) {
      offset += n;
      count -= n;
    }
  }
  if (err != ENOTSUP && err != EOPNOTSUPP)
    return fua_after (x, call, fua, err);
  if (fast)
    return ENOTSUP;
  call->error = 0;
  call->text[0] = '\0';
  err = write_zeroes (x, call, count, offset, fua_flag (x, fua));
  return fua_after (x, call, fua, err);
}

int
handle_cache (struct handle *x, struct host_call *call, uint64_t count,
              uint64_t offset)
{
  void *buf;
  int err = 0;

  if (x->can_cache == NBDKIT_CACHE_NATIVE && x->plugin->p.cache) {
    while (err == 0 && count > 0) {
      const uint32_t n = count < STEP_MAX ? count : STEP_MAX;

      errno = 0;
      err = result (x, call, x->plugin->p.cache (x->h, n, offset, 0));
      offset += n;
      count -= n;
    }
    return err;
  }
  buf = malloc (BOUNCE_MAX);
  if (buf == NULL)
    return ENOMEM;
  while (err == 0 && count > 0) {
    const uint32_t n = count < BOUNCE_MAX ? count : BOUNCE_MAX;

    err = handle_pread (x, call, buf, n, offset);
    offset += n;
    count -= n;
  }
  free (buf);
  return err;
}

int
handle_extents (struct handle *x, struct host_call *call, uint64_t count,
                uint64_t offset, bool one, struct nbdkit_extents *extents)
{
  const uint32_t n = count < STEP_MAX ? count : STEP_MAX;
  int err;

  if (!x->can_extents)
    return nbdkit_add_extent (extents, offset, count, 0) == 0 ? 0 : ENOMEM;
  errno = 0;
  err = result (x, call,
                x->plugin->p.extents (x->h, n, offset,
                                      one ? NBDKIT_FLAG_REQ_ONE : 0,
                                      extents));
  if (err == 0 && extents->count == 0) {
    nbdkit_error ("extents: the plugin told nothing about the range");
    return EINVAL;
  }
  if (one && extents->count > 1)
    extents->count = 1;
  return err;
}

bool
handle_try_pread (struct handle *x, void *buf, uint32_t count,
                  uint64_t offset)
{
  return x->plugin->ext.try_pread &&
    x->plugin->ext.try_pread (x->h, buf, count, offset, 0)
    == BTRNBD_TRY_DONE;
}

bool
handle_try_pwrite (struct handle *x, const void *buf, uint32_t count,
                   uint64_t offset, bool fua)
{
  return !fua && x->plugin->ext.try_pwrite &&
    x->plugin->ext.try_pwrite (x->h, buf, count, offset, 0)
    == BTRNBD_TRY_DONE;
}
