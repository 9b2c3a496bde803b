/* daemon: metrics and a status page over HTTP, for looking only.
 *
 *   /metrics      Prometheus text format
 *   /             the page; /page.css, /page.js, /icon.svg belong to it
 *   /status.json  what the page shows
 *
 * One thread serves it (libmicrohttpd), on loopback unless asked otherwise.
 */
#ifndef BTRNBDD_DAEMON_METRICS_H
#define BTRNBDD_DAEMON_METRICS_H

#include <jansson.h>

#include "daemon/history.h"
#include "daemon/pool_watch.h"

struct server;

struct metrics;

/* Listen on WHERE: HOST:PORT, [ADDRESS]:PORT, or PORT for loopback.  The
 * descriptor, or -1 with a malloc'd reason.
 */
extern int metrics_listen (const char *where, char **ret_error);
/* With loops running; FD becomes its own.  NULL after a message. */
extern struct metrics *metrics_start (struct server *, int fd);
/* While loops still run.  Accepts NULL. */
extern void metrics_stop (struct metrics *);

/* --- metrics_text.c --- */

/* The Prometheus text, malloc'd, or NULL.  POOL may be NULL. */
extern char *metrics_text (struct server *, const json_t *pool,
                           size_t *ret_len);

/* --- page.c: files that are part of the program --- */

struct page_file {
  const char *path, *type, *data, *end;
};
extern const struct page_file *page_files (size_t *ret_count);

#endif /* BTRNBDD_DAEMON_METRICS_H */
