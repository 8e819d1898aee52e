/* SPDX-License-Identifier: MIT */
/*
 * show - a path as a text for people: one line whatever bytes are in it, never longer than a
 * message can bear.
 */
#ifndef FM_BASE_SHOW_H
#define FM_BASE_SHOW_H

#define FM_PATH_SHOWN_MAX 160

/* At most FM_PATH_SHOWN_MAX - 1 bytes. */
struct fm_path_shown {
	char text[FM_PATH_SHOWN_MAX];
};

/*
 * What is plain (plain.h) as it is; quotes, backslashes and all else as \xNN; a long one cut in the
 * middle. Returns shown->text.
 */
const char *fm_path_show(const char *path, struct fm_path_shown *shown);

#endif
