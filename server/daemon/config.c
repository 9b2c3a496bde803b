/* daemon: the configuration file, see btrnbd.conf(5). */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/exports.h"
#include "daemon/fail.h"
#include "daemon/ini.h"
#include "daemon/options.h"

/* The first entry of the section with this key, before I; or NULL. */
static const struct ini_entry *
earlier (const struct ini_section *s, size_t i)
{
  size_t k;

  for (k = 0; k < i; ++k)
    if (strcmp (s->entries[k].key, s->entries[i].key) == 0)
      return &s->entries[k];
  return NULL;
}

static int
twice (const struct ini *ini, const struct ini_section *s, size_t i,
       char **ret_error)
{
  const struct ini_entry *first = earlier (s, i);

  return first == NULL ? 0
    : fail (ret_error, "%s:%u: %s is there twice, first in line %u",
            ini->path, s->entries[i].line, first->key, first->line);
}

static int
read_server (struct options *o, const struct ini *ini,
             const struct ini_section *s, char **ret_error)
{
  size_t i;

  if (s->named)
    return fail (ret_error, "%s:%u: [server] has no name", ini->path,
                 s->line);
  for (i = 0; i < s->count; ++i) {
    const struct ini_entry *e = &s->entries[i];
    const int index = setting_by_name (e->key);

    if (index == -1 || !setting_in_file (index))
      return fail (ret_error, "%s:%u: [server] has no setting \"%s\"",
                   ini->path, e->line, e->key);
    if (!setting_is_list (index) && twice (ini, s, i, ret_error) == -1)
      return -1;
    if (setting_set (o, index, e->value, ret_error) == -1)
      return fail_note (ret_error, "%s:%u: %s: ", ini->path, e->line,
                        e->key);
  }
  return 0;
}

/* Parameters go to the plugin, which is the judge of them. */
static int
add_params (struct options *o, const struct ini *ini,
            const struct ini_section *s, char **ret_error)
{
  char *text, *where;
  size_t i;
  int r = 0;

  for (i = 0; r == 0 && i < s->count; ++i) {
    const struct ini_entry *e = &s->entries[i];

    text = where = NULL;
    if (asprintf (&text, "%s=%s", e->key, e->value) == -1 ||
        asprintf (&where, "%s:%u: ", ini->path, e->line) == -1)
      r = fail (ret_error, "out of memory");
    else
      r = options_add_param (o, text, where, ret_error);
    free (text);
    free (where);
  }
  return r;
}

static int
read_pool (struct options *o, const struct ini *ini,
           const struct ini_section *s, char **ret_error)
{
  unsigned devices = 0;
  size_t i;

  if (*s->name == '\0')
    return fail (ret_error, "%s:%u: [pool NAME] needs a name", ini->path,
                 s->line);
  if (o->pool || o->plugin)
    return fail (ret_error, "%s:%u: one server has one pool or plugin; run "
                 "another btrnbdd for a second", ini->path, s->line);
  o->pool = options_strdup (o, s->name);
  if (o->pool == NULL)
    return fail (ret_error, "out of memory");
  for (i = 0; i < s->count; ++i)
    if (strcmp (s->entries[i].key, "device") == 0)
      devices++;
    else if (twice (ini, s, i, ret_error) == -1)
      return -1;
  if (devices == 0)
    return fail (ret_error, "%s:%u: [pool %s] needs device = PATH",
                 ini->path, s->line, s->name);
  return add_params (o, ini, s, ret_error);
}

static int
read_plugin (struct options *o, const struct ini *ini,
             const struct ini_section *s, char **ret_error)
{
  if (*s->name == '\0')
    return fail (ret_error, "%s:%u: [plugin NAME] needs a name or path",
                 ini->path, s->line);
  if (o->pool || o->plugin)
    return fail (ret_error, "%s:%u: one server has one pool or plugin; run "
                 "another btrnbdd for a second", ini->path, s->line);
  o->plugin = options_strdup (o, s->name);
  if (o->plugin == NULL)
    return fail (ret_error, "out of memory");
  return add_params (o, ini, s, ret_error);
}

static int
read_section (struct options *o, const struct ini *ini,
              const struct ini_section *s, char **ret_error)
{
  if (strcmp (s->kind, "server") == 0)
    return read_server (o, ini, s, ret_error);
  if (strcmp (s->kind, "pool") == 0)
    return read_pool (o, ini, s, ret_error);
  if (strcmp (s->kind, "plugin") == 0)
    return read_plugin (o, ini, s, ret_error);
  if (strcmp (s->kind, "export") == 0 && !s->named)
    return fail (ret_error, "%s:%u: [export NAME] needs a name, or *",
                 ini->path, s->line);
  if (strcmp (s->kind, "export") == 0)
    return rules_add (o->rules, s, ini->path, ret_error);
  return fail (ret_error, "%s:%u: [%s]: there are server, pool, plugin and "
               "export", ini->path, s->line, s->kind);
}

int
config_read (struct options *o, const char *path, char **ret_error)
{
  struct ini ini;
  size_t i;
  int r = 0;

  if (ini_read (&ini, path, ret_error) == -1)
    return -1;
  for (i = 0; r == 0 && i < ini.count; ++i)
    r = read_section (o, &ini, &ini.sections[i], ret_error);
  ini_done (&ini);
  return r;
}
