/* code_ignore.h - which files of a folder stay behind: .gitignore's patterns, as git reads them.
 *
 * A pattern file may lie in any folder; those of deeper folders count more, within one file later
 * lines count more, and .droverignore (same syntax) counts more than .gitignore beside it. What is
 * below an ignored folder is ignored, whatever it says. Paths are relative to where the first file
 * lies, with slashes. Matching takes time in proportion to path and pattern, for any input.
 *
 * Pure: the caller reads the files.
 */
#ifndef CLI_CODE_IGNORE_H
#define CLI_CODE_IGNORE_H

#include <stdbool.h>
#include <stddef.h>

struct code_ignore;

struct code_ignore *code_ignore_create(void);
void code_ignore_destroy(struct code_ignore *ignore); /* NULL does nothing */

/* Adds the patterns of a file that lies in the folder `base` ("" for the topmost one; no slash at
 * the end). Patterns added later count more. */
void code_ignore_add(struct code_ignore *ignore, const char *base, const char *text, size_t size);

/* How many patterns there are; and back to fewer, when a folder has been left. */
size_t code_ignore_mark(const struct code_ignore *ignore);
void code_ignore_reset(struct code_ignore *ignore, size_t mark);

/* Whether this very path is ignored; its folders were asked about before, and are not. */
bool code_ignore_matches(const struct code_ignore *ignore, const char *path, bool is_folder);

#endif
