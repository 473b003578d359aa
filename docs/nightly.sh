#!/bin/sh
# nightly.sh CAPTURES judges the recordings of one night and compares the results with those of the last good night.
# It exits with 0 if nothing is wrong that is not known, with 1 if something is, with 3 if it could not judge.
# nightly.sh --begin goes before the program that records: the reports of last night make way, and recordings that are
# older are not judged as those of tonight.
set -u
captures=$1
optool=${OPTOOL:-optool}
history=${HISTORY:-history}  # a directory that the nights have in common
known=${KNOWN:-known.txt}    # known failures: keep this file with the code, and review its changes
budget=${BUDGET:-30m}        # time for judging; what is not looked at then is counted, and fails nothing
nights=${NIGHTS:-14}         # so many nights are kept, and those in which a value that is still wrong was wrong first
disk=${DISK_MIB:-2000}       # if history has more MiB, the saved failing calls of earlier nights go; results stay
fail_on=${FAIL_ON:-worse,gone,unsupported} # what else than new faults fails a night; unsupported: new calls that optool cannot judge. stale: also for lines of the known failures that no longer fail
stale=${STALE:-fail}         # ok: judge recordings again that are older than the last good night, or than --begin

none() { # the reports say why nothing was judged
	set -- "$(printf %s "$1" | sed 's/&/\&amp;/g; s/</\&lt;/g; s/"/\&quot;/g')"
	printf '### ❌ %s\n' "$1" >"$history/latest.md" &&
		printf '<testsuites tests="1" errors="1"><testsuite name="the whole run" tests="1" errors="1">%s</testsuite></testsuites>\n' \
			"<testcase classname=\"nightly.sh\" name=\"judged\"><error message=\"$1\"/></testcase>" >"$history/latest.xml"
}
mkdir -p "$history" && none "Nothing was judged tonight: the job ended before." || exit 3
if [ "$captures" = --begin ]; then
	: >"$history/begun"
	exit
fi
command -v "$optool" >/dev/null || { none "Nothing was judged tonight: optool was not found."; echo "$optool: not found" >&2; exit 3; }

# The recordings of last night prove nothing about tonight.
if [ "$stale" != ok ] && [ -e "$history/begun" ]; then
	old=$(find -L "$captures" -type f ! -newer "$history/begun" 2>/dev/null | head -n 1)
	if [ -n "$old" ]; then
		text="$captures has recordings from before --begin, such as $old: empty it before the program. STALE=ok judges them."
		none "Nothing was judged tonight: $text"
		echo "exit code 3: $text" >&2
		exit 3
	fi
fi
if [ "$stale" != ok ] && [ -e "$history/good.jsonl" ] && [ -n "$(find -L "$captures" -type f 2>/dev/null | head -n 1)" ] &&
	[ -z "$(find -L "$captures" -type f -newer "$history/good.jsonl" 2>/dev/null | head -n 1)" ]; then
	none "Nothing was judged tonight: no recording is newer than the last good night. Were the steps recorded? STALE=ok judges them."
	echo "exit code 3: no file below $captures is newer than the last good night: were the steps recorded tonight? STALE=ok judges them" >&2
	exit 3
fi

begin() { # the names of the nights sort by time, so no two nights begin in one second
	tonight=$history/night-$(date +%Y%m%d-%H%M%S)
	mkdir "$tonight"
}
begin 2>/dev/null || { sleep 1 && begin; } || exit 3
publish() { # the reports for the CI system have one name every night
	if [ -e "$tonight/changes.xml" ]; then
		cp "$tonight/changes.xml" "$history/latest.xml"
		cp "$tonight/changes.md" "$history/latest.md"
	elif [ -e "$tonight/junit.xml" ]; then
		cp "$tonight/junit.xml" "$history/latest.xml"
		cp "$tonight/summary.md" "$history/latest.md"
	fi
	echo "reports of this night: $tonight"
}
trap publish EXIT
touch "$known" || exit 3

# A signal to this script goes to optool, which writes the reports of what it judged until then.
pid=
trap 'trap "" TERM INT; [ -z "$pid" ] || { kill "$pid"; wait "$pid"; }; exit 130' TERM INT
run() {
	"$optool" "$@" &
	pid=$!
	wait "$pid"
	set -- $?
	pid=
	return "$1"
}

# Judge. The recordings may be deleted afterwards. Before the first good night, calls that optool cannot judge fail the
# night, too. After it, the comparison says which calls are gone or no longer judged.
set --
[ -e "$history/good.jsonl" ] || set -- --fail-on unsupported
run replay "$@" --quiet --budget "$budget" --known "$known" --out "$tonight" --json "$tonight/run.jsonl" \
	--junit "$tonight/junit.xml" --markdown "$tonight/summary.md" --html "$tonight/run.html" "$captures"
judged=$?
code=$judged
case $code in
0 | 1 | 3) ;;
2) # wrong usage, such as a list of known failures that does not read: the same again says why
	none "Nothing was judged tonight: $("$optool" replay --budget "$budget" --known "$known" "$captures" 2>&1 | sed -n '/^optool: /{p;q;}')"
	exit $code
	;;
*) exit $code ;;
esac

# Compare with the last good night. The nights since then tell since when a value fails, and what failed last night and
# passes now. Calls that are gone, and findings that got far worse, fail the night too. What could not be read still
# makes a 3. Before the first good night, the comparison with the oldest night only says what changed.
set --
for night in "$history"/night-*/run.jsonl; do
	[ "$night" = "$tonight/run.jsonl" ] || [ ! -e "$night" ] || set -- "$@" "$night"
done
set -- "$@" "$tonight/run.jsonl" # the last one is compared with the first
if [ -e "$history/good.jsonl" ]; then
	run compare --results --quiet --known "$known" --fail-on "$fail_on" --json "$tonight/changes.jsonl" \
		--junit "$tonight/changes.xml" --markdown "$tonight/changes.md" \
		"$history/good.jsonl" "$@"
	code=$?
	if [ $code = 0 ] && [ $judged = 3 ]; then
		code=3
		echo "exit code 3: not all of $captures could be judged; the lines before the comparison say why"
	fi
elif [ $# -gt 1 ]; then
	run compare --results --quiet --known "$known" --json "$tonight/changes.jsonl" --markdown "$tonight/changes.md" "$@"
fi

# Keep: the next night is compared with the last one that was good and looked at all that the one before looked at.
if [ $code = 0 ] && { [ ! -e "$history/good.jsonl" ] || grep -q '"not_looked_at":0' "$tonight/changes.jsonl"; }; then
	cp "$tonight/run.jsonl" "$history/good.jsonl.new" && mv "$history/good.jsonl.new" "$history/good.jsonl" || exit 3
fi

# Make room: the oldest nights go, but for the last good one and those since which a value is wrong. Then the saved
# failing calls of all but this night go.
ls -d "$history"/night-* | grep -Fvx "$tonight" | sort -r | tail -n +"$nights" | while read -r old; do
	grep -qsF "\"since_run\":\"$old/run.jsonl\"" "$tonight/changes.jsonl" ||
		cmp -s "$old/run.jsonl" "$history/good.jsonl" || rm -rf "$old"
done
for old in "$history"/night-*; do
	[ "$(du -sm "$history" | cut -f1)" -gt "$disk" ] || break
	[ "$old" = "$tonight" ] || rm -rf "$old/op_tools_results"
done
exit $code
