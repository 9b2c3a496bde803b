# the nbdkit plugin
nbdkitplugindir = $(nbdkit_plugindir)
nbdkitplugin_LTLIBRARIES = plugins/btrfs/nbdkit-btrfs-plugin.la
plugins_btrfs_nbdkit_btrfs_plugin_la_SOURCES = \
	plugins/btrfs/config.c \
	plugins/btrfs/exports.c \
	plugins/btrfs/ext.c \
	plugins/btrfs/plugin.c \
	plugins/btrfs/plugin.h \
	plugins/btrfs/shutdown.c
plugins_btrfs_nbdkit_btrfs_plugin_la_CFLAGS = $(AM_CFLAGS) $(NBDKIT_CFLAGS)
plugins_btrfs_nbdkit_btrfs_plugin_la_LIBADD = libengine.la
# The nbdkit_ functions are the server's: they resolve when it loads us.
plugins_btrfs_nbdkit_btrfs_plugin_la_LDFLAGS = $(AM_LDFLAGS) \
	-module -avoid-version -shared \
	-export-symbols-regex '^(plugin_init|btrnbd_plugin_ext_init)$$'

man1_MANS += plugins/btrfs/nbdkit-btrfs-plugin.1
EXTRA_DIST += \
	plugins/btrfs/nbdkit-btrfs-plugin.pod \
	plugins/btrfs/nbdkit-btrfs-plugin.1
MAINTAINERCLEANFILES += plugins/btrfs/nbdkit-btrfs-plugin.1

plugins/btrfs/nbdkit-btrfs-plugin.1: plugins/btrfs/nbdkit-btrfs-plugin.pod
	$(AM_V_GEN)$(MKDIR_P) plugins/btrfs && \
	$(POD2MAN) -u --section=1 --name=nbdkit-btrfs-plugin \
	  --center="btrnbd" --release="btrnbd $(PACKAGE_VERSION)" $< $@
