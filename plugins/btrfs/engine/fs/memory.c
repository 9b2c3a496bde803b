/* fs: tree blocks and data share the cache.
 *
 * Blocks that a transaction has changed wait in memory until its commit, and
 * so does what it still has to do to the extent tree.  When blocks are beyond
 * their share the commit thread is told to commit, and meanwhile data lends
 * them its room, clean pages first, so that all together stay what the user
 * has asked for.  Before that is not enough any more, leaves are written
 * before their transaction commits (block.h), which costs a copy when they
 * are needed again; where metadata space is too short for such copies, who
 * wants to change more commits first.
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

void
memory_watch (void *opaque, uint64_t transid)
{
  struct fs *fs = opaque;
  const uint64_t share = memory_blocks (fs);
  const uint64_t dirty = block_cache_all_dirty_bytes (fs->cache);
  const uint64_t least = share / 8; /* what clean blocks keep */

  if (fs->data != NULL)
    data_lend (fs->data, dirty + least > share ? dirty + least - share : 0);
  if (dirty > 2 * share && space_meta_roomy (fs->space))
    roots_write_early (fs->roots, transid, 2 * share - share / 8);
}

int
memory_limit (struct fs *fs)
{
  const uint64_t transid = trans_running_id (fs->trans);
  const uint64_t share = memory_blocks (fs);
  const uint64_t refs = extents_pending (fs->extents) * REF_BYTES;
  uint64_t dirty;

  memory_watch (fs, transid);
  dirty = block_cache_dirty_bytes (fs->cache, transid);
  if (dirty > 2 * share || refs > share / 2)
    return trans_commit (fs->trans, NULL);
  if (dirty > share || refs > share / 4)
    commit_thread_kick (fs);
  return 0;
}
