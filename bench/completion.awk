# SPDX-License-Identifier: MIT
# completion.awk - draws seconds against the number of nodes, as SVG: a line for each tool. Input: TOOL NODES SECONDS, a line each.

function x_of(nodes) {
	return LEFT + (nodes - 1) * WIDTH / (nodes_max > 1 ? nodes_max - 1 : 1)
}

function y_of(seconds) {
	return TOP + HEIGHT - seconds * HEIGHT / seconds_max
}

function text(x, y, what, anchor) {
	printf "<text x=\"%d\" y=\"%d\" text-anchor=\"%s\">%s</text>\n", x, y, anchor, what
}

BEGIN {
	LEFT = 60; TOP = 40; WIDTH = 420; HEIGHT = 300
	split("#d62728 #1f77b4 #2ca02c #9467bd #ff7f0e #8c564b", colors, " ")
}

{
	if (!($1 in points))
		tools[++count] = $1
	points[$1] = points[$1] " " $2 " " $3
	if ($2 > nodes_max)
		nodes_max = $2
	if ($3 > seconds_max)
		seconds_max = $3
}

END {
	printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 640 400\" font-family=\"sans-serif\" font-size=\"13\">\n"
	printf "<rect width=\"640\" height=\"400\" fill=\"white\"/>\n"
	text(LEFT, 20, title, "start")
	for (i = 0; i <= 4; i++) {
		y = y_of(seconds_max * i / 4)
		printf "<line x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\" stroke=\"#ddd\"/>\n", LEFT, LEFT + WIDTH, y, y
		text(LEFT - 6, y + 4, sprintf("%.1f s", seconds_max * i / 4), "end")
	}
	for (i = 1; i <= nodes_max; i++)
		text(x_of(i), TOP + HEIGHT + 20, i == 1 ? "1 node" : i, "middle")
	for (t = 1; t <= count; t++) {
		n = split(points[tools[t]], at, " ")
		line = ""
		for (i = 1; i < n; i += 2) {
			line = line sprintf("%.1f,%.1f ", x_of(at[i]), y_of(at[i + 1]))
			printf "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", x_of(at[i]), y_of(at[i + 1]), colors[t]
		}
		printf "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"/>\n", line, colors[t]
		printf "<text x=\"%d\" y=\"%d\" fill=\"%s\">%s</text>\n", LEFT + WIDTH + 15, TOP + 20 * t, colors[t], tools[t]
	}
	print "</svg>"
}
