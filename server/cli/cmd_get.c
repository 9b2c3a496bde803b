/* cli: btrnbd get: copy a volume or file out of the pool.
 *
 * Holes become holes of a regular file, and zeroes of anything else.
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "control/rpc.h"

/* A disk that something else uses, such as a mount, is not written over. */
static int
open_existing (const char *target)
{
  struct stat st;
  int excl = stat (target, &st) == 0 && S_ISBLK (st.st_mode) ? O_EXCL : 0;

  return open (target, O_WRONLY | excl | O_CLOEXEC);
}

/* A file that is there is emptied when the source is known to be; one that
 * is made here is removed when that fails, so a wrong name leaves nothing.
 */
static int
open_target (const char *target, bool *ret_made)
{
  int fd;

  *ret_made = false;
  if (strcmp (target, "-") == 0)
    return STDOUT_FILENO;
  fd = open (target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  *ret_made = fd != -1;
  if (fd == -1 && errno == EEXIST)
    fd = open_existing (target);
  if (fd == -1)
    cli_error ("%s: %s", target, strerror (errno));
  return fd;
}

int
cmd_get (struct cli *c)
{
  const struct cli_opt opts[] = { { NULL } };
  char **args = cli_parse (c, opts);
  int status, fd;
  bool made;

  if (!args)
    return c->status;
  status = cli_connect (c, true);
  if (status)
    return status;
  fd = open_target (args[1], &made);
  if (fd == -1)
    return cli_disconnect (c, 1);
  c->progress_name = args[0];
  if (cli_call_fd (c, "file.get", json_pack ("{s:o}", "path",
                                             rpc_string (args[0])),
                   fd, NULL) < 0) {
    status = cli_call_failed (c, "%s", args[0]);
    if (made && c->error_code == RPC_FAILED)
      unlink (args[1]);
  }
  if (fd > STDERR_FILENO && close (fd) < 0 && status == 0)
    status = cli_error ("%s: %s", args[1], strerror (errno));
  return cli_disconnect (c, status);
}
