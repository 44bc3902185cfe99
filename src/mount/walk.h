/* walk.h - whether those who list folders look at what is in them.
 *
 * Entries that are listed with their attributes save a lookup each, and cost the kernel an inode
 * each, which is more than all the rest of listing. Who only wants names (find) should not pay for
 * that. So in each folder one file is listed without attributes, as a probe: whoever looks at the
 * files (ls -l, du, rsync) has to ask for it. Once nobody has for WALK_SILENT folders, only names
 * are given, until somebody asks for a probe again.
 *
 * Pure. Zeroed memory is a fresh one.
 */
#ifndef MOUNT_WALK_H
#define MOUNT_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WALK_PROBES = 64, WALK_SILENT = 16 };

struct walk {
    uint64_t probes[WALK_PROBES]; /* of folder and name; used round and round */
    size_t next;
    unsigned silent; /* folders since one was asked for */
};

/* This file of the folder is listed without attributes. */
void walk_probe(struct walk *walk, uint64_t folder, const char *name);
void walk_looked_up(struct walk *walk, uint64_t folder, const char *name);
bool walk_wants_names_only(const struct walk *walk);

#endif
