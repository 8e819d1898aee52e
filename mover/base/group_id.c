/* SPDX-License-Identifier: MIT */
/* group_id - see group_id.h. */
#include "mover/base/group_id.h"

#include <errno.h>
#include <string.h>

static const char digits[] = "0123456789abcdef";

void fm_group_id_print(const uint8_t id[static FM_GROUP_ID_LEN],
		       char out[static FM_GROUP_ID_TEXT_LEN + 1])
{
	for (unsigned i = 0; i < FM_GROUP_ID_LEN; i++) {
		*out++ = digits[id[i] >> 4];
		*out++ = digits[id[i] & 15];
	}
	*out = '\0';
}

int fm_group_id_parse(const char *text, uint8_t out[static FM_GROUP_ID_LEN])
{
	if (strlen(text) != FM_GROUP_ID_TEXT_LEN || strspn(text, digits) != FM_GROUP_ID_TEXT_LEN)
		return -EINVAL;
	for (unsigned i = 0; i < FM_GROUP_ID_LEN; i++)
		out[i] = (uint8_t)((strchr(digits, text[2 * i]) - digits) << 4 |
				   (strchr(digits, text[2 * i + 1]) - digits));
	return 0;
}
