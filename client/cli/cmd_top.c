/* SPDX-License-Identifier: MIT */
/*
 * cmd_top - fmove top: rails, transfers, stores, volumes and the cache, live.
 *
 * top_ask asks, top_rows and top_table make rows of the answers, top_frame a picture of the rows,
 * top_screen draws it. Here it waits: for an answer, a key, another size, a signal.
 */
#include "client/cli/ask.h"

#include <errno.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/interrupt.h"
#include "client/cli/top_ask.h"
#include "client/cli/top_screen.h"
#include "config/value.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/json.h"

enum { OPT_DELAY = 1, OPT_ONCE };

const struct fm_opt fm_opts_top[] = {
	{"delay", 'd', OPT_DELAY, "TIME", "between two looks: seconds, or with a unit (2s)", NULL},
	{"once", 0, OPT_ONCE, NULL, "print one picture as text, COLUMNS (80) wide", NULL},
	{NULL, 0, 0, NULL, NULL, NULL},
};

#define DELAY_NS       (2 * FM_NS_PER_S)
#define DELAY_MIN_NS   (100 * FM_NS_PER_MS)
#define DELAY_MAX_NS   (3600 * FM_NS_PER_S)
#define LATE_LOOK_MS   1000		 /* so often an answer that is missed is counted anew */
#define ONCE_NS	       (5 * FM_NS_PER_S) /* --once waits for answers */
#define WIDTH_STANDARD 80

static uint64_t now_ns(void)
{
	return fm_clock_real.now_ns(fm_clock_real.ctx);
}

/* ---- --once ---- */

static void print_line(void *ctx, int at, enum fm_top_style style, const char *text)
{
	size_t len = strlen(text);

	(void)ctx;
	(void)at;
	(void)style;
	while (len > 0 && text[len - 1] == ' ')
		len--;
	(void)printf("%.*s\n", (int)len, text); /* fm_stdout_end() looks for errors */
}

static int columns(void)
{
	const char *text = getenv("COLUMNS");
	int n = text ? atoi(text) : 0;

	return n > 0 ? n : WIDTH_STANDARD;
}

/* Waits until all have answered, or for as long as it takes to say that one has not. */
static int print_once(void)
{
	struct fm_top_view view = {.width = columns(), .section = FM_TOP_ALL};
	struct pollfd fds[] = {{fm_interrupt_fd(), POLLIN, 0}, {fm_top_ask_fd(), POLLIN, 0}};
	uint64_t end_ns = now_ns() + ONCE_NS, now;
	const struct fm_top_state *state;
	bool is_over = false;

	while (!is_over) {
		now = now_ns();
		(void)poll(fds, 2, now < end_ns ? (int)((end_ns - now) / FM_NS_PER_MS) + 1 : 0);
		if (fm_is_interrupted())
			return FM_EXIT_CANCELLED;
		state = fm_top_ask_lock();
		is_over = fm_top_ask_has_all(state) || now >= end_ns;
		if (is_over)
			(void)fm_top_frame(state, &view, now_ns(), print_line, NULL);
		fm_top_ask_unlock();
	}
	return fm_stdout_end("top", FM_EXIT_DONE);
}

/* ---- live ---- */

/* Also at the second time, which would end this at once, and Ctrl-\: the terminal is put right. */
static void on_quit(int number)
{
	int errno_saved = errno;

	(void)number;
	fm_interrupt_raise();
	errno = errno_saved;
}

static void quit_by(int number)
{
	const struct sigaction action = {.sa_handler = on_quit};
	struct sigaction before;

	(void)sigaction(number, &action, &before); /* a signal that can be caught */
	if (number != SIGQUIT && before.sa_handler == SIG_IGN)
		(void)sigaction(number, &before, NULL);
}

/* Draws all. Returns how far down one can scroll. */
static size_t draw(struct fm_top_view *view)
{
	const struct fm_top_state *state;
	size_t lines, room;

	fm_top_screen_clear(&view->width, &view->height);
	room = view->height > FM_TOP_HEAD_LINES ? (size_t)view->height - FM_TOP_HEAD_LINES : 0;
	state = fm_top_ask_lock();
	lines = fm_top_frame(state, view, now_ns(), fm_top_screen_line, NULL);
	fm_top_ask_unlock();
	fm_top_screen_show();
	return lines > room ? lines - room : 0;
}

static void scroll(struct fm_top_view *view, size_t most, unsigned key)
{
	const size_t page = view->height > FM_TOP_HEAD_LINES + 1
				    ? (size_t)view->height - FM_TOP_HEAD_LINES - 1
				    : 1;
	const size_t step = key == FM_TOP_KEY_UP || key == FM_TOP_KEY_DOWN ? 1 : page;

	if (key == FM_TOP_KEY_HOME)
		view->scroll = 0;
	else if (key == FM_TOP_KEY_UP || key == FM_TOP_KEY_PAGE_UP)
		view->scroll -= step < view->scroll ? step : view->scroll;
	else
		view->scroll = view->scroll + step < most ? view->scroll + step : most;
}

/* Does what a key says. False: quit. */
static bool obey(struct fm_top_view *view, size_t most, unsigned key)
{
	const bool was_help = view->is_help;
	unsigned section;

	if (key == FM_TOP_KEY_QUIT)
		return false;
	if (key != FM_TOP_KEY_OTHER)
		view->is_help = key == FM_TOP_KEY_HELP && !was_help;
	if (key >= FM_TOP_KEY_SECTION) {
		section = key - FM_TOP_KEY_SECTION;
		view->section = view->section == section ? FM_TOP_ALL : section;
		view->scroll = 0;
	} else if (key == FM_TOP_KEY_SORT) {
		view->is_by_rate = !view->is_by_rate;
	} else if (key >= FM_TOP_KEY_UP) {
		scroll(view, most, key);
	}
	return true;
}

/* 130 after a signal, and where the terminal went away. */
static int live(void)
{
	struct fm_top_view view = {.section = FM_TOP_ALL};
	struct pollfd fds[] = {{fm_interrupt_fd(), POLLIN, 0},
			       {fm_top_ask_fd(), POLLIN, 0},
			       {STDIN_FILENO, POLLIN, 0}};

	for (;;) {
		size_t most = draw(&view);
		unsigned key;

		if (view.scroll > most) { /* what was there is gone */
			view.scroll = most;
			continue;
		}
		/* Another size ends it with EINTR, which is a key below. */
		(void)poll(fds, 3, LATE_LOOK_MS);
		if (fds[0].revents || (fds[2].revents & (POLLHUP | POLLERR | POLLNVAL)))
			return FM_EXIT_CANCELLED;
		while ((key = fm_top_screen_key()) != FM_TOP_KEY_NONE)
			if (!obey(&view, most, key))
				return FM_EXIT_DONE;
	}
}

static int show(void)
{
	static const int quits[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
	struct fm_err err;
	int status;

	for (size_t i = 0; i < sizeof(quits) / sizeof(quits[0]); i++)
		quit_by(quits[i]);
	if (fm_top_screen_begin(&err) < 0)
		return fm_fail("top", &err);
	status = live();
	fm_top_screen_end();
	return status;
}

/* ---- the command ---- */

static int run(uint64_t delay_ns, bool is_once)
{
	struct fmove_error why;
	struct fm_json *json;
	struct fm_err err;
	struct fmove *c;
	int status;

	if (fm_ask_open("top", false, &c, &status) < 0)
		return status;
	/* Who may not ask, or whom nobody answers, is told so in a line. */
	if (fm_ask_status(c, &json, &why) < 0) {
		fmove_close(c);
		return fm_ask_fail("top", NULL, &why);
	}
	fm_json_free(json);
	if (fm_top_ask_start(c, delay_ns, &err) < 0)
		return fm_fail("top", &err);
	status = is_once ? print_once() : show();
	/* The threads go on asking: nothing that they use may go. */
	(void)fflush(NULL);
	_exit(status);
}

int fm_cmd_top(int argc, char **argv)
{
	uint64_t delay_ns = DELAY_NS;
	bool is_once = false;
	struct fm_args args;
	int key;

	fm_args_begin(&args, "top", argc, argv);
	while ((key = fm_args_next(&args)) > 0) {
		is_once |= key == OPT_ONCE;
		if (key == OPT_DELAY && (fm_value_time_typed(args.value, &delay_ns) < 0 ||
					 delay_ns < DELAY_MIN_NS || delay_ns > DELAY_MAX_NS))
			return fm_usage(&args,
					"--delay: not \"%.40s\": " FM_VALUE_TIME_FORM
					", 100ms to 1h",
					args.value);
	}
	if (fm_args_end(&args, 0, 0) < 0)
		return args.status;
	/* How names are written: in all that is said the locale of the user plays no part. */
	(void)setlocale(LC_CTYPE, "");
	return run(delay_ns, is_once);
}
