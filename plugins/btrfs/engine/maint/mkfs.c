/* maint: make a new pool on one device.
 *
 * Order of durability: old signatures are wiped and flushed, then the tree
 * blocks are written and flushed, then the superblock copies, the primary
 * one last and with FUA.  A run that is cut anywhere leaves a device without
 * a btrfs superblock, or a whole pool.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <blkid/blkid.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/math.h"
#include "format/check.h"
#include "format/super.h"
#include "io/device.h"
#include "maint/mkfs_priv.h"

#define WIPE_BYTES (UINT64_C (1) << 20)   /* at both ends of the device */
#define DISCARD_BYTES (UINT64_C (1) << 30)

uint64_t
mkfs_dev_bytes_used (const struct mkfs_params *p)
{
  uint64_t sum = 0;

  for (unsigned i = 0; i < p->num_chunks; i++)
    sum += p->chunks[i].copies * p->chunks[i].length;
  return sum;
}

void
mkfs_dev_item (const struct mkfs_params *p, struct btrfs_dev_item *ret)
{
  memset (ret, 0, sizeof *ret);
  ret->devid = le64_make (MKFS_DEVID);
  ret->total_bytes = le64_make (p->total_bytes);
  ret->bytes_used = le64_make (mkfs_dev_bytes_used (p));
  ret->io_align = le32_make (p->sectorsize);
  ret->io_width = le32_make (p->sectorsize);
  ret->sector_size = le32_make (p->sectorsize);
  memcpy (ret->uuid, p->dev_uuid, BTRFS_UUID_SIZE);
  memcpy (ret->fsid, p->fsid, BTRFS_UUID_SIZE);
}

uint32_t
mkfs_chunk_item (const struct mkfs_params *p, unsigned i, void *ret)
{
  const struct mkfs_chunk *c = &p->chunks[i];
  const struct btrfs_chunk head = {
    .length = le64_make (c->length),
    .owner = le64_make (BTRFS_EXTENT_TREE),
    .stripe_len = le64_make (BTRFS_STRIPE_LEN),
    .type = le64_make (c->type),
    .io_align = le32_make (BTRFS_STRIPE_LEN),
    .io_width = le32_make (BTRFS_STRIPE_LEN),
    .sector_size = le32_make (p->sectorsize),
    .num_stripes = le16_make (c->copies),
    .sub_stripes = le16_make (1),
  };
  uint8_t *out = ret;

  memcpy (out, &head, sizeof head);
  out += sizeof head;
  for (unsigned k = 0; k < c->copies; k++) {
    struct btrfs_stripe stripe = {
      .devid = le64_make (MKFS_DEVID),
      .offset = le64_make (c->phys[k]),
    };

    memcpy (stripe.dev_uuid, p->dev_uuid, BTRFS_UUID_SIZE);
    memcpy (out, &stripe, sizeof stripe);
    out += sizeof stripe;
  }
  return out - (uint8_t *) ret;
}

/* --- superblock --- */

static void
fill_backup_root (const struct btrfs_super *s, const struct mkfs_params *p,
                  const struct mkfs_trees *trees, struct btrfs_root_backup *b)
{
  const le64 gen = le64_make (MKFS_GENERATION);
  const struct mkfs_root extent =
    mkfs_trees_root (trees, p, BTRFS_EXTENT_TREE);
  const struct mkfs_root fs = mkfs_trees_root (trees, p, BTRFS_FS_TREE);
  const struct mkfs_root dev = mkfs_trees_root (trees, p, BTRFS_DEV_TREE);
  const struct mkfs_root csum = mkfs_trees_root (trees, p, BTRFS_CSUM_TREE);

  b->tree_root = s->root;
  b->tree_root_level = s->root_level;
  b->chunk_root = s->chunk_root;
  b->chunk_root_level = s->chunk_root_level;
  b->extent_root = le64_make (extent.bytenr);
  b->extent_root_level = extent.level;
  b->fs_root = le64_make (fs.bytenr);
  b->fs_root_level = fs.level;
  b->dev_root = le64_make (dev.bytenr);
  b->dev_root_level = dev.level;
  b->csum_root = le64_make (csum.bytenr);
  b->csum_root_level = csum.level;
  b->tree_root_gen = b->chunk_root_gen = b->extent_root_gen = gen;
  b->fs_root_gen = b->dev_root_gen = b->csum_root_gen = gen;
  b->total_bytes = s->total_bytes;
  b->bytes_used = s->bytes_used;
  b->num_devices = s->num_devices;
}

static int
fill_super (const struct mkfs_params *p, const struct mkfs_trees *trees,
            struct btrfs_super *s)
{
  const struct mkfs_root root = mkfs_trees_root (trees, p, BTRFS_ROOT_TREE);
  const struct mkfs_root chunk = mkfs_trees_root (trees, p, BTRFS_CHUNK_TREE);
  uint8_t item[MKFS_CHUNK_ITEM_MAX];
  uint64_t bytes_used = 0;
  uint32_t size;

  for (unsigned i = 0; i < p->num_chunks; i++)
    bytes_used += p->chunks[i].run_len;

  memset (s, 0, sizeof *s);
  memcpy (s->fsid, p->fsid, sizeof s->fsid);
  s->flags = le64_make (BTRFS_SUPER_FLAG_WRITTEN);
  s->magic = le64_make (BTRFS_MAGIC);
  s->generation = le64_make (MKFS_GENERATION);
  s->chunk_root_generation = le64_make (MKFS_GENERATION);
  s->uuid_tree_generation = le64_make (MKFS_GENERATION);
  s->root = le64_make (root.bytenr);
  s->root_level = root.level;
  s->chunk_root = le64_make (chunk.bytenr);
  s->chunk_root_level = chunk.level;
  s->total_bytes = le64_make (p->total_bytes);
  s->bytes_used = le64_make (bytes_used);
  s->root_dir_objectid = le64_make (BTRFS_ROOT_TREE_DIR);
  s->num_devices = le64_make (1);
  s->sectorsize = le32_make (p->sectorsize);
  s->nodesize = le32_make (p->nodesize);
  s->unused_leafsize = le32_make (p->nodesize);
  s->stripesize = le32_make (p->sectorsize);
  s->compat_ro_flags = le64_make (p->compat_ro);
  s->incompat_flags = le64_make (p->incompat);
  s->csum_type = le16_make (p->csum_type);
  memcpy (s->label, p->label, sizeof s->label);
  mkfs_dev_item (p, &s->dev_item);
  fill_backup_root (s, p, trees, &s->super_roots[0]);

  size = mkfs_chunk_item (p, 0, item);
  return super_sys_chunk_add (s, KEY (BTRFS_FIRST_CHUNK_TREE_OBJECTID,
                                      BTRFS_CHUNK_ITEM,
                                      p->chunks[0].logical),
                              (const struct btrfs_chunk *) item, size);
}

static bool
has_super_copy (const struct mkfs_params *p, unsigned i)
{
  return super_offset (i) + BTRFS_SUPER_SIZE <= p->total_bytes;
}

/* Mirrors first: the primary copy makes the pool exist. */
static int
write_supers (struct device *dev, const struct mkfs_params *p,
              struct btrfs_super *s)
{
  for (unsigned i = BTRFS_SUPER_COPIES; i-- > 0; ) {
    int r;

    if (!has_super_copy (p, i))
      continue;
    s->bytenr = le64_make (super_offset (i));
    super_seal (s);
    r = super_check (s, super_offset (i));
    if (r < 0)
      return err_note (r, "superblock of the new pool");
    if (i == 0) {
      r = device_flush (dev);
      if (r < 0)
        return r;
      r = device_write_fua (dev, super_offset (i), s, sizeof *s);
    }
    else
      r = device_write (dev, super_offset (i), s, sizeof *s);
    if (r < 0)
      return r;
  }
  return device_flush (dev);
}

/* --- device --- */

static int
write_zeroes (struct device *dev, uint64_t offset, uint64_t len)
{
  CLEANUP_FREE void *buf = io_alloc (len);

  if (!buf)
    return err_new (ERR_nomem, "zeroes");
  memset (buf, 0, len);
  return device_write (dev, offset, buf, len);
}

/* Nothing of what was there may be taken for the new pool or beside it. */
static int
wipe (struct device *dev, const struct mkfs_params *p)
{
  const struct device_info *info = device_get_info (dev);
  const uint64_t end = round_down (info->size, p->sectorsize);
  int r;

  for (unsigned i = 0; i < BTRFS_SUPER_COPIES; i++) {
    if (super_offset (i) + BTRFS_SUPER_SIZE > info->size)
      break;
    r = write_zeroes (dev, super_offset (i), BTRFS_SUPER_SIZE);
    if (r < 0)
      return r;
  }
  r = write_zeroes (dev, 0, WIPE_BYTES);
  if (r < 0)
    return r;
  r = write_zeroes (dev, end - WIPE_BYTES, WIPE_BYTES);
  if (r < 0)
    return r;
  r = device_flush (dev);
  if (r < 0)
    return r;

  /* Only a hint: a device that cannot is as good. */
  for (uint64_t at = 0; info->can_discard && at < end; at += DISCARD_BYTES)
    if (device_discard (dev, at, MIN (DISCARD_BYTES, end - at)) < 0) {
      err_clear ();
      break;
    }
  return 0;
}

struct write_ctx {
  struct device *dev;
  struct format_info info;
};

static int
write_block (void *opaque, const struct mkfs_chunk *c, uint64_t bytenr,
             const void *block)
{
  struct write_ctx *ctx = opaque;
  int r = tree_check_contents (&ctx->info, block);

  if (r < 0)
    return err_note (r, "tree block of the new pool");
  for (unsigned i = 0; i < c->copies; i++) {
    r = device_write (ctx->dev, c->phys[i] + (bytenr - c->logical), block,
                      ctx->info.nodesize);
    if (r < 0)
      return r;
  }
  return 0;
}

static int
write_pool (struct device *dev, const struct mkfs_params *p,
            const struct mkfs_trees *trees, struct btrfs_super *super)
{
  struct write_ctx ctx = { .dev = dev };
  int r;

  r = fill_super (p, trees, super);
  if (r < 0)
    return r;
  format_info_init (&ctx.info, super);
  memcpy (ctx.info.chunk_tree_uuid, p->chunk_tree_uuid, BTRFS_UUID_SIZE);
  r = wipe (dev, p);
  if (r < 0)
    return r;
  r = mkfs_trees_render (p, trees, write_block, &ctx);
  if (r < 0)
    return r;
  r = device_flush (dev);
  if (r < 0)
    return r;
  return write_supers (dev, p, super);
}

/* For devices that have no path for libblkid. */
static int
check_no_pool (struct device *dev)
{
  CLEANUP_FREE struct btrfs_super *s = io_alloc (sizeof *s);
  int r;

  if (!s)
    return err_new (ERR_nomem, "superblock");
  r = device_read (dev, super_offset (0), s, sizeof *s);
  if (r < 0)
    return r;
  if (le64_get (s->magic) == BTRFS_MAGIC)
    return err_new (ERR_has_filesystem, "%s holds btrfs; overwrite it with "
                    "--force", device_get_info (dev)->name);
  return 0;
}

int
btrnbd_mkfs_device (struct device *dev, const struct btrnbd_mkfs_opts *opts)
{
  const struct device_info *info = device_get_info (dev);
  CLEANUP_FREE struct btrfs_super *super = NULL;
  struct mkfs_trees *trees;
  struct mkfs_params p;
  int r;

  r = mkfs_params_init (&p, opts);
  if (r < 0)
    return r;
  if (opts->size > info->size)
    return err_new (ERR_dev_range, "%s has %" PRIu64 " bytes, not %" PRIu64,
                    info->name, info->size, opts->size);
  p.total_bytes = round_down (opts->size ? opts->size : info->size,
                              p.sectorsize);
  if (info->block_size > p.sectorsize)
    return err_new (ERR_invalid, "%s has blocks of %" PRIu32 " bytes, more "
                    "than the sectorsize %" PRIu32, info->name,
                    info->block_size, p.sectorsize);
  r = mkfs_plan_chunks (&p);
  if (r < 0)
    return err_note (r, "%s", info->name);
  if (!opts->force) {
    r = check_no_pool (dev);
    if (r < 0)
      return r;
  }

  super = io_alloc (sizeof *super);
  if (!super)
    return err_new (ERR_nomem, "superblock");
  r = mkfs_trees_new (&p, &trees);
  if (r < 0)
    return r;
  r = write_pool (dev, &p, trees, super);
  mkfs_trees_free (trees);
  return r;
}

/* --- path --- */

static bool
is_uri (const char *name)
{
  return strstr (name, "://") != NULL;
}

/* Refuse a path that holds a filesystem, RAID member, partition table, ... */
static int
probe_path (const char *path)
{
  blkid_probe probe = blkid_new_probe_from_filename (path);
  const char *type = NULL;
  int r;

  if (!probe)
    return err_new (ERR_dev_open, "%s: %s", path,
                    errno ? strerror (errno) : "cannot be probed");
  blkid_probe_enable_superblocks (probe, true);
  blkid_probe_enable_partitions (probe, true);
  r = blkid_do_fullprobe (probe);
  if (r == 0 && blkid_probe_lookup_value (probe, "TYPE", &type, NULL) < 0 &&
      blkid_probe_lookup_value (probe, "PTTYPE", &type, NULL) < 0)
    type = "something";
  if (r == 0)
    r = err_new (ERR_has_filesystem, "%s holds %s; overwrite it with --force",
                 path, type);
  else if (r < 0)
    r = err_new (ERR_has_filesystem, "%s: what it holds cannot be told; "
                 "overwrite it with --force", path);
  else
    r = 0;
  blkid_free_probe (probe);
  return r;
}

/* Nobody else has it, or -ERR_dev_busy. */
static int
check_unused (const char *path)
{
  struct device *dev;
  int r = device_open (path, &(struct device_open_opts) { 0 }, &dev);

  if (r == 0)
    device_close (dev);
  return r;
}

/* Create the file or make it larger. */
static int
prepare_file (const char *path, uint64_t size, bool *ret_created)
{
  CLEANUP_CLOSE int fd = -1;
  struct stat st;

  if (size > INT64_MAX)
    return err_new (ERR_invalid, "size %" PRIu64 " is too large", size);
  fd = open (path, O_RDWR | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT && size > 0) {
    fd = open (path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    *ret_created = fd >= 0;
  }
  if (fd < 0)
    return err_new (ERR_dev_open, "%s: %s%s", path, strerror (errno),
                    errno == ENOENT && size == 0
                    ? " (give a size to create it)" : "");
  if (fstat (fd, &st) < 0)
    return err_new (ERR_dev_open, "%s: %s", path, strerror (errno));
  if (S_ISREG (st.st_mode) && (uint64_t) st.st_size < size &&
      ftruncate (fd, size) < 0)
    return err_new (ERR_dev_write, "%s: cannot make it %" PRIu64 " bytes "
                    "long: %s", path, size, strerror (errno));
  return 0;
}

int
btrnbd_mkfs (const char *path, const struct btrnbd_mkfs_opts *opts)
{
  struct device *dev = NULL;
  struct mkfs_params check;
  bool created = false;
  int r;

  /* What is wrong with the options shows before anything is touched. */
  r = mkfs_params_init (&check, opts);
  if (r < 0)
    return r;
  if (opts->size) {
    check.total_bytes = round_down (opts->size, check.sectorsize);
    r = mkfs_plan_chunks (&check);
    if (r < 0)
      return err_note (r, "%s", path);
  }
  if (!is_uri (path)) {
    if (access (path, F_OK) == 0) {
      r = check_unused (path);
      if (r == 0 && !opts->force)
        r = probe_path (path);
      if (r < 0)
        return r;
    }
    r = prepare_file (path, opts->size, &created);
  }
  if (r == 0)
    r = device_open (path, &(struct device_open_opts) { 0 }, &dev);
  if (r == 0)
    r = btrnbd_mkfs_device (dev, opts);
  device_close (dev);
  if (r < 0 && created)
    unlink (path);
  return r;
}
