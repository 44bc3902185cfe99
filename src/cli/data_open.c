/* Opening the volume that a word of the command line means. */
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/data_verbs.h"
#include "cli/mount_talk.h"
#include "data/tree.h"

#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *data_mounted_at(const struct volume_ref *ref, int wait_ms, bool *is_silent)
{
    FILE *table = setmntent("/proc/self/mounts", "r");
    AUTO_STR struct str label = {0};
    char *found = NULL; /* the first that lives, or else the last that is silent */
    struct mntent *entry = NULL;
    *is_silent = false;
    volume_ref_add_label(&label, ref);
    while (table && (!found || *is_silent) && (entry = getmntent(table)) != NULL) {
        bool may_be = strcmp(entry->mnt_type, "fuse.drover") == 0 &&
                      strcmp(entry->mnt_fsname, str_text(&label)) == 0 && hasmntopt(entry, "rw");
        struct mount_talk look = {0};
        if (may_be) {
            look = mount_talk_look(entry->mnt_dir, wait_ms);
        }
        if (look.state == MOUNT_TALK_LIVES || look.state == MOUNT_TALK_SILENT) {
            free(found);
            found = mem_strdup(entry->mnt_dir);
            *is_silent = look.state == MOUNT_TALK_SILENT;
        }
    }
    if (table) {
        endmntent(table);
    }
    return found;
}

int data_open(const char *word, const struct volume_ref *over, bool writes, struct data_open *out)
{
    struct err err;
    struct data_open open = {0};
    AUTO_STR struct str owner = {0};
    enum err_code code = volume_ref_parse(word, &open.ref, &err);
    if (code != ERR_OK) {
        return cli_error(volume_ref_exit(code), "%s", err.text);
    }
    volume_ref_override(&open.ref, over);
    bool is_silent = false;
    AUTO_FREE char *mounted = NULL;
    if (!open.ref.snapshot) {
        mounted = data_mounted_at(&open.ref, MOUNT_TALK_LOOK_MS, &is_silent);
    }
    if (is_silent) {
        fprintf(stderr,
                "drover data: the mount at %s does not answer (busy, or its process is stopped): "
                "what it has not stored yet is not seen\n",
                mounted);
    } else if (mounted) { /* what is there and not yet stored becomes visible to us */
        AUTO_STR struct str said = {0};
        (void)!mount_talk_do(mounted, "sync", &said, &err);
    }
    str_add(&owner, "drover data");
    struct volume_use_options how = {.writes = writes, .owner = str_text(&owner)};
    code = volume_use_open(&open.ref, &how, &open.use, &err);
    if (code == ERR_DENIED && mounted) {
        code = err_set(&err, ERR_DENIED,
                       "%s is mounted at %s: change it there with ordinary commands (cp, mv, rm)",
                       word, mounted);
    } else if (code != ERR_OK) {
        code = volume_use_advise(&open.ref, code, &err);
    }
    if (code != ERR_OK) {
        volume_ref_release(&open.ref);
        return cli_error(volume_ref_exit(code), "%s", err.text);
    }
    *out = open;
    return EXIT_DONE;
}

int data_close(struct data_open *open, int exit_code)
{
    struct err err;
    enum err_code code = volume_use_close(&open->use, &err);
    volume_ref_release(&open->ref);
    if (code != ERR_OK && exit_code == EXIT_DONE) {
        return cli_error(volume_ref_exit(code), "%s", err.text);
    }
    return exit_code;
}

struct tree data_tree(const struct data_open *open)
{
    return (struct tree){open->use.volume, volume_engine(open->use.volume), open->use.reader};
}
