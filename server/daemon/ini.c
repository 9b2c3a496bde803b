/* daemon: reading a configuration file. */
#include <config.h>

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/fail.h"
#include "daemon/ini.h"

static int
read_text (struct ini *ini, char **ret_error)
{
  FILE *fp = fopen (ini->path, "re");
  size_t n;
  int bad;

  if (fp == NULL)
    return fail (ret_error, "%s: %s", ini->path, strerror (errno));
  ini->text = malloc (INI_FILE_MAX + 1);
  if (ini->text == NULL) {
    fclose (fp);
    return fail (ret_error, "out of memory");
  }
  n = fread (ini->text, 1, INI_FILE_MAX + 1, fp);
  bad = ferror (fp) ? errno ? errno : EIO : 0;
  fclose (fp);
  if (bad)
    return fail (ret_error, "%s: %s", ini->path, strerror (bad));
  if (n > INI_FILE_MAX)
    return fail (ret_error, "%s: larger than %u bytes", ini->path,
                 INI_FILE_MAX);
  ini->text[n] = '\0';
  if (strlen (ini->text) != n)
    return fail (ret_error, "%s: a NUL byte, this is not a text file",
                 ini->path);
  return 0;
}

/* Cut white space off both ends. */
static char *
trim (char *s)
{
  char *end;

  while (isspace ((unsigned char) *s))
    s++;
  end = s + strlen (s);
  while (end > s && isspace ((unsigned char) end[-1]))
    *--end = '\0';
  return s;
}

/* A value or name that is quoted as a whole loses its quotes. */
static char *
unquote (char *s)
{
  const size_t len = strlen (s);

  if (len < 2 || s[0] != '"' || strchr (s + 1, '"') != s + len - 1)
    return s;
  s[len - 1] = '\0';
  return s + 1;
}

static bool
control_character (const char *s)
{
  for (; *s; ++s)
    if ((unsigned char) *s < ' ' && *s != '\t')
      return true;
  return false;
}

/* Room for one more in an array that grows by doubling. */
static void *
grow (void *array, size_t count, size_t size)
{
  if (count & (count - 1))
    return array;
  return realloc (array, (count ? 2 * count : 1) * size);
}

static int
add_section (struct ini *ini, unsigned line, char *s, char **ret_error)
{
  struct ini_section x = { .line = line };
  size_t len = strlen (s), i;
  void *v;

  if (s[len - 1] != ']')
    return fail (ret_error, "%s:%u: a section must end with ]", ini->path,
                 line);
  s[len - 1] = '\0';
  s = trim (s + 1);
  x.kind = s;
  while (*s && !isspace ((unsigned char) *s))
    s++;
  x.name = s;
  if (*s) {
    *s++ = '\0';
    s = trim (s);
    /* [export ""] has a name, which is empty. */
    x.name = unquote (s);
    x.named = true;
  }
  for (i = 0; i < ini->count; ++i)
    if (strcmp (ini->sections[i].kind, x.kind) == 0 &&
        strcmp (ini->sections[i].name, x.name) == 0)
      return fail (ret_error, "%s:%u: section [%s%s%s] is there twice, first "
                   "in line %u", ini->path, line, x.kind,
                   *x.name ? " " : "", x.name, ini->sections[i].line);
  v = grow (ini->sections, ini->count, sizeof x);
  if (v == NULL)
    return fail (ret_error, "out of memory");
  ini->sections = v;
  ini->sections[ini->count++] = x;
  return 0;
}

static int
add_entry (struct ini *ini, unsigned line, char *s, char **ret_error)
{
  struct ini_section *x;
  struct ini_entry e = { .line = line };
  char *eq = strchr (s, '=');
  void *v;

  if (eq == NULL || eq == s)
    return fail (ret_error, "%s:%u: neither [section] nor key = value",
                 ini->path, line);
  *eq = '\0';
  e.key = trim (s);
  e.value = unquote (trim (eq + 1));
  if (ini->count == 0)
    return fail (ret_error, "%s:%u: %s stands before the first section",
                 ini->path, line, e.key);
  x = &ini->sections[ini->count - 1];
  v = grow (x->entries, x->count, sizeof e);
  if (v == NULL)
    return fail (ret_error, "out of memory");
  x->entries = v;
  x->entries[x->count++] = e;
  return 0;
}

static int
parse (struct ini *ini, char **ret_error)
{
  char *next = ini->text, *s;
  unsigned line = 0;
  int r = 0;

  while (r == 0 && next && *next) {
    s = next;
    next = strchr (s, '\n');
    if (next)
      *next++ = '\0';
    line++;
    s = trim (s);
    if (control_character (s))
      r = fail (ret_error, "%s:%u: a control character", ini->path, line);
    else if (*s == '[')
      r = add_section (ini, line, s, ret_error);
    else if (*s && *s != '#' && *s != ';')
      r = add_entry (ini, line, s, ret_error);
  }
  return r;
}

int
ini_read (struct ini *ret, const char *path, char **ret_error)
{
  *ret = (struct ini) { .path = strdup (path) };
  if (ret->path == NULL)
    return fail (ret_error, "out of memory");
  if (read_text (ret, ret_error) == -1 || parse (ret, ret_error) == -1) {
    ini_done (ret);
    return -1;
  }
  return 0;
}

void
ini_done (struct ini *ini)
{
  size_t i;

  for (i = 0; i < ini->count; ++i)
    free (ini->sections[i].entries);
  free (ini->sections);
  free (ini->text);
  free (ini->path);
  *ini = (struct ini) { .count = 0 };
}
