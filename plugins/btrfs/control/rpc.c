/* control: JSON-RPC 2.0, one object per line. */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/rpc.h"

static int
check_request (struct rpc_request *r, const char **ret_error)
{
  json_t *doc = r->document, *params;
  const char *version = json_string_value (json_object_get (doc, "jsonrpc"));

  *ret_error = "a request is one JSON object";
  if (!json_is_object (doc))
    return RPC_INVALID_REQUEST;
  r->id = json_object_get (doc, "id");
  *ret_error = "the id is a string or a number";
  if (r->id && !json_is_string (r->id) && !json_is_number (r->id) &&
      !json_is_null (r->id)) {
    r->id = NULL;
    return RPC_INVALID_REQUEST;
  }
  *ret_error = "\"jsonrpc\" is not \"2.0\"";
  if (!version || strcmp (version, "2.0") != 0)
    return RPC_INVALID_REQUEST;
  *ret_error = "\"method\" is not a string";
  r->method = json_string_value (json_object_get (doc, "method"));
  if (!r->method)
    return RPC_INVALID_REQUEST;
  params = json_object_get (doc, "params");
  *ret_error = "parameters go by name, in an object";
  if (json_is_object (params))
    r->params = json_incref (params);
  else if (params == NULL || json_array_size (params) == 0)
    r->params = json_object ();
  else
    return RPC_INVALID_PARAMS;
  *ret_error = "out of memory";
  return r->params ? 0 : RPC_INTERNAL;
}

int
rpc_parse (const char *text, size_t len, struct rpc_request *ret,
           const char **ret_error)
{
  json_error_t why;

  memset (ret, 0, sizeof *ret);
  ret->document = json_loadb (text, len, JSON_REJECT_DUPLICATES |
                               JSON_DECODE_ANY, &why);
  if (ret->document == NULL) {
    *ret_error = "the line is not JSON";
    return RPC_PARSE_ERROR;
  }
  return check_request (ret, ret_error);
}

void
rpc_request_done (struct rpc_request *r)
{
  json_decref (r->params);
  json_decref (r->document);
  memset (r, 0, sizeof *r);
}

json_t *
rpc_string (const char *s)
{
  return json_stringn_nocheck (s, strlen (s));
}

json_t *
rpc_utf8 (const char *s)
{
  json_t *j = json_string (s);
  char *escaped, *out;

  if (j)
    return j;
  escaped = out = malloc (4 * strlen (s) + 1);
  if (!escaped)
    return NULL;
  for (; *s; s++)
    if ((unsigned char) *s < 0x80)
      *out++ = *s;
    else
      out += sprintf (out, "\\x%02x", (unsigned char) *s);
  *out = '\0';
  j = json_string (escaped);
  free (escaped);
  return j;
}

json_t *
rpc_sanitized (const json_t *v)
{
  json_t *copy, *item;
  const char *key;
  size_t i;

  if (json_is_string (v))
    return rpc_utf8 (json_string_value (v));
  if (json_is_array (v)) {
    copy = json_array ();
    json_array_foreach (v, i, item)
      json_array_append_new (copy, rpc_sanitized (item));
    return copy;
  }
  if (json_is_object (v)) {
    copy = json_object ();
    json_object_foreach ((json_t *) v, key, item)
      json_object_set_new (copy, key, rpc_sanitized (item));
    return copy;
  }
  return json_copy ((json_t *) v);
}

char *
rpc_text (const json_t *value)
{
  const size_t flags = JSON_COMPACT | JSON_ENCODE_ANY | JSON_PRESERVE_ORDER;
  char *text = json_dumps (value, flags);
  json_t *copy;

  if (text || value == NULL)
    return text;
  copy = rpc_sanitized (value);
  text = json_dumps (copy, flags);
  json_decref (copy);
  return text;
}

char *
rpc_error_text (int code, const char *message, json_t *data)
{
  json_t *error = json_pack ("{s:i,s:o}", "code", code, "message",
                             rpc_utf8 (message));
  char *text;

  if (data)
    json_object_set_new (error, "data", data);
  text = rpc_text (error);
  json_decref (error);
  return text;
}

char *
rpc_reply (const json_t *id, bool ok, const char *text)
{
  char *id_text = id ? rpc_text (id) : strdup ("null"), *line = NULL;

  if (id_text == NULL || text == NULL ||
      asprintf (&line, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"%s\":%s}\n", id_text,
                ok ? "result" : "error", text) < 0)
    line = NULL;
  free (id_text);
  return line;
}

char *
rpc_notification (const char *method, const char *params)
{
  char *line;

  if (asprintf (&line, "{\"jsonrpc\":\"2.0\",\"method\":\"%s\","
                "\"params\":%s}\n", method, params) < 0)
    return NULL;
  return line;
}

void
rpc_params_reason (const json_error_t *why, char *buf, size_t size)
{
  static const char left[] = "left unpacked: ";
  const char *names = strstr (why->text, left);

  if (names)
    snprintf (buf, size, "there is no %s", names + strlen (left));
  else
    snprintf (buf, size, "%s", why->text);
}
