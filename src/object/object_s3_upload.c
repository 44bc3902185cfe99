/* Multipart uploads: begun, parts side by side, completed; or else aborted, so that the server does
 * not keep parts that nobody will ever ask for. */
#include "object/object_s3_internal.h"

#include "base/clock.h"
#include "base/mem.h"
#include "object/object_s3_xml.h"

#include <stdlib.h>
#include <string.h>

enum { PARTS_MAX = 10000, CLOSE_MS = 2000 };

struct s3_upload {
    struct s3_upload *prev, *next; /* of the store's */
    struct s3 *s3;
    struct object_call *call;
    struct str id;
    size_t part_bytes;
    size_t part_count;
    size_t sent_count; /* parts handed to the line */
    size_t done_count;
    char (*etags)[OBJECT_ETAG_MAX];
    enum err_code failed; /* the first failure; its text is in the call */
};

static void destroy(struct s3_upload *upload)
{
    struct s3 *s3 = upload->s3;
    if (upload->prev) {
        upload->prev->next = upload->next;
    } else {
        s3->uploads = upload->next;
    }
    if (upload->next) {
        upload->next->prev = upload->prev;
    }
    str_release(&upload->id);
    free(upload->etags);
    free(upload);
}

static void end(struct s3_upload *upload)
{
    struct s3 *s3 = upload->s3;
    struct object_call *call = upload->call;
    destroy(upload);
    s3_call_end(s3, call);
}

static struct s3_request *ask(struct s3_upload *upload, const char *method,
                              void (*done)(struct s3_request *request))
{
    struct s3_request *request =
        s3_request_create(upload->s3, upload->call, method, upload->call->key);
    request->upload = upload;
    request->done = done;
    return request;
}

/* -- giving up --------------------------------------------------------------------------------- */

/* Whatever it answers: nothing more can be done. */
static void on_aborted(struct s3_request *request)
{
    struct s3_upload *upload = request->upload;
    s3_request_destroy(request);
    end(upload);
}

static void abort_upload(struct s3_upload *upload, void (*done)(struct s3_request *request))
{
    struct s3_request *request = ask(upload, "DELETE", done);
    s3_add_query(&request->query, "uploadId", upload->id.text);
    s3_request_send(request);
}

/* The call has its failure. The request that failed is gone; the others are taken back. */
static void fail(struct s3_upload *upload)
{
    upload->failed = upload->call->code;
    s3_requests_cancel(upload->s3, upload);
    if (upload->id.size > 0) {
        abort_upload(upload, on_aborted);
    } else {
        end(upload);
    }
}

/* -- completing -------------------------------------------------------------------------------- */

/* Ceph's RGW leaves the etag out; it is the MD5 of the parts' MD5s, and their number. */
static bool make_etag(const struct s3_upload *upload, char out[OBJECT_ETAG_MAX])
{
    AUTO_STR struct str digests = {0};
    for (size_t i = 0; i < upload->part_count; i++) {
        uint8_t digest[S3_MD5_BYTES];
        if (!s3_md5_parse(upload->etags[i], digest)) {
            return false;
        }
        str_add_bytes(&digests, digest, sizeof digest);
    }
    uint8_t whole[S3_MD5_BYTES];
    if (!s3_md5(upload->s3, digests.text, digests.size, whole)) {
        return false;
    }
    for (size_t i = 0; i < sizeof whole; i++) {
        snprintf(out + 2 * i, 3, "%02x", whole[i]);
    }
    snprintf(out + 2 * sizeof whole, OBJECT_ETAG_MAX - 2 * sizeof whole, "-%zu",
             upload->part_count);
    return true;
}

static void judge_completion(struct s3_request *request)
{
    struct object_call *call = request->call;
    const struct str *text = &request->exchange.text;
    struct s3_fault fault = {0};
    if (!s3_request_succeeded(request)) {
        return;
    }
    if (s3_reply_completed(text, call->etag)) {
        if (!call->etag[0] && !make_etag(request->upload, call->etag)) {
            object_call_fail(call, ERR_IO, "S3 at %.64s gives no etag", request->s3->config.host);
        }
        return;
    }
    /* It may take long; so "200 OK" comes first, and then an error may follow. */
    if (s3_reply_fault(text, &fault)) {
        s3_fail(request->s3, call, 500, &fault);
    } else {
        object_call_fail(call, ERR_AGAIN, "S3 at %.64s: the answer is cut off or not XML",
                         request->s3->config.host);
    }
}

static void on_completed(struct s3_request *request)
{
    struct s3_upload *upload = request->upload;
    judge_completion(request);
    s3_request_destroy(request);
    if (upload->call->code != ERR_OK) {
        fail(upload);
    } else {
        end(upload);
    }
}

static void complete(struct s3_upload *upload)
{
    struct s3_request *request = ask(upload, "POST", on_completed);
    struct str *body = &request->data_own;
    str_add(body, "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
    for (size_t i = 0; i < upload->part_count; i++) {
        str_addf(body, "<Part><PartNumber>%zu</PartNumber><ETag>\"", i + 1);
        s3_xml_add_escaped(body, upload->etags[i]);
        str_add(body, "\"</ETag></Part>");
    }
    str_add(body, "</CompleteMultipartUpload>");
    request->data = body->text;
    request->data_size = body->size;
    s3_add_query(&request->query, "uploadId", upload->id.text);
    s3_request_add_header(request, "content-type", "application/xml");
    s3_request_send(request);
}

/* -- parts ------------------------------------------------------------------------------------- */

static void on_part(struct s3_request *request);

static void send_parts(struct s3_upload *upload)
{
    const struct object_call *call = upload->call;
    while (upload->sent_count < upload->part_count &&
           upload->sent_count - upload->done_count < S3_UPLOAD_PARTS_AT_ONCE) {
        size_t at = upload->sent_count++;
        size_t offset = at * upload->part_bytes;
        size_t left = call->data_size - offset;
        struct s3_request *request = ask(upload, "PUT", on_part);
        request->part = at + 1;
        request->data = (const char *)call->data + offset;
        request->data_size = left < upload->part_bytes ? left : upload->part_bytes;
        char number[24];
        snprintf(number, sizeof number, "%zu", request->part);
        s3_add_query(&request->query, "partNumber", number);
        s3_add_query(&request->query, "uploadId", upload->id.text);
        s3_request_send(request);
    }
}

static void on_part(struct s3_request *request)
{
    struct s3_upload *upload = request->upload;
    struct object_call *call = upload->call;
    if (s3_request_succeeded(request)) {
        memcpy(upload->etags[request->part - 1], request->exchange.etag, OBJECT_ETAG_MAX);
        if (!request->exchange.etag[0]) {
            object_call_fail(call, ERR_IO, "S3 at %.64s gives no etag of a part",
                             request->s3->config.host);
        }
    }
    s3_request_destroy(request);
    upload->done_count++;
    if (call->code != ERR_OK) {
        fail(upload);
    } else if (upload->done_count == upload->part_count) {
        complete(upload);
    } else {
        send_parts(upload);
    }
}

/* -- beginning --------------------------------------------------------------------------------- */

static void on_begun(struct s3_request *request)
{
    struct s3_upload *upload = request->upload;
    if (s3_request_succeeded(request) &&
        !s3_reply_upload_id(&request->exchange.text, &upload->id)) {
        str_clear(&upload->id);
        object_call_fail(upload->call, ERR_AGAIN, "S3 at %.64s: the answer has no upload id",
                         request->s3->config.host);
    }
    s3_request_destroy(request);
    if (upload->call->code != ERR_OK) {
        fail(upload);
    } else {
        send_parts(upload);
    }
}

void s3_upload_begin(struct s3 *s3, struct object_call *call)
{
    struct s3_upload *upload = mem_alloc(sizeof *upload);
    upload->s3 = s3;
    upload->call = call;
    upload->part_bytes = s3->config.part_bytes;
    if (call->data_size / PARTS_MAX >= upload->part_bytes) {
        upload->part_bytes = call->data_size / PARTS_MAX + 1;
    }
    upload->part_count = (call->data_size - 1) / upload->part_bytes + 1;
    upload->etags = mem_array(upload->part_count, sizeof upload->etags[0]);
    upload->next = s3->uploads;
    if (s3->uploads) {
        s3->uploads->prev = upload;
    }
    s3->uploads = upload;

    struct s3_request *request = ask(upload, "POST", on_begun);
    s3_add_query(&request->query, "uploads", "");
    s3_request_send(request);
}

/* -- the end of the store ---------------------------------------------------------------------- */

static void on_aborted_at_close(struct s3_request *request)
{
    struct s3_upload *upload = request->upload;
    s3_request_destroy(request);
    destroy(upload);
}

void s3_uploads_close(struct s3 *s3)
{
    struct s3_upload *next = NULL;
    for (struct s3_upload *upload = s3->uploads; upload; upload = next) {
        next = upload->next;
        if (upload->failed == ERR_OK) {
            object_call_fail(upload->call, ERR_CANCELLED, "the store was closed");
        }
        s3_call_end(s3, upload->call);
    }
    /* A little time for the server, and none that anyone would notice where it does not answer. */
    int64_t deadline_ms = clock_mono_ms() + CLOSE_MS;
    for (struct s3_upload *upload = s3->uploads; upload; upload = next) {
        next = upload->next;
        if (upload->id.size > 0) {
            abort_upload(upload, on_aborted_at_close);
        }
    }
    while (s3->flight_count > 0 && clock_mono_ms() < deadline_ms) {
        s3_pump_run(&s3->pump, (int)(deadline_ms - clock_mono_ms()));
    }
    s3_requests_cancel(s3, NULL);
    for (struct s3_upload *upload = s3->uploads; upload; upload = next) {
        next = upload->next;
        destroy(upload);
    }
}
