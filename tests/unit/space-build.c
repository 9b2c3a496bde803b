/* space: chunks that are made while the free space tree is built: none is left
 * out of the tree, and none is looked for in it too early.
 */
#include <config.h>

#include "inode_help.h"

#include "format/super.h"
#include "fs/commit.h"
#include "fs/prepare.h"
#include "space/space_priv.h"

/* More than become part of the tree in one transaction. */
#define CHUNKS 40

static struct {
  struct fs *fs;
  unsigned commits;
} during;

/* What prepare_fst finds when the last build was cut short. */
static void
not_valid (void *opaque, struct btrfs_super *sb)
{
  (void) opaque;
  sb->compat_ro_flags = le64_make (le64_get (sb->compat_ro_flags)
                                   & ~BTRFS_COMPAT_RO_FREE_SPACE_TREE_VALID);
}

static void
valid (void *opaque, struct btrfs_super *sb)
{
  (void) opaque;
  sb->compat_ro_flags = le64_make (le64_get (sb->compat_ro_flags)
                                   | BTRFS_COMPAT_RO_FREE_SPACE_TREE_VALID);
}

static void
make_chunks (struct fs *fs, enum space_kind kind, unsigned n)
{
  struct txn *txn;

  ok (txn_join (fs->trans, &txn));
  for (; n > 0; --n) {
    bool made;

    ok (space_chunk_alloc (fs->space, txn, kind, &made));
    assert_true (made);
  }
  ok (txn_end (txn));
}

/* The first one ends the transaction that begins the tree. */
static int
commit (void *opaque)
{
  struct fs *fs = during.fs;

  (void) opaque;
  if (during.commits++ == 0)
    make_chunks (fs, SPACE_DATA, CHUNKS);
  else if (during.commits == 2)
    make_chunks (fs, SPACE_METADATA, 2);
  return trans_commit (fs->trans, NULL);
}

static void
test_chunks (void **state)
{
  struct image im;

  (void) state;
  image_make (&im, "", 64 * 1024);
  image_open (&im);
  during.fs = im.fs;
  commit_edit_super (im.fs, not_valid, NULL);
  im.fs->space->fst_enabled = im.fs->space->fst_trusted = false;
  ok (space_fst_build (im.fs->space, commit, NULL));
  assert_true (during.commits > 2);
  space_fst_enable (im.fs->space);
  commit_edit_super (im.fs, valid, NULL);
  ok (make_file (&im, "a"));
  image_reopen (&im);
  /* The groups are in the tree: they go without a trace. */
  ok (make_file (&im, "b"));
  image_judge (&im);
  image_close (&im);
  image_check (&im);
  image_remove (&im);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_chunks),
  };

  return cmocka_run_group_tests_name ("space-build", tests, NULL, NULL);
}
