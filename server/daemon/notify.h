/* daemon: telling systemd how things stand (sd_notify(3)).
 *
 * The protocol is a datagram of a few lines; libsystemd would be a dependency
 * larger than this server for it.  Without NOTIFY_SOCKET all do nothing.
 */
#ifndef BTRNBDD_DAEMON_NOTIFY_H
#define BTRNBDD_DAEMON_NOTIFY_H

/* Serving; also the end of a reload.  The text is a line for
 * `systemctl status`.
 */
extern void notify_ready (const char *fmt, ...)
  __attribute__ ((format (printf, 1, 2)));
extern void notify_reloading (void);
/* The end may take this long. */
extern void notify_stopping (unsigned seconds, unsigned clients);

#endif /* BTRNBDD_DAEMON_NOTIFY_H */
