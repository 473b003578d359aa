#!/bin/sh
# nightly.sh CAPTURES judges the recordings of one night and compares the results with those of the last good night.
# It exits with 0 if nothing is wrong that is not known, with 1 if something is, with 3 if it could not judge.
set -u
captures=$1
optool=${OPTOOL:-optool}
history=${HISTORY:-history}  # a directory that the nights have in common
known=${KNOWN:-known.txt}    # known failures: keep this file with the code, and review its changes
budget=${BUDGET:-30m}        # time for judging; what is not looked at then is counted
nights=${NIGHTS:-14}         # so many nights are kept
disk=${DISK_MIB:-2000}       # and saved failing calls of so many MiB
fail_on=${FAIL_ON:-worse,gone} # stale: also for lines of the known failures that no longer fail

command -v "$optool" >/dev/null || { echo "$optool: not found" >&2; exit 3; }

tonight=$history/night-$(date +%Y%m%d-%H%M%S)-$$
mkdir -p "$tonight" || exit 3
touch "$known" || exit 3

# Judge. The recordings may be deleted afterwards.
"$optool" replay --quiet --budget "$budget" --known "$known" --out "$tonight" --json "$tonight/run.jsonl" \
	--junit "$tonight/junit.xml" --markdown "$tonight/summary.md" --html "$tonight/run.html" "$captures"
code=$?
case $code in
0 | 1) ;;
*) exit $code ;;
esac

# Compare. Calls that are gone, and findings that got far worse, fail the night too.
if [ -e "$history/good.jsonl" ]; then
	"$optool" compare --results --known "$known" --fail-on "$fail_on" --junit "$tonight/changes.xml" \
		--markdown "$tonight/changes.md" "$history/good.jsonl" "$tonight/run.jsonl"
	code=$?
fi

# Keep: the next night is compared with the last one that was good.
if [ $code = 0 ]; then
	cp "$tonight/run.jsonl" "$history/good.jsonl.new" && mv "$history/good.jsonl.new" "$history/good.jsonl" || exit 3
fi

# Make room: the oldest nights go, then the saved failing calls of all but this night.
ls -d "$history"/night-* | sort -r | tail -n +$((nights + 1)) | while read -r old; do rm -rf "$old"; done
for old in "$history"/night-*; do
	[ "$(du -sm "$history" | cut -f1)" -gt "$disk" ] || break
	[ "$old" = "$tonight" ] || rm -rf "$old/op_tools_results"
done
exit $code
