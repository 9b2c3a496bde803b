libengine_la_SOURCES += \
	$(ENGINE)/fs/chunk_source.c \
	$(ENGINE)/fs/chunk_source.h \
	$(ENGINE)/fs/commit.c \
	$(ENGINE)/fs/commit.h \
	$(ENGINE)/fs/commit_priv.h \
	$(ENGINE)/fs/commit_super.c \
	$(ENGINE)/fs/commit_thread.c \
	$(ENGINE)/fs/core.h \
	$(ENGINE)/fs/image.c \
	$(ENGINE)/fs/image.h \
	$(ENGINE)/fs/open.c \
	$(ENGINE)/fs/pending_log.c \
	$(ENGINE)/fs/memory.c \
	$(ENGINE)/fs/memory.h \
	$(ENGINE)/fs/prepare.c \
	$(ENGINE)/fs/prepare.h \
	$(ENGINE)/fs/regroup.c \
	$(ENGINE)/fs/regroup.h \
	$(ENGINE)/fs/regroup_scan.c \
	$(ENGINE)/fs/regroup_scan.h \
	$(ENGINE)/fs/root_ids.c \
	$(ENGINE)/fs/root_ids.h

# the public API
libengine_la_SOURCES += \
	$(ENGINE)/fs/api_clone.c \
	$(ENGINE)/fs/api_dump.c \
	$(ENGINE)/fs/api_dump.h \
	$(ENGINE)/fs/api_dump_items.c \
	$(ENGINE)/fs/api_exports.c \
	$(ENGINE)/fs/api_files.c \
	$(ENGINE)/fs/api_image.c \
	$(ENGINE)/fs/api_info.c \
	$(ENGINE)/fs/api_names.c \
	$(ENGINE)/fs/api_pool.c \
	$(ENGINE)/fs/api_priv.h \
	$(ENGINE)/fs/api_replace.c \
	$(ENGINE)/fs/api_snap_names.c \
	$(ENGINE)/fs/api_snapshots.c \
	$(ENGINE)/fs/api_space.c \
	$(ENGINE)/fs/api_volumes.c
