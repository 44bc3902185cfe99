#include "object/object_s3_reply.h"

#include "object/object_driver.h"
#include "object/object_s3_xml.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool path_is(const struct s3_xml *xml, const char *path)
{
    return strcmp(xml->path.text, path) == 0;
}

/* For people, in one line. */
static void copy_words(char *out, size_t size, const char *text)
{
    size_t used = 0;
    for (; *text && used + 1 < size; text++) {
        out[used++] = (unsigned char)*text < ' ' || *text == 0x7f ? ' ' : *text;
    }
    out[used] = '\0';
}

static void read_fault(const struct s3_xml *xml, const char *root, struct s3_fault *out)
{
    size_t size = strlen(root);
    if (strncmp(xml->path.text, root, size) != 0) {
        return;
    }
    if (strcmp(xml->path.text + size, "/Code") == 0) {
        copy_words(out->code, sizeof out->code, xml->text.text);
    } else if (strcmp(xml->path.text + size, "/Message") == 0) {
        copy_words(out->message, sizeof out->message, xml->text.text);
    }
}

/* The end of a reading: the document was sound, and its root the one expected. */
static bool finish(struct s3_xml *xml, bool was_root)
{
    bool good = !xml->bad && was_root;
    s3_xml_release(xml);
    return good;
}

bool s3_reply_fault(const struct str *reply, struct s3_fault *out)
{
    *out = (struct s3_fault){0};
    struct s3_xml xml;
    bool was_root = false;
    s3_xml_init(&xml, str_text(reply), reply->size);
    while (s3_xml_next(&xml)) {
        read_fault(&xml, "Error", out);
        was_root |= path_is(&xml, "Error");
    }
    return finish(&xml, was_root);
}

static bool parse_size(const char *text, uint64_t *out)
{
    char *end = NULL;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0;
}

struct item {
    char *key;
    uint64_t size;
    bool has_size;
};

static bool add_item(struct object_call *call, const char *prefix, const struct item *item)
{
    size_t skip = strlen(prefix);
    if (!item->key || !item->has_size || strncmp(item->key, prefix, skip) != 0) {
        return false;
    }
    const char *key = item->key + skip;
    const char *last = call->page_count ? call->page[call->page_count - 1].key : call->after;
    if (last && strcmp(last, key) >= 0) {
        return false; /* the next page would go in circles, or leave keys out */
    }
    return object_call_add_item(call, key, item->size);
}

/* Leaves call->more alone unless the page says so: a full page is what was asked for. */
bool s3_reply_page(const struct str *reply, const char *prefix, struct object_call *call)
{
    struct s3_xml xml;
    struct item item = {0};
    bool was_root = false;
    bool good = true;
    bool more = false;
    s3_xml_init(&xml, str_text(reply), reply->size);
    while (good && s3_xml_next(&xml)) {
        if (path_is(&xml, "ListBucketResult/Contents/Key")) {
            free(item.key);
            good = strlen(xml.text.text) == xml.text.size;
            item.key = str_take(&xml.text);
        } else if (path_is(&xml, "ListBucketResult/Contents/Size")) {
            good = parse_size(xml.text.text, &item.size);
            item.has_size = true;
        } else if (path_is(&xml, "ListBucketResult/Contents")) {
            good = add_item(call, prefix, &item);
            free(item.key);
            item = (struct item){0};
        } else if (path_is(&xml, "ListBucketResult/IsTruncated")) {
            more = strcmp(xml.text.text, "true") == 0;
        } else {
            was_root |= path_is(&xml, "ListBucketResult");
        }
    }
    free(item.key);
    /* More, but nothing to go on from: not an answer. */
    good = finish(&xml, was_root) && good && !(more && call->page_count == 0);
    call->more = good && more;
    return good;
}

bool s3_reply_deleted(const struct str *reply, struct s3_fault *fault)
{
    *fault = (struct s3_fault){0};
    struct s3_fault one = {0};
    struct s3_xml xml;
    bool was_root = false;
    s3_xml_init(&xml, str_text(reply), reply->size);
    while (s3_xml_next(&xml)) {
        read_fault(&xml, "DeleteResult/Error", &one);
        if (path_is(&xml, "DeleteResult/Error")) {
            if (!fault->code[0] && strcmp(one.code, "NoSuchKey") != 0) {
                *fault = one;
                if (!fault->code[0]) {
                    snprintf(fault->code, sizeof fault->code, "Unknown");
                }
            }
            one = (struct s3_fault){0};
        }
        was_root |= path_is(&xml, "DeleteResult");
    }
    return finish(&xml, was_root);
}

bool s3_reply_upload_id(const struct str *reply, struct str *id)
{
    str_clear(id);
    struct s3_xml xml;
    bool was_root = false;
    s3_xml_init(&xml, str_text(reply), reply->size);
    while (s3_xml_next(&xml)) {
        if (path_is(&xml, "InitiateMultipartUploadResult/UploadId")) {
            str_clear(id);
            str_add(id, xml.text.text);
        }
        was_root |= path_is(&xml, "InitiateMultipartUploadResult");
    }
    return finish(&xml, was_root) && id->size > 0 && id->size <= 2048;
}

bool s3_reply_completed(const struct str *reply, char etag[OBJECT_ETAG_MAX])
{
    struct s3_xml xml;
    bool was_root = false;
    etag[0] = '\0';
    s3_xml_init(&xml, str_text(reply), reply->size);
    while (s3_xml_next(&xml)) {
        if (path_is(&xml, "CompleteMultipartUploadResult/ETag") &&
            !s3_etag_copy(etag, xml.text.text, strlen(xml.text.text))) {
            etag[0] = '\0';
        }
        was_root |= path_is(&xml, "CompleteMultipartUploadResult");
    }
    return finish(&xml, was_root);
}

bool s3_etag_copy(char out[OBJECT_ETAG_MAX], const char *text, size_t size)
{
    while (size > 0 && strchr(" \t\r\n", text[size - 1])) {
        size--;
    }
    while (size > 0 && strchr(" \t", text[0])) {
        text++;
        size--;
    }
    if (size >= 2 && text[0] == '"' && text[size - 1] == '"') {
        text++;
        size -= 2;
    }
    if (size == 0 || size >= OBJECT_ETAG_MAX) {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        if (text[i] <= ' ' || text[i] > '~') {
            return false;
        }
    }
    memcpy(out, text, size);
    out[size] = '\0';
    return true;
}
