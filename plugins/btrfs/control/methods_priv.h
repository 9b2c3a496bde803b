/* control: what the files of methods share. */
#ifndef BTRNBD_CONTROL_METHODS_PRIV_H
#define BTRNBD_CONTROL_METHODS_PRIV_H

#include <stdlib.h>
#include <string.h>

#include "control/methods.h"
#include "control/rpc.h"

/* Parameters by jansson's json_unpack format, "{s:s,s?b}"; unknown ones are
 * refused.  False: the call has failed, return.
 */
extern bool control_params (struct control_call *, const char *fmt, ...);
/* The method fails with the engine's error R. */
extern void control_failed (struct control_call *, int r);
/* The method fails for a reason of its own. */
extern void control_refused (struct control_call *, int rpc_code,
                             const char *fmt, ...)
  __attribute__ ((format (printf, 3, 4)));
/* 0, or the engine's error R of a call without a result. */
extern void control_done (struct control_call *, int r);
/* The same, with the size that NAME has got: whole sectors. */
extern void control_size_done (struct control_call *, int r,
                               const char *name);

/* What NAME has behind SIZE is cut off only when SHRINK. */
extern void control_resize (struct control_call *, const char *name,
                            json_int_t size, bool shrink);

/* Integers of JSON have 63 bits; what is larger is told as that. */
static inline json_t *
control_u64 (uint64_t n)
{
  return json_integer (n > INT64_MAX ? INT64_MAX : (json_int_t) n);
}

/* A list of which a part is asked for: entries from SKIP on, MAX at most. */
struct control_page {
  json_int_t skip, max;
  json_t *array;
};
#define CONTROL_PAGE_MAX 5000
extern bool control_page_start (struct control_call *,
                                struct control_page *);
/* Is the next entry wanted?  *RET_END: none that follows is. */
extern bool control_page_wants (struct control_page *, bool *ret_end);
/* The list is the answer, unless the walk over it failed: R, where
 * -BTRNBD_ERR_BASE says that it was ended.
 */
extern void control_page_end (struct control_call *, struct control_page *,
                              int r);

/* methods_pool.c */
extern void control_pool_info (struct control_call *);
extern void control_pool_df (struct control_call *);
extern void control_pool_stats (struct control_call *);
extern void control_pool_sync (struct control_call *);
extern void control_rpc_methods (struct control_call *);
/* methods_space.c */
extern void control_pool_usage (struct control_call *);
extern void control_export_usage (struct control_call *);
extern void control_export_regroup (struct control_call *);
/* methods_names.c */
extern void control_export_list (struct control_call *);
extern void control_volume_create (struct control_call *);
extern void control_volume_remove (struct control_call *);
extern void control_volume_resize (struct control_call *);
extern void control_volume_rename (struct control_call *);
/* methods_snapshots.c */
extern void control_export_diff (struct control_call *);
extern void control_file_clone_range (struct control_call *);
extern void control_file_dedupe (struct control_call *);
extern void control_file_reflink (struct control_call *);
extern void control_subvol_remove (struct control_call *);
extern void control_subvol_set_default (struct control_call *);
extern void control_subvol_set_read_only (struct control_call *);
extern void control_subvol_snapshot (struct control_call *);
extern void control_volume_clone (struct control_call *);
extern void control_volume_rollback (struct control_call *);
extern void control_volume_snapshot (struct control_call *);
extern void control_volume_snapshots (struct control_call *);
/* Is the subvolume at PATH one, with a name that an export may have? */
extern bool control_is_volume (struct btrnbd_pool *, const char *path);
/* The volume, with ALL of its snapshots, or other subvolume at PATH. */
extern int control_remove_subvol (struct btrnbd_pool *, const char *path,
                                  bool all);
/* methods_files.c */
extern void control_file_list (struct control_call *);
extern void control_file_link (struct control_call *);
extern void control_file_mkdir (struct control_call *);
extern void control_file_remove (struct control_call *);
extern void control_file_rename (struct control_call *);
extern void control_file_resize (struct control_call *);
extern void control_file_stat (struct control_call *);
/* methods_copy.c */
extern void control_file_get (struct control_call *);
extern void control_file_put (struct control_call *);
extern void control_pool_dump_tree (struct control_call *);

#endif /* BTRNBD_CONTROL_METHODS_PRIV_H */
