/* Renaming: all of POSIX's cases, and Linux's two flags. */
#include "volume/engine_internal.h"

#include <errno.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/stat.h>

enum { DEPTH_MAX = 1 << 20 }; /* of folders; only damaged metadata is deeper */

struct rename_plan {
    const struct engine_rename *rename;
    const struct engine_caller *caller;
    struct engine_node *from, *to;
    uint64_t source_inode, target_inode; /* target 0: there is none */
    uint32_t source_type, target_type;
    bool is_exchange;
};

/* Is `folder` this ancestor or somewhere below it? */
static enum err_code lies_within(struct engine *engine, uint64_t folder, uint64_t ancestor,
                                 bool *within, struct err *err)
{
    for (int depth = 0; depth < DEPTH_MAX; depth++) {
        *within = folder == ancestor;
        if (*within || folder == ENGINE_ROOT) {
            return ERR_OK;
        }
        struct engine_node node;
        enum err_code code = engine_read_node(engine, folder, &node, err);
        if (code == ERR_NOT_FOUND || (code == ERR_OK && !S_ISDIR(node.attr.mode))) {
            return err_set(err, ERR_CORRUPT, "a folder's parent is missing");
        }
        if (code != ERR_OK) {
            return code;
        }
        folder = node.attr.parent;
    }
    return err_set(err, ERR_CORRUPT, "folders lie within one another in a ring");
}

static enum err_code check_rings(struct engine *engine, const struct rename_plan *plan, int *posix,
                                 struct err *err)
{
    bool within = false;
    if (plan->from == plan->to) {
        return ERR_OK; /* an entry is never an ancestor of the folder it lies in */
    }
    if (S_ISDIR(plan->source_type)) {
        enum err_code code =
            lies_within(engine, plan->rename->to, plan->source_inode, &within, err);
        if (code != ERR_OK) {
            return code;
        }
        if (within) {
            return engine_refuse(posix, EINVAL, err);
        }
    }
    if (plan->target_inode && S_ISDIR(plan->target_type)) {
        enum err_code code =
            lies_within(engine, plan->rename->from, plan->target_inode, &within, err);
        if (code != ERR_OK) {
            return code;
        }
        if (within) {
            return engine_refuse(posix, plan->is_exchange ? EINVAL : ENOTEMPTY, err);
        }
    }
    return ERR_OK;
}

static enum err_code check_target(struct engine *engine, const struct rename_plan *plan, int *posix,
                                  struct err *err)
{
    bool source_is_folder = S_ISDIR(plan->source_type);
    bool gains_folder = source_is_folder && plan->from != plan->to;
    if (plan->target_inode == 0) {
        return gains_folder && plan->to->attr.nlink >= ENGINE_LINK_MAX
                   ? engine_refuse(posix, EMLINK, err)
                   : ERR_OK;
    }
    bool target_is_folder = S_ISDIR(plan->target_type);
    if (plan->is_exchange) {
        bool full = plan->to->attr.nlink >= ENGINE_LINK_MAX && gains_folder && !target_is_folder;
        full |= plan->from->attr.nlink >= ENGINE_LINK_MAX && plan->from != plan->to &&
                target_is_folder && !source_is_folder;
        return full ? engine_refuse(posix, EMLINK, err) : ERR_OK;
    }
    if (source_is_folder != target_is_folder) {
        return engine_refuse(posix, source_is_folder ? ENOTDIR : EISDIR, err);
    }
    if (!target_is_folder) {
        return ERR_OK;
    }
    bool empty = false;
    enum err_code code = engine_folder_is_empty(engine, plan->target_inode, &empty, err);
    if (code == ERR_OK && !empty) {
        return engine_refuse(posix, ENOTEMPTY, err);
    }
    return code;
}

/* Finds both folders and both entries. */
static enum err_code find_all(struct engine *engine, struct rename_plan *plan, int *posix,
                              struct err *err)
{
    const struct engine_rename *rename = plan->rename;
    enum err_code code = engine_named_folder(engine, rename->from, &plan->from, posix, err);
    if (code == ERR_OK) {
        code = engine_named_folder(engine, rename->to, &plan->to, posix, err);
    }
    if (code != ERR_OK) {
        return code;
    }
    code = engine_find_name(engine, rename->from, rename->old_name, &plan->source_inode,
                            &plan->source_type, err);
    if (code == ERR_NOT_FOUND || (code == ERR_OK && plan->to->attr.nlink == 0)) {
        return engine_refuse(posix, ENOENT, err);
    }
    if (code != ERR_OK) {
        return code;
    }
    code = engine_find_name(engine, rename->to, rename->new_name, &plan->target_inode,
                            &plan->target_type, err);
    if (code == ERR_NOT_FOUND) {
        plan->target_inode = 0;
        return plan->is_exchange ? engine_refuse(posix, ENOENT, err) : ERR_OK;
    }
    if (code == ERR_OK && (rename->flags & RENAME_NOREPLACE)) {
        return engine_refuse(posix, EEXIST, err);
    }
    return code;
}

static void put_entry(struct engine *engine, uint64_t folder, const char *name, uint64_t inode,
                      uint32_t type)
{
    struct codec_key key;
    codec_key_name(&key, folder, name, strlen(name));
    uint8_t value[CODEC_NAME_MAX];
    change_put(engine, &key, value, codec_name_write(value, inode, type));
}

static void stamp(struct engine *engine, struct engine_node *node, int64_t now_ns, bool content)
{
    node->attr.ctime_ns = now_ns;
    node->attr.mtime_ns = content ? now_ns : node->attr.mtime_ns;
    change_touch(engine, node);
}

/* The inode now lies in `folder`. */
static void settle(struct engine *engine, struct engine_node *node, struct engine_node *folder,
                   const struct engine_caller *caller)
{
    if (S_ISDIR(node->attr.mode)) {
        node->attr.parent = folder->attr.inode;
    }
    stamp(engine, node, caller->now_ns, false);
    change_release(engine, node->attr.inode);
}

static enum err_code count_folders(struct rename_plan *plan, struct err *err)
{
    uint32_t out = S_ISDIR(plan->source_type) ? 1 : 0;
    uint32_t target = plan->target_inode && S_ISDIR(plan->target_type) ? 1 : 0;
    if (plan->from->attr.nlink < 2 + out || plan->to->attr.nlink < 2 + target) {
        return err_set(err, ERR_CORRUPT, "a folder's link count is wrong");
    }
    plan->from->attr.nlink -= out;
    plan->to->attr.nlink += out;
    plan->to->attr.nlink -= target;
    if (plan->is_exchange) {
        plan->from->attr.nlink += target;
    }
    return ERR_OK;
}

static enum err_code carry_out(struct engine *engine, struct rename_plan *plan, struct err *err)
{
    const struct engine_rename *rename = plan->rename;
    struct engine_node *source = NULL;
    struct engine_node *target = NULL;
    enum err_code code = engine_linked_node(engine, plan->source_inode, &source, err);
    if (code == ERR_OK && plan->target_inode) {
        code = engine_linked_node(engine, plan->target_inode, &target, err);
    }
    if (code == ERR_OK) {
        code = count_folders(plan, err);
    }
    if (code != ERR_OK) {
        return code;
    }
    CHECK(!plan->is_exchange || target);
    stamp(engine, plan->from, plan->caller->now_ns, true);
    stamp(engine, plan->to, plan->caller->now_ns, true);
    settle(engine, source, plan->to, plan->caller);
    if (plan->is_exchange) {
        settle(engine, target, plan->from, plan->caller);
        put_entry(engine, rename->from, rename->old_name, plan->target_inode, plan->target_type);
    } else {
        struct codec_key key;
        codec_key_name(&key, rename->from, rename->old_name, strlen(rename->old_name));
        change_delete(engine, slice_of_key(&key));
    }
    put_entry(engine, rename->to, rename->new_name, plan->source_inode, plan->source_type);
    if (target && !plan->is_exchange) {
        struct engine_attr *attr = &target->attr;
        attr->nlink = S_ISDIR(attr->mode) || attr->nlink == 0 ? 0 : attr->nlink - 1;
        attr->ctime_ns = plan->caller->now_ns;
        return engine_unlinked(engine, target, rename->is_open, rename->context, err);
    }
    return ERR_OK;
}

enum err_code engine_rename(struct engine *engine, const struct engine_caller *caller,
                            const struct engine_rename *rename, int *posix, struct err *err)
{
    *posix = 0;
    change_begin(engine);
    struct rename_plan plan = {
        .rename = rename, .caller = caller, .is_exchange = (rename->flags & RENAME_EXCHANGE) != 0};
    int refusal = engine_name_refusal(rename->old_name);
    refusal = refusal ? refusal : engine_name_refusal(rename->new_name);
    uint32_t both = RENAME_NOREPLACE | RENAME_EXCHANGE;
    if (!refusal && ((rename->flags & ~both) || rename->flags == both)) {
        refusal = EINVAL;
    }
    if (refusal) {
        return engine_refuse(posix, refusal, err);
    }
    enum err_code code = find_all(engine, &plan, posix, err);
    if (code != ERR_OK || plan.source_inode == plan.target_inode) {
        return code; /* two names of one file: POSIX has both remain */
    }
    code = check_rings(engine, &plan, posix, err);
    if (code == ERR_OK) {
        code = check_target(engine, &plan, posix, err);
    }
    if (code == ERR_OK) {
        code = carry_out(engine, &plan, err);
    }
    if (code == ERR_OK) {
        change_apply(engine);
    }
    return code;
}
