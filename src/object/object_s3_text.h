/* object_s3_text.h - values out of the texts that credentials come in: ~/.aws files and the JSON of
 * metadata servers.
 *
 * Pure; any bytes are fine. Values are appended to out, which is unchanged where none is found.
 */
#ifndef OBJECT_OBJECT_S3_TEXT_H
#define OBJECT_OBJECT_S3_TEXT_H

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

/* The value of `key` in [section] of an AWS file; the last one counts. A key "s3.addressing_style"
 * is the line "addressing_style" set off under "s3 =". Names of keys ignore case. */
bool s3_ini_find(const struct str *file, const char *section, const char *key, struct str *out);

/* True if the file has a value in [section]. */
bool s3_ini_has(const struct str *file, const char *section);

/* The text member `key` of a JSON object. False also if the whole is not a JSON object. */
bool s3_json_find(const struct str *json, const char *key, struct str *out);

/* 2026-11-15T09:35:56Z, with a fraction or without. */
bool s3_time_parse(const char *text, int64_t *unix_ms);

#endif
