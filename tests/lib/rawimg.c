/* A btrfs image in memory, see rawimg.h. */
#include <config.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/math.h"
#include "lib/rawimg.h"

/* A damaged image may refer to one block again and again. */
#define MAX_VISITS 1000000

int
rawimg_open (const char *path, bool writable, struct rawimg *ret)
{
  struct stat st;
  void *base;
  int fd;

  fd = open (path, writable ? O_RDWR : O_RDONLY);
  if (fd < 0 || fstat (fd, &st) < 0) {
    if (fd >= 0)
      close (fd);
    return err_new (ERR_dev_open, "%s: %s", path, strerror (errno));
  }
  base = mmap (NULL, st.st_size, PROT_READ | (writable ? PROT_WRITE : 0),
               MAP_SHARED, fd, 0);
  close (fd);
  if (base == MAP_FAILED)
    return err_new (ERR_dev_open, "%s: %s", path, strerror (errno));
  rawimg_attach (base, st.st_size, ret);
  ret->mapped = true;
  return 0;
}

void
rawimg_attach (void *base, uint64_t size, struct rawimg *ret)
{
  *ret = (struct rawimg) { .base = base, .size = size };
}

void
rawimg_close (struct rawimg *img)
{
  free (img->chunks);
  if (img->mapped)
    munmap (img->base, img->size);
}

static int
add_chunk (void *opaque, struct key key, const struct btrfs_chunk *c,
           uint32_t size)
{
  struct rawimg *img = opaque;
  struct rawimg_chunk *p;
  unsigned n = le16_get (c->num_stripes);

  (void) size;
  for (size_t i = 0; i < img->nr_chunks; ++i)
    if (img->chunks[i].logical == key.offset)
      return 0;
  if (n > 2 || (n == 2 && (le64_get (c->type) & BTRFS_BG_DUP) == 0))
    return err_new (ERR_profile, "chunk %llu",
                    (unsigned long long) key.offset);
  p = realloc (img->chunks, (img->nr_chunks + 1) * sizeof *p);
  if (p == NULL)
    return err_new (ERR_nomem, "chunks");
  img->chunks = p;
  p += img->nr_chunks++;
  *p = (struct rawimg_chunk) { .logical = key.offset,
    .length = le64_get (c->length), .copies = n };
  for (unsigned i = 0; i < n; ++i)
    p->physical[i] = le64_get (c->stripes[i].offset);
  return 0;
}

static const struct rawimg_chunk *
chunk_of (const struct rawimg *img, uint64_t logical)
{
  for (size_t i = 0; i < img->nr_chunks; ++i) {
    const struct rawimg_chunk *c = &img->chunks[i];

    if (logical >= c->logical && logical - c->logical < c->length)
      return c;
  }
  return NULL;
}

void *
rawimg_block (const struct rawimg *img, uint64_t logical, unsigned copy)
{
  const struct rawimg_chunk *c = chunk_of (img, logical);
  uint64_t physical;

  if (c == NULL || copy >= c->copies ||
      c->length - (logical - c->logical) < img->info.nodesize)
    return NULL;
  physical = c->physical[copy] + (logical - c->logical);
  if (physical > img->size || img->size - physical < img->info.nodesize)
    return NULL;
  return img->base + physical;
}

unsigned
rawimg_copies (const struct rawimg *img, uint64_t logical)
{
  const struct rawimg_chunk *c = chunk_of (img, logical);

  return c == NULL ? 0 : c->copies;
}

/* The state of one walk. */
struct walk {
  const struct rawimg *img;
  const struct rawimg_root *root;
  rawimg_fn fn;
  void *opaque;
  unsigned visits;
};

static int
walk_block (struct walk *w, const struct tree_expect *e)
{
  const struct rawimg *img = w->img;
  const void *buf = NULL;
  int r = 0;

  if (++w->visits > MAX_VISITS)
    return err_new (ERR_tree_cycle, "block %llu",
                    (unsigned long long) e->bytenr);
  /* Any good copy will do. */
  for (unsigned i = 0; i < 2; ++i) {
    buf = rawimg_block (img, e->bytenr, i);
    if (buf == NULL)
      return r != 0 ? r : err_new (ERR_unmapped, "block %llu",
                                   (unsigned long long) e->bytenr);
    r = tree_check_block (&img->info, buf, e);
    if (r == 0)
      break;
  }
  if (r == 0 && w->fn != NULL)
    r = w->fn (w->opaque, buf, w->root);
  if (r < 0 || tb_level (buf) == 0)
    return r;
  for (uint32_t i = 0; i < tb_nritems (buf); ++i) {
    struct tree_expect child = tree_expect_child (buf, i, e->owner);

    child.max_generation = e->max_generation;
    r = walk_block (w, &child);
    if (r < 0)
      return r;
  }
  return 0;
}

int
rawimg_walk (const struct rawimg *img, const struct rawimg_root *root,
             rawimg_fn fn, void *opaque)
{
  struct walk w = { .img = img, .root = root, .fn = fn, .opaque = opaque };
  struct tree_expect e = { .bytenr = root->bytenr,
    .generation = root->generation, .owner = root->id, .has_level = true,
    .level = root->level,
    .max_generation = le64_get (img->super->generation) };

  return walk_block (&w, &e);
}

static struct rawimg_root
super_root (const struct rawimg *img, uint64_t id)
{
  const struct btrfs_super *sb = img->super;

  switch (id) {
  case BTRFS_CHUNK_TREE:
    return (struct rawimg_root) { .id = id, .level = sb->chunk_root_level,
      .bytenr = le64_get (sb->chunk_root),
      .generation = le64_get (sb->chunk_root_generation) };
  case BTRFS_TREE_LOG:
    return (struct rawimg_root) { .id = id, .level = sb->log_root_level,
      .bytenr = le64_get (sb->log_root),
      .generation = le64_get (sb->generation) + 1 };
  default:
    return (struct rawimg_root) { .id = id, .level = sb->root_level,
      .bytenr = le64_get (sb->root),
      .generation = le64_get (sb->generation) };
  }
}

static int
load_chunks (void *opaque, const void *buf, const struct rawimg_root *root)
{
  int r;

  (void) root;
  if (tb_level (buf) > 0)
    return 0;
  for (uint32_t i = 0; i < tb_nritems (buf); ++i) {
    struct key key = tb_item_key (buf, i);

    if (key.type != BTRFS_CHUNK_ITEM)
      continue;
    r = add_chunk (opaque, key, tb_item_data_c (buf, i),
                   tb_item_size (buf, i));
    if (r < 0)
      return r;
  }
  return 0;
}

int
rawimg_load (struct rawimg *img)
{
  struct rawimg_root root;
  int r;

  if (img->size < super_offset (0) + BTRFS_SUPER_SIZE)
    return err_new (ERR_no_super, "image is too small");
  img->super = (struct btrfs_super *) (img->base + super_offset (0));
  r = super_check (img->super, super_offset (0));
  if (r < 0)
    return r;
  format_info_init (&img->info, img->super);
  r = super_sys_chunks (img->super, add_chunk, img);
  if (r < 0)
    return r;
  root = super_root (img, BTRFS_CHUNK_TREE);
  return rawimg_walk (img, &root, load_chunks, img);
}

struct all_walk {
  const struct rawimg *img;
  rawimg_fn fn;
  void *opaque;
  uint64_t find;                /* a tree id to find, or 0: visit all */
  struct rawimg_root *found;
};

/* Visit the trees that this block of the root tree or log root tree names. */
static int
walk_roots (void *opaque, const void *buf, const struct rawimg_root *root)
{
  struct all_walk *a = opaque;
  int r = a->find == 0 && a->fn != NULL ? a->fn (a->opaque, buf, root) : 0;

  if (r < 0 || tb_level (buf) > 0)
    return r;
  for (uint32_t i = 0; i < tb_nritems (buf); ++i) {
    struct key key = tb_item_key (buf, i);
    const struct btrfs_root_item *ri = tb_item_data_c (buf, i);
    struct rawimg_root child;

    if (key.type != BTRFS_ROOT_ITEM)
      continue;
    child = (struct rawimg_root) { .id = key.objectid, .offset = key.offset,
      .bytenr = le64_get (ri->bytenr), .level = ri->level,
      .generation = le64_get (ri->generation) };
    if (a->find != 0) {
      if (child.id == a->find)
        *a->found = child;
      continue;
    }
    /* A dropped subvolume's blocks are gone from the left on. */
    if (le32_get (ri->refs) == 0 &&
        le64_get (ri->drop_progress.objectid) != 0)
      continue;
    r = rawimg_walk (a->img, &child, a->fn, a->opaque);
    if (r < 0)
      return r;
  }
  return 0;
}

int
rawimg_find_root (const struct rawimg *img, uint64_t id,
                  struct rawimg_root *ret, bool *ret_found)
{
  struct rawimg_root root = super_root (img, BTRFS_ROOT_TREE);
  struct all_walk a = { .img = img, .find = id, .found = ret };
  int r;

  *ret_found = true;
  if (id == BTRFS_ROOT_TREE || id == BTRFS_CHUNK_TREE) {
    *ret = super_root (img, id);
    return 0;
  }
  ret->id = 0;
  r = rawimg_walk (img, &root, walk_roots, &a);
  *ret_found = ret->id == id;
  return r;
}

int
rawimg_walk_all (const struct rawimg *img, rawimg_fn fn, void *opaque)
{
  struct all_walk a = { .img = img, .fn = fn, .opaque = opaque };
  struct rawimg_root root = super_root (img, BTRFS_CHUNK_TREE);
  int r;

  r = rawimg_walk (img, &root, fn, opaque);
  if (r < 0)
    return r;
  root = super_root (img, BTRFS_ROOT_TREE);
  r = rawimg_walk (img, &root, walk_roots, &a);
  if (r < 0 || le64_get (img->super->log_root) == 0)
    return r;
  root = super_root (img, BTRFS_TREE_LOG);
  return rawimg_walk (img, &root, walk_roots, &a);
}
