/* fs: printing tree blocks; for api_dump*.c only. */
#ifndef BTRNBD_FS_API_DUMP_H
#define BTRNBD_FS_API_DUMP_H

#include <stdio.h>

#include "format/check.h"

/* Lines for one item, indented by two tabs.  DATA has SIZE bytes and need not
 * make sense.
 */
extern void dump_item (const struct format_info *, struct key,
                       const void *data, uint32_t size, FILE *);

#endif /* BTRNBD_FS_API_DUMP_H */
