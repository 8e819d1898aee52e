/* SPDX-License-Identifier: MIT */
/* arena - see arena.h. */
#include "mover/daemon/arena.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config/value.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/page.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23	/* Linux 5.14; older C libraries do not name it */
#endif

static void *map(size_t len, int flags)
{
	void *p = FM_FAULT("arena.map") ? MAP_FAILED
					: mmap(NULL, len, PROT_READ | PROT_WRITE,
					       MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* Before 5.14 each page is touched by hand. */
static int touch(void *memory, size_t len)
{
	volatile char *at = memory;
	size_t page = fm_page_bytes();

	if (FM_FAULT("arena.touch"))
		return -ENOMEM;
	if (madvise(memory, len, MADV_POPULATE_WRITE) == 0)
		return 0;
	if (errno != EINVAL)
		return -errno;
	for (size_t i = 0; i < len; i += page)
		at[i] = 0;
	return 0;
}

static int fail_huge(uint64_t bytes, uint64_t huge, struct fm_err *err)
{
	if (huge == 0)
		return fm_err_set(err, -ENOTSUP,
				  "memory.huge_pages is \"always\", and this kernel has none: say "
				  "\"auto\"");
	if (bytes % huge != 0)
		return fm_err_set(err, -EINVAL,
				  "memory.huge_pages is \"always\", and memory.arena is no "
				  "multiple of this kernel's huge pages, %llu MiB: say another "
				  "size, or \"auto\"",
				  (unsigned long long)(huge >> 20));
	return fm_err_set(err, -ENOMEM,
			  "memory.huge_pages is \"always\", and there are not enough free: sysctl "
			  "vm.nr_hugepages=%llu, or say \"auto\"",
			  (unsigned long long)(bytes / huge));
}

int fm_arena_map(const struct fm_config_memory *cfg, struct fm_arena *out, struct fm_err *err)
{
	struct fm_arena a = { .len = cfg->arena_bytes };
	uint64_t huge = fm_page_huge_bytes();
	char size[FM_VALUE_TEXT_MAX];
	int ret;

	/* The mapping itself reserves the pages: it fails here or never. */
	if (cfg->huge_pages != FM_CONFIG_PAGES_NEVER && huge > 0 && a.len % huge == 0)
		a.memory = map(a.len, MAP_HUGETLB);
	a.is_huge = a.memory != NULL;
	if (!a.memory && cfg->huge_pages == FM_CONFIG_PAGES_ALWAYS)
		return fail_huge(cfg->arena_bytes, huge, err);
	fm_value_size_print(cfg->arena_bytes, size);
	if (!a.memory)
		a.memory = map(a.len, MAP_NORESERVE);
	if (!a.memory)
		return fm_err_set(err, -ENOMEM,
				  "memory.arena: %s is more than this machine gives; say less",
				  size);
	/* Advice: none of it is needed. The arena holds other people's data, which belongs into no
	 * core dump. */
	(void)madvise(a.memory, a.len, MADV_HUGEPAGE);
	(void)madvise(a.memory, a.len, MADV_DONTDUMP);
	ret = touch(a.memory, a.len);
	if (ret < 0) {
		fm_arena_unmap(&a);
		return fm_err_set(err, ret, "memory.arena: this machine has no %s free; say less",
				  size);
	}
	*out = a;
	return 0;
}

void fm_arena_unmap(struct fm_arena *arena)
{
	if (arena->memory)
		munmap(arena->memory, arena->len);
	arena->memory = NULL;
}
