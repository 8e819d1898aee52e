/* SPDX-License-Identifier: MIT */
/* boot - which start of the kernel this is, as the kernel says it. Any thread. */
#ifndef FM_BASE_BOOT_H
#define FM_BASE_BOOT_H

#define FM_BOOT_ID_LEN 36	/* hexadecimal digits in five groups, dashes between them */

/*
 * 0; -ENOENT or -EACCES: this system shows none; -EBADMSG: what it shows is none; -errno. After an
 * error id is "".
 */
int fm_boot_id(char id[static FM_BOOT_ID_LEN + 1]);

#endif
