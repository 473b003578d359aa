package sandbox

import (
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"go.starlark.net/starlark"
)

func run(l Limits, src string) error {
	f, err := Parse("f.py", []byte(src))
	if err == nil {
		_, err = l.Exec("f.py", f, starlark.StringDict{})
	}
	return err
}

// TestNUL: the parser does not take a NUL byte for the end of a file.
func TestNUL(t *testing.T) {
	if err := run(Limits{Steps: 1000}, "a = 1\nb\x00 = 2\n"); err == nil || err.Error() != "f.py:2:2: unexpected NUL byte" {
		t.Errorf("got error %v, want one of the NUL byte in line 2", err)
	}
}

// TestMemoryOfOthers: a program is charged with what it holds, neither with garbage
// nor with what an earlier one that was given up still takes.
func TestMemoryOfOthers(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // garbage stays
	l := Limits{Steps: 1_000_000, Time: time.Minute, Heap: 128 << 20}
	const grows = "s = []\nfor i in range(1000000):\n    s.append('x' * 1000000)\n"
	if err := run(l, grows); err == nil || !strings.Contains(err.Error(), "more than 128 MiB of memory") {
		t.Errorf("a million texts of 1 MB: got error %v, want one of memory", err)
	}
	for range 3 {
		if err := run(l, "for i in range(300):\n    s = 'x' * 1000000\n"); err != nil {
			t.Errorf("texts of 1 MB that are dropped, after one that was given up: got error %v", err)
		}
	}
}

// TestDoubling: nothing grows beyond what one step may make by being added to itself, however slowly the
// memory is watched.
func TestDoubling(t *testing.T) {
	for name, src := range map[string]string{
		"text":       "s = 'x'\nfor i in range(60):\n    s = s + s\n",
		"text +=":    "s = 'x'\nfor i in range(60):\n    s += s\n",
		"list":       "s = [1]\nfor i in range(60):\n    s = s + s\n",
		"list +=":    "s = [1]\nfor i in range(60):\n    s += s\n",
		"tuple":      "s = (1,)\nfor i in range(60):\n    s = s + s\n",
		"extend":     "s = [1]\nfor i in range(60):\n    s.extend(s)\n",
		"in a place": "s = {0: [1]}\nfor i in range(60):\n    s[0] += s[0]\n",
	} {
		err := run(Limits{Steps: 1_000_000, Time: time.Minute, Heap: 1 << 40}, src)
		if err == nil || !strings.Contains(err.Error(), "of length 2097152, want at most 1048576 elements") {
			t.Errorf("%s: got error %v, want one that names the length", name, err)
		}
	}
}

// TestAdding: the bounded forms of + and extend do what Starlark's do.
func TestAdding(t *testing.T) {
	const src = `
a = [1]
b = a
a += [2]
a.extend((3,))
if b != [1, 2, 3]: fail("a list is not extended in place: %s" % b)
c = a + [4]
if a != [1, 2, 3] or c != [1, 2, 3, 4]: fail("a sum changed its operand")
t = (1,)
t += (2,)
n = 1
n += 2.5
s = "x" + "y"
s += "z"
d = {"k": 1}
d["k"] += 1
if t != (1, 2) or n != 3.5 or s != "xyz" or d != {"k": 2}: fail("wrong: %s %s %s %s" % (t, n, s, d))
`
	if err := run(Limits{Steps: 1_000_000, Time: time.Minute, Heap: 1 << 40}, src); err != nil {
		t.Error(err)
	}
	for src, want := range map[string]string{"x = 1 + 'a'": "unknown binary op: int + string",
		"x = (1).extend([2])": "int has no .extend field or method"} {
		err := run(Limits{Steps: 1000, Time: time.Minute, Heap: 1 << 40}, src)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %s", src, err, want)
		}
	}
}
