/* control: standard descriptors. */
#include <config.h>

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "control/stdfds.h"

void
stdfds_keep (void)
{
  int fd;

  for (fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
    /* The lowest number that is free is this one. */
    if (fcntl (fd, F_GETFD) == -1 &&
        open ("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
      abort ();
}
