/* daemon: statistics as JSON. */
#ifndef BTRNBDD_DAEMON_STATS_JSON_H
#define BTRNBDD_DAEMON_STATS_JSON_H

#include <jansson.h>

#include "daemon/stats.h"

/* What host.stat answers; NULL: out of memory. */
extern json_t *stats_json (struct server *);
extern json_t *op_sum_json (const struct op_sum *);
/* STATS_OPS of them by name, ALL or those with requests. */
extern json_t *ops_json (const struct op_sum *, bool all);

#endif /* BTRNBDD_DAEMON_STATS_JSON_H */
