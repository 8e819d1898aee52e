/* SPDX-License-Identifier: MIT */
/*
 * http - a page over HTTP, in a thread of its own. The only file that knows libmicrohttpd.
 *
 * One request on each connection. Connections, the memory of each and the time that each may take
 * are bounded; who comes when all places are taken gets that of the one who has been there longest,
 * so slow clients keep nobody out.
 */
#ifndef FM_METRICS_HTTP_H
#define FM_METRICS_HTTP_H

#include <stddef.h>

struct fm_err;
struct fm_http;

#define FM_HTTP_CONNECTIONS_MAX 32
/* bytes of its line and headers, with what is made of them */
#define FM_HTTP_REQUEST_MAX (16u << 10)

struct fm_http_page {
	/*
	 * The page for a client with that header Accept (NULL: it sends none), in the server's
	 * thread; *body is malloc()ed. Negative: there is none now, try again.
	 */
	int (*make)(void *ctx, const char *accept, char **body, size_t *len, const char **type);
	void *ctx;
};

/*
 * Serves the page as /metrics. fd: a listening socket, taken over in success. page is copied.
 * -ENOMEM, -EAGAIN (no thread), -EIO.
 */
int fm_http_new(int fd, const struct fm_http_page *page, struct fm_http **out, struct fm_err *err);

/* Ends the thread; waits for a make() under way. NULL is allowed. */
void fm_http_free(struct fm_http *http);

#endif
