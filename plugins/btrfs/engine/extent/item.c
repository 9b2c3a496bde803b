/* extent: decode, change and encode extent items. */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "base/csum.h"
#include "base/err.h"
#include "base/math.h"
#include "extent/item.h"

bool
ref_key_eq (const struct ref_key *a, const struct ref_key *b)
{
  return ref_key_cmp (a, b) == 0;
}

int
ref_key_cmp (const struct ref_key *a, const struct ref_key *b)
{
  if (a->type != b->type)
    return a->type < b->type ? -1 : 1;
  if (a->id != b->id)
    return a->id < b->id ? -1 : 1;
  if (a->objectid != b->objectid)
    return a->objectid < b->objectid ? -1 : 1;
  if (a->offset != b->offset)
    return a->offset < b->offset ? -1 : 1;
  return 0;
}

/* As Linux computes it: raw CRC-32C of the little-endian numbers, seeded with
 * all ones; the halves overlap by one bit.
 */
uint64_t
ref_hash (uint64_t root, uint64_t objectid, uint64_t offset)
{
  le64 n = le64_make (root);
  uint32_t high, low;

  high = crc32c_raw (~UINT32_C (0), &n, sizeof n);
  n = le64_make (objectid);
  low = crc32c_raw (~UINT32_C (0), &n, sizeof n);
  n = le64_make (offset);
  low = crc32c_raw (low, &n, sizeof n);
  return ((uint64_t) high << 31) ^ low;
}

/* Order inside a type, descending. */
static uint64_t
ref_seq (const struct ref_key *k)
{
  return k->type == BTRFS_EXTENT_DATA_REF
    ? ref_hash (k->id, k->objectid, k->offset) : k->id;
}

uint32_t
extent_item_ref_size (uint8_t type)
{
  switch (type) {
  case BTRFS_EXTENT_DATA_REF:
    return 1 + sizeof (struct btrfs_extent_data_ref);
  case BTRFS_SHARED_DATA_REF:
    return sizeof (struct btrfs_extent_inline_ref) +
      sizeof (struct btrfs_shared_data_ref);
  default:
    return sizeof (struct btrfs_extent_inline_ref);
  }
}

void
extent_item_done (struct extent_item *it)
{
  free (it->inl);
  it->inl = NULL;
  it->n = it->cap = 0;
}

static int
append (struct extent_item *it, size_t at, const struct ref_key *k,
        uint32_t count)
{
  struct item_ref *p;
  size_t cap;

  if (it->n == it->cap) {
    cap = it->cap ? 2 * it->cap : 4;
    p = realloc (it->inl, cap * sizeof *p);
    if (p == NULL)
      return err_new (ERR_nomem, "references of an extent");
    it->inl = p;
    it->cap = cap;
  }
  memmove (it->inl + at + 1, it->inl + at, (it->n - at) * sizeof *it->inl);
  it->inl[at] = (struct item_ref) { .key = *k, .count = count };
  it->n++;
  return 0;
}

static int
bad (struct key key, const char *what)
{
  char buf[KEY_STR_MAX];

  return err_new (ERR_extent_format, "%s: %s", key_str (key, buf), what);
}

/* One inline reference at P, of which LEFT bytes exist; *ret_used. */
static int
decode_ref (struct extent_item *it, struct key key, const uint8_t *p,
            uint32_t left, uint32_t *ret_used)
{
  const struct btrfs_extent_inline_ref *ir = (const void *) p;
  const struct btrfs_extent_data_ref *dr = (const void *) (p + 1);
  const struct btrfs_shared_data_ref *sr = (const void *) (ir + 1);
  struct ref_key k = { .type = p[0] };
  uint32_t size = extent_item_ref_size (k.type), count = 1;

  if (left < size)
    return bad (key, "inline reference is cut off");
  *ret_used = size;
  switch (k.type) {
  case BTRFS_EXTENT_OWNER_REF:
    if (it->has_owner || it->n > 0)
      return bad (key, "owner reference is not first");
    it->has_owner = true;
    it->owner = le64_get (ir->offset);
    return 0;
  case BTRFS_TREE_BLOCK_REF:
  case BTRFS_SHARED_BLOCK_REF:
    k.id = le64_get (ir->offset);
    break;
  case BTRFS_EXTENT_DATA_REF:
    k.id = le64_get (dr->root);
    k.objectid = le64_get (dr->objectid);
    k.offset = le64_get (dr->offset);
    count = le32_get (dr->count);
    break;
  case BTRFS_SHARED_DATA_REF:
    k.id = le64_get (ir->offset);
    count = le32_get (sr->count);
    break;
  default:
    return bad (key, "unknown type of inline reference");
  }
  if (count == 0)
    return bad (key, "reference with count 0");
  if (ref_is_data (k.type) != ((it->flags & BTRFS_EXTENT_FLAG_DATA) != 0))
    return bad (key, "reference does not suit the kind of extent");
  return append (it, it->n, &k, count);
}

int
extent_item_decode (struct extent_item *it, struct key key, const void *data,
                    uint32_t size)
{
  const struct btrfs_extent_item *d = data;
  const uint8_t *p = data;
  uint32_t pos = sizeof *d, used = 0;
  uint64_t kind;
  int r;

  memset (it, 0, sizeof *it);
  if (size < sizeof *d)
    return bad (key, "too short");
  it->refs = le64_get (d->refs);
  it->generation = le64_get (d->generation);
  it->flags = le64_get (d->flags);
  kind = it->flags & (BTRFS_EXTENT_FLAG_DATA | BTRFS_EXTENT_FLAG_TREE_BLOCK);
  if (!is_power_of_2 (kind))
    return bad (key, "neither data nor tree block");
  if (kind == BTRFS_EXTENT_FLAG_DATA && key.type == BTRFS_METADATA_ITEM)
    return bad (key, "metadata item of data");
  if (kind == BTRFS_EXTENT_FLAG_TREE_BLOCK && key.type == BTRFS_EXTENT_ITEM) {
    if (size - pos < sizeof it->info)
      return bad (key, "too short for a tree block");
    it->has_info = true;
    memcpy (&it->info, p + pos, sizeof it->info);
    pos += sizeof it->info;
  }
  while (pos < size) {
    r = decode_ref (it, key, p + pos, size - pos, &used);
    if (r < 0) {
      extent_item_done (it);
      return r;
    }
    pos += used;
  }
  if (extent_item_inline_count (it) > it->refs) {
    extent_item_done (it);
    return bad (key, "more inline references than references");
  }
  return 0;
}

uint32_t
extent_item_size (const struct extent_item *it)
{
  uint32_t size = sizeof (struct btrfs_extent_item);
  size_t i;

  if (it->has_info)
    size += sizeof it->info;
  if (it->has_owner)
    size += extent_item_ref_size (BTRFS_EXTENT_OWNER_REF);
  for (i = 0; i < it->n; i++)
    size += extent_item_ref_size (it->inl[i].key.type);
  return size;
}

static uint8_t *
encode_ref (uint8_t *p, const struct item_ref *ref)
{
  struct btrfs_extent_inline_ref ir = { .type = ref->key.type };
  struct btrfs_extent_data_ref dr;
  struct btrfs_shared_data_ref sr;

  if (ref->key.type == BTRFS_EXTENT_DATA_REF) {
    *p++ = ref->key.type;
    dr.root = le64_make (ref->key.id);
    dr.objectid = le64_make (ref->key.objectid);
    dr.offset = le64_make (ref->key.offset);
    dr.count = le32_make (ref->count);
    memcpy (p, &dr, sizeof dr);
    return p + sizeof dr;
  }
  ir.offset = le64_make (ref->key.id);
  memcpy (p, &ir, sizeof ir);
  p += sizeof ir;
  if (ref->key.type == BTRFS_SHARED_DATA_REF) {
    sr.count = le32_make (ref->count);
    memcpy (p, &sr, sizeof sr);
    p += sizeof sr;
  }
  return p;
}

void
extent_item_encode (const struct extent_item *it, void *buf)
{
  struct btrfs_extent_item d;
  struct item_ref owner = { .key = { .type = BTRFS_EXTENT_OWNER_REF,
                                     .id = it->owner } };
  uint8_t *p = buf;
  size_t i;

  d.refs = le64_make (it->refs);
  d.generation = le64_make (it->generation);
  d.flags = le64_make (it->flags);
  memcpy (p, &d, sizeof d);
  p += sizeof d;
  if (it->has_info) {
    memcpy (p, &it->info, sizeof it->info);
    p += sizeof it->info;
  }
  if (it->has_owner)
    p = encode_ref (p, &owner);
  for (i = 0; i < it->n; i++)
    p = encode_ref (p, &it->inl[i]);
}

struct item_ref *
extent_item_find (struct extent_item *it, const struct ref_key *k)
{
  size_t i;

  for (i = 0; i < it->n; i++)
    if (ref_key_eq (&it->inl[i].key, k))
      return &it->inl[i];
  return NULL;
}

int
extent_item_add (struct extent_item *it, const struct ref_key *k,
                 uint32_t count)
{
  uint64_t seq = ref_seq (k);
  size_t i;

  for (i = 0; i < it->n; i++) {
    if (it->inl[i].key.type > k->type)
      break;
    if (it->inl[i].key.type == k->type && ref_seq (&it->inl[i].key) < seq)
      break;
  }
  return append (it, i, k, count);
}

void
extent_item_remove (struct extent_item *it, struct item_ref *ref)
{
  size_t i = ref - it->inl;

  it->n--;
  memmove (ref, ref + 1, (it->n - i) * sizeof *ref);
}

uint64_t
extent_item_inline_count (const struct extent_item *it)
{
  uint64_t sum = 0;
  size_t i;

  for (i = 0; i < it->n; i++)
    sum += it->inl[i].count;
  return sum;
}
