#!/bin/bash
# Goal:   a program finds the installed libfmove by pkg-config and by CMake, in C and C++; the library exports what its header declares, under its
#         version, and nothing else.
# Method: install it below a directory; build the first example with it by both, and run it. Names that the compiler sees are compared with the
#         symbol map and with the library.
. "$(dirname "$0")/lib.sh"
[ -e "${FM_BUILD:-}/cmake_install.cmake" ] || skip "no build directory"
for program in cmake pkg-config cc c++ nm; do
	command -v $program >/dev/null || skip "no program $program"
done
dir=$(mktemp -d "${TMPDIR:-/tmp}/fm-cli.XXXXXX") || exit 1
trap down EXIT
cd "$dir" || exit 1
ok cmake --install "$FM_BUILD" --component library --prefix "$dir/usr"
lib=$(find usr -name libfmove.so)
# All that is installed goes below the prefix that is said then, the package for Python as well.
DESTDIR=$dir/root ok cmake --install "$FM_BUILD" --component python --prefix /elsewhere
[[ $(find root -name filesystem.py) == root/elsewhere/* ]] || bad "the package is not below the prefix: $(find root -type f)"
version=$(sed -n 's/^project(fmove VERSION \([0-9.]*\).*/\1/p' "$FM_SOURCE/CMakeLists.txt")

# --- names -------------------------------------------------------------------------------------

cc -E -P -xc usr/include/fmove.h | grep -oE '\bfmove_[a-z0-9_]+ ?\(' | tr -d ' (' | sort -u >declared
sed -n 's/^\t\(fmove_[a-z0-9_]*\);$/\1/p' "$FM_SOURCE/client/lib/libfmove.map" >listed
nm -D --defined-only --with-symbol-versions "$lib" | awk '$2 != "A" { print $3 }' | sort >exported
[ "$(wc -l <declared)" -gt 50 ] || bad "fmove.h declares $(wc -l <declared) functions"
diff declared listed >out || bad "libfmove.map is not what fmove.h declares: $(cat out)"
sed "s/\$/@@FMOVE_${version%.*}/" listed | diff - exported >out || bad "what is exported is not what libfmove.map lists: $(cat out)"

# --- the manual pages; the program of the first is built below ---------------------------------------

page=$FM_SOURCE/client/man/libfmove.3
pages=usr/share/man/man3
for header in usr/include/fmove/*.h; do
	name=fmove_$(basename "$header" .h)
	grep -q "^\.BR $name \"(3), <fmove/${header##*/}>\"" "$page" || bad "libfmove(3) has no ${header##*/}"
	sed -n '/^\.SH NAME/{n;s/ \\- .*//p}' $pages/$name.3 | tr -d ' ' | tr ',' '\n' >names
	[ -s names ] || bad "$name(3) names nothing"
	cat names >>told
	while read -r function; do
		[ "$function" = "$name" ] || [ "$(cat "$pages/$function.3")" = ".so man3/$name.3" ] || bad "$function(3) does not lead to $name(3)"
		grep -q "^[a-z].*[ *]$function(" $pages/$name.3 || bad "$name(3) does not declare $function()"
	done <names
	# What the header says is there, behind what it declares; nothing of the C around it is.
	grep -E '^(#include|#pragma|#ifndef|/\*|\*/)' $pages/$name.3 && bad "$name(3) shows what is for compilers"
	if command -v man >/dev/null; then
		MANWIDTH=80 man --warnings -l $pages/$name.3 2>&1 >/dev/null | grep . && bad "$name(3) has mistakes"
	fi
done
sort told | diff declared - >out || bad "the pages are not what fmove.h declares: $(cat out)"
# make install builds what the target programs needs, and no more.
if [ -e "$FM_BUILD/build.ninja" ]; then
	ninja -C "$FM_BUILD" -t graph programs | grep -q 'man3/fmove_files\.3' || bad "make install does not make the pages"
fi
grep -q 'becomes readable, and none is begun while it is' $pages/fmove_connect.3 || bad "fmove_connect(3) lacks what its header says"
grep -q "^$(sed -n 's/^#define FMOVE_CALLS_MAX //p' usr/include/fmove/connect.h) of a handle run" "$page" || bad "libfmove(3) has another limit of calls"
sed -n '/^\.SH EXAMPLE/,$p' "$page" | sed -n '/^\.EX/,/^\.EE/p' | sed '/^\.E[XE]/d; s/\\e/\\/g' >manual.c
if command -v man >/dev/null; then
	MANWIDTH=80 man --warnings -l "$page" 2>&1 >/dev/null | grep . && bad "libfmove(3) has mistakes"
fi

# --- programs ----------------------------------------------------------------------------------

# A library with a sanitizer needs a program with it.
flags=
nm -D "$lib" | grep -q __asan_init && flags='-fsanitize=address,undefined'

# runs PROGRAM: it finds the library, and says how it is used.
runs() {
	"$1" >out 2>err
	[ $? -eq 2 ] && grep -q '^usage: ' err || bad "$1: $(cat err)"
}

export PKG_CONFIG_PATH=$PWD/${lib%/*}/pkgconfig
[ "$(pkg-config --modversion fmove)" = "$version" ] || bad "pkg-config has another version"
# shellcheck disable=SC2046,SC2086
ok cc $flags "$FM_SOURCE/client/examples/01-put.c" -o by-pkg-config $(pkg-config --cflags --libs --define-variable=prefix="$dir/usr" fmove)
LD_LIBRARY_PATH=$PWD/${lib%/*} runs ./by-pkg-config
# shellcheck disable=SC2046,SC2086
ok cc $flags -Wall -Wextra -Werror manual.c -o manual $(pkg-config --cflags --libs --define-variable=prefix="$dir/usr" fmove)
LD_LIBRARY_PATH=$PWD/${lib%/*} FMOVE_SOCKET=$PWD/none ./manual 2>err >out
[ $? -ne 0 ] && grep -q "no fmoved listens at $PWD/none" err || bad "the program of libfmove(3): $(cat out err)"
# Each header stands alone.
for header in usr/include/fmove.h usr/include/fmove/*.h; do
	echo "#include <${header#usr/include/}>" | tee header.c >header.cc
	ok cc -Wall -Wextra -Werror -fsyntax-only -Iusr/include header.c
	ok c++ -Wall -Wextra -Werror -fsyntax-only -Iusr/include header.cc
done
[ -e usr/include/fmove/files.h ] || bad "no groups of headers"

mkdir src
cat >src/CMakeLists.txt <<END
cmake_minimum_required(VERSION 3.16)
project(user LANGUAGES C)
find_package(fmove ${version%.*} REQUIRED)
add_executable(by-cmake $FM_SOURCE/client/examples/01-put.c)
target_link_libraries(by-cmake PRIVATE fmove::fmove)
END
ok cmake -S src -B build -DCMAKE_PREFIX_PATH="$dir/usr" -DCMAKE_C_FLAGS="$flags"
ok cmake --build build
runs build/by-cmake
sed -i "s/find_package(fmove [0-9.]*/find_package(fmove 99.0/" src/CMakeLists.txt
cmake -S src -B other -DCMAKE_PREFIX_PATH="$dir/usr" >out 2>&1 && bad "version 99 is found"
grep -q "\"99.0\"" out || bad "no version 99: $(cat out)"
