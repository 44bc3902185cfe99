/* drover data snapshot, gc and sync: what the owner of a volume does. A volume that is mounted here
 * is asked through its mount. */
#include "base/jread.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/data_verbs.h"
#include "cli/mount_talk.h"
#include "cli/progress.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int failed(enum err_code code, const struct err *err)
{
    return cli_error(volume_ref_exit(code), "%s", err->text);
}

/* Has the mount do it, if the volume is mounted here for writing. -1: it is not. */
static int by_mount(struct data_arguments *arguments, const char *word, const char *order,
                    struct str *said)
{
    struct volume_ref ref = {0};
    struct err err;
    enum err_code code = volume_ref_parse(word, &ref, &err);
    if (code != ERR_OK) {
        return failed(code, &err);
    }
    volume_ref_override(&ref, &arguments->over);
    bool is_silent = false;
    AUTO_FREE char *folder = data_mounted_at(&ref, MOUNT_TALK_ORDER_MS, &is_silent);
    volume_ref_release(&ref);
    if (is_silent) {
        return mount_talk_silent(folder);
    }
    if (!folder) {
        return -1;
    }
    code = mount_talk_do(folder, order, said, &err);
    return code == ERR_OK ? EXIT_DONE : failed(code, &err);
}

static bool print_snapshot(void *context, const struct volume_snapshot_info *info)
{
    const struct data_arguments *arguments = context;
    AUTO_STR struct str out = {0};
    if (arguments->as_json) {
        str_addf(&out,
                 "{\"name\":\"%s\",\"seq\":%" PRIu64 ",\"files\":%" PRIu64 ",\"bytes\":%" PRIu64
                 "}\n",
                 info->name, info->seq, info->files, info->bytes);
    } else {
        str_addf(&out, "%-32s %" PRIu64 " files, ", info->name, info->files);
        progress_add_bytes(&out, info->bytes);
        str_add_char(&out, '\n');
    }
    cli_write(&out);
    return true;
}

static int list_snapshots(struct data_arguments *arguments, const char *word)
{
    struct volume_ref ref = {0};
    struct object_store *store = NULL;
    struct err err;
    enum err_code code = volume_ref_parse(word, &ref, &err);
    if (code == ERR_OK) {
        volume_ref_override(&ref, &arguments->over);
        code = volume_ref_store(&ref, false, &store, &err);
    }
    if (code == ERR_OK) {
        code = volume_snapshots(store, print_snapshot, arguments, &err);
    }
    object_close(store);
    volume_ref_release(&ref);
    return code == ERR_OK ? EXIT_DONE : failed(code, &err);
}

int data_verb_snapshot(struct data_arguments *arguments, int count, char **words)
{
    struct data_open open;
    struct err err = {0};
    AUTO_STR struct str said = {0};
    AUTO_STR struct str order = {0};
    if (arguments->lists && count == 1) {
        return list_snapshots(arguments, words[0]);
    }
    if (count != 2) {
        return cli_usage_error(&cmd_data, "snapshot needs a VOLUME and a NAME (or --list VOLUME)");
    }
    str_addf(&order, "snapshot%s %s", arguments->deletes ? "-delete" : "", words[1]);
    int exit_code = by_mount(arguments, words[0], str_text(&order), &said);
    if (exit_code >= 0) {
        return exit_code;
    }
    exit_code = data_open(words[0], &arguments->over, true, &open);
    if (exit_code != EXIT_DONE) {
        return exit_code;
    }
    enum err_code code = arguments->deletes
                             ? volume_snapshot_delete(open.use.volume, words[1], &err)
                             : volume_snapshot(open.use.volume, words[1], &err);
    if (code != ERR_OK) {
        exit_code = failed(code, &err);
    }
    return data_close(&open, exit_code);
}

static void print_gc(const struct volume_gc_report *report, bool dry_run, bool as_json)
{
    AUTO_STR struct str out = {0};
    if (as_json) {
        str_addf(&out,
                 "{\"objects\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"packs_kept\":%" PRIu64
                 ",\"bytes_kept\":%" PRIu64 ",\"dead_bytes_kept\":%" PRIu64 "}\n",
                 report->objects, report->bytes, report->packs_kept, report->bytes_kept,
                 report->dead_bytes_kept);
    } else {
        str_addf(&out, "%s %" PRIu64 " objects, ", dry_run ? "would delete" : "deleted",
                 report->objects);
        progress_add_bytes(&out, report->bytes);
        str_addf(&out, "; %" PRIu64 " packs stay, ", report->packs_kept);
        progress_add_bytes(&out, report->bytes_kept);
        str_add(&out, ", of which ");
        progress_add_bytes(&out, report->dead_bytes_kept);
        str_add(&out, " are no longer used\n");
    }
    cli_write(&out);
}

/* What a mount says that it has done, in the same words as if we had. */
static int print_said(const struct data_arguments *arguments, const struct str *said)
{
    struct jread doc = {0};
    if (jread_parse(&doc, str_text(said), said->size, NULL) != ERR_OK) {
        jread_release(&doc);
        return cli_error(EXIT_WORK_FAILED, "the mount's answer makes no sense: is it another "
                                           "version of drover?");
    }
    const struct volume_gc_report report = {
        .objects = jread_u64(doc.root, "objects", 0),
        .bytes = jread_u64(doc.root, "bytes", 0),
        .packs_kept = jread_u64(doc.root, "packs_kept", 0),
        .bytes_kept = jread_u64(doc.root, "bytes_kept", 0),
        .dead_bytes_kept = jread_u64(doc.root, "dead_bytes_kept", 0),
    };
    jread_release(&doc);
    print_gc(&report, arguments->dry_run, arguments->as_json);
    return EXIT_DONE;
}

int data_verb_gc(struct data_arguments *arguments, int count, char **words)
{
    struct data_open open;
    struct err err = {0};
    struct volume_gc_report report = {0};
    AUTO_STR struct str said = {0};
    if (count != 1) {
        return cli_usage_error(&cmd_data, "gc needs a VOLUME");
    }
    int exit_code = by_mount(arguments, words[0], arguments->dry_run ? "gc-dry-run" : "gc", &said);
    if (exit_code >= 0) {
        return exit_code == EXIT_DONE ? print_said(arguments, &said) : exit_code;
    }
    exit_code = data_open(words[0], &arguments->over, true, &open);
    if (exit_code != EXIT_DONE) {
        return exit_code;
    }
    enum err_code code = ERR_OK;
    if (!arguments->dry_run) {
        code = volume_compact(open.use.volume, 0, &err);
    }
    if (code == ERR_OK) {
        code = volume_gc(open.use.volume, arguments->dry_run, &report, &err);
    }
    if (code == ERR_OK) {
        print_gc(&report, arguments->dry_run, arguments->as_json);
    } else {
        exit_code = failed(code, &err);
    }
    return data_close(&open, exit_code);
}

int data_verb_sync(struct data_arguments *arguments, int count, char **words)
{
    AUTO_STR struct str said = {0};
    struct err err;
    if (count != 1) {
        return cli_usage_error(&cmd_data, "sync needs a VOLUME, or the folder it is mounted on");
    }
    struct mount_talk look = mount_talk_look(words[0], MOUNT_TALK_ORDER_MS);
    if (look.state == MOUNT_TALK_SILENT) {
        return mount_talk_silent(words[0]);
    }
    if (look.state == MOUNT_TALK_LIVES) {
        enum err_code code = mount_talk_do(words[0], "sync", &said, &err);
        return code == ERR_OK ? EXIT_DONE : failed(code, &err);
    }
    int exit_code = by_mount(arguments, words[0], "sync", &said);
    return exit_code >= 0 ? exit_code : EXIT_DONE; /* nobody writes to it: all is stored */
}
