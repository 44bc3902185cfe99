/* Orders to a mount: what only the owner of a volume may do, asked for by setting an attribute of
 * the root. The answer is read from another. */
#include "mount/back.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ORDER_MAX = 512 };

int orders_take(struct mount *mount, struct request *request)
{
    char order[ORDER_MAX];
    struct err err = {0};

    str_clear(&mount->said);
    if (request->caller.uid != 0 && request->caller.uid != mount->uid) {
        return EPERM;
    }
    if (mount->read_only) {
        return EROFS;
    }
    if (request->size == 0 || request->size >= sizeof order) {
        return EINVAL;
    }
    memcpy(order, request->data, request->size);
    order[request->size] = '\0';
    enum err_code code = mount->dealer ? back_order(mount, request, &err)
                                       : volume_order(mount->volume, order, &mount->said, &err);
    enum err_code trouble = mount->dealer ? back_trouble(mount, NULL) : ERR_OK;
    if (mount->dealer && code == ERR_AGAIN && (trouble == ERR_OK || trouble == ERR_AGAIN)) {
        return EAGAIN; /* its answer will come */
    }
    if (code == ERR_OK) {
        return 0;
    }
    str_clear(&mount->said);
    str_add(&mount->said, err.text);
    return code == ERR_EXISTS      ? EEXIST
           : code == ERR_NOT_FOUND ? ENOENT
           : code == ERR_INVALID   ? EINVAL
                                   : EIO;
}
