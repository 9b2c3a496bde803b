# btrnbd, the CLI.
bin_PROGRAMS += server/cli/btrnbd
server_cli_btrnbd_SOURCES = \
	server/cli/cli.h \
	server/cli/cmd_clients.c \
	server/cli/cmd_clone_range.c \
	server/cli/cmd_create.c \
	server/cli/cmd_df.c \
	server/cli/cmd_diff.c \
	server/cli/cmd_dump_tree.c \
	server/cli/cmd_events.c \
	server/cli/cmd_get.c \
	server/cli/cmd_info.c \
	server/cli/cmd_ln.c \
	server/cli/cmd_ls.c \
	server/cli/cmd_mkdir.c \
	server/cli/cmd_mkfs.c \
	server/cli/cmd_mv.c \
	server/cli/cmd_put.c \
	server/cli/cmd_regroup.c \
	server/cli/cmd_reload.c \
	server/cli/cmd_resize.c \
	server/cli/cmd_rm.c \
	server/cli/cmd_snapshot.c \
	server/cli/cmd_subvol.c \
	server/cli/cmd_stat.c \
	server/cli/cmd_top.c \
	server/cli/link.c \
	server/cli/main.c \
	server/cli/options.c \
	server/cli/output.c \
	server/cli/progress.c \
	server/cli/served.c
server_cli_btrnbd_CPPFLAGS = -I$(srcdir)/include -I$(srcdir)/plugins/btrfs \
	-D_GNU_SOURCE
server_cli_btrnbd_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
server_cli_btrnbd_LDADD = libmethods.la libcontrol.la libengine.la $(JANSSON_LIBS)

EXTRA_DIST += server/cli/btrnbd.pod
man1_MANS += server/cli/btrnbd.1
CLEANFILES += server/cli/btrnbd.1
server/cli/btrnbd.1: server/cli/btrnbd.pod
	$(AM_V_GEN)$(MKDIR_P) $(@D) && \
	$(POD2MAN) --section=1 --center="btrnbd" --name=BTRNBD \
	  --release="$(PACKAGE_VERSION)" --utf8 $< $@.tmp && mv $@.tmp $@
