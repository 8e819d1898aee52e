/* SPDX-License-Identifier: MIT */
/*
 * fuzz_manifest - any bytes as the manifest of a tree: refused, or entries that keep every promise
 * of manifest.h. CRCs are made good, so that what is behind them is reached.
 *
 * links: fm_tree
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mover/base/bytes.h"
#include "mover/base/crc32c.h"
#include "mover/tree/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int is_true)
{
	if (!is_true)
		abort();
}

static void put_le32(uint8_t *at, uint32_t v)
{
	v = htole32(v);
	memcpy(at, &v, sizeof(v));
}

static uint32_t get_le32(const uint8_t *at)
{
	uint32_t v;

	memcpy(&v, at, sizeof(v));
	return le32toh(v);
}

static void mend(uint8_t *buf, size_t size)
{
	size_t at = FM_MANIFEST_HEAD;

	if (size < FM_MANIFEST_HEAD)
		return;
	put_le32(buf + 12, 0);
	put_le32(buf + 12, fm_crc32c(0, buf, FM_MANIFEST_HEAD));
	while (size - at > 8) {
		uint32_t len = get_le32(buf + at);

		if (len > size - at - 8)
			return;
		put_le32(buf + at + 4, fm_crc32c(0, buf + at + 8, len));
		at += 8 + len;
	}
}

static void read_all(int fd)
{
	struct fm_manifest_reader m;
	struct fm_pack_entry e;
	int ret = fm_manifest_read(&m, fd);

	if (ret < 0) {
		check(ret == -EBADMSG);
		return;
	}
	check(m.name[0] && !strchr(m.name, '/'));
	while ((ret = fm_manifest_next(&m, &e)) > 0) {
		check(fm_pack_is_good_path(e.path, e.path_len) && e.data_len == 0);
		check(e.type == FM_PACK_FILE || e.type == FM_PACK_HARD || e.type == FM_PACK_LINK);
		check(e.type == FM_PACK_FILE || e.target_len > 0);
	}
	check(ret == 0 || ret == -EBADMSG);
	fm_manifest_free(&m);
}

static int file_of(const void *buf, size_t size)
{
	int fd = memfd_create("manifest", MFD_CLOEXEC);

	check(fd >= 0 && write(fd, buf, size) == (ssize_t)size);
	return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *buf = malloc(size ? size : 1);

	check(buf != NULL);
	memcpy(buf, data, size);
	read_all(file_of(buf, size));
	mend(buf, size);
	read_all(file_of(buf, size));
	free(buf);
	return 0;
}
