#include "node/cgroup.h"

#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_BYTES_MAX = 1 << 20, CGROUP_PATH = PATH_MAX + 192 };

/* --- where we are ---------------------------------------------------------------------------- */

/* Field number `index` of a line, from 0; fields are separated by one blank. */
static const char *field(const char *line, int index, size_t *size)
{
    for (; index > 0 && line; index--) {
        line = strchr(line, ' ');
        line = line ? line + 1 : NULL;
    }
    *size = line ? strcspn(line, " \n") : 0;
    return line;
}

/* mountinfo: ID PARENT DEVICE ROOT MOUNTPOINT OPTIONS... - TYPE SOURCE SUPEROPTIONS */
static const char *find_mount(const char *mountinfo, size_t *size)
{
    for (const char *line = mountinfo; line && *line;) {
        const char *end = strchr(line, '\n');
        const char *type = strstr(line, " - ");
        if (type && (!end || type < end) && strncmp(type, " - cgroup2 ", 11) == 0) {
            return field(line, 4, size);
        }
        line = end ? end + 1 : NULL;
    }
    return NULL;
}

enum err_code cgroup_find(const char *mountinfo, const char *cgroup, char *out, size_t out_size,
                          struct err *err)
{
    size_t mount_size = 0;
    const char *mount = find_mount(mountinfo, &mount_size);
    const char *own = strncmp(cgroup, "0::", 3) == 0 ? cgroup : strstr(cgroup, "\n0::");
    if (!mount || !own) {
        return err_set(err, ERR_NOT_FOUND, "cgroup v2 is not mounted here");
    }
    own += own[0] == '\n';
    own += 3;
    size_t own_size = strcspn(own, "\n");
    if (own_size == 1) {
        own_size = 0; /* "/" */
    }
    if (mount_size + own_size >= out_size) {
        return err_set(err, ERR_RANGE, "cgroup: the path is too long");
    }
    memcpy(out, mount, mount_size);
    memcpy(out + mount_size, own, own_size);
    out[mount_size + own_size] = '\0';
    return ERR_OK;
}

/* --- files of a group ------------------------------------------------------------------------ */

static bool write_file(const char *folder, const char *name, const char *text)
{
    char path[CGROUP_PATH];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    AUTO_CLOSE int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

static bool has_word(const char *folder, const char *name, const char *word)
{
    char path[CGROUP_PATH];
    AUTO_STR struct str text = {0};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (io_read_file(path, FILE_BYTES_MAX, &text, NULL) != ERR_OK) {
        return false;
    }
    size_t size = strlen(word);
    for (const char *at = strstr(str_text(&text), word); at; at = strstr(at + size, word)) {
        bool starts = at == text.text || at[-1] == ' ';
        if (starts && (at[size] == '\0' || at[size] == ' ' || at[size] == '\n')) {
            return true;
        }
    }
    return false;
}

static bool make_group(const char *path)
{
    return mkdir(path, 0755) == 0 || errno == EEXIST;
}

/* --- the agent's group ----------------------------------------------------------------------- */

/* Groups of agents that were killed; those still in use cannot be removed. */
static void remove_stale(const char *base)
{
    DIR *folder = opendir(base);
    if (!folder) {
        return;
    }
    for (const struct dirent *entry = NULL; (entry = readdir(folder)) != NULL;) {
        char *end = NULL;
        bool is_ours = strncmp(entry->d_name, "drover-", 7) == 0;
        long pid = is_ours ? strtol(entry->d_name + 7, &end, 10) : 0;
        if (!is_ours || *end != '\0' || pid <= 0 || kill((pid_t)pid, 0) == 0) {
            continue;
        }
        char path[CGROUP_PATH];
        snprintf(path, sizeof path, "%s/%s/agent", base, entry->d_name);
        rmdir(path);
        for (unsigned slot = 0; slot < 1024; slot++) {
            snprintf(path, sizeof path, "%s/%s/slot-%u", base, entry->d_name, slot);
            if (rmdir(path) != 0 && errno == ENOENT) {
                break;
            }
        }
        snprintf(path, sizeof path, "%s/%s", base, entry->d_name);
        rmdir(path);
    }
    closedir(folder);
}

static bool pass_memory_on(struct cgroup *group)
{
    if (has_word(group->base, "cgroup.subtree_control", "memory") ||
        write_file(group->base, "cgroup.subtree_control", "+memory")) {
        return true;
    }
    char aside[CGROUP_PATH];
    snprintf(aside, sizeof aside, "%s/agent", group->path);
    if (!make_group(aside) || !write_file(aside, "cgroup.procs", "0")) {
        return false;
    }
    group->stepped_aside = true;
    return write_file(group->base, "cgroup.subtree_control", "+memory");
}

enum err_code cgroup_open(struct cgroup *group, const char *base, struct err *err)
{
    *group = (struct cgroup){0};
    if (base[0] == '\0') {
        return err_set(err, ERR_UNSUPPORTED, "cgroup v2 is not mounted here");
    }
    if (strlen(base) >= sizeof group->base) {
        return err_set(err, ERR_UNSUPPORTED, "the path of our cgroup is too long");
    }
    snprintf(group->base, sizeof group->base, "%s", base);
    snprintf(group->path, sizeof group->path, "%s/drover-%ld", base, (long)getpid());
    if (!has_word(base, "cgroup.controllers", "memory")) {
        return err_set(err, ERR_UNSUPPORTED, "cgroup v2 has no memory controller here");
    }
    remove_stale(base);
    if (!make_group(group->path)) {
        return err_set(err, ERR_UNSUPPORTED, "no cgroup can be made in %.300s", base);
    }
    if (!pass_memory_on(group) || !write_file(group->path, "cgroup.subtree_control", "+memory")) {
        group->available = true;
        cgroup_close(group);
        return err_set(err, ERR_UNSUPPORTED, "the memory controller is not ours to use in %.300s",
                       base);
    }
    group->available = true;
    return ERR_OK;
}

void cgroup_close(struct cgroup *group)
{
    if (!group->available) {
        return;
    }
    if (group->stepped_aside) {
        char aside[CGROUP_PATH];
        snprintf(aside, sizeof aside, "%s/agent", group->path);
        write_file(group->path, "cgroup.subtree_control", "-memory");
        write_file(group->base, "cgroup.subtree_control", "-memory");
        write_file(group->base, "cgroup.procs", "0");
        rmdir(aside);
    }
    rmdir(group->path);
    group->available = false;
}

/* --- a slot's group -------------------------------------------------------------------------- */

static void slot_path(const struct cgroup *group, uint32_t index, char *out, size_t size)
{
    snprintf(out, size, "%s/slot-%u", group->path, index);
}

static uint64_t count_oom_kills(const struct cgroup *group, uint32_t index)
{
    char path[CGROUP_PATH];
    AUTO_STR struct str text = {0};
    slot_path(group, index, path, sizeof path);
    size_t size = strlen(path);
    snprintf(path + size, sizeof path - size, "/memory.events");
    if (io_read_file(path, FILE_BYTES_MAX, &text, NULL) != ERR_OK) {
        return 0;
    }
    const char *line = str_text(&text);
    while (line && strncmp(line, "oom_kill ", 9) != 0) {
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    return line ? strtoull(line + 9, NULL, 10) : 0;
}

void cgroup_slot_open(struct cgroup *group, struct cgroup_slot *slot, uint32_t index)
{
    *slot = (struct cgroup_slot){.procs_fd = -1, .index = index};
    if (!group->available) {
        return;
    }
    char path[CGROUP_PATH];
    slot_path(group, index, path, sizeof path);
    if (!make_group(path)) {
        return;
    }
    write_file(path, "memory.max", "max");
    write_file(path, "memory.swap.max", "0"); /* else the limit only makes it slow */
    size_t size = strlen(path);
    snprintf(path + size, sizeof path - size, "/cgroup.procs");
    slot->procs_fd = open(path, O_WRONLY | O_CLOEXEC);
    slot->oom_kills = count_oom_kills(group, index);
}

void cgroup_slot_close(struct cgroup *group, struct cgroup_slot *slot)
{
    if (slot->procs_fd < 0) {
        return;
    }
    close(slot->procs_fd);
    slot->procs_fd = -1;
    char path[CGROUP_PATH];
    slot_path(group, slot->index, path, sizeof path);
    rmdir(path);
}

void cgroup_slot_limit(struct cgroup *group, struct cgroup_slot *slot, uint64_t limit_bytes)
{
    if (slot->procs_fd < 0 || slot->limit_bytes == limit_bytes) {
        return;
    }
    char path[CGROUP_PATH];
    char text[24];
    slot_path(group, slot->index, path, sizeof path);
    snprintf(text, sizeof text, "%" PRIu64, limit_bytes);
    if (write_file(path, "memory.max", limit_bytes > 0 ? text : "max")) {
        slot->limit_bytes = limit_bytes;
    }
}

bool cgroup_slot_was_oom(struct cgroup *group, struct cgroup_slot *slot)
{
    if (slot->procs_fd < 0) {
        return false;
    }
    uint64_t count = count_oom_kills(group, slot->index);
    bool has_grown = count > slot->oom_kills;
    slot->oom_kills = count;
    return has_grown;
}
