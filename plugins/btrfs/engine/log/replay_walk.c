/* log: finding the parts of a log. */
#include <config.h>

#include <stdlib.h>

#include "base/err.h"
#include "log/replay_priv.h"

/* Bounds for a log that a hostile disk claims. */
#define BLOCKS_MAX (1u << 20)

struct walk {
  const struct replay_env *env;
  replay_block_fn fn;
  void *opaque;
  unsigned blocks;
};

static int
walk_block (struct walk *w, const struct tree_expect *expect)
{
  CLEANUP_BLOCK_PUT struct block *b = NULL;
  uint32_t i, n;
  int r;

  if (++w->blocks > BLOCKS_MAX)
    return err_new (ERR_tree_cycle, "the log has too many blocks");
  r = block_read (w->env->cache, expect, &b);
  if (r == 0)
    r = w->fn (w->opaque, expect->bytenr);
  if (r < 0 || tb_level (b->data) == 0)
    return r;
  n = tb_nritems (b->data);
  for (i = 0; i < n && r == 0; ++i) {
    const struct tree_expect child =
      tree_expect_child (b->data, i, BTRFS_TREE_LOG);

    r = walk_block (w, &child);
  }
  return r;
}

static struct tree_expect
root_expect (const struct replay_env *env)
{
  const struct btrfs_super *sb = env->super;

  return (struct tree_expect) {
    .bytenr = le64_get (sb->log_root),
    .generation = le64_get (sb->generation) + 1, .owner = BTRFS_TREE_LOG,
    .level = sb->log_root_level, .has_level = true,
  };
}

static struct tree_expect
tree_expect_of (const struct btrfs_root_item *item)
{
  return (struct tree_expect) {
    .bytenr = le64_get (item->bytenr),
    .generation = le64_get (item->generation), .owner = BTRFS_TREE_LOG,
    .level = item->level, .has_level = true,
  };
}

/* Root items of log trees, from the highest subvolume id down, as Linux does:
 * copied out, since the lock is not held while FN runs.
 */
static int
collect (const struct tree *root, struct replay_log **ret, size_t *ret_n)
{
  CLEANUP_CURSOR struct cursor c = CURSOR_INIT;
  struct replay_log *v = NULL, *bigger;
  size_t n = 0;
  int r;

  r = tree_find_le ((struct tree *) root, KEY_MAX, &c, NULL);
  while (r == 0 && cursor_at_item (&c)) {
    const struct key key = cursor_key (&c);

    if (key.objectid == BTRFS_TREE_LOG && key.type == BTRFS_ROOT_ITEM) {
      bigger = realloc (v, (n + 1) * sizeof *v);
      if (bigger == NULL || cursor_size (&c) < BTRFS_ROOT_ITEM_SIZE_V0) {
        free (bigger ? bigger : v);
        return bigger ? err_new (ERR_item_format, "root item of a log")
          : err_new (ERR_nomem, "log trees");
      }
      v = bigger;
      v[n++] = (struct replay_log) { .root_id = key.offset,
        .expect = tree_expect_of (cursor_data (&c)) };
    }
    r = cursor_prev (&c);
  }
  if (r < 0) {
    free (v);
    return r;
  }
  *ret = v;
  *ret_n = n;
  return 0;
}

int
replay_logs (const struct replay_env *env, struct replay_log **ret,
             size_t *ret_n)
{
  const struct tree_expect expect = root_expect (env);
  struct tree *root;
  int r;

  r = tree_open (env->cache, BTRFS_TREE_LOG, &expect, RANK_TREE_LOG, false,
                 &root);
  if (r < 0)
    return err_note (r, "log root tree");
  rwlock_rdlock (&root->lock);
  r = collect (root, ret, ret_n);
  rwlock_unlock (&root->lock);
  tree_free (root);
  return r < 0 ? err_note (r, "log root tree") : 0;
}

int
replay_blocks (const struct replay_env *env, const struct replay_log *logs,
               size_t n, replay_block_fn fn, void *opaque)
{
  struct walk w = { .env = env, .fn = fn, .opaque = opaque };
  const struct tree_expect expect = root_expect (env);
  size_t i;
  int r = walk_block (&w, &expect);

  for (i = 0; i < n && r == 0; ++i)
    r = walk_block (&w, &logs[i].expect);
  return r;
}

int
replay_open (const struct replay_env *env, const struct replay_log *log,
             struct tree **ret)
{
  return tree_open (env->cache, BTRFS_TREE_LOG, &log->expect, RANK_TREE_LOG,
                    false, ret);
}
