/* base: error names, and the notes that travel beside a code.
 *
 * The notes of a thread are one malloc'd block of two halves: the notes as
 * "note: note", newest first, and the text that err_text builds from them.
 */
#include <config.h>

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

struct notes {
  char note[ERR_NOTES_MAX];
  char text[ERR_NOTES_MAX + 128];
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t notes_key;
static bool have_key;

static const struct {
  const char *name;
  const char *text;
  int err;
} errors[] = {
#define X(n, e, t) { #n, t, e },
  BTRNBD_ERRORS (X)
#undef X
};

/* The index of CODE, of either sign, or -1. */
static int
code_index (int code)
{
  if (code < 0)
    code = code == INT_MIN ? 0 : -code;
  if (code <= BTRNBD_ERR_BASE || code >= BTRNBD_ERR_END)
    return -1;
  return code - BTRNBD_ERR_BASE - 1;
}

const char *
btrnbd_error_name (int code)
{
  int i = code_index (code);

  return i < 0 ? "unknown" : errors[i].name;
}

const char *
btrnbd_error_text (int code)
{
  int i = code_index (code);

  return i < 0 ? "unknown error" : errors[i].text;
}

int
btrnbd_error_errno (int code)
{
  int i = code_index (code);

  return i < 0 ? EIO : errors[i].err;
}

static void
make_key (void)
{
  have_key = pthread_key_create (&notes_key, free) == 0;
}

/* This thread's notes; NULL when there are none and ALLOC is false, or out
 * of memory.
 */
static struct notes *
thread_notes (bool alloc)
{
  struct notes *n;

  pthread_once (&once, make_key);
  if (!have_key)
    return NULL;
  n = pthread_getspecific (notes_key);
  if (n != NULL || !alloc)
    return n;
  n = malloc (sizeof *n);
  if (n == NULL)
    return NULL;
  n->note[0] = '\0';
  if (pthread_setspecific (notes_key, n) != 0) {
    free (n);
    return NULL;
  }
  return n;
}

/* The length of a first note "NAME", in quotes, when the new one ends with
 * that name itself; else 0.
 */
static size_t
said_again (const struct notes *n, const char *buf, size_t len)
{
  const char *end = n->note[0] == '"' ? strchr (n->note + 1, '"') : NULL;
  size_t name;

  if (end == NULL || (end[1] != '\0' && strncmp (end + 1, ": ", 2) != 0))
    return 0;
  name = end - n->note - 1;
  if (len > 0 && buf[len - 1] == '"')
    --len;
  if (name == 0 || len < name
      || memcmp (buf + len - name, n->note + 1, name) != 0
      || (len > name && strchr (" /@\"", buf[len - name - 1]) == NULL))
    return 0;
  return end + 1 - n->note + (end[1] != '\0' ? 2 : 0);
}

/* Put the note before those that are there: the newest comes from the
 * outermost caller, so it names the widest context.
 */
static void
prepend (struct notes *n, const char *fmt, va_list ap)
{
  char buf[512];
  size_t len, old = strlen (n->note), room, again;
  int r;

  r = vsnprintf (buf, sizeof buf - 2, fmt, ap);
  if (r <= 0)
    return;
  len = strlen (buf);
  again = said_again (n, buf, len);
  old -= again;
  memmove (n->note, n->note + again, old + 1);
  if (old > 0) {
    buf[len++] = ':';
    buf[len++] = ' ';
  }
  room = sizeof n->note - 1 - len;
  if (old > room)
    old = room;
  memmove (n->note + len, n->note, old);
  memcpy (n->note, buf, len);
  n->note[len + old] = '\0';
}

int
err_new (int code, const char *fmt, ...)
{
  struct notes *n = thread_notes (true);
  va_list ap;

  if (n != NULL) {
    n->note[0] = '\0';
    va_start (ap, fmt);
    prepend (n, fmt, ap);
    va_end (ap);
  }
  return code > 0 ? -code : code;
}

int
err_note (int ret, const char *fmt, ...)
{
  struct notes *n;
  va_list ap;

  if (ret >= 0)
    return ret;
  n = thread_notes (true);
  if (n != NULL) {
    va_start (ap, fmt);
    prepend (n, fmt, ap);
    va_end (ap);
  }
  return ret;
}

const char *
err_text (int code)
{
  struct notes *n = thread_notes (false);

  if (n == NULL || n->note[0] == '\0')
    return btrnbd_error_text (code);
  snprintf (n->text, sizeof n->text, "%s: %s", btrnbd_error_text (code),
            n->note);
  return n->text;
}

void
err_clear (void)
{
  struct notes *n = thread_notes (false);

  if (n != NULL)
    n->note[0] = '\0';
}

char *
err_take (void)
{
  struct notes *n = thread_notes (false);
  char *s;

  if (n == NULL || n->note[0] == '\0')
    return NULL;
  s = strdup (n->note);
  n->note[0] = '\0';
  return s;
}

void
err_put (char *taken)
{
  struct notes *n;

  if (taken == NULL) {
    err_clear ();
    return;
  }
  n = thread_notes (true);
  if (n != NULL)
    snprintf (n->note, sizeof n->note, "%s", taken);
  free (taken);
}
