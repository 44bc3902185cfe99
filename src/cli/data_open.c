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

char *data_mounted_at(const struct volume_ref *ref)
{
    FILE *table = setmntent("/proc/self/mounts", "r");
    AUTO_STR struct str label = {0};
    char *found = NULL;
    struct mntent *entry = NULL;
    volume_ref_add_label(&label, ref);
    while (table && !found && (entry = getmntent(table)) != NULL) {
        bool is_it = strcmp(entry->mnt_type, "fuse.drover") == 0 &&
                     strcmp(entry->mnt_fsname, str_text(&label)) == 0 && hasmntopt(entry, "rw") &&
                     mount_talk_pid(entry->mnt_dir) > 0; /* it lives */
        found = is_it ? mem_strdup(entry->mnt_dir) : NULL;
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
    AUTO_FREE char *mounted = open.ref.snapshot ? NULL : data_mounted_at(&open.ref);
    if (mounted) { /* what is there and not yet stored becomes visible to us */
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
