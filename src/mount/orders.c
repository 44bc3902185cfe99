/* Orders to a mount: what only the owner of a volume may do, asked for by setting an attribute of
 * the root. The answer is read from another. */
#include "mount/back.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ORDER_MAX = 512 };

/* ERR_AGAIN: it is being carried out. */
static enum err_code carry_out(struct mount *mount, struct request *request, struct str *said,
                               struct err *err)
{
    char words[ORDER_MAX];
    enum err_code code = ERR_OK;
    if (mount->dealer) {
        code = back_order(mount, request, said, err);
        enum err_code trouble = code == ERR_AGAIN ? back_trouble(mount, NULL) : ERR_OK;
        return trouble == ERR_OK || trouble == ERR_AGAIN ? code : trouble;
    }
    if (request->order == NULL) {
        memcpy(words, request->data, request->size);
        words[request->size] = '\0';
        code = volume_order_begin(mount->volume, words, &request->order, err);
    }
    if (code == ERR_OK) {
        code = volume_order_go_on(request->order, said, err);
    }
    if (code != ERR_AGAIN) {
        volume_order_drop(request->order);
        request->order = NULL;
    }
    return code;
}

int orders_take(struct mount *mount, struct request *request)
{
    AUTO_STR struct str said = {0};
    struct err err = {0};

    if (request->caller.uid != 0 && request->caller.uid != mount->uid) {
        return EPERM;
    }
    if (mount->read_only) {
        return EROFS;
    }
    if (request->size == 0 || request->size >= ORDER_MAX) {
        return EINVAL;
    }
    enum err_code code = carry_out(mount, request, &said, &err);
    if (code == ERR_AGAIN) {
        return EAGAIN;
    }
    str_clear(&mount->said);
    str_add(&mount->said, code == ERR_OK ? str_text(&said) : err.text);
    return code == ERR_OK          ? 0
           : code == ERR_EXISTS    ? EEXIST
           : code == ERR_NOT_FOUND ? ENOENT
           : code == ERR_INVALID   ? EINVAL
                                   : EIO;
}
