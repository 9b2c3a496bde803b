/* seeds BASE FORMAT-DIR: inputs for the target "format" from a healthy image:
 * its superblock, its chunks, and every leaf as items.
 */
#include <config.h>

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "lib/rawimg.h"
#include "lib/sparse.h"

static const char *dir;
static unsigned nr;

static FILE *
new_seed (void)
{
  char path[4096];
  FILE *f;

  snprintf (path, sizeof path, "%s/seed-%03u", dir, nr++);
  f = fopen (path, "wb");
  if (f == NULL)
    perror (path);
  return f;
}

/* A few neighbouring items of each kind are enough. */
static int
leaf_seed (void *opaque, const void *buf, const struct rawimg_root *root)
{
  static unsigned seen[256];
  FILE *f = NULL;

  (void) opaque;
  (void) root;
  for (uint32_t i = 0; tb_level (buf) == 0 && i < tb_nritems (buf); ++i) {
    uint32_t size = tb_item_size (buf, i);
    uint8_t head[2] = { size, size >> 8 };

    if (seen[tb_item_key (buf, i).type]++ >= 6)
      continue;
    if (f == NULL && (f = new_seed ()) != NULL)
      fwrite ("I\2\12", 1, 3, f);
    if (f == NULL)
      return err_new (ERR_dev_write, "seed");
    fwrite (&tb_item_c (buf, i)->key, sizeof (struct btrfs_disk_key), 1, f);
    fwrite (head, sizeof head, 1, f);
    fwrite (tb_item_data_c (buf, i), size, 1, f);
  }
  if (f != NULL)
    fclose (f);
  return 0;
}

static int
chunk_seed (void *opaque, struct key key, const struct btrfs_chunk *c,
            uint32_t size)
{
  FILE *f = new_seed ();
  le64 logical = le64_make (key.offset);

  (void) opaque;
  if (f == NULL)
    return err_new (ERR_dev_write, "seed");
  fwrite ("C\2", 1, 2, f);
  fwrite (&logical, sizeof logical, 1, f);
  fwrite (c, size, 1, f);
  fclose (f);
  return 0;
}

int
main (int argc, char **argv)
{
  struct rawimg img;
  uint8_t *base;
  uint64_t size;
  FILE *f;
  int r;

  if (argc != 3 || sparse_load (argv[1], &base, &size) < 0)
    return 2;
  dir = argv[2];
  rawimg_attach (base, size, &img);
  r = rawimg_load (&img);
  if (r == 0)
    r = rawimg_walk_all (&img, leaf_seed, NULL);
  if (r == 0)
    r = super_sys_chunks (img.super, chunk_seed, NULL);
  f = new_seed ();
  if (r < 0 || f == NULL)
    return 1;
  fwrite ("S\2", 1, 2, f);
  /* What follows the array is zero or of no interest. */
  fwrite (img.super, offsetof (struct btrfs_super, sys_chunk_array) +
          le32_get (img.super->sys_chunk_array_size), 1, f);
  fclose (f);
  rawimg_close (&img);
  sparse_free (base, size);
  printf ("%u seeds\n", nr);
  return 0;
}
