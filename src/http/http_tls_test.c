/* TLS with a certificate made on the spot. */
#include "http/test_app.h"

#include "base/io.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include <cmocka.h>

static char folder[] = "/tmp/drover-tls-XXXXXX";
static char certificate[64];
static char key[64];

static int make_certificate(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(certificate, sizeof certificate, "%s/cert.pem", folder);
    snprintf(key, sizeof key, "%s/key.pem", folder);
    char command[600];
    snprintf(command, sizeof command,
             "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
             "-keyout %s -out %s -days 2 -subj /CN=localhost "
             "-addext subjectAltName=DNS:localhost,IP:127.0.0.1 >%s/log 2>&1",
             key, certificate, folder);
    if (system(command) != 0) { // NOLINT(cert-env33-c)
        print_message("skipped: there is no openssl to make a certificate with\n");
        certificate[0] = '\0';
    }
    return 0;
}

static int remove_all(void **state)
{
    (void)state;
    return io_remove_tree(folder, NULL) == ERR_OK ? 0 : -1;
}

static enum err_code try_call(const struct app *app, const char *path, struct client_answer *answer,
                              struct err *err)
{
    struct client *client = NULL;
    assert_int_equal(client_open(app_url(app), "t", 5, &client, err), ERR_OK);
    struct client_request request = {.method = "GET", .path = path};
    enum err_code code = client_call(client, &request, answer, err);
    client_close(client);
    return code;
}

static void a_trusted_server_is_talked_to_in_secret(void **state)
{
    (void)state;
    if (certificate[0] == '\0') {
        skip();
    }
    struct app *app = app_start(&(struct http_options){
        .certificate_file = certificate, .key_file = key, .patience_ms = 500});
    assert_int_equal(strncmp(app_url(app), "https://127.0.0.1:", 18), 0);
    struct client_answer answer;
    struct err err;
    unsetenv("DROVER_CA");
    assert_int_equal(try_call(app, "/hello", &answer, &err), ERR_IO);
    assert_non_null(strstr(err.text, "DROVER_CA"));

    setenv("DROVER_CA", certificate, 1);
    assert_int_equal(try_call(app, "/big?size=3000000", &answer, &err), ERR_OK);
    assert_int_equal(answer.status, 200);
    assert_int_equal(answer.body.size, 3000000);
    client_answer_release(&answer);
    char path[200];
    snprintf(path, sizeof path, "/file?path=%s&size=11", certificate);
    assert_int_equal(try_call(app, path, &answer, &err), ERR_OK);
    assert_string_equal(str_text(&answer.body), "-----BEGIN ");
    client_answer_release(&answer);

    /* who does not get on with the handshake, or speaks plainly, is cut off */
    int silent = raw_connect(app);
    int plain = raw_connect(app);
    raw_send(plain, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
    AUTO_STR struct str response = {0};
    assert_true(raw_until_closed(silent, &response));
    assert_int_equal(response.size, 0);
    assert_true(raw_until_closed(plain, &response));
    assert_null(strstr(str_text(&response), "hello"));
    close(silent);
    close(plain);
    app_stop(app);
    unsetenv("DROVER_CA");
}

static void a_server_for_all_addresses_has_the_name_of_the_machine(void **state)
{
    (void)state;
    if (certificate[0] == '\0') {
        skip();
    }
    struct app *app = app_start(&(struct http_options){
        .host = "0.0.0.0", .certificate_file = certificate, .key_file = key});
    char name[256] = "";
    assert_int_equal(gethostname(name, sizeof name - 1), 0);
    assert_int_equal(strncmp(app_url(app) + 8, name, strlen(name)), 0);
    app_stop(app);
}

static void files_that_are_no_certificate_are_refused(void **state)
{
    (void)state;
    if (certificate[0] == '\0') {
        skip();
    }
    void *context = zmq_ctx_new();
    struct http *http = NULL;
    struct err err;
    struct http_options options = {
        .zmq_context = context, .host = "127.0.0.1", .certificate_file = key, .key_file = key};
    assert_int_equal(http_start(&options, &http, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, key));
    char junk[80];
    snprintf(junk, sizeof junk, "%s/junk.pem", folder);
    options.certificate_file = certificate;
    options.key_file = junk;
    assert_int_equal(io_replace_file(junk, "junk", 4, 0600, &err), ERR_OK);
    assert_int_equal(http_start(&options, &http, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "PEM"));
    assert_int_equal(io_replace_file(junk, "-----BEGIN PRIVATE KEY-----\n", 28, 0600, &err),
                     ERR_OK);
    assert_int_equal(http_start(&options, &http, &err), ERR_INVALID);
    zmq_ctx_term(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trusted_server_is_talked_to_in_secret),
        cmocka_unit_test(a_server_for_all_addresses_has_the_name_of_the_machine),
        cmocka_unit_test(files_that_are_no_certificate_are_refused),
    };
    return cmocka_run_group_tests(tests, make_certificate, remove_all);
}
