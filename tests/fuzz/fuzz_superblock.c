/* SPDX-License-Identifier: MIT */
/*
 * fuzz_superblock - any bytes as the start of a device; zeros behind them, if they are few.
 * links: fm_nvmetcp
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "nvmetcp/superblock.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int is_true)
{
	if (!is_true)
		abort();
}

static void check_text(const char *text, size_t size)
{
	size_t len = strnlen(text, size);

	check(len < size);
	for (size_t i = 0; i < len; i++)
		check(text[i] >= ' ' && text[i] <= '~');
}

static void check_uuid(const char *uuid)
{
	if (uuid[0] == '\0')
		return;
	check(strlen(uuid) == 36 && strspn(uuid, "0123456789abcdef-") == 36);
	check(uuid[8] == '-' && uuid[13] == '-' && uuid[18] == '-' && uuid[23] == '-');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* Of just that size, so that a sanitizer sees the first byte beyond. */
	uint8_t *bytes = calloc(1, FM_SUPERBLOCK_BYTES);
	struct fm_superblock sb;

	check(bytes != NULL);
	if (size > 0)
		memcpy(bytes, data, size < FM_SUPERBLOCK_BYTES ? size : FM_SUPERBLOCK_BYTES);
	memset(&sb, 0xff, sizeof(sb));
	check(fm_superblock_parse(bytes, FM_SUPERBLOCK_BYTES, &sb) == 0);
	check_text(sb.type, sizeof(sb.type));
	check_text(sb.label, sizeof(sb.label));
	check_text(sb.uuid, sizeof(sb.uuid));
	check_uuid(sb.uuid);
	check(sb.clean <= FM_CLEAN_UNKNOWN);
	check(sb.type[0] != '\0' ||
	      (sb.uuid[0] == '\0' && sb.label[0] == '\0' && sb.clean == FM_CLEAN_UNKNOWN));
	check(!sb.has_mmp || strcmp(sb.type, "ext4") == 0 || strcmp(sb.type, "jbd") == 0);
	check(strcmp(sb.type, "xfs") != 0 || sb.clean == FM_CLEAN_UNKNOWN);
	free(bytes);
	return 0;
}
