/* extent: the queue of pending references and its merge rules. */
#include <config.h>

#include <assert.h>
#include <stdlib.h>

#include "base/err.h"
#include "extent/delayed.h"

static int
delayed_ref_cmp (const struct delayed_ref *a, const struct delayed_ref *b)
{
  return ref_key_cmp (&a->key, &b->key);
}

static int
delayed_head_cmp (const struct delayed_head *a, const struct delayed_head *b)
{
  return a->bytenr < b->bytenr ? -1 : a->bytenr > b->bytenr;
}

RB_GENERATE (delayed_refs, delayed_ref, entry, delayed_ref_cmp)
RB_GENERATE (delayed_heads, delayed_head, entry, delayed_head_cmp)

void
delayed_init (struct delayed *q)
{
  RB_INIT (&q->heads);
  q->count = 0;
}

void
delayed_head_free (struct delayed_head *h)
{
  struct delayed_ref *ref;

  if (h == NULL)
    return;
  while ((ref = RB_ROOT (&h->refs)) != NULL) {
    RB_REMOVE (delayed_refs, &h->refs, ref);
    free (ref);
  }
  free (h);
}

void
delayed_done (struct delayed *q)
{
  struct delayed_head *h;

  while ((h = RB_ROOT (&q->heads)) != NULL) {
    RB_REMOVE (delayed_heads, &q->heads, h);
    delayed_head_free (h);
  }
  q->count = 0;
}

struct delayed_head *
delayed_find (struct delayed *q, uint64_t bytenr)
{
  struct delayed_head find = { .bytenr = bytenr };

  return RB_FIND (delayed_heads, &q->heads, &find);
}

int64_t
delayed_head_mod (const struct delayed_head *h)
{
  struct delayed_ref *ref;
  int64_t sum = 0;

  RB_FOREACH (ref, delayed_refs, (struct delayed_refs *) &h->refs)
    sum += ref->mod;
  return sum;
}

static int
add_ref (struct delayed_head *h, const struct ref_key *key, int64_t mod)
{
  struct delayed_ref find = { .key = *key }, *ref;

  ref = RB_FIND (delayed_refs, &h->refs, &find);
  if (ref == NULL) {
    ref = calloc (1, sizeof *ref);
    if (ref == NULL)
      return err_new (ERR_nomem, "pending reference");
    ref->key = *key;
    ref->mod = mod;
    RB_INSERT (delayed_refs, &h->refs, ref);
    return 0;
  }
  ref->mod += mod;
  if (!h->is_data && (ref->mod > 1 || ref->mod < -1))
    return err_new (ERR_ref_count, "tree block %llu is referenced twice by "
                    "%llu", (unsigned long long) h->bytenr,
                    (unsigned long long) key->id);
  if (ref->mod == 0) {
    RB_REMOVE (delayed_refs, &h->refs, ref);
    free (ref);
  }
  return 0;
}

int
delayed_add (struct delayed *q, const struct delayed_change *c)
{
  struct delayed_head *h = delayed_find (q, c->bytenr), *made = NULL;
  int r = 0;

  if (h == NULL) {
    h = made = calloc (1, sizeof *h);
    if (h == NULL)
      return err_new (ERR_nomem, "pending references of an extent");
    RB_INIT (&h->refs);
    h->bytenr = c->bytenr;
    h->num_bytes = c->num_bytes;
    h->is_data = c->is_data;
    h->level = c->level;
    RB_INSERT (delayed_heads, &q->heads, h);
    q->count++;
  }
  if (h->is_data != c->is_data || h->num_bytes != c->num_bytes)
    return err_new (ERR_ref_count, "extent %llu+%llu: pending references "
                    "disagree on what it is", (unsigned long long) c->bytenr,
                    (unsigned long long) c->num_bytes);
  h->must_insert |= c->must_insert;
  h->set_flags |= c->set_flags;
  if (c->mod != 0)
    r = add_ref (h, &c->key, c->mod);
  /* Nothing is left to do, unless space has to be given back. */
  if ((r < 0 && made) ||
      (r == 0 && RB_EMPTY (&h->refs) && !h->must_insert && !h->set_flags)) {
    RB_REMOVE (delayed_heads, &q->heads, h);
    q->count--;
    delayed_head_free (h);
  }
  return r;
}

struct delayed_head *
delayed_take (struct delayed *q, uint64_t from, bool new_blocks)
{
  struct delayed_head find = { .bytenr = from }, *h;

  h = RB_NFIND (delayed_heads, &q->heads, &find);
  while (h && !new_blocks && h->must_insert && !h->is_data)
    h = RB_NEXT (delayed_heads, &q->heads, h);
  if (h) {
    RB_REMOVE (delayed_heads, &q->heads, h);
    assert (q->count > 0);
    q->count--;
  }
  return h;
}
