/* The public API: what a pool is and how it does. */
#include <config.h>

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <uuid/uuid.h>

#include "base/csum.h"
#include "base/math.h"
#include "format/super.h"
#include "fs/api_priv.h"
#include "fs/image.h"

/* --- identity --- */

static void
copy_text (char *to, size_t size, const char *from)
{
  size_t len = strnlen (from, size - 1);

  memcpy (to, from, len);
  to[len] = '\0';
}

/* Fields that change with every commit. */
struct running {
  uint64_t generation, total_bytes, bytes_used;
  char label[BTRFS_LABEL_SIZE + 1];
};

static void
read_super (void *opaque, struct btrfs_super *s)
{
  struct running *r = opaque;

  r->generation = le64_get (s->generation);
  r->total_bytes = le64_get (s->total_bytes);
  r->bytes_used = le64_get (s->bytes_used);
  memcpy (r->label, s->label, BTRFS_LABEL_SIZE);
}

static void
add_names (char *to, size_t size, uint64_t bits, const char *kind,
           const char *(*name_of) (uint64_t bit))
{
  for (; bits != 0; bits &= bits - 1) {
    const char *name = name_of (bits & -bits);
    size_t len = strlen (to);

    if (name != NULL)
      snprintf (to + len, size - len, "%s%s", len > 0 ? ", " : "", name);
    else
      snprintf (to + len, size - len, "%s%s bit %d", len > 0 ? ", " : "",
                kind, __builtin_ctzll (bits));
  }
}

void
btrnbd_pool_identify (struct btrnbd_pool *p, struct btrnbd_pool_info *ret)
{
  struct fs *fs = p->fs;
  const struct format_info *format = volume_format (fs->volume);
  const char *why = fs_why_read_only (fs);
  struct running run = { 0 };
  unsigned i;

  memset (ret, 0, sizeof *ret);
  if (fs->commit != NULL)
    commit_edit_super (fs, read_super, &run);
  else
    read_super (&run, (struct btrfs_super *) volume_super (fs->volume));
  uuid_unparse_lower (format->fsid, ret->uuid);
  copy_text (ret->label, sizeof ret->label, run.label);
  ret->generation = fs->trans != NULL ? trans_committed_id (fs->trans)
    : run.generation;
  ret->total_bytes = run.total_bytes;
  ret->bytes_used = run.bytes_used;
  ret->num_devices = volume_num_devices (fs->volume);
  ret->nodesize = format->nodesize;
  ret->sectorsize = format->sectorsize;
  copy_text (ret->csum, sizeof ret->csum, csum_name (format->csum_type));
  ret->incompat = format->incompat;
  ret->compat_ro = format->compat_ro;
  add_names (ret->features, sizeof ret->features, ret->incompat, "incompat",
             super_incompat_name);
  add_names (ret->features, sizeof ret->features, ret->compat_ro,
             "compat_ro", super_compat_ro_name);
  for (i = 0; i < ret->num_devices; i++)
    if (device_get_info (volume_device (fs->volume, i)->dev)->rotational)
      ret->rotational = true;
  ret->read_only = fs->read_only || why != NULL;
  if (why != NULL && !(fs->read_only && fs->read_only_reason[0] == '\0'))
    copy_text (ret->read_only_reason, sizeof ret->read_only_reason, why);
}

bool
btrnbd_pool_is_on (struct btrnbd_pool *p, int fd)
{
  const struct volume *v = p->fs->volume;
  const struct device_info *d;
  struct stat st;
  unsigned i;

  if (fstat (fd, &st) < 0 || (!S_ISREG (st.st_mode) && !S_ISBLK (st.st_mode)))
    return false;
  for (i = 0; i < volume_num_devices (v); i++) {
    d = device_get_info (volume_device (v, i)->dev);
    if (S_ISBLK (st.st_mode) ? d->ino == 0 && d->dev == st.st_rdev
        : d->ino == st.st_ino && d->dev == st.st_dev)
      return true;
  }
  return false;
}

/* --- space --- */

static const char *
profile_name (uint64_t profile)
{
  static const struct { uint64_t bit; const char *name; } names[] = {
    { BTRFS_BG_DUP, "DUP" }, { BTRFS_BG_RAID0, "RAID0" },
    { BTRFS_BG_RAID1, "RAID1" }, { BTRFS_BG_RAID10, "RAID10" },
    { BTRFS_BG_RAID1C3, "RAID1C3" }, { BTRFS_BG_RAID1C4, "RAID1C4" },
    { BTRFS_BG_RAID5, "RAID5" }, { BTRFS_BG_RAID6, "RAID6" },
  };
  size_t i;

  for (i = 0; i < ARRAY_SIZE (names); i++)
    if (profile & names[i].bit)
      return names[i].name;
  return "single";
}

static int
get_space (struct space *space, enum space_kind kind,
           struct btrnbd_space *ret)
{
  struct space_numbers n;
  int r;

  r = space_get_numbers (space, kind, &n);
  if (r < 0)
    return r;
  *ret = (struct btrnbd_space) {
    .total = n.total, .used = n.used, .reserved = n.reserved,
    .pinned = n.pinned, .held = n.held, .may_use = n.may_use,
    .readonly = n.readonly, .promised = n.promised,
  };
  copy_text (ret->profile, sizeof ret->profile, profile_name (n.profile));
  return 0;
}

static uint64_t
taken (const struct btrnbd_space *s)
{
  return s->used + s->reserved + s->promised;
}

/* What new data may hope for: free space in the block groups of data and what
 * can still become one.  In mixed ones metadata has its reserve, too.
 */
static uint64_t
estimate_free (const struct btrnbd_pool_info *i)
{
  const bool mixed = i->incompat & BTRFS_INCOMPAT_MIXED_GROUPS;
  const struct btrnbd_space *d = mixed ? &i->metadata : &i->data;
  uint64_t taken = d->used + d->reserved + d->pinned + d->held +
    d->may_use + d->readonly + (mixed ? i->global_reserve : 0);
  unsigned copies = strcmp (d->profile, "DUP") == 0 ? 2 : 1;

  return (d->total > taken ? d->total - taken : 0) +
    i->unallocated / copies;
}

static void
get_image (struct fs *fs, struct btrnbd_pool_info *ret)
{
  struct image_info i;

  images_get_info (fs->images, &i);
  ret->image = (struct btrnbd_image_info) {
    .clients = i.clients, .generation = i.generation, .limit = i.limit,
    .held = ret->data.held + ret->metadata.held + ret->system.held,
  };
  if (i.ended)
    copy_text (ret->image.ended, sizeof ret->image.ended, i.ended);
}

int
btrnbd_pool_get_info (struct btrnbd_pool *p, struct btrnbd_pool_info *ret)
{
  struct fs *fs = p->fs;
  int r;

  btrnbd_pool_identify (p, ret);
  r = get_space (fs->space, SPACE_DATA, &ret->data);
  if (r == 0)
    r = get_space (fs->space, SPACE_METADATA, &ret->metadata);
  if (r == 0)
    r = get_space (fs->space, SPACE_SYSTEM, &ret->system);
  if (r < 0)
    return r;
  ret->bytes_used = taken (&ret->data) + taken (&ret->metadata) +
    taken (&ret->system);
  ret->unallocated = space_unallocated (fs->space);
  ret->global_reserve = space_global_reserve (fs->space);
  ret->free_estimate = estimate_free (ret);
  get_image (fs, ret);
  return space_writable (fs->space, &ret->writable);
}

void
btrnbd_pool_get_stats (struct btrnbd_pool *p, struct btrnbd_pool_stats *ret)
{
  struct block_cache_stats b;
  struct commit_stats c = { 0 };
  struct data_stats d;
  struct logs_stats l = { 0 };
  struct data_regroup_stats g;

  if (p->fs->logs != NULL)
    logs_get_stats (p->fs->logs, &l);
  if (p->fs->commit != NULL)
    commit_get_stats (p->fs, &c);
  block_cache_get_stats (p->fs->cache, &b);
  data_get_stats (p->fs->data, &d);
  data_regroup_get_stats (p->fs->data, &g);
  *ret = (struct btrnbd_pool_stats) {
    .commits = c.commits,
    .commit_ns_total = c.ns_total,
    .commit_ns_max = c.ns_max,
    .block_reads = b.reads,
    .block_hits = b.hits,
    .block_writes_bytes = c.block_bytes,
    .blocks_repaired = b.repaired,
    .data_cache_bytes = d.cache_bytes,
    .data_dirty_bytes = d.dirty_bytes,
    .data_hits = d.hits,
    .data_misses = d.misses,
    .data_read_bytes = d.read_bytes,
    .data_written_bytes = d.written_bytes,
    .data_nocow_bytes = d.nocow_bytes,
    .data_extent_searches = d.extent_tree_searches,
    .regroup_moved_bytes = g.moved,
    .regroup_failed = g.failed,
    .regroup_noted_bytes = g.noted,
    .log_flushes = l.flushes,
    .log_syncs = l.syncs,
    .log_commits = l.commits,
    .log_blocks = l.blocks,
  };
}
