/* Check every block of an image: prints "N blocks", or the error and fails.
 * With -k also counts the kinds of items, one "TYPE count" a line.
 */
#include <config.h>

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "lib/rawimg.h"

static unsigned blocks, kinds[256];

static int
count (void *opaque, const void *buf, const struct rawimg_root *root)
{
  (void) opaque;
  (void) root;
  ++blocks;
  if (tb_level (buf) == 0)
    for (uint32_t i = 0; i < tb_nritems (buf); ++i)
      ++kinds[tb_item_key (buf, i).type];
  return 0;
}

int
main (int argc, char **argv)
{
  bool show = argc == 3 && strcmp (argv[1], "-k") == 0;
  enum super_access access;
  char why[SUPER_WHY_MAX];
  struct rawimg img;
  int r;

  if (argc != 2 && !show) {
    fprintf (stderr, "usage: format-walk [-k] IMAGE\n");
    return 2;
  }
  r = rawimg_open (argv[argc - 1], false, &img);
  if (r == 0)
    r = rawimg_load (&img);
  if (r == 0)
    r = super_access (img.super, &access, why);
  if (r == 0)
    r = rawimg_walk_all (&img, count, NULL);
  if (r < 0) {
    printf ("%s: %s\n", btrnbd_error_name (r), err_text (r));
    return 1;
  }
  printf ("%u blocks\n", blocks);
  for (int i = 0; show && i < 256; ++i)
    if (kinds[i] > 0)
      printf ("%s %u\n", key_type_name (i) ? key_type_name (i) : "?",
              kinds[i]);
  rawimg_close (&img);
  return 0;
}
