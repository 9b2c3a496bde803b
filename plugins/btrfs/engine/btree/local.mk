libengine_la_SOURCES += \
	$(ENGINE)/btree/tree.h \
	$(ENGINE)/btree/tree_priv.h \
	$(ENGINE)/btree/balance.c \
	$(ENGINE)/btree/check.c \
	$(ENGINE)/btree/cow.c \
	$(ENGINE)/btree/cursor.c \
	$(ENGINE)/btree/delete.c \
	$(ENGINE)/btree/find.c \
	$(ENGINE)/btree/insert.c \
	$(ENGINE)/btree/item.c \
	$(ENGINE)/btree/leaf.c \
	$(ENGINE)/btree/node.c \
	$(ENGINE)/btree/split.c \
	$(ENGINE)/btree/tree.c
