/* Model test: a filesystem in memory that knows what the engine must answer.
 */
#ifndef BTRNBD_TESTS_MODEL_H
#define BTRNBD_TESTS_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODEL_FILE_MAX (UINT64_C (3) << 20)
#define MODEL_NAMES_MAX 160
#define MODEL_PATH_MAX 2048

enum node_kind { NODE_FILE, NODE_DIR, NODE_SYMLINK };

struct node;

struct entry {
  char *name;
  struct node *node;
};

struct node {
  enum node_kind kind;
  unsigned nlink;              /* names; a directory has one */
  bool nocow;
  uint8_t *data;               /* NODE_FILE: size bytes; NODE_SYMLINK: path */
  uint64_t size;
  char *xattr;                 /* value of user.model, or NULL */
  struct entry *entries;       /* NODE_DIR */
  size_t num_entries;
};

/* One name of the model, found by a walk. */
struct item {
  char path[MODEL_PATH_MAX];
  struct node *dir, *node;
  size_t index;                /* in dir->entries */
};

struct model {
  struct node *top;
  uint64_t rng;
  struct item *items;          /* of the last walk */
  size_t num_items;
};

extern void model_init (struct model *, uint64_t seed);
extern void model_done (struct model *);

/* 0 .. N-1 */
extern uint64_t model_random (struct model *, uint64_t n);
extern void model_random_bytes (struct model *, uint8_t *, size_t);

/* Fill items with every name. */
extern void model_walk (struct model *);
/* A random name of that kind (-1: any), or NULL; from the last walk. */
extern struct item *model_pick (struct model *, int kind);
/* A random directory and its path ("" for the top). */
extern struct node *model_pick_dir (struct model *, const char **ret_path);

extern struct node *node_new (enum node_kind);
extern void node_resize (struct node *, uint64_t size);
extern void node_unref (struct node *);
/* Takes a link of NODE. */
extern void node_add (struct node *dir, const char *name, struct node *node);
extern long node_find (const struct node *dir, const char *name); /* -1 */
extern void node_remove (struct node *dir, size_t index);
/* Is NODE in or below DIR? */
extern bool node_contains (const struct node *dir, const struct node *node);

#endif /* BTRNBD_TESTS_MODEL_H */
