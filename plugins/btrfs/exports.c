/* What NBD_OPT_LIST shows, and what the empty name means. */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "plugin.h"

#define EXPORTS_MAX 10000       /* nbdkit takes no more */
#define DEVICES_MAX 1024        /* of a pool, each an image */
#define EXPORT_NAME_MAX 4096
#define EXPORT_DESCRIPTION_MAX 4096

static int
add_export (void *opaque, const struct btrnbd_export *e)
{
  const char *text = e->description;

  if (strlen (e->name) > EXPORT_NAME_MAX)
    return 0;
  if (text != NULL && strlen (text) > EXPORT_DESCRIPTION_MAX)
    text = NULL;
  return nbdkit_add_export (opaque, e->name, text) < 0 ? -BTRNBD_ERR_BASE : 0;
}

int
plugin_list_exports (int readonly, int is_tls, struct nbdkit_exports *exports)
{
  int r;

  (void) readonly;
  (void) is_tls;
  r = btrnbd_exports (plugin_pool, EXPORTS_MAX - DEVICES_MAX, add_export,
                      exports);
  if (r == 0)
    r = btrnbd_images (plugin_pool, add_export, exports);
  if (r == -BTRNBD_ERR_BASE) /* nbdkit has said why */
    return -1;
  return r < 0 ? plugin_fail (r, "listing exports") : 0;
}

struct only_volume {
  unsigned count;
  char *name;
};

/* Volumes come first; a snapshot is not what an empty name means. */
static int
count_volume (void *opaque, const struct btrnbd_export *e)
{
  struct only_volume *o = opaque;

  if (!e->is_volume || strchr (e->name, '@') != NULL)
    return 0;
  if (++o->count > 1)
    return -BTRNBD_ERR_BASE;
  o->name = strdup (e->name);
  return o->name == NULL ? -ERR_nomem : 0;
}

const char *
plugin_default_export (int readonly, int is_tls)
{
  struct only_volume o = { 0 };
  const char *ret = NULL;
  int r;

  (void) readonly;
  (void) is_tls;
  r = btrnbd_exports (plugin_pool, EXPORTS_MAX, count_volume, &o);
  if (r < 0 && r != -BTRNBD_ERR_BASE)
    plugin_fail (r, "looking for the default export");
  else if (o.count == 1)
    ret = nbdkit_strdup_intern (o.name);
  else
    nbdkit_debug ("no default export: the pool has %s volume",
                  o.count == 0 ? "no" : "more than one");
  free (o.name);
  return ret;
}
