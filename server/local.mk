# btrnbdd: the daemon.
bin_PROGRAMS += btrnbdd
btrnbdd_SOURCES = \
	include/btrnbd/plugin-ext.h \
	server/daemon/access.c \
	server/daemon/access.h \
	server/daemon/clients.c \
	server/daemon/clients.h \
	server/daemon/config.c \
	server/daemon/conn.c \
	server/daemon/conn.h \
	server/daemon/conn_hs.c \
	server/daemon/conn_tx.c \
	server/daemon/control.c \
	server/daemon/control.h \
	server/daemon/control_methods.c \
	server/daemon/exports.c \
	server/daemon/exports.h \
	server/daemon/fail.c \
	server/daemon/fail.h \
	server/daemon/greet.c \
	server/daemon/history.c \
	server/daemon/history.h \
	server/daemon/ini.c \
	server/daemon/ini.h \
	server/daemon/job.c \
	server/daemon/awake.c \
	server/daemon/awake.h \
	server/daemon/listen.c \
	server/daemon/loop.c \
	server/daemon/main.c \
	server/daemon/metrics.c \
	server/daemon/metrics.h \
	server/daemon/metrics_text.c \
	server/daemon/names.c \
	server/daemon/notify.c \
	server/daemon/notify.h \
	server/daemon/options.c \
	server/daemon/options.h \
	server/daemon/out.c \
	server/daemon/out.h \
	server/daemon/peers.c \
	server/daemon/peers.h \
	server/daemon/pool.c \
	server/daemon/page.c \
	server/daemon/pool.h \
	server/daemon/pool_watch.c \
	server/daemon/pool_watch.h \
	server/daemon/reload.c \
	server/daemon/reload.h \
	server/daemon/rules.c \
	server/daemon/server.c \
	server/daemon/server.h \
	server/daemon/settings.c \
	server/daemon/stats.c \
	server/daemon/stats.h \
	server/daemon/stats_json.c \
	server/daemon/stats_json.h \
	server/daemon/tcp_where.c \
	server/daemon/tcp_where.h \
	server/daemon/throttle.c \
	server/daemon/throttle.h \
	server/daemon/tls.c \
	server/daemon/tls.h \
	server/host/context.c \
	server/host/context.h \
	server/host/handle.c \
	server/host/lists.c \
	server/host/lists.h \
	server/host/log.c \
	server/host/log.h \
	server/host/nbdkit.h \
	server/host/parse.c \
	server/host/plugin.c \
	server/host/plugin.h \
	server/host/shutdown.c \
	server/host/symbols.c \
	server/nbd/buf.c \
	server/nbd/buf.h \
	server/nbd/handshake.c \
	server/nbd/handshake.h \
	server/nbd/proto.h \
	server/nbd/request.c \
	server/nbd/request.h
btrnbdd_CPPFLAGS = \
	-I$(srcdir)/include \
	-I$(srcdir)/server \
	-I$(srcdir)/plugins/btrfs \
	-D_GNU_SOURCE \
	-DPAGE_DIR='"$(srcdir)/server/daemon/page"' \
	-DPLUGINDIR='"$(nbdkit_plugindir)"' \
	-DNBDKIT_PLUGINDIR='"$(nbdkit_own_plugindir)"'
btrnbdd_CFLAGS = $(AM_CFLAGS) $(NBDKIT_CFLAGS) $(GNUTLS_CFLAGS) $(JANSSON_CFLAGS) \
	$(MICROHTTPD_CFLAGS)
# Plugins look the API up in the program.
btrnbdd_LDFLAGS = $(AM_LDFLAGS) -Wl,--export-dynamic-symbol='nbdkit_*'
btrnbdd_LDADD = libcontrol.la $(EV_LIBS) $(JANSSON_LIBS) $(MICROHTTPD_LIBS) $(GNUTLS_LIBS) $(JEMALLOC_LIBS) -ldl

# The status page; the assembler takes it in.
PAGE_FILES = \
	server/daemon/page/icon.svg \
	server/daemon/page/page.css \
	server/daemon/page/page.html \
	server/daemon/page/page.js
EXTRA_DIST += $(PAGE_FILES)
server/daemon/btrnbdd-page.$(OBJEXT): $(PAGE_FILES)
