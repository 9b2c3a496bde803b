libengine_la_SOURCES += \
	$(ENGINE)/log/blocks.c \
	$(ENGINE)/log/file.c \
	$(ENGINE)/log/log.h \
	$(ENGINE)/log/log_priv.h \
	$(ENGINE)/log/names.c \
	$(ENGINE)/log/replay.c \
	$(ENGINE)/log/replay.h \
	$(ENGINE)/log/replay_check.c \
	$(ENGINE)/log/replay_dirs.c \
	$(ENGINE)/log/replay_items.c \
	$(ENGINE)/log/replay_names.c \
	$(ENGINE)/log/replay_priv.h \
	$(ENGINE)/log/replay_walk.c \
	$(ENGINE)/log/sync.c
