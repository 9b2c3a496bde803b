/* format: the sizes and offsets of on-disk structures, at compile time. */
#include <config.h>

#include <stddef.h>

#include <btrnbd/ondisk.h>

#define SIZE(type, n)                                                   \
  _Static_assert (sizeof (struct type) == (n), "size of " #type)
#define AT(type, field, n)                                              \
  _Static_assert (offsetof (struct type, field) == (n),                 \
                  "offset of " #type "." #field)

SIZE (btrfs_disk_key, 17);
SIZE (btrfs_header, 101);
AT (btrfs_header, fsid, 32);
AT (btrfs_header, bytenr, 48);
AT (btrfs_header, flags, 56);
AT (btrfs_header, chunk_tree_uuid, 64);
AT (btrfs_header, generation, 80);
AT (btrfs_header, owner, 88);
AT (btrfs_header, nritems, 96);
AT (btrfs_header, level, 100);
SIZE (btrfs_item, 25);
SIZE (btrfs_key_ptr, 33);
SIZE (btrfs_dev_item, 98);
AT (btrfs_dev_item, uuid, 66);
AT (btrfs_dev_item, fsid, 82);
SIZE (btrfs_root_backup, 168);
AT (btrfs_root_backup, tree_root_level, 152);

SIZE (btrfs_super, 4096);
AT (btrfs_super, fsid, 32);
AT (btrfs_super, bytenr, 48);
AT (btrfs_super, flags, 56);
AT (btrfs_super, magic, 64);
AT (btrfs_super, generation, 72);
AT (btrfs_super, root, 80);
AT (btrfs_super, chunk_root, 88);
AT (btrfs_super, log_root, 96);
AT (btrfs_super, total_bytes, 112);
AT (btrfs_super, bytes_used, 120);
AT (btrfs_super, root_dir_objectid, 128);
AT (btrfs_super, num_devices, 136);
AT (btrfs_super, sectorsize, 144);
AT (btrfs_super, nodesize, 148);
AT (btrfs_super, stripesize, 156);
AT (btrfs_super, sys_chunk_array_size, 160);
AT (btrfs_super, chunk_root_generation, 164);
AT (btrfs_super, compat_flags, 172);
AT (btrfs_super, compat_ro_flags, 180);
AT (btrfs_super, incompat_flags, 188);
AT (btrfs_super, csum_type, 196);
AT (btrfs_super, root_level, 198);
AT (btrfs_super, dev_item, 201);
AT (btrfs_super, label, 299);
AT (btrfs_super, cache_generation, 555);
AT (btrfs_super, uuid_tree_generation, 563);
AT (btrfs_super, metadata_uuid, 571);
AT (btrfs_super, nr_global_roots, 587);
AT (btrfs_super, remap_root, 595);
AT (btrfs_super, sys_chunk_array, 811);
AT (btrfs_super, super_roots, 2859);
AT (btrfs_super, padding, 3531);

SIZE (btrfs_stripe, 32);
SIZE (btrfs_chunk, 48);
AT (btrfs_chunk, stripes, 48);
SIZE (btrfs_dev_extent, 48);
SIZE (btrfs_block_group_item, 24);
SIZE (btrfs_free_space_info, 8);
SIZE (btrfs_timespec, 12);
SIZE (btrfs_inode_item, 160);
AT (btrfs_inode_item, nlink, 40);
AT (btrfs_inode_item, mode, 52);
AT (btrfs_inode_item, flags, 64);
AT (btrfs_inode_item, atime, 112);
SIZE (btrfs_root_item, 439);
AT (btrfs_root_item, bytenr, 176);
AT (btrfs_root_item, flags, 208);
AT (btrfs_root_item, refs, 216);
AT (btrfs_root_item, drop_progress, 220);
AT (btrfs_root_item, level, 238);
AT (btrfs_root_item, generation_v2, BTRFS_ROOT_ITEM_SIZE_V0);
AT (btrfs_root_item, uuid, 247);
AT (btrfs_root_item, ctransid, 295);
AT (btrfs_root_item, ctime, 327);
SIZE (btrfs_root_ref, 18);
SIZE (btrfs_inode_ref, 10);
SIZE (btrfs_inode_extref, 18);
SIZE (btrfs_dir_item, 30);
SIZE (btrfs_file_extent, 53);
AT (btrfs_file_extent, disk_bytenr, BTRFS_FILE_EXTENT_INLINE_HEAD);
SIZE (btrfs_extent_item, 24);
SIZE (btrfs_tree_block_info, 18);
SIZE (btrfs_extent_inline_ref, 9);
SIZE (btrfs_extent_data_ref, 28);
SIZE (btrfs_shared_data_ref, 4);
SIZE (btrfs_qgroup_status, 32);
SIZE (btrfs_dev_replace, 72);
SIZE (btrfs_dev_stats, 40);

/* ISO C wants a declaration here. */
typedef int ondisk_check_is_not_empty;
