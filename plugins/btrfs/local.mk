# The control protocol: the socket, and the pool's methods over the engine's
# API.  The plugin has both, btrnbdd the socket, the CLI the methods.
noinst_LTLIBRARIES += libcontrol.la libmethods.la
libcontrol_la_SOURCES = \
	plugins/btrfs/control/client.c \
	plugins/btrfs/control/listen.c \
	plugins/btrfs/control/rpc.c \
	plugins/btrfs/control/rpc.h \
	plugins/btrfs/control/server.c \
	plugins/btrfs/control/server.h \
	plugins/btrfs/control/server_priv.h \
	plugins/btrfs/control/stdfds.c \
	plugins/btrfs/control/stdfds.h
libcontrol_la_CPPFLAGS = -I$(srcdir)/include -I$(srcdir)/plugins/btrfs \
	-D_GNU_SOURCE
libcontrol_la_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
libcontrol_la_LIBADD = $(EV_LIBS) $(JANSSON_LIBS)
libmethods_la_SOURCES = \
	plugins/btrfs/control/methods.c \
	plugins/btrfs/control/methods.h \
	plugins/btrfs/control/methods_copy.c \
	plugins/btrfs/control/methods_files.c \
	plugins/btrfs/control/methods_names.c \
	plugins/btrfs/control/methods_pool.c \
	plugins/btrfs/control/methods_priv.h \
	plugins/btrfs/control/methods_snapshots.c \
	plugins/btrfs/control/methods_space.c \
	plugins/btrfs/control/stream.c \
	plugins/btrfs/control/stream.h
libmethods_la_CPPFLAGS = $(libcontrol_la_CPPFLAGS)
libmethods_la_CFLAGS = $(libcontrol_la_CFLAGS)
libmethods_la_LIBADD = $(JANSSON_LIBS)

# the nbdkit plugin
nbdkitplugindir = $(nbdkit_plugindir)
nbdkitplugin_LTLIBRARIES = plugins/btrfs/nbdkit-btrfs-plugin.la
plugins_btrfs_nbdkit_btrfs_plugin_la_SOURCES = \
	plugins/btrfs/config.c \
	plugins/btrfs/exports.c \
	plugins/btrfs/ext.c \
	plugins/btrfs/plugin.c \
	plugins/btrfs/plugin.h \
	plugins/btrfs/shutdown.c \
	plugins/btrfs/socket.c
plugins_btrfs_nbdkit_btrfs_plugin_la_CPPFLAGS = $(AM_CPPFLAGS) \
	-I$(srcdir)/plugins/btrfs
plugins_btrfs_nbdkit_btrfs_plugin_la_CFLAGS = $(AM_CFLAGS) $(NBDKIT_CFLAGS) \
	$(JANSSON_CFLAGS)
plugins_btrfs_nbdkit_btrfs_plugin_la_LIBADD = libmethods.la libcontrol.la \
	libengine.la
# The nbdkit_ functions are the server's: they resolve when it loads us.
plugins_btrfs_nbdkit_btrfs_plugin_la_LDFLAGS = $(AM_LDFLAGS) \
	-module -avoid-version -shared \
	-export-symbols-regex '^(plugin_init|btrnbd_plugin_ext_init|btrfs_debug_nocow)$$'

man7_MANS += plugins/btrfs/control/btrnbd-control.7
EXTRA_DIST += plugins/btrfs/control/btrnbd-control.pod
CLEANFILES += plugins/btrfs/control/btrnbd-control.7
plugins/btrfs/control/btrnbd-control.7: \
		plugins/btrfs/control/btrnbd-control.pod
	$(AM_V_GEN)$(MKDIR_P) $(@D) && \
	$(POD2MAN) --section=7 --center="btrnbd" --name=BTRNBD-CONTROL \
	  --release="$(PACKAGE_VERSION)" --utf8 $< $@.tmp && mv $@.tmp $@

man1_MANS += plugins/btrfs/nbdkit-btrfs-plugin.1
EXTRA_DIST += \
	plugins/btrfs/nbdkit-btrfs-plugin.pod \
	plugins/btrfs/nbdkit-btrfs-plugin.1
MAINTAINERCLEANFILES += plugins/btrfs/nbdkit-btrfs-plugin.1

plugins/btrfs/nbdkit-btrfs-plugin.1: plugins/btrfs/nbdkit-btrfs-plugin.pod
	$(AM_V_GEN)$(MKDIR_P) plugins/btrfs && \
	$(POD2MAN) -u --section=1 --name=nbdkit-btrfs-plugin \
	  --center="btrnbd" --release="btrnbd $(PACKAGE_VERSION)" $< $@
