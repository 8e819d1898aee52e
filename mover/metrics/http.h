/* SPDX-License-Identifier: MIT */
/*
 * http - a page over HTTP. The only file that knows libmicrohttpd.
 *
 * It has no thread and no loop: whoever made it runs it when its descriptor can be read, and when
 * the time has come that it said. One thread at a time.
 *
 * One request on each connection. Connections, the memory of each and the time that each may take
 * are bounded; who comes when all places are taken gets that of the one who has been there longest,
 * so slow clients keep nobody out.
 */
#ifndef FM_METRICS_HTTP_H
#define FM_METRICS_HTTP_H

#include <stddef.h>
#include <stdint.h>

struct fm_err;
struct fm_http;
struct fm_metrics_at;

#define FM_HTTP_CONNECTIONS_MAX 32
/* bytes of its line and headers, with what is made of them */
#define FM_HTTP_REQUEST_MAX (16u << 10)

struct fm_http_page {
	/*
	 * The page for a client with that header Accept (NULL: it sends none); *body is
	 * malloc()ed. Negative: there is none now, try again.
	 */
	int (*make)(void *ctx, const char *accept, char **body, size_t *len, const char **type);
	void *ctx;
};

/* Serves the page, which is copied, as /metrics there. Errors of listen.h; -ENOMEM, -EIO. */
int fm_http_new(const struct fm_metrics_at *at, const struct fm_http_page *page,
		struct fm_http **out, struct fm_err *err);

/* Can be read: there is something to do. */
int fm_http_fd(const struct fm_http *http);

/*
 * Does what there is to do, and waits for nobody but make(). In how many milliseconds at most it is
 * to be called again; -1: not before the descriptor can be read.
 */
int fm_http_run(struct fm_http *http);

/* Ends all connections, too. NULL is allowed. */
void fm_http_free(struct fm_http *http);

#endif
