/* SPDX-License-Identifier: MIT */
/* boot - see boot.h. */
#include "mover/base/boot.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/fault.h"

#define PATH "/proc/sys/kernel/random/boot_id"

int fm_boot_id(char id[static FM_BOOT_ID_LEN + 1])
{
	int fd = FM_FAULT("boot.id") ? (errno = EIO, -1) : open(PATH, O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, id, FM_BOOT_ID_LEN);
	int ret = len < 0 ? -errno : 0;

	if (fd >= 0)
		(void)close(fd);	/* only read */
	id[len < 0 ? 0 : len] = '\0';
	if (ret == 0 && strspn(id, "0123456789abcdef-") != FM_BOOT_ID_LEN) {
		id[0] = '\0';
		ret = -EBADMSG;
	}
	return ret;
}
