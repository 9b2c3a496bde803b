/* cli: btrnbd put: copy a file into the pool.
 *
 * An existing volume keeps its size (what is behind the end of FILE becomes a
 * hole); an existing file takes FILE's; a new file is created.  Holes of FILE
 * stay holes.  The copy is durable when the command ends with success; before
 * that, also when it is interrupted, what was there is there.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "control/rpc.h"

static int
open_source (const char *source)
{
  int fd = strcmp (source, "-") == 0 ? STDIN_FILENO
    : open (source, O_RDONLY | O_CLOEXEC);
  struct stat st;

  if (fd < 0 || fstat (fd, &st) < 0) {
    cli_error ("%s: %s", source, strerror (errno));
    return -1;
  }
  if (S_ISDIR (st.st_mode)) {
    cli_error ("%s: is a directory", source);
    return -1;
  }
  return fd;
}

/* FILE is in the pool, too. */
static int
reflink (struct cli *c, char **args)
{
  return cli_do (c, "file.reflink",
                 json_pack ("{s:o,s:o}", "from", rpc_string (args[0]), "to",
                            rpc_string (args[1])),
                 "%s -> %s", args[0], args[1]);
}

int
cmd_put (struct cli *c)
{
  bool nocow = false, share = false, in_place = false;
  const struct cli_opt opts[] = {
    { "reflink", 0, CLI_FLAG, &share, NULL,
      "FILE is in the pool; PATH shares its data" },
    { "nocow", 0, CLI_FLAG, &nocow, NULL,
      "a new file is overwritten in place, without checksums" },
    { "in-place", 0, CLI_FLAG, &in_place, NULL,
      "write into what is at PATH, also while it is open" },
    { NULL }
  };
  char **args = cli_parse (c, opts);
  int status, fd;

  if (!args)
    return c->status;
  if (share + nocow + in_place > 1)
    return cli_usage_error (c, "--reflink, --nocow and --in-place exclude "
                            "each other");
  if (share)
    return reflink (c, args);
  fd = open_source (args[0]);
  if (fd == -1)
    return 1;
  status = cli_connect (c, false);
  if (status)
    return status;
  c->progress_name = args[1];
  c->interruptible = true;
  if (cli_call_fd (c, "file.put",
                   json_pack ("{s:o,s:b,s:b}", "path", rpc_string (args[1]),
                              "nocow", nocow, "in_place", in_place), fd,
                   NULL) < 0)
    status = cli_call_failed (c, "%s", args[1]);
  return cli_disconnect (c, status);
}
