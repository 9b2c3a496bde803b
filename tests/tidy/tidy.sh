# Rules that the source keeps, checked by machine.
. "${abs_top_srcdir:?}/tests/lib/functions.sh"
cd "$abs_top_srcdir" || exit 99

# Rooms of the engine; a file includes its own room and those before it.
rooms="base format io volume block btree trans space extent inode data subvol
       log maint fs"
engine=plugins/btrfs/engine

# Print what is wrong; nothing printed is a pass.
nothing ()
{
  local name=$1 out
  shift
  out=$("$@" 2>&1)
  [ -z "$out" ] && { pass "$name"; return; }
  fail "$name"
  head -n 50 <<<"$out" | sed 's/^/#   /'
}

c_files ()
{
  find include plugins server tests -name '*.[ch]' \
       -not -path '*/build*/*' | sort
}

text_files ()
{
  c_files
  find plugins server tests ci -type f \( -name '*.sh' -o -name '*.mk' \
       -o -name '*.py' -o -name '*.pod' \) -not -path '*/build*/*' | sort
  printf '%s\n' configure.ac Makefile.am README.md ARCHITECTURE.md runtests \
         quickstart .ci/run
}

include_order ()
{
  local room line inc allowed=""
  for room in $rooms; do
    allowed="$allowed $room"
    [ -d "$engine/$room" ] || continue
    grep -rHn '^ *# *include *"' "$engine/$room" --include='*.[ch]' |
      while IFS= read -r line; do
        inc=${line#*\"}
        case " $allowed " in
          *" ${inc%%/*} "*) ;;
          *) echo "$line: room $room may not include this" ;;
        esac
      done
  done
  find "$engine" -mindepth 1 -maxdepth 1 -type d | while read -r room; do
    case " $(echo $rooms) " in
      *" ${room##*/} "*) ;;
      *) echo "$room is not in the list of rooms" ;;
    esac
  done
}

faces ()
{
  grep -rHnE '^ *# *include *"('"$(echo $rooms | tr ' ' '|')"')/' \
       server plugins/btrfs/*.c plugins/btrfs/*.h 2>/dev/null |
    sed 's/$/: only <btrnbd\/...> may be included here/'
}

long_lines ()
{
  c_files | xargs awk 'length ($0) > 79 {
    print FILENAME ":" FNR ": " length ($0) " columns" }'
}

tabs ()
{
  c_files | xargs grep -nP '\t' | sed 's/:.*$/: a tab/' | sort -u
}

trailing_space ()
{
  text_files | xargs grep -nE '[[:blank:]]+$' | cut -c1-80
}

long_files ()
{
  c_files | xargs wc -l | awk '$2 != "total" && $1 >= 1000 {
    print $2 ": " $1 " lines" }'
}

long_functions ()
{
  c_files | xargs ctags --output-format=json --fields=+ne --kinds-C=f \
                  --languages=C -f - |
    jq -r 'select (.end != null and .end - .line >= 100) |
           "\(.path): \(.name): \(.end - .line + 1) lines"'
}

markers ()
{
  text_files | grep -v tests/tidy | xargs grep -nwE 'TODO|FIXME|XXX|HACK' |
    cut -c1-100
}

purpose ()
{
  local f
  c_files | grep '\.[ch]$' | while read -r f; do
    [ "$(head -c 2 "$f")" = '/*' ] || echo "$f: no opening comment"
  done
}

headers_alone ()
{
  local h
  find include "$engine" server -name '*.h' | sort | while read -r h; do
    ${CC:-gcc} -std=gnu17 -D_GNU_SOURCE -Wall -Wextra -Werror \
      -Wno-unused-function -Wno-sign-compare -Wno-missing-field-initializers \
      -fsyntax-only -include "$abs_top_builddir/config.h" -I include \
      -I "$engine" -I server -x c - <<<"#include \"$PWD/$h\"" || echo "$h"
  done
}

# Writable data in the objects of the engine: room/file.c:name.
globals_allowed='
base/err.c:*
base/lock.c:*
base/log.c:*
base/csum.c:*
fs/api_pool.c:user_log
'
mutable_globals ()
{
  local o src sym pattern ok
  find "$abs_top_builddir/$engine" -name 'libengine_la-*.o' \
       -path '*/.libs/*' | sort | while read -r o; do
    src=${o#*/plugins/btrfs/engine/}
    src=$(sed 's|/\.libs/libengine_la-|/|; s|\.o$|.c|' <<<"$src")
    objdump -t "$o" |
      awk 'NF > 4 && $(NF - 2) ~ /^\.(data|bss|tdata|tbss)/ &&
           $(NF - 2) !~ /^\.data\.rel\.ro/ && $(NF - 1) !~ /^0+$/ {
             print $NF }' |
      while read -r sym; do
        ok=no
        for pattern in $globals_allowed; do
          case $src:$sym in $pattern) ok=yes ;; esac
        done
        [ $ok = yes ] || echo "$src: $sym is a mutable global"
      done
  done
}

engine_without_host ()
{
  nm -u "$abs_top_builddir/.libs/libengine.a" |
    grep -E ' nbdkit_' | sort -u
}

plugin_symbols ()
{
  nm -D --defined-only "$PLUGIN" | awk '
    $3 != "plugin_init" && $3 != "btrnbd_plugin_ext_init" &&
    $3 !~ /^btrfs_debug_/ &&
    $3 !~ /^(_init|_fini|_edata|_end|__bss_start)$/ {
      print $3 " is exported" }'
}

readme_dependencies ()
{
  local lib
  sed -n 's/^PKG_CHECK_MODULES(\[[A-Z]*\], \[\([a-z0-9]*\).*/\1/p' \
      configure.ac | while read -r lib; do
    grep -qi "${lib#lib}" README.md || echo "README.md: no word about $lib"
  done
}

readme_commands ()
{
  local command
  for command in server/cli/cmd_*.c; do
    [ -e "$command" ] || continue
    command=${command#server/cli/cmd_}
    command=$(tr _ - <<<"${command%.c}")
    grep -q "\b$command\b" README.md ||
      echo "README.md: no word about btrnbd $command"
  done
}

distributed ()
{
  env -u MAKEFLAGS make -s -C "$abs_top_builddir" print-dist | tr ' ' '\n' |
    sed -E 's,^(\.\./|\./|'"$abs_top_srcdir"'/),,' | sort -u >"$tmp/dist"
  git ls-files | grep -vx .gitignore | sort |
    while read -r f; do
      grep -qxF "$f" "$tmp/dist" || grep -qxF "${f%/*}" "$tmp/dist" ||
        echo "$f is not in the tarball"
    done
}

nothing "rooms include only those before them" include_order
nothing "plugin and programs include the installed API only" faces
nothing "79 columns" long_lines
nothing "no tabs in C" tabs
nothing "no space at the end of lines" trailing_space
nothing "files have less than 1000 lines" long_files
nothing "no marks of unfinished work" markers
nothing "every C file opens with its purpose" purpose
nothing "headers compile alone" headers_alone
if command -v ctags >/dev/null && command -v jq >/dev/null; then
  nothing "functions have 100 lines at most" long_functions
else
  lacks "functions have 100 lines at most" "ctags or jq is not installed"
fi
if grep -q '^#define BTRNBD_SANITIZE' "$abs_top_builddir/config.h"; then
  skip "no mutable globals" "a sanitizer adds its own"
  skip "the plugin exports its two entry points and debug flags only" "a sanitizer adds its own"
else
  nothing "no mutable globals" mutable_globals
  if [ -e "$PLUGIN" ]; then
    nothing "the plugin exports its two entry points and debug flags only" plugin_symbols
  fi
fi
nothing "the engine calls no host" engine_without_host
if [ -d .git ] && command -v git >/dev/null; then
  nothing "make dist takes every file" distributed
fi
nothing "README.md tells every dependency" readme_dependencies
nothing "README.md tells every command" readme_commands
done_testing
