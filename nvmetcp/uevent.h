/* SPDX-License-Identifier: MIT */
/*
 * uevent - the kernel says that something about NVMe or its block devices has changed. A hint only:
 * what has changed is looked up, and events that were lost are an event. Loop thread.
 */
#ifndef FM_NVMETCP_UEVENT_H
#define FM_NVMETCP_UEVENT_H

#include <stdbool.h>
#include <stddef.h>

struct fm_err;
struct fm_loop;
struct fm_uevent;

#define FM_UEVENT_NAME_MAX 32

/* Called from the loop. */
struct fm_uevent_heard {
	void (*changed)(void *ctx);		/* once for any number of events */
	/* Before that, for each controller that has connected, for the first time or again; NULL:
	 * some may have, events were lost. */
	void (*connected)(void *ctx, const char *controller);
	void *ctx;
};

int fm_uevent_new(struct fm_loop *loop, const struct fm_uevent_heard *heard, struct fm_uevent **out,
		  struct fm_err *err);

/* NULL is allowed. */
void fm_uevent_free(struct fm_uevent *uevent);

/* Whether a message of the kernel's ("add@/devices/...", then KEY=VALUE, each ended by a NUL) is
 * about NVMe. */
bool fm_uevent_is_nvme(const char *text, size_t len);

/* Whether it says that a controller has connected, and which. */
bool fm_uevent_is_connected(const char *text, size_t len,
			    char controller[static FM_UEVENT_NAME_MAX]);

#endif
