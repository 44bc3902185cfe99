/* shown.h - a volume that does not change, shown by the kernel itself.
 *
 * The folder is an EROFS file system made of an image of the volume (image.h) and, for contents, of
 * one file, which is all that FUSE serves: reading a file that the kernel has read before, looking
 * at names, opening and closing never reach this process. Neither the image nor that file has a
 * name anywhere, so whatever ends the mount or this process, nothing is left: the last of EROFS to
 * go takes the FUSE session with it, and without the session reading fails.
 *
 * Only root can have it, with Linux 6.13 or newer, about.
 *
 * The root's extended attribute user.drover.socket names a socket on which the mount says of itself
 * what user.drover.stats does elsewhere.
 *
 * Private to src/mount.
 */
#ifndef MOUNT_SHOWN_H
#define MOUNT_SHOWN_H

#include "mount/request.h"

/* Makes the image and all that needs no answer from us. It becomes mount->shown, with mount->image.
 * ERR_UNSUPPORTED: this machine cannot do it; else it could not be done here and now. */
MUST_USE enum err_code shown_open(struct mount *mount, const struct mount_options *options,
                                  struct err *err);
/* The FUSE session's device, which is the session's from now on. */
int shown_take_device(struct shown *shown);
/* The session can serve, with that device: another process mounts. */
void shown_begin(struct shown *shown, int device);

enum { SHOWN_FDS = 2 };
void shown_fds(const struct shown *shown, int out[SHOWN_FDS]); /* what to wait for */
/* Something may have come. True: it has just been mounted. */
bool shown_turn(struct mount *mount);
/* It could not be mounted; ERR_OK: not so. */
enum err_code shown_trouble(const struct shown *shown, struct err *err);

/* Unmounts it, if nobody has. The session's device must be closed: what still waits for an answer
 * would never let us go. */
void shown_close(struct mount *mount);

#endif
