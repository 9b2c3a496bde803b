/* host: the nbdkit plugin API as the host that implements it sees it.
 *
 * The functions are looked up by plugins in this program, so they must stay
 * visible although everything else here is hidden.
 */
#ifndef BTRNBDD_HOST_NBDKIT_H
#define BTRNBDD_HOST_NBDKIT_H

#define NBDKIT_API_VERSION 2
#pragma GCC visibility push(default)
#include <nbdkit-plugin.h>
#pragma GCC visibility pop

#endif /* BTRNBDD_HOST_NBDKIT_H */
