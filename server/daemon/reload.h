/* daemon: reading the configuration again while serving.
 *
 * Everything is read and judged before anything changes: files, rules, TLS
 * credentials; new sockets are open.  What fails changes nothing.  Then rules
 * and limits take effect on connections that exist (those whose peer may no
 * longer use its export end), listeners come and go, new connections get the
 * new credentials.  Nobody else notices.
 */
#ifndef BTRNBDD_DAEMON_RELOAD_H
#define BTRNBDD_DAEMON_RELOAD_H

struct options;
struct reload;
struct server;

/* How SERVER was started; both are borrowed and outlive it.  NULL: no
 * memory.
 */
extern struct reload *reload_new (int argc, char **argv,
                                  const struct options *started);
extern void reload_free (struct reload *); /* accepts NULL */

/* In the main thread only.  0, with *RET_TEXT NULL or a malloc'd note about
 * settings that take effect at the next start only; or -1, with *RET_TEXT the
 * reason.  Also logged, and told to systemd.
 */
extern int server_reload (struct server *, char **ret_text);

#endif /* BTRNBDD_DAEMON_RELOAD_H */
