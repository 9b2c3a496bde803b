/* cli: what the commands of btrnbd share.
 *
 * A command is one file cmd_NAME.c with one entry in the table of main.c.  It
 * declares its options, parses, opens the pool, does its work through
 * <btrnbd/engine.h> and returns an exit status: 0 done, 1 failed (one line
 * on stderr says why), 2 wrong usage.
 */
#ifndef BTRNBD_CLI_H
#define BTRNBD_CLI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include <btrnbd/engine.h>

#define CLI_DEVICES_MAX 64

/* How far a copy is, on the terminal (progress.c). */
struct cli_progress {
  const char *what;
  uint64_t total, done;
  uint64_t start_ns, last_ns;
  bool on;                      /* stderr is a terminal */
  int width;                    /* of the line on the screen */
};

struct cli {
  const struct cli_command *command;
  int argc;                     /* of the command: its name and arguments */
  char **argv;
  const char *devices[CLI_DEVICES_MAX];
  size_t num_devices;
  const char *socket;           /* of a server; NULL: the devices */
  char socket_buf[128];
  bool json;
  unsigned super_copy;          /* superblock copy to open from */
  struct btrnbd_pool *pool;     /* after cli_open */
  const char *progress_name;    /* calls in this process show how far they
                                   are; NULL: not */
  struct cli_progress progress;
  bool interruptible;           /* SIGINT and SIGTERM end calls in this process
                                   as errors do: nothing is left half done */

  /* link.c */
  int fd, calls;
  char *in;
  size_t in_len, in_size;
  char *message;                /* of the last call that failed */
  int error_code;               /* its rpc_code; 0: there was no answer */
  int error_errno;              /* of the engine's error, or 0 */
#define CLI_NO_METHOD (-32601)  /* the server does not offer that */

  int status;                   /* when cli_parse says that it is over */
};

enum cli_reach {
  CLI_POOL,                     /* -d, or -s while it is served */
  CLI_DEVICES,                  /* -d only */
  CLI_SERVER,                   /* -s only */
};

struct cli_command {
  const char *name;
  const char *args;             /* "NAME SIZE", for the usage line */
  int min_args, max_args;
  const char *summary;          /* one line */
  int (*run) (struct cli *);
  enum cli_reach reach;
};

/* --- options (options.c) --- */

enum cli_kind { CLI_FLAG, CLI_STRING, CLI_SIZE, CLI_U32, CLI_COUNT, CLI_U64 };
struct cli_opt {
  const char *name;             /* long name; NULL ends a table */
  char letter;                  /* 0: none */
  enum cli_kind kind;
  void *dest;                   /* bool, const char *, uint64_t, uint32_t */
  const char *arg;              /* what help calls the argument */
  const char *help;
};

/* Parse the command's arguments; the options that all commands have come by
 * themselves.  Returns the plain arguments (NULL-terminated), or NULL when
 * the command is over with c->status (help, wrong usage).
 */
extern char **cli_parse (struct cli *c, const struct cli_opt *opts);
extern void cli_print_help (const struct cli_command *,
                            const struct cli_opt *);
/* "10G" and the like; false and a message when it is no size. */
extern bool cli_parse_size (const char *what, const char *s, uint64_t *ret);
extern bool cli_add_device (struct cli *c, const char *name);
extern bool cli_set_super_copy (struct cli *c, const char *number);

/* --- messages (output.c) --- */

/* "btrnbd: ...": returns 1 for `return cli_error (...)`. */
extern int cli_error (const char *fmt, ...)
  __attribute__ ((format (printf, 1, 2), cold));
/* "btrnbd: CONTEXT: the engine's sentence": returns 1. */
extern int cli_fail (int code, const char *fmt, ...)
  __attribute__ ((format (printf, 2, 3), cold));
/* "btrnbd COMMAND: ..." and where help is: returns 2. */
extern int cli_usage_error (const struct cli *c, const char *fmt, ...)
  __attribute__ ((format (printf, 2, 3), cold));

/* --- the pool, served or not (link.c) ---
 *
 * A command connects, calls methods of plugins/btrfs/control/methods.c (in
 * this process with -d, in the server with -s), and disconnects.
 */

/* 0, or an exit status after a message. */
extern int cli_connect (struct cli *c, bool read_only);
/* STATUS, or 1 after a message when what was done could not be completed. */
extern int cli_disconnect (struct cli *c, int status);
/* PARAMS is consumed and may be NULL: none.  -1: c->message has the reason,
 * for cli_call_failed; else *RET_RESULT (if wanted) is the caller's.
 */
extern int cli_call (struct cli *c, const char *method, json_t *params,
                     json_t **ret_result);
/* The same with a descriptor that goes along (borrowed). */
extern int cli_call_fd (struct cli *c, const char *method, json_t *params,
                        int fd, json_t **ret_result);
/* All pages of a list; PATH may be NULL. */
extern int cli_call_list (struct cli *c, const char *method,
                          const char *path, json_t **ret_array);
/* "btrnbd: CONTEXT: the reason": returns 1. */
extern int cli_call_failed (struct cli *c, const char *fmt, ...)
  __attribute__ ((format (printf, 2, 3), cold));
/* All of a command that calls one method and prints nothing: an exit status.
 * PARAMS is consumed; FMT is what an error is of.
 */
extern int cli_do (struct cli *c, const char *method, json_t *params,
                   const char *fmt, ...)
  __attribute__ ((format (printf, 4, 5)));
/* All of a command that shows what METHOD tells of the pool, by PRINT or with
 * --json.
 */
extern int cli_show (struct cli *c, const char *method,
                     void (*print) (const json_t *result));
/* As cli_call, of something that clients may hold: WAIT tries again until they
 * have left.
 */
extern int cli_call_busy (struct cli *c, const char *method, json_t *params,
                          bool wait, json_t **ret_result);
/* For messages: the socket or the first device. */
extern const char *cli_pool_name (const struct cli *c);
/* Of a server that events were asked of; NULL: it has ended. */
extern json_t *cli_next_event (struct cli *c);
/* A connected socket, or -1 after a message. */
extern int cli_socket_open (const char *path);
/* $BTRNBD_SOCKET, or where btrnbdd listens by default if that is there;
 * else NULL.
 */
extern const char *cli_default_socket (char *buf, size_t size);

/* --- served.c --- */

/* The control socket of the process that MESSAGE says has the pool. */
extern bool cli_find_server (const char *message, char *ret, size_t size);

/* --- the pool in this process (output.c) --- */

/* 0, or an exit status after a message.  For what methods do not offer. */
extern int cli_open (struct cli *c, bool read_only);
/* Commit and close; STATUS, or 1 after a message when that failed. */
extern int cli_close (struct cli *c, int status);

/* --- printing (output.c) --- */

#define CLI_SIZE_MAX 32
/* "1.5 GiB" into BUF, which is returned. */
extern const char *cli_size (uint64_t bytes, char buf[CLI_SIZE_MAX]);
/* Print and release; an exit status. */
extern int cli_print_json (json_t *value);
/* The same in one line, for one of several. */
extern int cli_print_json_line (json_t *value);
/* Flush stdout; STATUS, or 1 after a message when that failed. */
extern int cli_finish_output (int status);
/* Members of an object; 0, "" or false when it has none of the kind. */
extern double cli_json_real (const json_t *object, const char *key);
extern uint64_t cli_json_u64 (const json_t *object, const char *key);
extern const char *cli_json_text (const json_t *object, const char *key);
extern bool cli_json_bool (const json_t *object, const char *key);
/* "1.2 ms" of SECONDS, "-" for 0. */
extern const char *cli_seconds (double seconds, char buf[CLI_SIZE_MAX]);
/* "12.3k" of a plain number. */
extern const char *cli_count (double n, char buf[CLI_SIZE_MAX]);
/* To people: RESULT tells that NAME has got another size than it should. */
extern void cli_say_rounded (struct cli *c, const char *name, uint64_t wanted,
                             const json_t *result);
/* S with control characters as '?', into stdout. */
extern void cli_print_name (const char *s, int width);

/* --- progress (progress.c) --- */

extern void cli_progress_start (struct cli_progress *, const char *what,
                                uint64_t total);
extern void cli_progress_add (struct cli_progress *, uint64_t bytes);
extern void cli_progress_end (struct cli_progress *);

/* --- commands --- */

extern int cmd_clients (struct cli *);
extern int cmd_clone (struct cli *);
extern int cmd_clone_range (struct cli *);
extern int cmd_create (struct cli *);
extern int cmd_dedupe (struct cli *);
extern int cmd_diff (struct cli *);
extern int cmd_regroup (struct cli *);
extern int cmd_rollback (struct cli *);
extern int cmd_snapshot (struct cli *);
extern int cmd_snapshots (struct cli *);
extern int cmd_subvol (struct cli *);
extern int cmd_df (struct cli *);
extern int cmd_dump_tree (struct cli *);
extern int cmd_events (struct cli *);
extern int cmd_get (struct cli *);
extern int cmd_info (struct cli *);
extern int cmd_kick (struct cli *);
extern int cmd_ln (struct cli *);
extern int cmd_ls (struct cli *);
extern int cmd_mkdir (struct cli *);
extern int cmd_mkfs (struct cli *);
extern int cmd_mv (struct cli *);
extern int cmd_put (struct cli *);
extern int cmd_reload (struct cli *);
extern int cmd_resize (struct cli *);
extern int cmd_rm (struct cli *);
extern int cmd_stat (struct cli *);
extern int cmd_top (struct cli *);

#endif /* BTRNBD_CLI_H */
