/* data: the allocation unit of a file. */
#include <config.h>

#include <string.h>

#include "base/err.h"
#include "base/math.h"
#include "data/data_priv.h"

bool
data_unit_ok (uint64_t bytes)
{
  return bytes >= DATA_UNIT_MIN && bytes <= DATA_UNIT_MAX
    && (bytes & (bytes - 1)) == 0;
}

/* The attribute in TEXT; 0: it says nothing that can be used. */
static uint64_t
parse (const char *text, size_t len)
{
  uint64_t n = 0;

  if (len == 0 || len > strlen ("262144"))
    return 0;
  for (; len > 0; ++text, --len) {
    if (*text < '0' || *text > '9')
      return 0;
    n = n * 10 + (uint64_t) (*text - '0');
  }
  return data_unit_ok (n) ? n : 0;
}

static uint64_t
look_up (struct file_data *f)
{
  char text[16];
  uint64_t n = 0;
  size_t len = 0;
  int r = inode_getxattr (f->inode, DATA_UNIT_XATTR, text, sizeof text, &len);

  if (r == 0 && len <= sizeof text)
    n = parse (text, len);
  else if (r < 0)
    err_clear ();
  return n == 0 ? DATA_UNIT_USUAL : n;
}

uint64_t
file_unit (struct file_data *f)
{
  uint64_t n = __atomic_load_n (&f->unit, __ATOMIC_RELAXED);

  if (n == 0) {
    n = MAX (look_up (f), (uint64_t) f->d->ps);
    __atomic_store_n (&f->unit, n, __ATOMIC_RELAXED);
  }
  return n;
}

uint64_t
data_unit (struct data *d, struct inode *inode)
{
  struct file_data *f;
  int r = file_get (d, inode, &f);

  if (r < 0) {
    err_clear ();
    return DATA_UNIT_USUAL;
  }
  return file_unit (f);
}
