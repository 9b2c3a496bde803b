/* fs: the numbers of all subvolumes. */
#include <config.h>

#include <stdlib.h>

#include "base/err.h"
#include "fs/root_ids.h"

struct collect {
  struct root_ids *ids;
  bool also_read_only;
};

static int
add (struct root_ids *ids, uint64_t id)
{
  if (ids->n == ids->room) {
    const size_t room = ids->room == 0 ? 64 : 2 * ids->room;
    uint64_t *more = realloc (ids->v, room * sizeof *more);

    if (more == NULL)
      return err_new (ERR_nomem, "subvolumes");
    ids->v = more;
    ids->room = room;
  }
  ids->v[ids->n++] = id;
  return 0;
}

static int
add_subvol (void *opaque, const struct subvol_info *info)
{
  struct collect *c = opaque;

  return info->read_only && !c->also_read_only ? 0 : add (c->ids, info->id);
}

int
root_ids_get (struct fs *fs, bool also_read_only, struct root_ids *ret)
{
  struct collect c = { .ids = ret, .also_read_only = also_read_only };
  int r = add (ret, BTRFS_FS_TREE);

  return r < 0 ? r : subvols_list (fs->subvols, add_subvol, &c);
}

void
root_ids_done (struct root_ids *ids)
{
  free (ids->v);
}
