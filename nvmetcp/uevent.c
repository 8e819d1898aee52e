/* SPDX-License-Identifier: MIT */
/*
 * uevent - see uevent.h. It listens to the kernel and not to sd-device: sd-device hears what udev
 * sends after its rules, so it hears nothing while udev is stopped, and it wants an event loop of
 * its own. All that is used of an event is that NVMe changed, and which controller came.
 */
#include "nvmetcp/uevent.h"

#include <errno.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/loop.h"

#define GROUP_KERNEL 1u			/* 2 is udev's */
#define MESSAGE_MAX 8192		/* the kernel's are 2 KiB at most */
#define PASS_MAX 64			/* messages in one pass of the loop */
#define ROOM (256 << 10)

struct fm_uevent {
	struct fm_loop *loop;
	struct fm_watch watch;
	struct fm_uevent_heard heard;
};

static bool is_key(const char *at, size_t len, const char *key, const char *prefix)
{
	size_t key_len = strlen(key), prefix_len = strlen(prefix);

	return len >= key_len + prefix_len && memcmp(at, key, key_len) == 0 &&
	       memcmp(at + key_len, prefix, prefix_len) == 0;
}

bool fm_uevent_is_nvme(const char *text, size_t len)
{
	bool is_block = false, is_named = false;

	for (size_t at = 0; at < len;) {
		size_t left = strnlen(text + at, len - at);

		if (is_key(text + at, left, "SUBSYSTEM=", "nvme"))
			return true;
		is_block = is_block || (is_key(text + at, left, "SUBSYSTEM=", "block") &&
					left == strlen("SUBSYSTEM=block"));
		is_named = is_named || is_key(text + at, left, "DEVNAME=", "nvme");
		at += left + 1;
	}
	return is_block && is_named;
}

bool fm_uevent_is_connected(const char *text, size_t len,
			    char controller[static FM_UEVENT_NAME_MAX])
{
	static const char name[] = "DEVNAME=";
	bool is_nvme = false, is_connected = false;

	controller[0] = '\0';
	for (size_t at = 0; at < len;) {
		size_t left = strnlen(text + at, len - at);

		is_nvme = is_nvme || (is_key(text + at, left, "SUBSYSTEM=", "nvme") &&
				      left == strlen("SUBSYSTEM=nvme"));
		is_connected = is_connected || is_key(text + at, left, "NVME_EVENT=", "connected");
		if (is_key(text + at, left, name, "nvme") &&
		    left - strlen(name) < FM_UEVENT_NAME_MAX) {
			memcpy(controller, text + at + strlen(name), left - strlen(name));
			controller[left - strlen(name)] = '\0';
		}
		at += left + 1;
	}
	return is_nvme && is_connected && controller[0];
}

/* 1: about NVMe, or some were lost; 0: not; -1: no more. */
static int take_one(const struct fm_uevent *u)
{
	char controller[FM_UEVENT_NAME_MAX];
	char text[MESSAGE_MAX];
	struct sockaddr_nl from = { 0 };
	socklen_t from_len = sizeof(from);
	ssize_t len = recvfrom(u->watch.fd, text, sizeof(text), MSG_DONTWAIT,
			       (struct sockaddr *)&from, &from_len);

	if (len < 0 && errno == ENOBUFS) {
		u->heard.connected(u->heard.ctx, NULL);
		return 1;
	}
	if (len < 0)
		return errno == EINTR ? 0 : -1;
	/* Only the kernel's own: anybody may send to a group that we listen to. */
	if (from_len != sizeof(from) || from.nl_pid != 0)
		return 0;
	if (fm_uevent_is_connected(text, (size_t)len, controller))
		u->heard.connected(u->heard.ctx, controller);
	return fm_uevent_is_nvme(text, (size_t)len);
}

static void ready(struct fm_watch *watch, uint32_t events)
{
	struct fm_uevent *u = fm_container_of(watch, struct fm_uevent, watch);
	bool has_changed = false;
	int ret = 0;

	(void)events;
	for (unsigned i = 0; i < PASS_MAX && ret >= 0; i++) {
		ret = take_one(u);
		has_changed = has_changed || ret > 0;
	}
	if (has_changed)
		u->heard.changed(u->heard.ctx);
}

static int open_socket(struct fm_err *err)
{
	struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_groups = GROUP_KERNEL };
	int room = ROOM, ret;
	int fd = FM_FAULT("uevent.socket")
			 ? (errno = EMFILE, -1)
			 : socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
				  NETLINK_KOBJECT_UEVENT);

	if (fd < 0)
		return fm_err_sys(err, -errno, "listen to the kernel's events");
	/* As much as the system grants; what does not fit is lost, and said to be. */
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	ret = fm_err_sys(err, -errno, "listen to the kernel's events");
	close(fd);
	return ret;
}

int fm_uevent_new(struct fm_loop *loop, const struct fm_uevent_heard *heard, struct fm_uevent **out,
		  struct fm_err *err)
{
	struct fm_uevent *u = FM_FAULT("uevent.alloc") ? NULL : calloc(1, sizeof(*u));
	int ret;

	if (!u)
		return fm_err_set(err, -ENOMEM, "no memory to listen to the kernel's events");
	*u = (struct fm_uevent){ .loop = loop, .heard = *heard };
	ret = open_socket(err);
	if (ret < 0)
		goto free_u;
	u->watch = (struct fm_watch){ .ready = ready, .fd = ret, .events = EPOLLIN };
	ret = fm_watch_add(loop, &u->watch, err);
	if (ret < 0)
		goto close_fd;
	*out = u;
	return 0;

close_fd:
	close(u->watch.fd);
free_u:
	free(u);
	return ret;
}

void fm_uevent_free(struct fm_uevent *uevent)
{
	if (!uevent)
		return;
	fm_watch_del(uevent->loop, &uevent->watch);
	close(uevent->watch.fd);
	free(uevent);
}
