/* SPDX-License-Identifier: MIT */
/* top_screen - see top_screen.h. */
#include "client/cli/top_screen.h"

#include <curses.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <term.h>
#include <unistd.h>

#include "mover/base/err.h"

#define PAIR_BAD 1

static SCREEN *screen;
static FILE *out;
static bool has_colour;

static int fail_terminal(struct fm_err *err, const char *why)
{
	return fm_err_set(err, -ENOTTY,
			  "%s; fmove top --once prints one picture, and fmove status says all",
			  why);
}

/* ncurses would end the process where there is no such terminal: it is looked for before. */
static int look_for_terminal(struct fm_err *err)
{
	const char *term = getenv("TERM");
	bool is_able;
	int found;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return fail_terminal(err, "this is no terminal");
	if (!term || !*term)
		return fail_terminal(err, "TERM does not say what this terminal is");
	if (setupterm(NULL, STDOUT_FILENO, &found) != OK)
		return fm_err_set(err, -ENOTTY,
				  "terminals of the kind TERM=%.40s are not known here; try "
				  "TERM=vt100, or fmove top --once",
				  term);
	is_able = cursor_address && clear_screen;
	(void)del_curterm(cur_term);	/* newterm() reads it again */
	if (!is_able)
		return fail_terminal(err, "this terminal (TERM) moves no cursor");
	return 0;
}

static void begin_colours(void)
{
	const char *no_color = getenv("NO_COLOR");

	has_colour = !(no_color && *no_color) && has_colors() && start_color() == OK;
	if (!has_colour)
		return;
	(void)use_default_colors(); /* without them the background is black */
	(void)init_pair(PAIR_BAD, COLOR_RED, -1);
}

/* Standard output goes through stdio's hands (cmd.h): the screen has a stream of its own. */
int fm_top_screen_begin(struct fm_err *err)
{
	int fd, ret = look_for_terminal(err);

	if (ret < 0)
		return ret;
	fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	if (fd < 0)
		return fm_err_sys(err, -errno, "open the terminal once more");
	out = fdopen(fd, "w");
	screen = out ? newterm(NULL, out, stdin) : NULL;
	if (!screen) {
		if (!out)
			(void)close(fd); /* unused */
		return fail_terminal(err, "this terminal cannot be drawn on");
	}
	begin_colours();
	(void)cbreak();
	(void)noecho();
	(void)nodelay(stdscr, TRUE);
	(void)keypad(stdscr, TRUE);
	(void)set_escdelay(50);
	(void)curs_set(0); /* not all can hide it */
	return 0;
}

void fm_top_screen_end(void)
{
	if (!screen)
		return;
	(void)endwin();
	delscreen(screen);
	screen = NULL;
	(void)fclose(out); /* the terminal may be gone */
}

void fm_top_screen_clear(int *width, int *height)
{
	(void)erase();
	getmaxyx(stdscr, *height, *width);
}

void fm_top_screen_line(void *ctx, int at, enum fm_top_style style, const char *text)
{
	attr_t look = style == FM_TOP_TITLE ? A_BOLD : style == FM_TOP_BAD ? A_REVERSE : A_NORMAL;

	(void)ctx;
	if (style == FM_TOP_BAD && has_colour)
		look = A_BOLD | (attr_t)COLOR_PAIR(PAIR_BAD);
	(void)attrset((int)look);
	(void)mvaddstr(at, 0, text); /* the last column of the last line says ERR */
}

void fm_top_screen_show(void)
{
	(void)refresh();
}

unsigned fm_top_screen_key(void)
{
	int key = getch();

	switch (key) {
	case ERR:
		return FM_TOP_KEY_NONE;
	case 'q':
	case 'Q':
		return FM_TOP_KEY_QUIT;
	case '?':
	case 'h':
		return FM_TOP_KEY_HELP;
	case 's':
		return FM_TOP_KEY_SORT;
	case KEY_UP:
		return FM_TOP_KEY_UP;
	case KEY_DOWN:
		return FM_TOP_KEY_DOWN;
	case KEY_PPAGE:
		return FM_TOP_KEY_PAGE_UP;
	case KEY_NPAGE:
		return FM_TOP_KEY_PAGE_DOWN;
	case KEY_HOME:
		return FM_TOP_KEY_HOME;
	default:
		if (key >= '1' && key < '1' + FM_TOP_SECTIONS)
			return FM_TOP_KEY_SECTION + (unsigned)(key - '1');
		return FM_TOP_KEY_OTHER;
	}
}
