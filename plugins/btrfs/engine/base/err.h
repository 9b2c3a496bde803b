/* base: the context of an error.
 *
 * A code (include/btrnbd/errors.h) says what went wrong; the notes say where.
 * Notes are kept per thread; the newest, the widest context, is printed first.
 * The place that creates an error calls `err_new`, which clears the thread's
 * notes; callers on the way up may add one with `err_note`; the border
 * (plugin, control socket, CLI) prints `err_text`.  A thread that drops an
 * error on purpose calls `err_clear`.  Work that crosses threads carries its
 * text with `err_take`.
 *
 * The notes of a thread are bounded (ERR_NOTES_MAX bytes, the rest is cut)
 * and live on the heap behind a pthread key: no static TLS.  Out of memory
 * loses the notes, never the code.
 */
#ifndef BTRNBD_BASE_ERR_H
#define BTRNBD_BASE_ERR_H

#include <stdarg.h>

#include <btrnbd/errors.h>

#define ERR_NOTES_MAX 2048

/* Begin an error: forget old notes, note FMT, return -CODE (CODE > 0). */
extern int err_new (int code, const char *fmt, ...)
  __attribute__ ((format (printf, 2, 3), cold));

/* Add a note to the error on its way up; returns RET unchanged.  No effect
 * when RET is not negative.
 */
extern int err_note (int ret, const char *fmt, ...)
  __attribute__ ((format (printf, 2, 3), cold));

/* "sentence: note: note" for CODE in this thread's buffer; valid until the
 * next err_ call of the thread.
 */
extern const char *err_text (int code);
extern void err_clear (void);

/* Move the notes to another thread: a malloc'd string (or NULL), and back. */
extern char *err_take (void);
extern void err_put (char *taken); /* takes ownership */

#endif /* BTRNBD_BASE_ERR_H */
