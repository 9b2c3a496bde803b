/* pack IMAGE PACKED, or pack -d PACKED IMAGE: the form in which images are
 * kept, see tests/lib/sparse.h.
 */
#include <config.h>

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "lib/rawimg.h"
#include "lib/sparse.h"

static int
unpack (const char *packed, const char *path)
{
  uint8_t *base;
  uint64_t size;

  return sparse_load (packed, &base, &size) < 0 ||
    sparse_write (base, size, path) < 0;
}

int
main (int argc, char **argv)
{
  struct rawimg img;
  int r;

  if (argc == 4 && strcmp (argv[1], "-d") == 0)
    return unpack (argv[2], argv[3]);
  if (argc != 3) {
    fprintf (stderr, "usage: pack [-d] FROM TO\n");
    return 2;
  }
  r = rawimg_open (argv[1], false, &img);
  if (r < 0) {
    fprintf (stderr, "%s\n", err_text (r));
    return 1;
  }
  r = sparse_pack (img.base, img.size, argv[2]) < 0;
  rawimg_close (&img);
  return r;
}
