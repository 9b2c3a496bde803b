/* control: JSON-RPC 2.0, one object per line.
 *
 * Texts are UTF-8 JSON without a newline; a line is a text with one.  Strings
 * in memory may hold bytes that are not UTF-8 (names of files may); in a text
 * these become \xNN.
 */
#ifndef BTRNBD_CONTROL_RPC_H
#define BTRNBD_CONTROL_RPC_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

enum rpc_code {
  RPC_PARSE_ERROR = -32700,
  RPC_INVALID_REQUEST = -32600,
  RPC_METHOD_NOT_FOUND = -32601,
  RPC_INVALID_PARAMS = -32602,
  RPC_INTERNAL = -32603,
  RPC_FAILED = -32000,         /* the method: data has the engine's code */
  RPC_BUSY = -32001,           /* a bound of the socket: try again */
};

struct rpc_request {
  json_t *document;            /* owned; the others point into it */
  const char *method;
  json_t *params;              /* an object, owned */
  json_t *id;                  /* NULL: a notification, no answer is wanted */
};

/* 0, or an rpc_code with *ret_error a static reason; what could be parsed is
 * in RET, to be released either way.
 */
extern int rpc_parse (const char *text, size_t len, struct rpc_request *ret,
                      const char **ret_error);
extern void rpc_request_done (struct rpc_request *);

/* The functions below return malloc'd strings, NULL when out of memory. */

extern char *rpc_text (const json_t *value);
/* An error object; DATA is consumed and may be NULL. */
extern char *rpc_error_text (int code, const char *message, json_t *data);
/* The line that answers ID (NULL: null) with a result or error text. */
extern char *rpc_reply (const json_t *id, bool ok, const char *text);
/* The line of a notification. */
extern char *rpc_notification (const char *method, const char *params);

/* A JSON string of any bytes. */
extern json_t *rpc_string (const char *s);
/* As it is when S is UTF-8, else with \xNN. */
extern json_t *rpc_utf8 (const char *s);
/* A copy of what a method has built, in which all strings are UTF-8. */
extern json_t *rpc_sanitized (const json_t *);

/* What is wrong with parameters that json_unpack_ex has refused. */
extern void rpc_params_reason (const json_error_t *, char *buf, size_t size);

#endif /* BTRNBD_CONTROL_RPC_H */
