/* Helpers of the volume tests: pools of N memory devices that have nothing
 * but superblocks and the chunks that a test adds.
 */
#ifndef BTRNBD_TESTS_VOLUME_HELP_H
#define BTRNBD_TESTS_VOLUME_HELP_H

#include "unit/io_help.h"

#include "format/super.h"
#include "io/fault.h"
#include "volume/volume.h"

#define MIB UINT64_C (1048576)
#define DEV_SIZE (512 * MIB)
#define SYS_LOGICAL (1 * MIB)
#define SYS_PHYSICAL (2 * MIB)
#define MAX_DEVS 6

static inline void
uuid_of (uint64_t devid, uint8_t uuid[BTRFS_UUID_SIZE])
{
  memset (uuid, 0xd0 + devid, BTRFS_UUID_SIZE);
}

/* Chunk items have a variable size. */
union chunk_buf {
  struct btrfs_chunk chunk;
  uint8_t bytes[sizeof (struct btrfs_chunk) +
                MAX_DEVS * sizeof (struct btrfs_stripe)];
};

/* STRIPES pairs of (devid, physical). */
static inline void
make_chunk (union chunk_buf *buf, uint64_t type, uint64_t length,
            unsigned n, const uint64_t (*stripes)[2])
{
  struct btrfs_chunk *c = &buf->chunk;

  memset (buf, 0, sizeof *buf);
  c->length = le64_make (length);
  c->owner = le64_make (BTRFS_EXTENT_TREE);
  c->stripe_len = le64_make (BTRFS_STRIPE_LEN);
  c->type = le64_make (type);
  c->io_align = c->io_width = le32_make (BTRFS_STRIPE_LEN);
  c->sector_size = le32_make (4096);
  c->num_stripes = le16_make (n);
  c->sub_stripes = le16_make (type & BTRFS_BG_RAID10 ? 2 : 1);
  for (unsigned i = 0; i < n; ++i) {
    c->stripes[i].devid = le64_make (stripes[i][0]);
    c->stripes[i].offset = le64_make (stripes[i][1]);
    uuid_of (stripes[i][0], c->stripes[i].dev_uuid);
  }
}

static inline uint32_t
chunk_size (unsigned n)
{
  return sizeof (struct btrfs_chunk) + n * sizeof (struct btrfs_stripe);
}

static inline void
make_super (struct btrfs_super *s, uint64_t devid, unsigned ndevs,
            uint64_t generation, uint64_t dev_size)
{
  union chunk_buf sys;

  memset (s, 0, sizeof *s);
  memset (s->fsid, 0xf5, BTRFS_UUID_SIZE);
  s->magic = le64_make (BTRFS_MAGIC);
  s->flags = le64_make (BTRFS_SUPER_FLAG_WRITTEN);
  s->generation = le64_make (generation);
  s->root = le64_make (SYS_LOGICAL + 16384);
  s->chunk_root = le64_make (SYS_LOGICAL);
  s->chunk_root_generation = le64_make (1);
  s->total_bytes = le64_make (dev_size * ndevs);
  s->bytes_used = le64_make (6 * 16384);
  s->root_dir_objectid = le64_make (BTRFS_ROOT_TREE_DIR);
  s->num_devices = le64_make (ndevs);
  s->sectorsize = s->stripesize = le32_make (4096);
  s->nodesize = s->unused_leafsize = le32_make (16384);
  s->incompat_flags = le64_make (BTRFS_INCOMPAT_MIXED_BACKREF |
                                 BTRFS_INCOMPAT_BIG_METADATA |
                                 BTRFS_INCOMPAT_EXTENDED_IREF |
                                 BTRFS_INCOMPAT_SKINNY_METADATA |
                                 BTRFS_INCOMPAT_NO_HOLES);
  s->dev_item.devid = le64_make (devid);
  s->dev_item.total_bytes = le64_make (dev_size);
  s->dev_item.bytes_used = le64_make (16 * MIB);
  s->dev_item.io_align = s->dev_item.io_width =
    s->dev_item.sector_size = le32_make (4096);
  uuid_of (devid, s->dev_item.uuid);
  memset (s->dev_item.fsid, 0xf5, BTRFS_UUID_SIZE);
  make_chunk (&sys, BTRFS_BG_SYSTEM, 8 * MIB, 1,
              (const uint64_t[][2]) { { 1, SYS_PHYSICAL } });
  super_sys_chunk_add (s, KEY (BTRFS_FIRST_CHUNK_TREE_OBJECTID,
                               BTRFS_CHUNK_ITEM, SYS_LOGICAL),
                       &sys.chunk, chunk_size (1));
}

static inline void
put_super (struct device *dev, struct btrfs_super *s, unsigned copy)
{
  s->bytenr = le64_make (super_offset (copy));
  super_seal (s);
  assert_int_equal (device_write (dev, super_offset (copy), s, sizeof *s),
                    0);
}

/* A pool under test: memory devices behind failing wrappers. */
struct pool {
  unsigned n;
  struct device *mem[MAX_DEVS];
  struct device *dev[MAX_DEVS];
  struct volume *v;
};

static inline void
pool_devices (struct pool *p, unsigned n)
{
  p->n = n;
  p->v = NULL;
  for (unsigned i = 0; i < n; ++i) {
    struct btrfs_super s;
    char name[16];

    snprintf (name, sizeof name, "dev%u", i + 1);
    assert_int_equal (device_mem_new (name, DEV_SIZE,
                                      &p->mem[i]), 0);
    assert_int_equal (fault_new (p->mem[i], &p->dev[i]), 0);
    make_super (&s, i + 1, n, 7, DEV_SIZE);
    put_super (p->mem[i], &s, 0);
    put_super (p->mem[i], &s, 1);
  }
}

static inline void
pool_open (struct pool *p, unsigned n)
{
  int r;

  pool_devices (p, n);
  r = volume_open (p->dev, n, false, &p->v);
  if (r < 0)
    fail_msg ("%s", err_text (r));
}

static inline void
pool_add_chunk (struct pool *p, uint64_t logical, uint64_t type,
                uint64_t length, unsigned n, const uint64_t (*stripes)[2])
{
  union chunk_buf buf;
  int r;

  make_chunk (&buf, type, length, n, stripes);
  r = chunk_check (volume_format (p->v), &buf.chunk, chunk_size (n),
                   logical);
  if (r == 0)
    r = volume_add_chunk (p->v, logical, &buf.chunk);
  if (r < 0)
    fail_msg ("%s", err_text (r));
}

#endif /* BTRNBD_TESTS_VOLUME_HELP_H */
