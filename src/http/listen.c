#include "http/listen.h"

#include "base/io.h"
#include "base/mem.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 511, PEM_BYTES_MAX = 1 << 20, HOST_BYTES = 256 };

/* --- addresses ------------------------------------------------------------------------------- */

static bool is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *four = (const struct sockaddr_in *)(const void *)address;
        return ntohl(four->sin_addr.s_addr) >> 24 == 127;
    }
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)(const void *)address;
    const uint8_t *bytes = six->sin6_addr.s6_addr;
    return IN6_IS_ADDR_LOOPBACK(&six->sin6_addr) ||
           (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr) && bytes[12] == 127);
}

static bool is_any(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *four = (const struct sockaddr_in *)(const void *)address;
        return four->sin_addr.s_addr == htonl(INADDR_ANY);
    }
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)(const void *)address;
    return IN6_IS_ADDR_UNSPECIFIED(&six->sin6_addr);
}

static void set_port(struct sockaddr *address, uint16_t port)
{
    if (address->sa_family == AF_INET) {
        ((struct sockaddr_in *)(void *)address)->sin_port = htons(port);
    } else {
        ((struct sockaddr_in6 *)(void *)address)->sin6_port = htons(port);
    }
}

_Static_assert(offsetof(struct sockaddr_in, sin_port) == offsetof(struct sockaddr_in6, sin6_port),
               "the port stands at the same place in both");

static uint16_t port_of(int fd)
{
    struct sockaddr_in6 bound = {0};
    socklen_t size = sizeof bound;
    CHECK(getsockname(fd, (struct sockaddr *)&bound, &size) == 0);
    return ntohs(bound.sin6_port);
}

/* "[::1]" is how an address with colons is written before a port. */
static enum err_code plain_host(const char *host, char *out, struct err *err)
{
    size_t length = strlen(host);
    bool bracketed = length >= 2 && host[0] == '[' && host[length - 1] == ']';
    if (bracketed) {
        host += 1;
        length -= 2;
    }
    if (length == 0 || length >= HOST_BYTES) {
        return err_set(err, ERR_INVALID, "'%.80s' is not an address to listen on", host);
    }
    memcpy(out, host, length);
    out[length] = '\0';
    return ERR_OK;
}

static enum err_code resolve(const char *host, struct addrinfo **out, struct err *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    int result = getaddrinfo(host, NULL, &hints, out);
    if (result != 0) {
        return err_set(err, ERR_INVALID, "cannot listen on %s: %s", host, gai_strerror(result));
    }
    return ERR_OK;
}

/* --- the socket ------------------------------------------------------------------------------ */

/* 0, or the errno of what failed. */
static int bind_and_listen(const struct addrinfo *address, int *out)
{
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int on = 1;
    if (fd < 0) {
        return errno;
    }
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(fd, address->ai_addr, address->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0) {
        int trouble = errno;
        close(fd);
        return trouble;
    }
    *out = fd;
    return 0;
}

static enum err_code open_socket(const struct http_options *options, const char *host,
                                 const struct addrinfo *address, int *fd, struct err *err)
{
    set_port(address->ai_addr, options->port);
    int trouble = bind_and_listen(address, fd);
    if (trouble == EADDRINUSE && options->port != 0 && options->port_is_wish) {
        set_port(address->ai_addr, 0);
        trouble = bind_and_listen(address, fd);
    }
    if (trouble == EADDRINUSE) {
        return err_set(err, ERR_EXISTS, "cannot listen on %s port %u: the port is taken", host,
                       options->port);
    }
    if (trouble == EADDRNOTAVAIL) {
        return err_set(err, ERR_INVALID, "cannot listen on %s: it is no address of this machine",
                       host);
    }
    return trouble == 0
               ? ERR_OK
               : err_errno(err, trouble, "cannot listen on %s port %u", host, options->port);
}

/* A server on all addresses is known by the machine's name. */
static void write_url(struct listen_place *place, const char *host, bool any)
{
    char name[HOST_BYTES] = "localhost";
    if (any && gethostname(name, sizeof name - 1) == 0) {
        host = name;
    }
    bool colons = strchr(host, ':') != NULL;
    snprintf(place->url, sizeof place->url, "%s://%s%s%s:%u",
             place->certificate.size > 0 ? "https" : "http", colons ? "[" : "", host,
             colons ? "]" : "", port_of(place->fd));
}

/* --- certificate ----------------------------------------------------------------------------- */

static enum err_code read_pem(const char *file, struct str *out, struct err *err)
{
    struct err why;
    if (io_read_file(file, PEM_BYTES_MAX, out, &why) != ERR_OK) {
        return err_set(err, ERR_INVALID, "%s", why.text);
    }
    if (strlen(str_text(out)) != out->size || !strstr(str_text(out), "-----BEGIN ")) {
        return err_set(err, ERR_INVALID, "%s: this is not a PEM file", file);
    }
    return ERR_OK;
}

static enum err_code read_certificate(const struct http_options *options,
                                      struct listen_place *place, struct err *err)
{
    if (!options->certificate_file && !options->key_file) {
        return ERR_OK;
    }
    if (!options->certificate_file || !options->key_file) {
        return err_set(err, ERR_INVALID, "a certificate needs its key, and a key its certificate");
    }
    enum err_code code = read_pem(options->certificate_file, &place->certificate, err);
    return code == ERR_OK ? read_pem(options->key_file, &place->key, err) : code;
}

/* --- all of it ------------------------------------------------------------------------------- */

static enum err_code open_at(const struct http_options *options, const char *host,
                             const struct addrinfo *address, struct listen_place *place,
                             struct err *err)
{
    place->loopback = is_loopback(address->ai_addr);
    if (!place->loopback && place->certificate.size == 0) {
        return err_set(err, ERR_DENIED,
                       "will not serve plain HTTP on %s, where others could read the tokens: give "
                       "--certificate and --key, or listen on 127.0.0.1 and come in through "
                       "`ssh -L`",
                       host);
    }
    enum err_code code = open_socket(options, host, address, &place->fd, err);
    if (code == ERR_OK) {
        write_url(place, host, is_any(address->ai_addr));
    }
    return code;
}

enum err_code listen_open(const struct http_options *options, struct listen_place *out,
                          struct err *err)
{
    *out = (struct listen_place){.fd = -1};
    char host[HOST_BYTES];
    struct addrinfo *addresses = NULL;
    enum err_code code = plain_host(options->host, host, err);
    if (code == ERR_OK) {
        code = read_certificate(options, out, err);
    }
    if (code == ERR_OK) {
        code = resolve(host, &addresses, err);
    }
    if (code == ERR_OK) {
        code = open_at(options, host, addresses, out, err);
        freeaddrinfo(addresses);
    }
    if (code != ERR_OK) {
        listen_release(out);
    }
    return code;
}

void listen_release(struct listen_place *place)
{
    if (place->key.size > 0) {
        explicit_bzero(place->key.text, place->key.size);
    }
    str_release(&place->key);
    str_release(&place->certificate);
    mem_auto_close(&place->fd);
    place->fd = -1;
}
