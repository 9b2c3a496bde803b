# The service: units, user, configuration, man pages.
CONF_FILES = \
	server/packaging/btrnbd.conf \
	server/packaging/btrnbd.service
EXTRA_DIST += $(CONF_FILES:=.in) \
	server/packaging/btrnbd.socket \
	server/packaging/btrnbd.sysusers
CLEANFILES += $(CONF_FILES)
noinst_DATA += $(CONF_FILES)

$(CONF_FILES): Makefile
	$(AM_V_GEN)$(MKDIR_P) $(@D) && \
	$(SED) -e 's,[@]bindir[@],$(bindir),g' \
	       -e 's,[@]sysconfdir[@],$(sysconfdir),g' \
	  $(srcdir)/$@.in >$@.tmp && mv $@.tmp $@
server/packaging/btrnbd.conf: server/packaging/btrnbd.conf.in
server/packaging/btrnbd.service: server/packaging/btrnbd.service.in

systemdsystemunit_DATA = \
	server/packaging/btrnbd.service \
	server/packaging/btrnbd.socket

confdir = $(sysconfdir)/btrnbd
sysusersdir = $(prefix)/lib/sysusers.d

# The administrator's configuration stays as it is.
install-data-local:
	$(MKDIR_P) "$(DESTDIR)$(confdir)" "$(DESTDIR)$(sysusersdir)"
	$(INSTALL_DATA) $(srcdir)/server/packaging/btrnbd.sysusers \
	  "$(DESTDIR)$(sysusersdir)/btrnbd.conf"
	test -e "$(DESTDIR)$(confdir)/btrnbd.conf" || \
	  $(INSTALL_DATA) server/packaging/btrnbd.conf \
	    "$(DESTDIR)$(confdir)/btrnbd.conf"

uninstall-local:
	rm -f "$(DESTDIR)$(sysusersdir)/btrnbd.conf"
	! cmp -s server/packaging/btrnbd.conf \
	  "$(DESTDIR)$(confdir)/btrnbd.conf" || \
	  rm -f "$(DESTDIR)$(confdir)/btrnbd.conf"

# btrnbdd(8), btrnbd.conf(5)
man8_MANS += server/daemon/btrnbdd.8
man5_MANS += server/daemon/btrnbd.conf.5
EXTRA_DIST += server/daemon/btrnbdd.pod server/daemon/btrnbd.conf.pod
CLEANFILES += server/daemon/btrnbdd.8 server/daemon/btrnbd.conf.5
# They tell where the configuration is installed.
server/daemon/btrnbdd.8: server/daemon/btrnbdd.pod Makefile
	$(AM_V_GEN)$(MKDIR_P) $(@D) && \
	$(SED) -e 's,/etc/btrnbd,$(sysconfdir)/btrnbd,g' $< | \
	$(POD2MAN) --section=8 --center="btrnbd" --name=BTRNBDD \
	  --date="`date -u -r $< +%Y-%m-%d`" \
	  --release="$(PACKAGE_VERSION)" --utf8 >$@.tmp && mv $@.tmp $@
server/daemon/btrnbd.conf.5: server/daemon/btrnbd.conf.pod Makefile
	$(AM_V_GEN)$(MKDIR_P) $(@D) && \
	$(SED) -e 's,/etc/btrnbd,$(sysconfdir)/btrnbd,g' $< | \
	$(POD2MAN) --section=5 --center="btrnbd" --name=BTRNBD.CONF \
	  --date="`date -u -r $< +%Y-%m-%d`" \
	  --release="$(PACKAGE_VERSION)" --utf8 >$@.tmp && mv $@.tmp $@
