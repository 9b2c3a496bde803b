/* btrnbd: the btrfs on-disk format, as structures and constants.
 *
 * Source of the facts: the format documentation of btrfs and the user-space
 * header that Linux publishes (linux/btrfs_tree.h).  Sizes and offsets are
 * asserted in format/ondisk_check.c.  All addresses, lengths and offsets are
 * in bytes unless a comment says otherwise.
 */
#ifndef BTRNBD_ONDISK_H
#define BTRNBD_ONDISK_H

#include <btrnbd/endian.h>

#define BTRFS_MAGIC UINT64_C (0x4D5F53665248425F) /* "_BHRfS_M" */
#define BTRFS_SUPER_SIZE 4096
#define BTRFS_SUPER_COPIES 3      /* at 64 KiB, 64 MiB, 256 GiB */
#define BTRFS_SYS_ARRAY_SIZE 2048
#define BTRFS_NUM_BACKUP_ROOTS 4
#define BTRFS_CSUM_FIELD 32
#define BTRFS_LABEL_SIZE 256
#define BTRFS_UUID_SIZE 16
#define BTRFS_STRIPE_LEN 65536
#define BTRFS_MAX_LEVEL 8         /* levels 0 .. 7 */
#define BTRFS_NODESIZE_MIN 4096
#define BTRFS_NODESIZE_MAX 65536
#define BTRFS_NAME_MAX 255
#define BTRFS_DEV_RESERVED (1024 * 1024) /* first bytes of every device */
#define BTRFS_MAX_EXTENT (128 * 1024 * 1024)
#define BTRFS_MAX_COMPRESSED (128 * 1024) /* plain bytes in one extent */

/* Tree ids and other well-known object ids. */
#define BTRFS_ROOT_TREE UINT64_C (1)
#define BTRFS_EXTENT_TREE UINT64_C (2)
#define BTRFS_CHUNK_TREE UINT64_C (3)
#define BTRFS_DEV_TREE UINT64_C (4)
#define BTRFS_FS_TREE UINT64_C (5)
#define BTRFS_ROOT_TREE_DIR UINT64_C (6)
#define BTRFS_CSUM_TREE UINT64_C (7)
#define BTRFS_QUOTA_TREE UINT64_C (8)
#define BTRFS_UUID_TREE UINT64_C (9)
#define BTRFS_FREE_SPACE_TREE UINT64_C (10)
#define BTRFS_BLOCK_GROUP_TREE UINT64_C (11)
#define BTRFS_RAID_STRIPE_TREE UINT64_C (12)
#define BTRFS_REMAP_TREE UINT64_C (13)
#define BTRFS_DEV_STATS_OBJECTID UINT64_C (0)
#define BTRFS_BALANCE_OBJECTID ((uint64_t) -4)
#define BTRFS_ORPHAN_OBJECTID ((uint64_t) -5)
#define BTRFS_TREE_LOG ((uint64_t) -6)
#define BTRFS_TREE_LOG_FIXUP ((uint64_t) -7)
#define BTRFS_TREE_RELOC ((uint64_t) -8)
#define BTRFS_DATA_RELOC_TREE ((uint64_t) -9)
#define BTRFS_EXTENT_CSUM_OBJECTID ((uint64_t) -10)
#define BTRFS_FREE_SPACE_OBJECTID ((uint64_t) -11)
#define BTRFS_FREE_INO_OBJECTID ((uint64_t) -12)
#define BTRFS_FIRST_FREE_OBJECTID UINT64_C (256)
#define BTRFS_LAST_FREE_OBJECTID ((uint64_t) -256)
#define BTRFS_FIRST_CHUNK_TREE_OBJECTID UINT64_C (256)
#define BTRFS_DEV_ITEMS_OBJECTID UINT64_C (1)

/* Key types. */
enum btrfs_key_type {
  BTRFS_INODE_ITEM = 1,
  BTRFS_INODE_REF = 12,
  BTRFS_INODE_EXTREF = 13,
  BTRFS_XATTR_ITEM = 24,
  BTRFS_VERITY_DESC_ITEM = 36,
  BTRFS_VERITY_MERKLE_ITEM = 37,
  BTRFS_ORPHAN_ITEM = 48,
  BTRFS_DIR_LOG_ITEM = 60,
  BTRFS_DIR_LOG_INDEX = 72,
  BTRFS_DIR_ITEM = 84,
  BTRFS_DIR_INDEX = 96,
  BTRFS_EXTENT_DATA = 108,
  BTRFS_EXTENT_CSUM = 128,
  BTRFS_ROOT_ITEM = 132,
  BTRFS_ROOT_BACKREF = 144,
  BTRFS_ROOT_REF = 156,
  BTRFS_EXTENT_ITEM = 168,
  BTRFS_METADATA_ITEM = 169,
  BTRFS_EXTENT_OWNER_REF = 172,
  BTRFS_TREE_BLOCK_REF = 176,
  BTRFS_EXTENT_DATA_REF = 178,
  BTRFS_SHARED_BLOCK_REF = 182,
  BTRFS_SHARED_DATA_REF = 184,
  BTRFS_BLOCK_GROUP_ITEM = 192,
  BTRFS_FREE_SPACE_INFO = 198,
  BTRFS_FREE_SPACE_EXTENT = 199,
  BTRFS_FREE_SPACE_BITMAP = 200,
  BTRFS_DEV_EXTENT = 204,
  BTRFS_DEV_ITEM = 216,
  BTRFS_CHUNK_ITEM = 228,
  BTRFS_RAID_STRIPE = 230,
  BTRFS_QGROUP_STATUS = 240,
  BTRFS_QGROUP_INFO = 242,
  BTRFS_QGROUP_LIMIT = 244,
  BTRFS_QGROUP_RELATION = 246,
  BTRFS_TEMPORARY_ITEM = 248,
  BTRFS_PERSISTENT_ITEM = 249,
  BTRFS_DEV_REPLACE = 250,
  BTRFS_UUID_SUBVOL = 251,
  BTRFS_UUID_RECEIVED_SUBVOL = 252,
  BTRFS_STRING_ITEM = 253,
};

/* Incompatible features: an unknown bit refuses the pool. */
#define BTRFS_INCOMPAT_MIXED_BACKREF (UINT64_C (1) << 0)
#define BTRFS_INCOMPAT_DEFAULT_SUBVOL (UINT64_C (1) << 1)
#define BTRFS_INCOMPAT_MIXED_GROUPS (UINT64_C (1) << 2)
#define BTRFS_INCOMPAT_COMPRESS_LZO (UINT64_C (1) << 3)
#define BTRFS_INCOMPAT_COMPRESS_ZSTD (UINT64_C (1) << 4)
#define BTRFS_INCOMPAT_BIG_METADATA (UINT64_C (1) << 5)
#define BTRFS_INCOMPAT_EXTENDED_IREF (UINT64_C (1) << 6)
#define BTRFS_INCOMPAT_RAID56 (UINT64_C (1) << 7)
#define BTRFS_INCOMPAT_SKINNY_METADATA (UINT64_C (1) << 8)
#define BTRFS_INCOMPAT_NO_HOLES (UINT64_C (1) << 9)
#define BTRFS_INCOMPAT_METADATA_UUID (UINT64_C (1) << 10)
#define BTRFS_INCOMPAT_RAID1C34 (UINT64_C (1) << 11)
#define BTRFS_INCOMPAT_ZONED (UINT64_C (1) << 12)
#define BTRFS_INCOMPAT_EXTENT_TREE_V2 (UINT64_C (1) << 13)
#define BTRFS_INCOMPAT_RAID_STRIPE_TREE (UINT64_C (1) << 14)
#define BTRFS_INCOMPAT_SIMPLE_QUOTA (UINT64_C (1) << 16)
#define BTRFS_INCOMPAT_REMAP_TREE (UINT64_C (1) << 17)

/* Features that are compatible for reading only. */
#define BTRFS_COMPAT_RO_FREE_SPACE_TREE (UINT64_C (1) << 0)
#define BTRFS_COMPAT_RO_FREE_SPACE_TREE_VALID (UINT64_C (1) << 1)
#define BTRFS_COMPAT_RO_VERITY (UINT64_C (1) << 2)
#define BTRFS_COMPAT_RO_BLOCK_GROUP_TREE (UINT64_C (1) << 3)

/* Superblock flags. */
#define BTRFS_SUPER_FLAG_WRITTEN (UINT64_C (1) << 0)
#define BTRFS_SUPER_FLAG_RELOC (UINT64_C (1) << 1)
#define BTRFS_SUPER_FLAG_ERROR (UINT64_C (1) << 2)
#define BTRFS_SUPER_FLAG_SEEDING (UINT64_C (1) << 32)
#define BTRFS_SUPER_FLAG_METADUMP (UINT64_C (1) << 33)
#define BTRFS_SUPER_FLAG_METADUMP_V2 (UINT64_C (1) << 34)
#define BTRFS_SUPER_FLAG_CHANGING_FSID (UINT64_C (1) << 35)
#define BTRFS_SUPER_FLAG_CHANGING_FSID_V2 (UINT64_C (1) << 36)
#define BTRFS_SUPER_FLAG_CHANGING_BG_TREE (UINT64_C (1) << 38)
#define BTRFS_SUPER_FLAG_CHANGING_DATA_CSUM (UINT64_C (1) << 39)
#define BTRFS_SUPER_FLAG_CHANGING_META_CSUM (UINT64_C (1) << 40)

/* Tree block header flags; the top byte is the back reference revision. */
#define BTRFS_HEADER_FLAG_WRITTEN (UINT64_C (1) << 0)
#define BTRFS_HEADER_FLAG_RELOC (UINT64_C (1) << 1)
#define BTRFS_HEADER_BACKREF_REV_SHIFT 56
#define BTRFS_MIXED_BACKREF_REV UINT64_C (1)

/* Block group and chunk types. */
#define BTRFS_BG_DATA (UINT64_C (1) << 0)
#define BTRFS_BG_SYSTEM (UINT64_C (1) << 1)
#define BTRFS_BG_METADATA (UINT64_C (1) << 2)
#define BTRFS_BG_RAID0 (UINT64_C (1) << 3)
#define BTRFS_BG_RAID1 (UINT64_C (1) << 4)
#define BTRFS_BG_DUP (UINT64_C (1) << 5)
#define BTRFS_BG_RAID10 (UINT64_C (1) << 6)
#define BTRFS_BG_RAID5 (UINT64_C (1) << 7)
#define BTRFS_BG_RAID6 (UINT64_C (1) << 8)
#define BTRFS_BG_RAID1C3 (UINT64_C (1) << 9)
#define BTRFS_BG_RAID1C4 (UINT64_C (1) << 10)
#define BTRFS_BG_TYPE_MASK                                      \
  (BTRFS_BG_DATA | BTRFS_BG_SYSTEM | BTRFS_BG_METADATA)
#define BTRFS_BG_PROFILE_MASK                                           \
  (BTRFS_BG_RAID0 | BTRFS_BG_RAID1 | BTRFS_BG_DUP | BTRFS_BG_RAID10 |   \
   BTRFS_BG_RAID5 | BTRFS_BG_RAID6 | BTRFS_BG_RAID1C3 | BTRFS_BG_RAID1C4)

/* Extent item flags. */
#define BTRFS_EXTENT_FLAG_DATA (UINT64_C (1) << 0)
#define BTRFS_EXTENT_FLAG_TREE_BLOCK (UINT64_C (1) << 1)
#define BTRFS_EXTENT_FLAG_FULL_BACKREF (UINT64_C (1) << 8)

/* File extent types and compression. */
enum btrfs_file_extent_type {
  BTRFS_FILE_EXTENT_INLINE = 0,
  BTRFS_FILE_EXTENT_REG = 1,
  BTRFS_FILE_EXTENT_PREALLOC = 2,
};
enum btrfs_compression {
  BTRFS_COMPRESS_NONE = 0,
  BTRFS_COMPRESS_ZLIB = 1,
  BTRFS_COMPRESS_LZO = 2,
  BTRFS_COMPRESS_ZSTD = 3,
};

/* Inode flags. */
#define BTRFS_INODE_NODATASUM (UINT64_C (1) << 0)
#define BTRFS_INODE_NODATACOW (UINT64_C (1) << 1)
#define BTRFS_INODE_READONLY (UINT64_C (1) << 2)
#define BTRFS_INODE_NOCOMPRESS (UINT64_C (1) << 3)
#define BTRFS_INODE_PREALLOC (UINT64_C (1) << 4)
#define BTRFS_INODE_SYNC (UINT64_C (1) << 5)
#define BTRFS_INODE_IMMUTABLE (UINT64_C (1) << 6)
#define BTRFS_INODE_APPEND (UINT64_C (1) << 7)
#define BTRFS_INODE_NODUMP (UINT64_C (1) << 8)
#define BTRFS_INODE_NOATIME (UINT64_C (1) << 9)
#define BTRFS_INODE_DIRSYNC (UINT64_C (1) << 10)
#define BTRFS_INODE_COMPRESS (UINT64_C (1) << 11)
#define BTRFS_INODE_ROOT_ITEM_INIT (UINT64_C (1) << 31)

/* Root item flags. */
#define BTRFS_ROOT_SUBVOL_RDONLY (UINT64_C (1) << 0)
#define BTRFS_ROOT_SUBVOL_DEAD (UINT64_C (1) << 48)

/* Directory entry types. */
enum btrfs_ft {
  BTRFS_FT_UNKNOWN = 0,
  BTRFS_FT_REG_FILE = 1,
  BTRFS_FT_DIR = 2,
  BTRFS_FT_CHRDEV = 3,
  BTRFS_FT_BLKDEV = 4,
  BTRFS_FT_FIFO = 5,
  BTRFS_FT_SOCK = 6,
  BTRFS_FT_SYMLINK = 7,
  BTRFS_FT_XATTR = 8,
  BTRFS_FT_MAX = 9,
};

/* Free space info flags; qgroup status flags. */
#define BTRFS_FREE_SPACE_USING_BITMAPS 1u
#define BTRFS_FREE_SPACE_BITMAP_BYTES 256 /* of the items that we write */
#define BTRFS_QGROUP_STATUS_ON (UINT64_C (1) << 0)
#define BTRFS_QGROUP_STATUS_RESCAN (UINT64_C (1) << 1)
#define BTRFS_QGROUP_STATUS_INCONSISTENT (UINT64_C (1) << 2)
#define BTRFS_QGROUP_STATUS_SIMPLE_MODE (UINT64_C (1) << 3)

struct btrfs_disk_key {
  le64 objectid;
  uint8_t type;
  le64 offset;
};

struct btrfs_header {             /* of every tree block, 101 bytes */
  uint8_t csum[BTRFS_CSUM_FIELD]; /* of the bytes after it */
  uint8_t fsid[BTRFS_UUID_SIZE];  /* metadata_uuid */
  le64 bytenr;                    /* logical address of this block */
  le64 flags;
  uint8_t chunk_tree_uuid[BTRFS_UUID_SIZE];
  le64 generation;
  le64 owner;                     /* tree id */
  le32 nritems;
  uint8_t level;
};

struct btrfs_item {               /* leaf: array after the header */
  struct btrfs_disk_key key;
  le32 offset;                    /* of the data, from the end of the header */
  le32 size;
};

struct btrfs_key_ptr {            /* node: array after the header */
  struct btrfs_disk_key key;      /* first key of the child */
  le64 blockptr;
  le64 generation;
};

struct btrfs_dev_item {           /* 98 bytes */
  le64 devid;
  le64 total_bytes;
  le64 bytes_used;
  le32 io_align;
  le32 io_width;
  le32 sector_size;
  le64 type;
  le64 generation;
  le64 start_offset;
  le32 dev_group;
  uint8_t seek_speed;
  uint8_t bandwidth;
  uint8_t uuid[BTRFS_UUID_SIZE];
  uint8_t fsid[BTRFS_UUID_SIZE];
};

struct btrfs_root_backup {        /* 168 bytes */
  le64 tree_root, tree_root_gen;
  le64 chunk_root, chunk_root_gen;
  le64 extent_root, extent_root_gen;
  le64 fs_root, fs_root_gen;
  le64 dev_root, dev_root_gen;
  le64 csum_root, csum_root_gen;
  le64 total_bytes, bytes_used, num_devices;
  le64 unused_64[4];
  uint8_t tree_root_level, chunk_root_level, extent_root_level;
  uint8_t fs_root_level, dev_root_level, csum_root_level;
  uint8_t unused_8[10];
};

struct btrfs_super {              /* 4096 bytes */
  uint8_t csum[BTRFS_CSUM_FIELD];
  uint8_t fsid[BTRFS_UUID_SIZE];
  le64 bytenr;                    /* physical address of this copy */
  le64 flags;
  le64 magic;
  le64 generation;
  le64 root;
  le64 chunk_root;
  le64 log_root;
  le64 unused_log_root_transid;
  le64 total_bytes;
  le64 bytes_used;
  le64 root_dir_objectid;
  le64 num_devices;
  le32 sectorsize;
  le32 nodesize;
  le32 unused_leafsize;           /* == nodesize */
  le32 stripesize;
  le32 sys_chunk_array_size;
  le64 chunk_root_generation;
  le64 compat_flags;
  le64 compat_ro_flags;
  le64 incompat_flags;
  le16 csum_type;
  uint8_t root_level;
  uint8_t chunk_root_level;
  uint8_t log_root_level;
  struct btrfs_dev_item dev_item;
  char label[BTRFS_LABEL_SIZE];
  le64 cache_generation;
  le64 uuid_tree_generation;
  uint8_t metadata_uuid[BTRFS_UUID_SIZE];
  le64 nr_global_roots;
  le64 remap_root;
  le64 remap_root_generation;
  uint8_t remap_root_level;
  uint8_t reserved[199];
  uint8_t sys_chunk_array[BTRFS_SYS_ARRAY_SIZE];
  struct btrfs_root_backup super_roots[BTRFS_NUM_BACKUP_ROOTS];
  uint8_t padding[565];
};

struct btrfs_stripe {
  le64 devid;
  le64 offset;                    /* physical */
  uint8_t dev_uuid[BTRFS_UUID_SIZE];
};

struct btrfs_chunk {              /* 48 bytes, then num_stripes stripes */
  le64 length;
  le64 owner;                     /* BTRFS_EXTENT_TREE */
  le64 stripe_len;
  le64 type;
  le32 io_align;
  le32 io_width;
  le32 sector_size;
  le16 num_stripes;
  le16 sub_stripes;
  struct btrfs_stripe stripes[];
};

struct btrfs_dev_extent {
  le64 chunk_tree;
  le64 chunk_objectid;
  le64 chunk_offset;
  le64 length;
  uint8_t chunk_tree_uuid[BTRFS_UUID_SIZE];
};

struct btrfs_block_group_item {
  le64 used;
  le64 chunk_objectid;
  le64 flags;
};

struct btrfs_free_space_info {
  le32 extent_count;
  le32 flags;
};

struct btrfs_timespec {
  le64 sec;                       /* signed */
  le32 nsec;
};

struct btrfs_inode_item {         /* 160 bytes */
  le64 generation;
  le64 transid;
  le64 size;
  le64 nbytes;
  le64 block_group;
  le32 nlink;
  le32 uid;
  le32 gid;
  le32 mode;
  le64 rdev;
  le64 flags;
  le64 sequence;
  le64 reserved[4];
  struct btrfs_timespec atime, ctime, mtime, otime;
};

struct btrfs_root_item {          /* 439 bytes, 239 in old filesystems */
  struct btrfs_inode_item inode;
  le64 generation;
  le64 root_dirid;
  le64 bytenr;
  le64 byte_limit;
  le64 bytes_used;
  le64 last_snapshot;
  le64 flags;
  le32 refs;
  struct btrfs_disk_key drop_progress;
  uint8_t drop_level;
  uint8_t level;
  le64 generation_v2;             /* == generation, or the rest is void */
  uint8_t uuid[BTRFS_UUID_SIZE];
  uint8_t parent_uuid[BTRFS_UUID_SIZE];
  uint8_t received_uuid[BTRFS_UUID_SIZE];
  le64 ctransid, otransid, stransid, rtransid;
  struct btrfs_timespec ctime, otime, stime, rtime;
  le64 reserved[8];
};
#define BTRFS_ROOT_ITEM_SIZE_V0 239

struct btrfs_root_ref {           /* name follows */
  le64 dirid;
  le64 sequence;
  le16 name_len;
};

struct btrfs_inode_ref {          /* name follows */
  le64 index;
  le16 name_len;
};

struct btrfs_inode_extref {       /* name follows */
  le64 parent;
  le64 index;
  le16 name_len;
};

struct btrfs_dir_item {           /* name, then data (xattr value) follow */
  struct btrfs_disk_key location;
  le64 transid;
  le16 data_len;
  le16 name_len;
  uint8_t type;
};

struct btrfs_file_extent {        /* 53 bytes; inline: 21, then the data */
  le64 generation;
  le64 ram_bytes;
  uint8_t compression;
  uint8_t encryption;
  le16 other_encoding;
  uint8_t type;
  le64 disk_bytenr;
  le64 disk_num_bytes;
  le64 offset;                    /* into the extent, plain bytes */
  le64 num_bytes;
};
#define BTRFS_FILE_EXTENT_INLINE_HEAD 21

struct btrfs_extent_item {
  le64 refs;
  le64 generation;
  le64 flags;
};

struct btrfs_tree_block_info {    /* follows, in EXTENT_ITEMs of tree blocks */
  struct btrfs_disk_key key;
  uint8_t level;
};

struct btrfs_extent_inline_ref {
  uint8_t type;
  le64 offset;                    /* or the structures below */
};

struct btrfs_extent_data_ref {
  le64 root;
  le64 objectid;
  le64 offset;
  le32 count;
};

struct btrfs_shared_data_ref {
  le32 count;
};

struct btrfs_qgroup_status {      /* 32 bytes, newer: + enable_gen */
  le64 version;
  le64 generation;
  le64 flags;
  le64 rescan;
};

/* DEV_REPLACE item of the device tree. */
struct btrfs_dev_replace {
  le64 src_devid;
  le64 cursor_left, cursor_right;
  le64 cont_reading_from_srcdev_mode;
  le64 state;       /* below */
  le64 time_started, time_stopped;
  le64 num_write_errors, num_uncorrectable_read_errors;
};
#define BTRFS_DEV_REPLACE_NEVER_STARTED 0
#define BTRFS_DEV_REPLACE_STARTED 1
#define BTRFS_DEV_REPLACE_FINISHED 2
#define BTRFS_DEV_REPLACE_CANCELED 3
#define BTRFS_DEV_REPLACE_SUSPENDED 4

struct btrfs_dev_stats {
  le64 values[5];   /* write, read, flush, corruption, generation errors */
};

#endif /* BTRNBD_ONDISK_H */
