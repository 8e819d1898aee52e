/* SPDX-License-Identifier: MIT */
/*
 * fault - which point fails next. One lock: points are not on the data path of a release, where
 * they do not exist.
 */
#include "mover/base/fault.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FAULT_NAME_MAX 63

static struct {
	pthread_mutex_t lock;
	char name[FAULT_NAME_MAX + 1];	/* empty: any point */
	unsigned countdown;		/* 0: not armed, or fired */
	unsigned count;
	bool is_fired;
	unsigned late_s;		/* the point takes so long; 0: it fails */
	bool is_from_env;		/* say which point it was */
	void (*reached)(void *ctx, const char *name);
	void *ctx;
} fault = { .lock = PTHREAD_MUTEX_INITIALIZER };

void fm_fault_arm(const char *name, unsigned n)
{
	assert(!name || (name[0] != '\0' && strlen(name) <= FAULT_NAME_MAX));
	pthread_mutex_lock(&fault.lock);
	snprintf(fault.name, sizeof(fault.name), "%s", name ? name : "");
	fault.countdown = n;
	fault.count = 0;
	fault.is_fired = false;
	fault.late_s = 0;
	pthread_mutex_unlock(&fault.lock);
}

bool fm_fault_fired(void)
{
	bool is_fired;

	pthread_mutex_lock(&fault.lock);
	is_fired = fault.is_fired;
	pthread_mutex_unlock(&fault.lock);
	return is_fired;
}

unsigned fm_fault_count(void)
{
	unsigned count;

	pthread_mutex_lock(&fault.lock);
	count = fault.count;
	pthread_mutex_unlock(&fault.lock);
	return count;
}

void fm_fault_watch(void (*reached)(void *ctx, const char *name), void *ctx)
{
	fault.reached = reached;
	fault.ctx = ctx;
}

bool fm_fault_hit(const char *name)
{
	bool is_hit = false, is_told;
	unsigned late_s;

	if (fault.reached)
		fault.reached(fault.ctx, name);
	pthread_mutex_lock(&fault.lock);
	fault.count++;
	if (fault.countdown > 0 && (fault.name[0] == '\0' || strcmp(fault.name, name) == 0))
		is_hit = --fault.countdown == 0;
	if (is_hit)
		fault.is_fired = true;
	is_told = is_hit && fault.is_from_env;
	late_s = is_hit ? fault.late_s : 0;
	pthread_mutex_unlock(&fault.lock);
	if (is_told)
		fprintf(stderr, "fault: %s %s\n", name, late_s ? "is late" : "fails");
	if (late_s)
		(void)sleep(late_s);
	return is_hit && !late_s;
}

/* A whole decimal number from 1 on, or 0. *end: what follows it. */
static unsigned fault_parse_count(const char *text, char **end)
{
	unsigned long n;

	*end = "";
	if (text[0] < '0' || text[0] > '9')	/* strtoul() takes blanks and signs */
		return 0;
	errno = 0;
	n = strtoul(text, end, 10);
	return errno != 0 || n > UINT_MAX ? 0 : (unsigned)n;
}

void fm_fault_arm_from_env(void)
{
	const char *text = getenv("FMOVE_FAULT");
	const char *colon = text ? strrchr(text, ':') : NULL;
	char name[FAULT_NAME_MAX + 1] = "";
	size_t name_len = colon ? (size_t)(colon - text) : 0;
	unsigned n, late_s = 0;
	char *end;

	if (!text)
		return;
	n = fault_parse_count(colon ? colon + 1 : text, &end);
	if (*end == '+' && (late_s = fault_parse_count(end + 1, &end)) == 0)
		n = 0;
	if (n == 0 || *end != '\0' || name_len > FAULT_NAME_MAX || (colon && name_len == 0)) {
		fprintf(stderr, "FMOVE_FAULT: '%s' is not [NAME:]NUMBER[+SECONDS]\n", text);
		exit(2);
	}
	memcpy(name, text, name_len);
	fm_fault_arm(colon ? name : NULL, n);
	fault.late_s = late_s;
	fault.is_from_env = true;
}
