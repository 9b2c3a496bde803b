/* Model test: the filesystem in memory. */
#include <config.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"

static void *
need (void *p)
{
  if (p == NULL)
    abort ();
  return p;
}

uint64_t
model_random (struct model *m, uint64_t n)
{
  m->rng ^= m->rng >> 12;
  m->rng ^= m->rng << 25;
  m->rng ^= m->rng >> 27;
  return ((m->rng * UINT64_C (0x2545F4914F6CDD1D)) >> 16) % n;
}

void
model_random_bytes (struct model *m, uint8_t *p, size_t n)
{
  uint64_t v = 0;
  size_t i;

  for (i = 0; i < n; i++) {
    if (i % 4 == 0)
      v = model_random (m, UINT64_C (1) << 32);
    p[i] = v >> (8 * (i % 4));
  }
}

void
model_init (struct model *m, uint64_t seed)
{
  memset (m, 0, sizeof *m);
  m->rng = seed * UINT64_C (0x9E3779B97F4A7C15) + 1;
  m->top = node_new (NODE_DIR);
  m->top->nlink = 1;
  m->items = need (calloc (MODEL_NAMES_MAX + 1, sizeof *m->items));
}

void
model_done (struct model *m)
{
  node_unref (m->top);
  free (m->items);
}

struct node *
node_new (enum node_kind kind)
{
  struct node *n = need (calloc (1, sizeof *n));

  n->kind = kind;
  return n;
}

void
node_resize (struct node *n, uint64_t size)
{
  n->data = need (realloc (n->data, size + 1));
  if (size > n->size)
    memset (n->data + n->size, 0, size - n->size);
  n->size = size;
}

void
node_unref (struct node *n)
{
  assert (n->nlink > 0);
  if (--n->nlink > 0)
    return;
  while (n->num_entries > 0)
    node_remove (n, 0);
  free (n->entries);
  free (n->data);
  free (n->xattr);
  free (n);
}

void
node_add (struct node *dir, const char *name, struct node *node)
{
  dir->entries = need (realloc (dir->entries, (dir->num_entries + 1) *
                                sizeof *dir->entries));
  dir->entries[dir->num_entries].name = need (strdup (name));
  dir->entries[dir->num_entries].node = node;
  dir->num_entries++;
  node->nlink++;
}

long
node_find (const struct node *dir, const char *name)
{
  size_t i;

  for (i = 0; i < dir->num_entries; i++)
    if (strcmp (dir->entries[i].name, name) == 0)
      return i;
  return -1;
}

void
node_remove (struct node *dir, size_t index)
{
  struct node *n = dir->entries[index].node;

  free (dir->entries[index].name);
  dir->num_entries--;
  memmove (&dir->entries[index], &dir->entries[index + 1],
           (dir->num_entries - index) * sizeof dir->entries[0]);
  node_unref (n);
}

bool
node_contains (const struct node *dir, const struct node *node)
{
  size_t i;

  if (dir == node)
    return true;
  for (i = 0; i < dir->num_entries; i++)
    if (node_contains (dir->entries[i].node, node))
      return true;
  return false;
}

static void
walk (struct model *m, struct node *dir, const char *path)
{
  size_t i;

  for (i = 0; i < dir->num_entries && m->num_items < MODEL_NAMES_MAX; i++) {
    struct item *it = &m->items[m->num_items++];

    it->dir = dir;
    it->node = dir->entries[i].node;
    it->index = i;
    assert (strlen (path) + 1 + strlen (dir->entries[i].name) <
            sizeof it->path);
    strcpy (it->path, path);
    if (path[0] != '\0')
      strcat (it->path, "/");
    strcat (it->path, dir->entries[i].name);
    if (it->node->kind == NODE_DIR)
      walk (m, it->node, it->path);
  }
}

void
model_walk (struct model *m)
{
  m->num_items = 0;
  walk (m, m->top, "");
}

struct item *
model_pick (struct model *m, int kind)
{
  size_t i, n = 0, k;

  for (i = 0; i < m->num_items; i++)
    if (kind < 0 || m->items[i].node->kind == (enum node_kind) kind)
      n++;
  if (n == 0)
    return NULL;
  k = model_random (m, n);
  for (i = 0; i < m->num_items; i++)
    if ((kind < 0 || m->items[i].node->kind == (enum node_kind) kind) &&
        k-- == 0)
      return &m->items[i];
  return NULL;
}

struct node *
model_pick_dir (struct model *m, const char **ret_path)
{
  struct item *it = model_random (m, 3) == 0 ? NULL : model_pick (m, NODE_DIR);

  *ret_path = it == NULL ? "" : it->path;
  return it == NULL ? m->top : it->node;
}
