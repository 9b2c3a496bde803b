/* control: for main () of programs that open disks and sockets. */
#ifndef BTRNBD_CONTROL_STDFDS_H
#define BTRNBD_CONTROL_STDFDS_H

/* Descriptors 0 to 2 that are closed become ones on which every read or write
 * fails.  Otherwise the next open file gets the number, be it a disk or a
 * client's socket, and messages go into it.  First thing in main ().
 */
extern void stdfds_keep (void);

#endif /* BTRNBD_CONTROL_STDFDS_H */
