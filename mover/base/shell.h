/* SPDX-License-Identifier: MIT */
/* shell - names as they stand in a command line that is printed for somebody to run. Any thread. */
#ifndef FM_BASE_SHELL_H
#define FM_BASE_SHELL_H

#include <stddef.h>

/*
 * A path as a shell takes it whole: 'it'\''s'. "" if it is "", has a control character, or is too
 * long for cap.
 */
const char *fm_shell_quote(const char *path, char *out, size_t cap);

#endif
