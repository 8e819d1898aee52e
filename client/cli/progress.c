/* SPDX-License-Identifier: MIT */
/* progress - see progress.h. */
#include "client/cli/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "client/cli/show.h"
#include "mover/base/env.h"

#define WIDTH_STANDARD 80
#define LINE_ROOM 512
#define SMOOTHING 0.3		/* of the newest report in the rate */
#define HOURS_SHOWN_MAX 99

void fm_progress_begin(struct fm_progress *p, const char *label, bool is_quiet)
{
	*p = (struct fm_progress){ .is_on = !is_quiet && isatty(STDERR_FILENO) };
	fm_show(label, strlen(label), p->label, sizeof(p->label));
}

int fm_progress_width(void)
{
	struct winsize size;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
		return WIDTH_STANDARD;
	return size.ws_col;
}

size_t fm_progress_fit(const char *text, int width)
{
	size_t len = strlen(text), room = width > 1 ? (size_t)width - 1 : 0;

	if (len <= room)
		return len;
	while (room > 0 && ((unsigned char)text[room] & 0xc0) == 0x80)
		room--;
	return room;
}

void fm_progress_put(const char *text)
{
	int len = (int)fm_progress_fit(text, fm_progress_width());

	/* a terminal that went away is no reason to stop */
	(void)fprintf(stderr, "\r%.*s\033[K", len, text);
}

static void rate_update(struct fm_progress *p, uint64_t bytes)
{
	uint64_t now = fm_clock_real.now_ns(fm_clock_real.ctx);
	double rate;

	if (p->at_ns > 0 && now > p->at_ns && bytes >= p->bytes_before) {
		rate = (double)(bytes - p->bytes_before) * (double)FM_NS_PER_S /
		       (double)(now - p->at_ns);
		p->rate = p->rate > 0 ? p->rate + SMOOTHING * (rate - p->rate) : rate;
	}
	p->at_ns = now;
	p->bytes_before = bytes;
}

/* Shows "12.3 GB of 50.0 GB 24%", or what of it is known. */
static void show_amount(const struct fmove_progress *now, char *out, size_t cap)
{
	char done[FM_SHOW_MAX], size[FM_SHOW_MAX], count[FM_SHOW_MAX], files[48] = "";
	bool is_more = now->bytes > now->size;

	fm_show_bytes(now->bytes, done);
	if (now->files > 0)
		(void)snprintf(files, sizeof(files), "%s files, ",
			       fm_show_count(now->files, count));
	/* A tree takes at least its size: once more has come, that says nothing. */
	if (now->size == UINT64_MAX || now->size == 0 || (now->files > 0 && is_more))
		(void)snprintf(out, cap, "%s%s", files, done);
	else
		(void)snprintf(out, cap, "%s%s of %s  %3.0f%%", files, done,
			       fm_show_bytes(now->size, size),
			       100.0 * (double)(is_more ? now->size : now->bytes) /
				       (double)now->size);
}

static void show_left(const struct fmove_progress *now, double rate, char *out, size_t cap)
{
	double seconds;
	char text[FM_SHOW_MAX];

	out[0] = '\0';
	if (now->size == UINT64_MAX || now->bytes >= now->size || rate < 1)
		return;
	seconds = (double)(now->size - now->bytes) / rate;
	if (seconds < HOURS_SHOWN_MAX * 3600.0)
		(void)snprintf(out, cap, "  %s left", fm_show_time((uint64_t)seconds, text));
}

/* Shows the state. For one that waits, also for what. */
static void show_state(const struct fmove_progress *now, char *out, size_t cap)
{
	char time[FM_SHOW_MAX], text[100];

	if (strcmp(now->state, "queued") == 0) {
		(void)snprintf(out, cap, "waiting, %" PRIu64 " before it", now->before);
	} else if (strcmp(now->state, "waiting") == 0) {
		fm_show(now->text, strlen(now->text), text, sizeof(text));
		(void)snprintf(out, cap, "waiting, again in %s: %s",
			       fm_show_time((now->again_ms + 999) / 1000, time), text);
	} else {
		(void)snprintf(out, cap, "%.40s", now->state);
	}
}

void fm_progress_line(const char *label, const struct fmove_progress *now, double rate, int width,
		      char *out, size_t cap)
{
	char amount[128], speed[FM_SHOW_MAX], left[48], state[144], rest[384];
	int len, room;

	show_amount(now, amount, sizeof(amount));
	show_left(now, rate, left, sizeof(left));
	if (strcmp(now->state, "copying") == 0)
		len = snprintf(rest, sizeof(rest), "  %s  %s%s  %u connection%s", amount,
			       fm_show_rate(rate, speed), left, now->connections,
			       now->connections == 1 ? "" : "s");
	else {
		show_state(now, state, sizeof(state));
		len = snprintf(rest, sizeof(rest), "  %s  %s", amount, state);
	}
	if (now->corrupt_chunks > 0)
		len += snprintf(rest + len, sizeof(rest) - (size_t)len, "  %u corrupt, sent again",
				now->corrupt_chunks);
	room = width - 1 - len;		/* the last column makes some terminals wrap */
	if (room < 0)
		room = 0;
	if ((size_t)room < strlen(label))
		/* no half of a character */
		while (room > 0 && ((unsigned char)label[room] & 0xc0) == 0x80)
			room--;
	(void)snprintf(out, cap, "%.*s%s", room, label, rest);
}

void fm_progress_show(void *ctx, const struct fmove_progress *now)
{
	struct fm_progress *p = ctx;
	char line[LINE_ROOM];

	rate_update(p, now->bytes);
	if (!p->is_on)
		return;
	fm_progress_line(p->label, now, p->rate, fm_progress_width(), line, sizeof(line));
	fm_progress_put(line);
	p->is_shown = true;
}

void fm_progress_end(struct fm_progress *p)
{
	if (p->is_shown)
		(void)fprintf(stderr, "\r\033[K");
	p->is_shown = false;
}
