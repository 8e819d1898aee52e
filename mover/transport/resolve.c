/* SPDX-License-Identifier: MIT */
/*
 * resolve - host names, without blocking the loop.
 *
 * The look-up has two owners, its thread and whoever started it; the last to let go frees it. The
 * thread writes the result, then the eventfd; the loop reads the eventfd, then the result.
 */
#include "mover/transport/resolve.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "mover/base/fault.h"
#include "mover/base/loop.h"

struct fm_resolve {
	struct fm_loop *loop;
	struct fm_watch watch;		/* on the eventfd */
	void (*done)(void *ctx, const struct sockaddr_storage *addrs, unsigned count,
		     const struct fm_err *err);
	void *ctx;
	atomic_uint owners;
	char host[NI_MAXHOST];
	char port[NI_MAXSERV];
	/* The thread's until it wrote to the eventfd: */
	int gai_error;
	struct sockaddr_storage addrs[FM_RESOLVE_ADDRS_MAX];
	unsigned count;
};

/* Of the process: a name server that hangs hangs for every net in it. */
static atomic_uint threads;

int fm_resolve_numeric(const char *host, uint16_t port, struct sockaddr_storage *out)
{
	const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM,
					.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV };
	char text[NI_MAXSERV];
	struct addrinfo *list;

	snprintf(text, sizeof(text), "%u", (unsigned)port);
	if (getaddrinfo(host, text, &hints, &list) != 0)
		return -ENOENT;
	memset(out, 0, sizeof(*out));
	memcpy(out, list->ai_addr, list->ai_addrlen);
	freeaddrinfo(list);
	return 0;
}

static void resolve_put(struct fm_resolve *r)
{
	if (atomic_fetch_sub(&r->owners, 1) > 1)
		return;
	close(r->watch.fd);
	free(r);
}

static void look_up(struct fm_resolve *r)
{
	const struct addrinfo hints = { .ai_family = AF_UNSPEC,
					.ai_socktype = SOCK_STREAM,
					.ai_flags = AI_NUMERICSERV };
	struct addrinfo *list = NULL;

	r->gai_error = getaddrinfo(r->host, r->port, &hints, &list);
	if (r->gai_error)
		return;
	for (struct addrinfo *ai = list; ai && r->count < FM_RESOLVE_ADDRS_MAX; ai = ai->ai_next)
		if (ai->ai_addrlen <= sizeof(r->addrs[0]))
			memcpy(&r->addrs[r->count++], ai->ai_addr, ai->ai_addrlen);
	freeaddrinfo(list);
}

static void *resolve_thread(void *arg)
{
	const uint64_t one = 1;
	struct fm_resolve *r = arg;

	look_up(r);
	atomic_fetch_sub(&threads, 1);
	/* the first write to an eventfd cannot fail */
	(void)!write(r->watch.fd, &one, sizeof(one));
	resolve_put(r);
	return NULL;
}

static void resolve_ready(struct fm_watch *watch, uint32_t events)
{
	struct fm_resolve *r = fm_container_of(watch, struct fm_resolve, watch);
	struct fm_err err = { 0 };
	uint64_t count;

	(void)events;
	(void)!read(r->watch.fd, &count, sizeof(count));	/* epoll said that it is there */
	fm_watch_del(r->loop, &r->watch);
	if (r->count == 0)
		fm_err_set(&err, -ENOENT, "no address for that name (%s)",
			   r->gai_error ? gai_strerror(r->gai_error) : "none found");
	r->done(r->ctx, r->addrs, r->count, &err);
	resolve_put(r);
}

/* Detached, and deaf to signals: those are for the main thread. */
static int thread_start(struct fm_resolve *r)
{
	sigset_t all, saved;
	pthread_attr_t attr;
	pthread_t thread;
	int ret;

	if (pthread_attr_init(&attr) != 0)
		return -ENOMEM;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &saved);
	ret = pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (ret == 0)
		ret = FM_FAULT("resolve.thread")
			      ? EAGAIN
			      : pthread_create(&thread, &attr, resolve_thread, r);
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	pthread_attr_destroy(&attr);
	return -ret;
}

int fm_resolve_start(struct fm_loop *loop, const char *host, uint16_t port,
		     void (*done)(void *ctx, const struct sockaddr_storage *addrs, unsigned count,
				  const struct fm_err *err),
		     void *ctx, struct fm_resolve **out, struct fm_err *err)
{
	struct fm_resolve *r;
	int ret;

	if (strlen(host) >= NI_MAXHOST)
		return fm_err_set(err, -EINVAL, "the name is too long");
	if (atomic_fetch_add(&threads, 1) >= FM_RESOLVE_THREADS_MAX) {
		ret = fm_err_set(
			err, -EAGAIN,
			"too many names are being looked up: does the name server answer?");
		goto uncount;
	}
	ret = fm_err_set(err, -ENOMEM, "look up a name: no memory");
	r = FM_FAULT("resolve.alloc") ? NULL : calloc(1, sizeof(*r));
	if (!r)
		goto uncount;
	*r = (struct fm_resolve){ .loop = loop, .done = done, .ctx = ctx, .owners = 2 };
	strcpy(r->host, host);
	snprintf(r->port, sizeof(r->port), "%u", (unsigned)port);
	r->watch = (struct fm_watch){ .ready = resolve_ready, .events = EPOLLIN };
	r->watch.fd = FM_FAULT("resolve.eventfd") ? (errno = EMFILE, -1)
						  : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (r->watch.fd < 0) {
		ret = fm_err_sys(err, -errno, "look up a name: eventfd");
		goto free_resolve;
	}
	ret = fm_watch_add(loop, &r->watch, err);
	if (ret < 0)
		goto close_fd;
	ret = thread_start(r);
	if (ret < 0) {
		fm_err_sys(err, ret, "look up a name: start a thread");
		goto del_watch;
	}
	*out = r;
	return 0;

del_watch:
	fm_watch_del(loop, &r->watch);
close_fd:
	close(r->watch.fd);
free_resolve:
	free(r);
uncount:
	atomic_fetch_sub(&threads, 1);
	return ret;
}

void fm_resolve_cancel(struct fm_resolve *r)
{
	if (!r)
		return;
	fm_watch_del(r->loop, &r->watch);
	resolve_put(r);
}
