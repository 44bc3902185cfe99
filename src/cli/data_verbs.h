/* data_verbs.h - what drover data and drover volume do with a volume, verb by verb.
 *
 * Each returns the exit code and has printed what there is to say. `over` is what the command line
 * said of the store.
 */
#ifndef CLI_DATA_VERBS_H
#define CLI_DATA_VERBS_H

#include "cli/volume_ref.h"

#include <stdbool.h>
#include <stdint.h>

struct data_arguments {
    struct volume_ref over;
    bool as_json, recursive, is_long, dry_run, lists, deletes, take_over;
};

int data_verb_put(struct data_arguments *arguments, int count, char **words);
int data_verb_get(struct data_arguments *arguments, int count, char **words);
int data_verb_import(struct data_arguments *arguments, int count, char **words);
int data_verb_ls(struct data_arguments *arguments, int count, char **words);
int data_verb_stat(struct data_arguments *arguments, int count, char **words);
int data_verb_du(struct data_arguments *arguments, int count, char **words);
int data_verb_rm(struct data_arguments *arguments, int count, char **words);
int data_verb_mv(struct data_arguments *arguments, int count, char **words);
int data_verb_snapshot(struct data_arguments *arguments, int count, char **words);
int data_verb_gc(struct data_arguments *arguments, int count, char **words);
int data_verb_sync(struct data_arguments *arguments, int count, char **words);

int data_verb_verify(const char *volume, const struct volume_ref *over, bool as_json);
int data_verb_show(const char *volume, const struct volume_ref *over, bool as_json);
struct data_repair {
    bool is_sure, take_over, as_json; /* not sure: only says what is wrong */
};
int data_verb_repair(const char *volume, const struct volume_ref *over,
                     const struct data_repair *how);
int data_verb_export(const char *volume, const struct volume_ref *over, const char *folder);

/* Shared by the verbs. */
struct copy;
struct data_open { /* a volume that a word of the command line names */
    struct volume_ref ref;
    struct volume_use use;
};
/* Prints why not and returns the exit code, or EXIT_DONE. */
int data_open(const char *word, const struct volume_ref *over, bool writes, struct data_open *out);
int data_close(struct data_open *open, int exit_code);
struct tree;
struct tree data_tree(const struct data_open *open);
/* Of copies: progress, and what came of it. context: a struct progress. */
struct copy_counts;
void data_note(void *context, const struct copy_counts *counts, const char *path, const char *why);
void data_print_counts(const struct copy_counts *counts, const char *verb, int64_t ms,
                       bool as_json);
/* The folder a volume is mounted on for writing on this machine; NULL: none. The caller frees it.
 * *is_silent: the mount there has not answered for wait_ms (mount_talk.h). */
char *data_mounted_at(const struct volume_ref *ref, int wait_ms, bool *is_silent);

#endif
