/* SPDX-License-Identifier: MIT */
/* group_id - the ID of a publication group as a text: hexadecimal digits. Any thread. */
#ifndef FM_BASE_GROUP_ID_H
#define FM_BASE_GROUP_ID_H

#include <stdint.h>

#define FM_GROUP_ID_LEN 16		/* bytes */
#define FM_GROUP_ID_TEXT_LEN (2 * FM_GROUP_ID_LEN)

void fm_group_id_print(const uint8_t id[static FM_GROUP_ID_LEN],
		       char out[static FM_GROUP_ID_TEXT_LEN + 1]);

/* -EINVAL: it is none. */
int fm_group_id_parse(const char *text, uint8_t out[static FM_GROUP_ID_LEN]);

#endif
