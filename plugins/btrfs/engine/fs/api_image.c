/* The public API: the pool itself as exports.
 *
 * A pool of one device is "@pool", and "@pool/DEVID" as well; of several
 * devices each is "@pool/DEVID".
 */
#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/api_priv.h"
#include "fs/image.h"

#define IMAGE_NAME "@pool"

static const char *
without_slashes (const char *name)
{
  return name + strspn (name, "/");
}

bool
image_has_name (const char *name)
{
  return *without_slashes (name) == '@';
}

/* A number as it is printed. */
static bool
parse_number (const char *s, uint64_t *ret)
{
  uint64_t n = 0;

  if (*s == '0' || *s == '\0')
    return false;
  for (; *s >= '0' && *s <= '9'; s++) {
    if (n > (UINT64_MAX - 9) / 10)
      return false;
    n = n * 10 + (*s - '0');
  }
  *ret = n;
  return *s == '\0';
}

/* The index of the device that NAME is. */
static int
find_device (struct btrnbd_pool *p, const char *name, unsigned *ret)
{
  struct volume *v = p->fs->volume;
  const unsigned n = volume_num_devices (v);
  const size_t len = strlen (IMAGE_NAME);
  uint64_t devid = 0;
  unsigned i;

  name = without_slashes (name);
  if (strncmp (name, IMAGE_NAME, len) != 0 ||
      (name[len] != '\0' &&
       (name[len] != '/' || !parse_number (name + len + 1, &devid))))
    return err_new (ERR_name_bad, "export names that begin with @ are "
                    "reserved; there is " IMAGE_NAME);
  if (name[len] == '\0' && n > 1)
    return err_new (ERR_not_found, "the pool has several devices: "
                    IMAGE_NAME "/1 ...");
  for (i = 0; i < n; i++)
    if (name[len] == '\0' || volume_device (v, i)->devid == devid) {
      *ret = i;
      return 0;
    }
  return err_new (ERR_not_found, "the pool has no device %" PRIu64, devid);
}

static void
make_name (struct btrnbd_pool *p, unsigned device, char *buf, size_t size)
{
  struct volume *v = p->fs->volume;

  if (volume_num_devices (v) == 1)
    snprintf (buf, size, "%s", IMAGE_NAME);
  else
    snprintf (buf, size, "%s/%" PRIu64, IMAGE_NAME,
              volume_device (v, device)->devid);
}

int
image_export_name (struct btrnbd_pool *p, const char *name, char *buf,
                   size_t size)
{
  unsigned device;
  int r = find_device (p, name, &device);

  if (r == 0)
    make_name (p, device, buf, size);
  return r;
}

static const char description[] =
  "the pool itself, a read-only btrfs image of one moment";

int
btrnbd_images (struct btrnbd_pool *p, btrnbd_export_fn fn, void *opaque)
{
  struct volume *v = p->fs->volume;
  char name[64];
  unsigned i;
  int r = 0;

  if (p->fs->opts.no_image)
    return 0;
  for (i = 0; i < volume_num_devices (v) && r == 0; i++) {
    const struct volume_device *d = volume_device (v, i);
    const struct btrnbd_export e = {
      .name = name, .description = description,
      .size = device_get_info (d->dev)->size, .read_only = true,
    };

    make_name (p, i, name, sizeof name);
    r = fn (opaque, &e);
  }
  return r;
}

int
image_file_open (struct btrnbd_pool *p, const char *name,
                 struct btrnbd_file **ret)
{
  struct btrnbd_file *f;
  unsigned device;
  int r = find_device (p, name, &device);

  if (r < 0)
    return r;
  f = calloc (1, sizeof *f);
  if (f == NULL || (f->description = strdup (description)) == NULL) {
    free (f);
    return err_new (ERR_nomem, "open file");
  }
  f->pool = p;
  f->read_only = true;
  f->image_device = device;
  r = image_get (p->fs->images, &f->image);
  if (r < 0) {
    free (f->description);
    free (f);
    return r;
  }
  *ret = f;
  return 0;
}

void
image_file_close (struct btrnbd_file *f)
{
  image_put (f->image);
  free (f->description);
  free (f);
}

/* The longest run of one answer. */
static bool
next_run (struct btrnbd_file *f, uint64_t offset, uint64_t len,
          uint64_t *ret_len)
{
  const unsigned dev = f->image_device;
  const bool data = image_is_data (f->image, dev, offset, len, ret_len);
  uint64_t part;

  for (; *ret_len < len; *ret_len += part)
    if (image_is_data (f->image, dev, offset + *ret_len, len - *ret_len,
                       &part) != data)
      break;
  return data;
}

int
image_extents (struct btrnbd_file *f, uint64_t offset, uint64_t len,
               btrnbd_extent_fn fn, void *opaque)
{
  const uint64_t size = image_size (f->image, f->image_device);
  uint64_t part;
  bool data;
  int r = 0;

  if (offset > size || len > size - offset)
    return err_new (ERR_file_range, "%" PRIu64 " bytes at %" PRIu64, len,
                    offset);
  for (; len > 0 && r == 0; offset += part, len -= part) {
    data = next_run (f, offset, len, &part);
    r = fn (opaque, offset, part,
            data ? 0 : BTRNBD_EXTENT_HOLE | BTRNBD_EXTENT_ZERO);
  }
  return r;
}
