/* SPDX-License-Identifier: MIT */
/*
 * next_step - what whoever reads an error can do, where it says only what a system call said.
 *
 * Most errors are told where more is known than a number, and say it themselves. This is for
 * those that end in the words of a number alone, "open \"a\": no such file or directory": there is
 * nothing else to go by, and these few have the same answer wherever they come from. Pure.
 */
#ifndef FM_CLIENT_NEXT_STEP_H
#define FM_CLIENT_NEXT_STEP_H

/* code: negative. What stands behind the text, "; ..."; "": it says all, or nothing is known. */
const char *fm_next_step(int code, const char *text);

/*
 * The same of what fmoved or libfmove said. What a process may open, and how much, is another thing
 * for fmoved than for who asks, and only of a store it is known who met it: else "".
 */
const char *fm_next_step_told(int code, const char *text);

#endif
