/* For user-mode Linux on CPUs whose register state is larger than it knows
 * (AMX): Linux 6.1's keeps the first 2.7 KB, and the host takes back nothing
 * but all of it, so the first process of the guest is killed.  Loaded with
 * LD_PRELOAD, this puts the rest beside what the guest's kernel hands over:
 * the state that the process has, which no guest program uses.  */
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

/* The system call; the ones that peek return through a pointer.  */
static long
kernel_ptrace (long request, pid_t pid, void *addr, void *data)
{
  long word;

  if (request != PTRACE_PEEKTEXT && request != PTRACE_PEEKDATA
      && request != PTRACE_PEEKUSER)
    return syscall (SYS_ptrace, request, pid, addr, data);
  if (syscall (SYS_ptrace, request, pid, addr, &word) == -1)
    return -1;
  errno = 0;
  return word;
}

__attribute__ ((visibility ("default"))) long
ptrace (enum __ptrace_request request, ...)
{
  static _Thread_local char state[64 << 10];
  struct iovec all = { state, sizeof state };
  struct iovec *known;
  void *addr, *data;
  va_list ap;
  pid_t pid;
  size_t n;

  va_start (ap, request);
  pid = va_arg (ap, pid_t);
  addr = va_arg (ap, void *);
  data = va_arg (ap, void *);
  va_end (ap);

  if ((request != PTRACE_GETREGSET && request != PTRACE_SETREGSET)
      || (long)addr != NT_X86_XSTATE)
    return kernel_ptrace (request, pid, addr, data);

  known = data;
  if (kernel_ptrace (PTRACE_GETREGSET, pid, addr, &all) == -1)
    return -1;
  n = known->iov_len < all.iov_len ? known->iov_len : all.iov_len;
  if (request == PTRACE_SETREGSET)
    {
      memcpy (state, known->iov_base, n);
      return kernel_ptrace (PTRACE_SETREGSET, pid, addr, &all);
    }
  memcpy (known->iov_base, state, n);
  known->iov_len = n;
  return 0;
}
