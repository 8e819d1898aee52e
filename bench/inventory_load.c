/* SPDX-License-Identifier: MIT */
/*
 * inventory_load - what one reading of the inventory costs: COUNT readings with a pause of PAUSE_MS
 * before each, as a supervisor's are, so that caches are as cold. ROOT is a directory with a sys/
 * below it, or "/".
 *
 * usage: inventory_load ROOT COUNT PAUSE_MS
 *
 * Prints the processor time of one, in microseconds, and how many controllers and namespaces there
 * are.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "mover/base/err.h"
#include "nvmetcp/inventory.h"

static unsigned controllers, namespaces;

static double cpu_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static double read_once(const char *root, unsigned long pause_ms)
{
	struct timespec pause = {.tv_sec = (time_t)(pause_ms / 1000),
				 .tv_nsec = (long)(pause_ms % 1000) * 1000000};
	struct fm_inventory *inv;
	struct fm_err err = { 0 };
	double begin;

	(void)nanosleep(&pause, NULL);
	begin = cpu_us();
	if (fm_inventory_read(root, &inv, &err) < 0) {
		(void)fprintf(stderr, "inventory_load: %s\n", err.text);
		exit(1);
	}
	controllers = inv->controller_count;
	namespaces = inv->namespace_count;
	fm_inventory_free(inv);
	return cpu_us() - begin;
}

int main(int argc, char **argv)
{
	unsigned long count = argc == 4 ? strtoul(argv[2], NULL, 10) : 0;
	unsigned long pause_ms = argc == 4 ? strtoul(argv[3], NULL, 10) : 0;
	double us = 0;

	if (count == 0) {
		(void)fprintf(stderr, "usage: inventory_load ROOT COUNT PAUSE_MS\n");
		return 2;
	}
	for (unsigned long i = 0; i < count; i++)
		us += read_once(argv[1], pause_ms);
	printf("%.0f %u %u\n", us / (double)count, controllers, namespaces);
	return 0;
}
