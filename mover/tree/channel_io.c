/* SPDX-License-Identifier: MIT */
/* channel_io - see channel_io.h. */
#include "mover/tree/channel_io.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mover/base/fault.h"

#ifndef SCM_PIDFD
#define SCM_PIDFD 4	/* since Linux 6.5 */
#endif
#define FDS_ROOM 32	/* that are looked at; the kernel drops those behind */

void fm_channel_close_fds(struct fm_channel_fds *fds)
{
	while (fds->count > 0)
		(void)close(fds->at[--fds->count]);	/* nothing was written through it by us */
}

int fm_channel_send(int socket, const void *buf, size_t len, const struct fm_channel_fds *fds)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(FM_CHANNEL_FDS_MAX * sizeof(int))];
	} control = { .room = { 0 } };
	struct iovec iov = { .iov_base = (void *)(uintptr_t)buf, .iov_len = len };
	struct msghdr hdr = { .msg_iov = &iov, .msg_iovlen = 1 };
	unsigned count = fds ? fds->count : 0;
	ssize_t n;

	assert(count <= FM_CHANNEL_FDS_MAX);
	if (count > 0) {
		hdr.msg_control = &control;
		hdr.msg_controllen = CMSG_SPACE(count * sizeof(int));
		control.align.cmsg_len = CMSG_LEN(count * sizeof(int));
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		memcpy(CMSG_DATA(&control.align), fds->at, count * sizeof(int));
	}
	do {
		n = FM_FAULT("channel.send") ? (errno = EPIPE, -1)
					     : sendmsg(socket, &hdr, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n >= 0)
		return 0;
	return errno == ECONNRESET || errno == ENOTCONN ? -EPIPE : -errno;
}

/* Descriptors of one header; false: there are too many. */
static bool take_rights(const struct cmsghdr *at, struct fm_channel_fds *fds)
{
	size_t count = (at->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	bool is_good = true;

	for (size_t i = 0; i < count; i++) {
		int fd;

		memcpy(&fd, CMSG_DATA(at) + i * sizeof(int), sizeof(fd));
		if (fds->count < FM_CHANNEL_FDS_MAX) {
			fds->at[fds->count++] = fd;
		} else {
			(void)close(fd);	/* unused */
			is_good = false;
		}
	}
	return is_good;
}

/* The other end can have the kernel put things beside a message that nobody asked for: a descriptor
 * of its process. */
static bool take_fds(struct msghdr *hdr, struct fm_channel_fds *fds)
{
	bool is_good = !(hdr->msg_flags & (MSG_TRUNC | MSG_CTRUNC));
	int fd;

	for (struct cmsghdr *at = CMSG_FIRSTHDR(hdr); at; at = CMSG_NXTHDR(hdr, at)) {
		if (at->cmsg_level != SOL_SOCKET)
			continue;
		if (at->cmsg_type == SCM_PIDFD && at->cmsg_len >= CMSG_LEN(sizeof(fd))) {
			memcpy(&fd, CMSG_DATA(at), sizeof(fd));
			if (fd >= 0)
				(void)close(fd);	/* unused */
		} else if (at->cmsg_type == SCM_RIGHTS && !take_rights(at, fds)) {
			is_good = false;
		}
	}
	return is_good;
}

int fm_channel_receive(int socket, void *buf, size_t cap, struct fm_channel_fds *fds)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(FDS_ROOM * sizeof(int))];
	} control;
	struct iovec iov = { .iov_base = buf, .iov_len = cap };
	struct msghdr hdr = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};
	ssize_t n;

	fds->count = 0;
	do {
		n = FM_FAULT("channel.receive") ? (errno = ECONNRESET, -1)
						: recvmsg(socket, &hdr, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == ECONNRESET ? 0 : -errno;
	if (!take_fds(&hdr, fds)) {
		fm_channel_close_fds(fds);
		return -EBADMSG;
	}
	if (n == 0)
		fm_channel_close_fds(fds);
	return (int)n;
}
