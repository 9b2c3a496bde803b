/* fs: tree blocks and data share the cache.
 *
 * Blocks that a transaction has changed wait in memory until its commit, and
 * so does what it still has to do to the extent tree.  What they take beyond
 * their share is lent by data, clean pages first, so that all together stay
 * what the user has asked for.
 *
 * Beyond the share the commit thread writes leaves before their transaction
 * commits (block.h), and beyond half of it more everybody does.  That costs a
 * copy when they are needed again, but lets changes of the extent tree add
 * up: they hit it at random, and the more of them are done at once the more
 * hit the same leaf.  Where metadata space is too short for such copies, and
 * when too much adds up, the thread commits, and in the end whoever wants to
 * change more.
 */
#include <config.h>

#include "base/math.h"
#include "fs/commit_priv.h"
#include "fs/memory.h"

#define REF_BYTES 256          /* of a pending one, with what malloc adds */

size_t
memory_blocks (const struct fs *fs)
{
  return fs->opts.cache_size / 4;
}

size_t
memory_refs (const struct fs *fs)
{
  return memory_blocks (fs) / 4 / REF_BYTES;
}

void
memory_watch (void *opaque, uint64_t transid)
{
  struct fs *fs = opaque;
  const uint64_t share = memory_blocks (fs);
  const uint64_t dirty = block_cache_all_dirty_bytes (fs->cache);
  const uint64_t refs = extents_pending (fs->extents) * REF_BYTES;
  const uint64_t need = dirty + refs + share / 8; /* for clean blocks */

  if (fs->data != NULL)
    data_lend (fs->data, need > share ? need - share : 0);
  if (dirty > share / 2 * 3 && space_meta_roomy (fs->space))
    roots_write_early (fs->roots, transid, share / 2 * 3 - share / 8);
}

int
memory_limit (struct fs *fs)
{
  const uint64_t transid = trans_running_id (fs->trans);
  const uint64_t share = memory_blocks (fs);
  const size_t refs = extents_pending (fs->extents), most = memory_refs (fs);
  uint64_t dirty;

  memory_watch (fs, transid);
  dirty = block_cache_dirty_bytes (fs->cache, transid);
  if (dirty > 2 * share || refs > 2 * most)
    return trans_commit (fs->trans, NULL);
  if (dirty > share || refs > most + most / 2)
    commit_thread_kick (fs);
  return 0;
}

int
memory_relieve (struct fs *fs)
{
  const uint64_t keep = memory_blocks (fs) / 8 * 7;

  if (extents_pending (fs->extents) > memory_refs (fs)
      || !space_meta_roomy (fs->space))
    return trans_commit (fs->trans, NULL);
  roots_write_early (fs->roots, trans_running_id (fs->trans), keep);
  return 0;
}
