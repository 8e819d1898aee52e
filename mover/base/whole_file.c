/* SPDX-License-Identifier: MIT */
/* whole_file - see whole_file.h. */
#include "mover/base/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "mover/base/err.h"

/* One byte more than is allowed, so that a longer one is told. */
static int read_all(int fd, char *buf, size_t max, size_t *len)
{
	ssize_t n = 1;

	for (*len = 0; n != 0 && *len <= max; *len += n > 0 ? (size_t)n : 0) {
		n = read(fd, buf + *len, max + 1 - *len);
		if (n < 0 && errno != EINTR)
			return -errno;
	}
	return *len > max ? -E2BIG : 0;
}

int fm_whole_file(const char *path, size_t max, char **out, size_t *len, struct fm_err *err)
{
	char *buf = malloc(max + 1);
	int fd = buf ? open(path, O_RDONLY | O_CLOEXEC) : -1, ret;

	if (!buf)
		ret = fm_err_set(err, -ENOMEM, "no memory for %zu bytes", max + 1);
	else if (fd < 0)
		ret = fm_err_sys(err, -errno, "open");
	else if ((ret = read_all(fd, buf, max, len)) == -E2BIG)
		(void)fm_err_set(err, ret, "longer than %zu bytes", max);
	else if (ret < 0)
		(void)fm_err_sys(err, ret, "read");
	if (fd >= 0)
		(void)close(fd); /* it was only read */
	if (ret < 0)
		free(buf);
	else
		*out = buf;
	return ret;
}
