/* host: loading and configuring a plugin. */
#include <config.h>

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/log.h"
#include "host/plugin.h"

/* The structure as far as every version-2 plugin has it. */
#define PLUGIN_SIZE_MIN offsetof (struct nbdkit_plugin, magic_config_key)

/* TRIED, which is consumed, and PATH as a list in words. */
static char *
add_tried (char *tried, const char *path)
{
  char *both;

  if (asprintf (&both, "%s%s%s", tried ? tried : "", tried ? ", " : "", path)
      == -1)
    both = NULL;
  free (tried);
  return both;
}

/* The first that is there; NULL after a message. */
static char *
find_plugin (const char *name, const char *dirs)
{
  char *path = NULL, *tried = NULL;
  size_t n;

  for (; *dirs; dirs += n + (dirs[n] == ':')) {
    n = strcspn (dirs, ":");
    if (asprintf (&path, "%.*s/nbdkit-%s-plugin.so", (int) n, dirs, name)
        == -1)
      path = NULL;
    if (path == NULL || access (path, F_OK) == 0)
      break;
    tried = add_tried (tried, path);
    free (path);
    path = NULL;
  }
  if (path == NULL)
    host_log (HOST_LOG_ERROR, "there is no plugin \"%s\"; looked for %s",
              name, tried ? tried : "nothing");
  free (tried);
  return path;
}

static bool
name_ok (const char *name)
{
  const char *p;

  if (name == NULL || !isalnum ((unsigned char) *name))
    return false;
  for (p = name; *p; ++p)
    if (!isalnum ((unsigned char) *p) && *p != '-')
      return false;
  return p[-1] != '-';
}

/* Take over the plugin's table, whatever its age: it only ever grew. */
static int
take_table (struct plugin *pl, const struct nbdkit_plugin *theirs)
{
  size_t size = theirs->_struct_size;

  if (theirs->_api_version != 2 || size < PLUGIN_SIZE_MIN) {
    host_log (HOST_LOG_ERROR, "%s: needs version %d of the plugin API, "
              "only version 2 is supported", pl->path, theirs->_api_version);
    return -1;
  }
  if (size > sizeof pl->p)
    size = sizeof pl->p;
  memset (&pl->p, 0, sizeof pl->p);
  memcpy (&pl->p, theirs, size);
  if (!name_ok (pl->p.name)) {
    host_log (HOST_LOG_ERROR, "%s: the plugin has no usable name", pl->path);
    return -1;
  }
  if (pl->p.open == NULL || pl->p.get_size == NULL || pl->p.pread == NULL) {
    host_log (HOST_LOG_ERROR, "%s: a plugin must have open, get_size and "
              "pread", pl->path);
    return -1;
  }
  return 0;
}

static void
log_line (int level, const char *line)
{
  static const enum host_log_level levels[] = {
    HOST_LOG_ERROR, HOST_LOG_WARNING, HOST_LOG_INFO, HOST_LOG_DEBUG,
  };

  host_log (levels[level < 0 ? 0 : level > 3 ? 3 : level], "%s", line);
}

static void
take_extension (struct plugin *pl)
{
  btrnbd_plugin_ext_init_fn init =
    (btrnbd_plugin_ext_init_fn) dlsym (pl->dl, BTRNBD_PLUGIN_EXT_SYMBOL);
  const struct btrnbd_plugin_ext *ext = init ? init () : NULL;
  size_t size;

  memset (&pl->ext, 0, sizeof pl->ext);
  if (ext == NULL || ext->version < 1)
    return;
  size = ext->size < sizeof pl->ext ? ext->size : sizeof pl->ext;
  if (ext->version < 2 && size > offsetof (struct btrnbd_plugin_ext, control))
    size = offsetof (struct btrnbd_plugin_ext, control);
  if (ext->version < 3 &&
      size > offsetof (struct btrnbd_plugin_ext, rule_name))
    size = offsetof (struct btrnbd_plugin_ext, rule_name);
  memcpy (&pl->ext, ext, size);
  if (pl->ext.log_to)
    pl->ext.log_to (log_line);
}

int
plugin_load (struct plugin *pl, const char *name, const char *dirs)
{
  struct nbdkit_plugin *(*init) (void);
  const struct nbdkit_plugin *theirs;

  memset (pl, 0, sizeof *pl);
  pl->path = strchr (name, '/') ? strdup (name) : find_plugin (name, dirs);
  if (pl->path == NULL)
    return -1;
  pl->dl = dlopen (pl->path, RTLD_NOW | RTLD_GLOBAL);
  if (pl->dl == NULL) {
    host_log (HOST_LOG_ERROR, "cannot load plugin: %s", dlerror ());
    return -1;
  }
  *(void **) &init = dlsym (pl->dl, "plugin_init");
  theirs = init ? init () : NULL;
  if (theirs == NULL) {
    host_log (HOST_LOG_ERROR, "%s: not an nbdkit plugin", pl->path);
    return -1;
  }
  if (take_table (pl, theirs) == -1)
    return -1;
  take_extension (pl);
  if (pl->p.load)
    pl->p.load ();
  return 0;
}

/* Keys begin with a letter, then letters, digits, '.', '_' and '-'. */
static size_t
key_length (const char *arg)
{
  size_t n;

  if (!isalpha ((unsigned char) arg[0]))
    return 0;
  for (n = 1; arg[n] && arg[n] != '='; ++n)
    if (!isalnum ((unsigned char) arg[n]) && strchr ("._-", arg[n]) == NULL)
      return 0;
  return arg[n] == '=' ? n : 0;
}

static int
config_one (struct plugin *pl, const char *arg)
{
  const size_t n = key_length (arg);
  const char *magic = pl->p.magic_config_key;
  char *key;
  int r;

  if (n == 0 && magic == NULL) {
    /* As with scripts: the first bare word is script=. */
    if (pl->configured_one) {
      nbdkit_error ("expecting key=value, not \"%s\"", arg);
      return -1;
    }
    magic = "script";
  }
  if (pl->p.config == NULL) {
    nbdkit_error ("the plugin %s takes no parameters", pl->p.name);
    return -1;
  }
  pl->configured_one = true;
  if (n == 0)
    return pl->p.config (magic, arg);
  key = strndup (arg, n);
  if (key == NULL) {
    nbdkit_error ("out of memory");
    return -1;
  }
  r = pl->p.config (key, arg + n + 1);
  free (key);
  return r;
}

int
plugin_config (struct plugin *pl, const char *arg,
               struct host_call *ret_call)
{
  int r;

  host_call_begin (ret_call, NULL);
  ret_call->quiet = true;
  r = config_one (pl, arg);
  host_call_end (ret_call);
  return r;
}

bool
plugin_debug_flag (struct plugin *pl, const char *arg)
{
  char *symbol = NULL, *p;
  const char *dot = strchr (arg, '.'), *eq = strchr (arg, '=');
  int value, *var;

  if (dot == NULL || eq == NULL || eq < dot ||
      strlen (pl->p.name) != (size_t) (dot - arg) ||
      strncmp (pl->p.name, arg, dot - arg) != 0 ||
      nbdkit_parse_int (arg, eq + 1, &value) == -1)
    return false;
  if (asprintf (&symbol, "%s_debug_%.*s", pl->p.name, (int) (eq - dot - 1),
                dot + 1) == -1)
    return false;
  for (p = symbol; *p; ++p)
    if (*p == '-' || *p == '.')
      *p = '_';
  var = dlsym (pl->dl, symbol);
  free (symbol);
  if (var == NULL)
    return false;
  *var = value;
  return true;
}

int
plugin_ready (struct plugin *pl)
{
  int model;

  if (pl->p.config_complete && pl->p.config_complete () == -1)
    return -1;
  pl->thread_model = pl->p._thread_model;
  if (pl->p.thread_model) {
    model = pl->p.thread_model ();
    if (model == -1)
      return -1;
    if (model < pl->thread_model)
      pl->thread_model = model; /* may only tighten */
  }
  if (pl->p.get_ready && pl->p.get_ready () == -1)
    return -1;
  return 0;
}

int
plugin_after_fork (struct plugin *pl)
{
  return pl->p.after_fork ? pl->p.after_fork () : 0;
}

void
plugin_cleanup (struct plugin *pl)
{
  if (pl->p.cleanup)
    pl->p.cleanup ();
}

void
plugin_unload (struct plugin *pl)
{
  if (pl->p.unload)
    pl->p.unload ();
  if (pl->dl)
    dlclose (pl->dl);
  free (pl->path);
  memset (pl, 0, sizeof *pl);
}

int
plugin_list (struct plugin *pl, struct host_context *context,
             struct nbdkit_exports *exports)
{
  struct host_call call;
  const char *name;
  int r = 0;

  host_call_begin (&call, context);
  if (pl->p.list_exports) {
    r = pl->p.list_exports (pl->read_only, context->tls, exports);
    if (r == 0 && !exports->use_default)
      goto out;
  }
  if (r == 0) {
    name = pl->p.default_export
      ? pl->p.default_export (pl->read_only, context->tls) : "";
    if (name)
      r = host_exports_add (exports, name, NULL);
  }
 out:
  host_call_end (&call);
  return r;
}

int
plugin_preconnect (struct plugin *pl, struct host_context *context)
{
  struct host_call call;
  int r;

  if (pl->p.preconnect == NULL)
    return 0;
  host_call_begin (&call, context);
  r = pl->p.preconnect (pl->read_only);
  host_call_end (&call);
  return r;
}
