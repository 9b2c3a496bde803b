/* space: free space of one block group as a bitmap.
 *
 * A group that is wholly free or wholly used needs no words.
 */
#include <config.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/math.h"
#include "space/bitmap.h"

void
free_map_init (struct free_map *m, uint64_t nbits, bool all)
{
  memset (m, 0, sizeof *m);
  m->nbits = nbits;
  m->all = all;
  m->nset = m->max_run = all ? nbits : 0;
}

void
free_map_done (struct free_map *m)
{
  free (m->words);
  m->words = NULL;
}

static int
make_words (struct free_map *m)
{
  uint64_t n = div_round_up (m->nbits, 64);

  m->words = malloc (n * sizeof *m->words);
  if (m->words == NULL)
    return err_new (ERR_nomem, "free space of a block group");
  memset (m->words, m->all ? 0xff : 0, n * sizeof *m->words);
  if (m->all && m->nbits % 64)
    m->words[n - 1] = (UINT64_C (1) << (m->nbits % 64)) - 1;
  return 0;
}

bool
free_map_test (const struct free_map *m, uint64_t bit)
{
  if (m->words == NULL)
    return m->all;
  return m->words[bit / 64] >> (bit % 64) & 1;
}

/* First bit of VALUE at or behind FROM; nbits: none. */
static uint64_t
next_bit (const struct free_map *m, uint64_t from, bool value)
{
  uint64_t i = from / 64, n = div_round_up (m->nbits, 64), w;

  if (from >= m->nbits)
    return m->nbits;
  if (m->words == NULL)
    return m->all == value ? from : m->nbits;
  w = value ? m->words[i] : ~m->words[i];
  w &= ~UINT64_C (0) << (from % 64);
  while (w == 0) {
    if (++i >= n)
      return m->nbits;
    w = value ? m->words[i] : ~m->words[i];
  }
  return MIN (i * 64 + __builtin_ctzll (w), m->nbits);
}

bool
free_map_next_run (const struct free_map *m, uint64_t from, bool value,
                   uint64_t *ret_start, uint64_t *ret_len)
{
  uint64_t s = next_bit (m, from, value);

  if (s >= m->nbits)
    return false;
  *ret_start = s;
  *ret_len = next_bit (m, s, !value) - s;
  return true;
}

/* Set bits of one word; the number that changed. */
static unsigned
set_word (uint64_t *w, uint64_t mask, bool value)
{
  uint64_t old = *w;

  *w = value ? old | mask : old & ~mask;
  return __builtin_popcountll (old ^ *w);
}

/* Length of the free run that holds BIT, looking back at most 2^16 bits. */
static uint64_t
run_around (const struct free_map *m, uint64_t start, uint64_t len)
{
  uint64_t s = start, e = next_bit (m, start + len, false);

  while (s > 0 && start - s < 65536) {
    if (s % 64 == 0 && m->words[s / 64 - 1] == ~UINT64_C (0))
      s -= 64;
    else if (free_map_test (m, s - 1))
      s--;
    else
      return e - s;
  }
  return s == 0 ? e : m->nbits;
}

int
free_map_set (struct free_map *m, uint64_t start, uint64_t len, bool value,
              uint64_t *ret_changed)
{
  uint64_t bit = start, end = start + len, changed = 0, mask, n;
  int r;

  assert (start <= m->nbits && len <= m->nbits - start);
  if (ret_changed)
    *ret_changed = 0;
  if (m->words == NULL) {
    if (m->all == value || len == 0)
      return 0;
    r = make_words (m);
    if (r < 0)
      return r;
  }
  while (bit < end) {
    n = MIN (64 - bit % 64, end - bit);
    mask = n == 64 ? ~UINT64_C (0)
      : ((UINT64_C (1) << n) - 1) << (bit % 64);
    changed += set_word (&m->words[bit / 64], mask, value);
    bit += n;
  }
  m->nset = value ? m->nset + changed : m->nset - changed;
  if (ret_changed)
    *ret_changed = changed;
  if (value && changed)
    m->max_run = MAX (m->max_run, run_around (m, start, len));
  if (m->nset == 0 || m->nset == m->nbits) {
    m->all = m->nset != 0;
    m->max_run = m->nset;
    free_map_done (m);
  }
  return 0;
}

/* The aligned part of a run. */
static void
align_run (const struct free_want *w, uint64_t *s, uint64_t *len)
{
  uint64_t at = round_up (*s + w->phase, w->align) - w->phase, cut = at - *s;

  *len = *len > cut ? round_down (*len - cut, w->align) : 0;
  *s = at;
}

bool
free_map_find (struct free_map *m, const struct free_want *w,
               uint64_t *ret_start, uint64_t *ret_len)
{
  uint64_t from = w->from < m->nbits ? w->from : 0, pos = from, s, len;
  uint64_t best = 0, best_at = 0, longest = 0, target;
  bool wrapped = from == 0;

  if (m->nset < w->min || m->max_run < w->min)
    return false;
  target = MIN (w->want, m->max_run);
  for (;;) {
    if (!free_map_next_run (m, pos, true, &s, &len) ||
        (wrapped && from > 0 && s >= from)) {
      if (wrapped)
        break;
      wrapped = true;
      pos = 0;
      continue;
    }
    pos = s + len;
    longest = MAX (longest, len);
    align_run (w, &s, &len);
    if (len > best) {
      best = len;
      best_at = s;
      if (best >= target)
        break;
    }
  }
  if (best < target)
    m->max_run = longest;
  if (best < w->min || best == 0)
    return false;
  *ret_start = best_at;
  *ret_len = MIN (best, w->want);
  return true;
}
