/* control: methods about the pool as a whole. */
#include <config.h>

#include "control/methods_priv.h"

static json_t *
image_json (const struct btrnbd_image_info *i)
{
  return json_pack ("{s:i,s:o,s:o,s:o,s:o}",
                    "clients", (int) i->clients,
                    "generation", control_u64 (i->generation),
                    "held", control_u64 (i->held),
                    "limit", control_u64 (i->limit),
                    "ended", i->ended[0] ? json_string (i->ended)
                    : json_null ());
}

/* Why nobody can write, or NULL.  That this process opened a pool that nobody
 * serves only to look at it says nothing of the pool.
 */
static const char *
why_read_only (const struct control_call *call,
               const struct btrnbd_pool_info *i)
{
  if (i->read_only_reason[0] != '\0')
    return i->read_only_reason;
  return i->read_only && !call->own_pool ? "as asked for" : NULL;
}

void
control_pool_info (struct control_call *call)
{
  struct btrnbd_pool_info i;
  const char *why;
  int r;

  if (!control_params (call, "{}"))
    return;
  r = btrnbd_pool_get_info (call->pool, &i);
  if (r < 0) {
    control_failed (call, r);
    return;
  }
  why = why_read_only (call, &i);
  call->result =
    json_pack ("{s:s,s:o,s:o,s:o,s:o,s:o,s:i,s:i,s:s,s:o,s:o,s:s,s:b,s:o,s:o}",
               "uuid", i.uuid,
               "label", rpc_string (i.label),
               "generation", control_u64 (i.generation),
               "total_bytes", control_u64 (i.total_bytes),
               "bytes_used", control_u64 (i.bytes_used),
               "num_devices", control_u64 (i.num_devices),
               "nodesize", (int) i.nodesize,
               "sectorsize", (int) i.sectorsize,
               "csum", i.csum,
               "incompat", control_u64 (i.incompat),
               "compat_ro", control_u64 (i.compat_ro),
               "features", i.features,
               "read_only", why != NULL,
               "read_only_reason", why ? rpc_string (why) : json_null (),
               "image", image_json (&i.image));
}

/* Who asks wants to know of now: what was accepted is used, though no tree
 * says so yet.
 */
static json_t *
space_json (const struct btrnbd_space *s)
{
  return json_pack ("{s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}",
                    "profile", s->profile,
                    "total", control_u64 (s->total),
                    "used", control_u64 (s->used + s->reserved + s->promised),
                    "reserved", control_u64 (s->reserved),
                    "promised", control_u64 (s->promised),
                    "pinned", control_u64 (s->pinned),
                    "held", control_u64 (s->held),
                    "may_use", control_u64 (s->may_use),
                    "readonly", control_u64 (s->readonly));
}

void
control_pool_df (struct control_call *call)
{
  struct btrnbd_pool_info i;
  int r;

  if (!control_params (call, "{}"))
    return;
  r = btrnbd_pool_get_info (call->pool, &i);
  if (r < 0) {
    control_failed (call, r);
    return;
  }
  call->result = json_pack ("{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}",
                            "total_bytes", control_u64 (i.total_bytes),
                            "bytes_used", control_u64 (i.bytes_used),
                            "free_estimate", control_u64 (i.free_estimate),
                            "writable", control_u64 (i.writable),
                            "unallocated", control_u64 (i.unallocated),
                            "global_reserve", control_u64 (i.global_reserve),
                            "data", space_json (&i.data),
                            "metadata", space_json (&i.metadata),
                            "system", space_json (&i.system),
                            "image", image_json (&i.image));
}

void
control_pool_stats (struct control_call *call)
{
  struct btrnbd_pool_stats s;

  if (!control_params (call, "{}"))
    return;
  btrnbd_pool_get_stats (call->pool, &s);
#define STAT(name) #name, control_u64 (s.name)
  call->result =
    json_pack ("{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,"
               "s:o,s:o,s:o,s:o}",
               STAT (commits), STAT (commit_ns_total), STAT (commit_ns_max),
               STAT (block_reads), STAT (block_hits),
               STAT (block_writes_bytes), STAT (blocks_repaired),
               STAT (data_cache_bytes), STAT (data_dirty_bytes),
               STAT (data_hits), STAT (data_misses), STAT (data_read_bytes),
               STAT (data_written_bytes), STAT (data_nocow_bytes),
               STAT (data_extent_searches), STAT (regroup_moved_bytes),
               STAT (regroup_failed), STAT (regroup_noted_bytes));
#undef STAT
}

void
control_pool_sync (struct control_call *call)
{
  if (control_params (call, "{}"))
    control_done (call, btrnbd_pool_sync (call->pool));
}

void
control_rpc_methods (struct control_call *call)
{
  if (control_params (call, "{}"))
    call->result = control_names ();
}
