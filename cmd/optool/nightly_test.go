package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestNightly runs the script of docs/ci.md for some nights, each with another change.
func TestNightly(t *testing.T) {
	script, err := filepath.Abs("../../docs/nightly.sh")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	if page, err := os.ReadFile("../../docs/ci.md"); err != nil || !strings.Contains(string(page), string(text)) {
		t.Errorf("docs/ci.md does not show docs/nightly.sh: %v", err)
	}
	dir := t.TempDir()
	sh := func(command string) (out string, code int) {
		cmd := exec.Command("sh", "-c", command)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "HISTORY="+dir+"/history", "KNOWN=known.txt", "NIGHTS=2", "SCRIPT="+script)
		b, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return string(b), cmd.ProcessState.ExitCode()
	}
	captures, err := filepath.Abs("../../fixtures/captures")
	if err != nil {
		t.Fatal(err)
	}
	hooked, err := filepath.Abs("../../fixtures/hook/rank1/4711-2026-11-22-12-00-00")
	if err != nil {
		t.Fatal(err)
	}
	const recorded = "sleep 0.01; find run -type f -exec touch {} +"
	const newest = "$(ls -d history/night-* | sort | tail -n 1)"
	for _, night := range []struct {
		name, before, after string
		code                int
		says                string
	}{
		{"the first, nothing wrong", "mkdir run && cp -R " + captures + "/v2 run", "test -e history/good.jsonl", 0, "pass"},
		{"a new fault", "cp -R " + captures + "/autocompare run",
			"grep -q '<failure' " + newest + "/changes.xml && ! grep -q softmax history/good.jsonl", 1, "new "},
		{"it is repaired", "for f in $(find run/autocompare -path '*/cpu/*.pth'); do " +
			"cp $f $(dirname $(dirname $f))/device; done", "grep -q 'repaired since' " + newest + "/changes.md && " +
			"grep -q '\"repaired_since_last\":6' " + newest + "/changes.jsonl", 0, "as good as before; 6 calls repaired since 20"},
		{"the fault comes back", "rm -r run/autocompare && cp -R " + captures + "/autocompare run", "", 1, "newly wrong: torch"},
		{"it becomes known", "optool report --write-known known.txt " + newest + "/run.jsonl; test -s known.txt",
			"grep -q softmax history/good.jsonl", 0, "known (known.txt)"},
		{"it gets far worse", `sed -i.old 's/bound_ratio=[^ ]* max_abs_diff=[^ ]*/bound_ratio=1 max_abs_diff=1e-9/' known.txt; ` + recorded,
			"test -d " + newest + "/op_tools_results", 1, "times worse"},
		{"calls are gone", "rm -r run/autocompare; " + recorded, "ls history | grep -c night- | grep -qx [23]", 1, "gone"},
		{"the list of calls is cut", "rm -r run/* && cp -R " + hooked + " run && f=$(find run -name calls.jsonl) && " +
			"chmod -R u+w run && head -c 9000 $f >cut && mv cut $f", "test $(grep -c '<error' " + newest +
			"/junit.xml) = 1", 3, "the recording ends inside a line: calls after id"},
		{"cut, the first night", "mv history/good.jsonl kept; " + recorded, "grep -q '^### .*exit code 3: 1 recording is not whole' history/latest.md",
			3, "exit code 3: 1 recording is not whole"},
		{"cut, after a good night", "cp " + newest + "/run.jsonl history/good.jsonl; sleep 0.1; " + recorded,
			"mv kept history/good.jsonl; grep -q '^### .*exit code 3: 1 recording is not whole. compared with' history/latest.md", 3,
			"\nexit code 3: 1 recording is not whole\nreports of this night"},
		{"nothing was recorded", "rm -r run/*", "", 3, "optool: "},
	} {
		if out, code := sh(night.before); code != 0 {
			t.Fatalf("%s: %s: %s", night.name, night.before, out)
		}
		out, code := sh("sh $SCRIPT run")
		if code != night.code || !strings.Contains(out, night.says) {
			t.Errorf("%s: exit code %d, want %d and %q:\n%s", night.name, code, night.code, night.says, out)
		}
		if strings.Contains(out, "\nknown ") {
			t.Errorf("%s: known values are listed one by one:\n%s", night.name, out)
		}
		if out, code := sh(night.after); code != 0 {
			t.Errorf("%s: %s: %s", night.name, night.after, out)
		}
		// What is published shows why the night failed.
		const shows = "cd history && test -s latest.md && grep -Eq 'failures=\"[1-9]|errors=\"[1-9]' latest.xml"
		if out, code := sh(shows); (code == 0) != (night.code != 0) {
			t.Errorf("%s: latest.xml and latest.md: %d %s", night.name, code, out)
		}
	}
	// Recordings from before the good night are not judged, unless that is wanted.
	older := "cp history/good.jsonl good && cp known.txt.old known.txt && mkdir -p run && cp -R " + captures + "/v2 " +
		captures + "/autocompare run && chmod -R u+w run && touch -d 2026-11-02 history/good.jsonl && "
	for _, night := range []struct {
		name, script string
		code         int
		says         string
	}{
		{"old recordings", "touch -d 2026-11-01 $(find run -type f) && sh $SCRIPT run", 3, "were the steps recorded tonight?"},
		{"wanted", "STALE=ok sh $SCRIPT run", 0, "as good as before"},
		{"new ones", "touch -d 2036-11-01 $(find run -type f) && sh $SCRIPT run", 0, "as good as before"},
		{"a link", "touch -d 2046-11-01 $(find run -type f) && ln -s run link && sh $SCRIPT link", 0, "as good as before"},
	} {
		out, code := sh(older + night.script)
		if code != night.code || !strings.Contains(out, night.says) {
			t.Errorf("%s: exit code %d, want %d and %q:\n%s", night.name, code, night.code, night.says, out)
		}
		shows := "cmp good history/good.jsonl && grep -q 'Nothing was judged tonight: no recording is newer' history/latest.md" +
			" && grep -q 'errors=\"1\".*no recording is newer' history/latest.xml"
		if out, code := sh(shows); (code == 0) != (night.code == 3) {
			t.Errorf("%s: %d %s", night.name, code, out)
		}
	}
	// A list of known failures that does not read: the reports say why.
	if out, code := sh("echo x >bad.txt; KNOWN=bad.txt STALE=ok sh $SCRIPT run; code=$?; " +
		"grep -q 'Nothing was judged tonight: optool: --known: .*bad.txt' history/latest.md && " +
		"grep -q 'errors=\"1\".*--known: .*bad.txt' history/latest.xml && exit $code"); code != 2 {
		t.Errorf("a list that does not read: %d %s", code, out)
	}
	// Recordings from before the program are not those of tonight.
	if out, code := sh("sh $SCRIPT --begin && touch -d 2026-11-02 run/* $(find run -type f | head -n 1) && sh $SCRIPT run"); code != 3 ||
		!strings.Contains(out, "exit code 3: run has recordings from before --begin, such as run/") {
		t.Errorf("recordings from before --begin: %d %s", code, out)
	}
	// The program fails before the script can judge.
	if out, code := sh("sh $SCRIPT --begin && grep 'Nothing was judged tonight' history/latest.md && " +
		"grep -q 'errors=\"1\"' history/latest.xml"); code != 0 {
		t.Errorf("--begin: %d %s", code, out)
	}
}

// runNight runs the script of docs/ci.md on the folder run of dir, after a command that can read $CAPTURES.
func runNight(t *testing.T, dir, before string, env ...string) (out string, code int) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", before+"; exec sh "+root+"/docs/nightly.sh run")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HISTORY=history", "KNOWN=known.txt", "CAPTURES="+root+"/fixtures/captures")
	cmd.Env = append(cmd.Env, env...)
	b, _ := cmd.CombinedOutput() // the exit code says how it ended
	return string(b), cmd.ProcessState.ExitCode()
}

// TestFirstNights: before the first good night, the script says what changed since the night before.
func TestFirstNights(t *testing.T) {
	dir := t.TempDir()
	for _, night := range []struct{ before, says string }{{"cp -R $CAPTURES/autocompare run", "First wrong call"},
		{"find run -path '*/cpu/*.pth' | while read f; do cp $f $(dirname $(dirname $f))/device; done",
			"repaired: torch.bmm, 1 call"}} {
		if out, _ := runNight(t, dir, night.before); !strings.Contains(out, night.says) {
			t.Errorf("%q is missing in\n%s", night.says, out)
		}
	}
}

// TestNightSince: the night in which a value that is still wrong was wrong first is kept.
func TestNightSince(t *testing.T) {
	dir := t.TempDir()
	const again = "find run -type f -exec touch {} +"
	since := ""
	for i, before := range []string{"mkdir run && cp -R $CAPTURES/v2 run", "cp -R $CAPTURES/autocompare run", again,
		again} {
		out, _ := runNight(t, dir, before, "NIGHTS=1")
		if i == 1 {
			_, since, _ = strings.Cut(strings.TrimSpace(out), "reports of this night: ")
		}
		if i > 0 && !strings.Contains(out, "wrong since "+since+"/run.jsonl, ") {
			t.Errorf("night %d: want since %s:\n%s", i, since, out)
		}
	}
}

// TestNightIsTheLast: the script judges this night, also if the folder of another one sorts behind it. It keeps this
// night, and names it at the end.
func TestNightIsTheLast(t *testing.T) {
	dir := t.TempDir()
	for _, night := range []struct {
		name, before, says string
		code               int
	}{
		{"nothing wrong", "mkdir run && cp -R $CAPTURES/v2 run", "reports of this night: history/night-2", 0},
		{"a fault", "mv history/night-2* history/night-9; cp -R $CAPTURES/autocompare run",
			"newly wrong: torch", 1},
	} {
		out, code := runNight(t, dir, night.before, "NIGHTS=1")
		lines := strings.Split(strings.TrimSpace(out), "\n")
		tonight, _ := strings.CutPrefix(lines[len(lines)-1], "reports of this night: ")
		if code != night.code || !strings.Contains(out, night.says) {
			t.Errorf("%s: exit code %d, want %d and %q:\n%s", night.name, code, night.code, night.says, out)
		}
		nights, err := filepath.Glob(dir + "/history/night-*")
		nights = slices.DeleteFunc(nights, func(n string) bool { return filepath.Base(n) == "night-9" }) // the good one
		if err != nil || len(nights) != 1 || nights[0] != filepath.Join(dir, tonight) {
			t.Errorf("%s: kept %v, want only %s", night.name, nights, tonight)
		}
	}
}

// TestNightStopped: a signal to the script stops optool, too.
func TestNightStopped(t *testing.T) {
	dir := t.TempDir()
	script, err := filepath.Abs("../../docs/nightly.sh")
	if err != nil {
		t.Fatal(err)
	}
	const optool = `#!/bin/sh
trap 'sleep 0.3; echo >stopped; exit 130' TERM
echo >started
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 0.2; done
`
	if err := os.WriteFile(dir+"/optool", []byte(optool), 0o777); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cmd := exec.Command("sh", script, "run")
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &out
	cmd.Env = append(os.Environ(), "HISTORY=history", "KNOWN=known.txt", "OPTOOL="+dir+"/optool")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for range 500 {
		if _, err := os.Stat(dir + "/started"); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 130 || !strings.Contains(out.String(), "reports of this night: ") {
		t.Errorf("exit code %d, want 130:\n%s", code, out.String())
	}
	if _, err := os.Stat(dir + "/stopped"); err != nil {
		t.Errorf("optool goes on: %v", err)
	}
}
