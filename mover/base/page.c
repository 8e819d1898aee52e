/* SPDX-License-Identifier: MIT */
/* page - see page.h. */
#include "mover/base/page.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

size_t fm_page_bytes(void)
{
#ifdef FM_PAGE_BYTES
	return FM_PAGE_BYTES;
#else
	return (size_t)sysconf(_SC_PAGESIZE);	/* never fails */
#endif
}

uint64_t fm_page_huge_bytes(void)
{
	FILE *f = fopen("/proc/meminfo", "re");
	unsigned long kib = 0;
	char line[128];

	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "Hugepagesize: %lu kB", &kib) == 1)
			break;
	(void)fclose(f);	/* only read */
	return (uint64_t)kib << 10;
}

void fm_page_drop(int fd, uint64_t offset, uint64_t len)
{
	uint64_t page = fm_page_bytes(), from = offset - offset % page;
	uint64_t end = (offset + len + page - 1) / page * page;

	if (len == 0)
		return;		/* which would be all behind it */
	(void)posix_fadvise(fd, (off_t)from, (off_t)(end - from), POSIX_FADV_DONTNEED);
}
