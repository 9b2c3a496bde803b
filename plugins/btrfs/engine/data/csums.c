/* data: checksums of data sectors, from and to the csum tree. */
#include <config.h>

#include <inttypes.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "data/data_priv.h"
#include "extent/csum_items.h"

#define FEW 256

int
csums_missing (uint64_t disk)
{
  return err_new (ERR_data_csum_missing, "sector at logical %" PRIu64, disk);
}

int
csums_lookup_some (struct data *d, uint64_t disk, size_t n, uint8_t *out,
                   bool *have)
{
  return csum_items_lookup (d->env.roots, disk, n, out, have);
}

int
csums_lookup (struct data *d, uint64_t disk, size_t len, uint8_t *out)
{
  const size_t n = len / d->ps;
  CLEANUP_FREE bool *many = NULL;
  bool few[FEW], *have = few;
  size_t i;
  int r;

  if (n > FEW) {
    have = many = malloc (n * sizeof *many);
    if (many == NULL)
      return err_new (ERR_nomem, "checksums");
  }
  r = csums_lookup_some (d, disk, n, out, have);
  for (i = 0; i < n && r == 0; ++i)
    if (!have[i])
      r = csums_missing (disk + i * d->ps);
  return r;
}

int
csums_any (struct data *d, uint64_t disk, uint64_t len, bool *ret_any)
{
  return csum_items_any (d->env.roots, disk, len, ret_any);
}

int
csums_delete (struct data *d, struct txn *txn, uint64_t disk, uint64_t len)
{
  return csum_items_delete (d->env.roots, txn, disk, len);
}

int
csums_insert (struct data *d, struct txn *txn, uint64_t disk, size_t len,
              const uint8_t *csums)
{
  return csum_items_insert (d->env.roots, txn, disk, csums, len / d->ps);
}
