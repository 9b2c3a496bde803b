/* cli: btrnbd, a pool on its disks from the command line.
 *
 * The options before the command are the same that every command accepts
 * after its name: devices and the form of the output.
 */
#include <config.h>

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "control/stdfds.h"

static const struct cli_command commands[] = {
  { "mkfs", "", 0, 0, "make a new pool", cmd_mkfs, CLI_DEVICES },
  { "create", "NAME", 1, 1, "create a volume", cmd_create },
  { "ls", "[NAME]", 0, 1, "list what can be exported, or a directory",
    cmd_ls },
  { "info", "", 0, 0, "tell what the pool is", cmd_info },
  { "df", "[NAME...]", 0, -1, "tell how its space is used", cmd_df },
  { "regroup", "NAME...", 1, -1,
    "give dead space back, put fragments together", cmd_regroup },
  { "rm", "NAME...", 1, -1, "remove volumes, files or empty directories",
    cmd_rm },
  { "snapshot", "NAME... TAG", 2, -1,
    "take read-only snapshots NAME@TAG of one point in time", cmd_snapshot },
  { "snapshots", "NAME", 1, 1, "list the snapshots of a volume",
    cmd_snapshots },
  { "clone", "FROM TO", 2, 2, "make a volume that is a copy of another, or "
    "of a snapshot", cmd_clone },
  { "rollback", "NAME TAG", 2, 2, "make a volume what its snapshot is",
    cmd_rollback },
  { "diff", "A B", 2, 2, "list the ranges where two exports differ",
    cmd_diff },
  { "clone-range", "FROM TO", 2, 2, "share a part of a file with another",
    cmd_clone_range },
  { "dedupe", "FROM TO", 2, 2, "share what is equal in two files",
    cmd_dedupe },
  { "subvol", "ACTION PATH [TO]", 2, 3,
    "snapshot, remove, lock, unlock a subvolume, or make it the default",
    cmd_subvol },
  { "resize", "NAME SIZE", 2, 2, "change the size of a volume or file",
    cmd_resize },
  { "mkdir", "PATH...", 1, -1, "create directories", cmd_mkdir },
  { "mv", "FROM TO", 2, 2, "rename a volume, file or directory", cmd_mv },
  { "ln", "TARGET PATH", 2, 2, "make a hard or symbolic link", cmd_ln },
  { "put", "FILE PATH", 2, 2, "copy a file into the pool", cmd_put },
  { "get", "PATH FILE", 2, 2, "copy out of the pool", cmd_get },
  { "dump-tree", "[TREE]", 0, 1, "print the items of one tree or of all",
    cmd_dump_tree },
  { "clients", "", 0, 0, "list the clients of a server",
    cmd_clients, CLI_SERVER },
  { "kick", "CLIENT...", 1, -1, "end connections of clients",
    cmd_kick, CLI_SERVER },
  { "stat", "", 0, 0, "print the counters of a server", cmd_stat,
    CLI_SERVER },
  { "top", "", 0, 0, "watch what the clients of a server do", cmd_top,
    CLI_SERVER },
  { "reload", "", 0, 0, "make a server read its configuration",
    cmd_reload, CLI_SERVER },
  { "events", "", 0, 0, "print what happens, as it happens",
    cmd_events, CLI_SERVER },
  { NULL }
};

static void
print_usage (void)
{
  printf ("usage: btrnbd -d DEVICE...|-s SOCKET [--json] COMMAND "
          "[ARGUMENT...]\n\nCommands:\n");
  for (const struct cli_command *c = commands; c->name; c++)
    printf ("  %-10s %-12s %s\n", c->name, c->args, c->summary);
  printf ("\nOptions:\n"
          "  -d, --device DEVICE  a device of the pool: a file, a block "
          "device or an NBD URI;\n"
          "                       repeat for each device\n"
          "  -s, --socket SOCKET  the control socket of a server: the same "
          "commands on a pool\n"
          "                       that is served\n"
          "  --json               print JSON\n"
          "  --super-copy N       recovery: open from superblock copy 1 or "
          "2\n"
          "  --version            print the version\n"
          "  --help               this text; after a command, that "
          "command's\n\n"
          "Sizes are in bytes and accept K, M, G and T (powers of 1024).\n"
          "Exit status: 0 done, 1 failed, 2 wrong usage.\n");
}

static const struct cli_command *
find_command (const char *name)
{
  for (const struct cli_command *c = commands; c->name; c++)
    if (strcmp (c->name, name) == 0)
      return c;
  return NULL;
}

static int
usage_error (void)
{
  fprintf (stderr, "Try 'btrnbd --help'.\n");
  return 2;
}

int
main (int argc, char *argv[])
{
  enum { OPT_JSON = 256, OPT_SUPER_COPY, OPT_VERSION, OPT_HELP };
  static const struct option long_opts[] = {
    { "device", required_argument, NULL, 'd' },
    { "socket", required_argument, NULL, 's' },
    { "json", no_argument, NULL, OPT_JSON },
    { "super-copy", required_argument, NULL, OPT_SUPER_COPY },
    { "version", no_argument, NULL, OPT_VERSION },
    { "help", no_argument, NULL, OPT_HELP },
    { NULL }
  };
  struct cli c = { .fd = -1 };
  static char name[] = "btrnbd";
  int opt;

  stdfds_keep ();
  if (argc > 0)
    argv[0] = name;             /* for getopt's messages */
  while ((opt = getopt_long (argc, argv, "+d:s:h", long_opts, NULL)) != -1)
    switch (opt) {
    case 'd':
      if (!cli_add_device (&c, optarg))
        return 2;
      break;
    case 's':
      c.socket = optarg;
      break;
    case OPT_JSON:
      c.json = true;
      break;
    case OPT_SUPER_COPY:
      if (!cli_set_super_copy (&c, optarg))
        return 2;
      break;
    case OPT_VERSION:
      printf ("btrnbd %s\n", PACKAGE_VERSION);
      return cli_finish_output (0);
    case 'h':
    case OPT_HELP:
      print_usage ();
      return cli_finish_output (0);
    default:
      return usage_error ();
    }

  if (optind == argc) {
    fprintf (stderr, "btrnbd: no command\n");
    return usage_error ();
  }
  c.command = find_command (argv[optind]);
  if (!c.command) {
    fprintf (stderr, "btrnbd: unknown command \"%s\"\n", argv[optind]);
    return usage_error ();
  }
  c.argc = argc - optind;
  c.argv = argv + optind;
  return c.command->run (&c);
}
