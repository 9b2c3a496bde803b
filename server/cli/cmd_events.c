/* cli: btrnbd events: what happens, as it happens. */
#include <config.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli.h"

static void
print_value (const json_t *value)
{
  char *text;

  if (json_is_string (value)) {
    cli_print_name (json_string_value (value), 0);
    return;
  }
  text = json_dumps (value, JSON_ENCODE_ANY | JSON_COMPACT);
  fputs (text ? text : "?", stdout);
  free (text);
}

/* Time, type, and the parameters as KEY=VALUE. */
static void
print_event (json_t *event)
{
  const time_t when = json_real_value (json_object_get (event, "time"));
  json_t *params = json_object_get (event, "params"), *value;
  const char *key;
  char text[32] = "?";
  struct tm tm;

  if (localtime_r (&when, &tm))
    strftime (text, sizeof text, "%F %T", &tm);
  printf ("%s %s", text, cli_json_text (event, "type"));
  json_object_foreach (params, key, value) {
    printf (" %s=", key);
    print_value (value);
  }
  putchar ('\n');
}

static void
print_line (json_t *event)
{
  char *text = json_dumps (event, JSON_COMPACT | JSON_PRESERVE_ORDER);

  puts (text ? text : "{}");
  free (text);
}

int
cmd_events (struct cli *c)
{
  uint32_t count = 0;
  const struct cli_opt opts[] = {
    { "count", 'n', CLI_U32, &count, "N", "end after N events" },
    { NULL }
  };
  json_t *event;
  bool draining = false;
  uint64_t n = 0;
  int status;

  if (!cli_parse (c, opts))
    return c->status;
  status = cli_connect (c, true);
  if (status)
    return status;
  if (cli_call (c, "events.subscribe", NULL, NULL) < 0)
    status = cli_call_failed (c, "%s", cli_pool_name (c));
  while (status == 0 && (count == 0 || n++ < count)) {
    event = cli_next_event (c);
    if (event == NULL) {
      if (!draining || count > 0)
        status = cli_error ("%s: the server has ended", cli_pool_name (c));
      break;
    }
    draining |= strcmp (cli_json_text (event, "type"), "server.draining") == 0;
    if (c->json)
      print_line (event);
    else
      print_event (event);
    json_decref (event);
    if (fflush (stdout) != 0)
      break;
  }
  return cli_disconnect (c, status);
}
