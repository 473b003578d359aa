package collective_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/capture/collective"
	"github.com/optool/optool/pthformat"
)

// TestDepartures: the first call by which ranks of a group do not make the same collectives in the same order.
func TestDepartures(t *testing.T) {
	const max = " MAX"
	for _, tc := range []struct {
		name  string
		ranks [][]string // calls "operator[ MAX] elements line", of each rank; "cut" in place of an end
		want  string     // of the reason; "" where the ranks agree
	}{
		{"same", [][]string{{"all_reduce 4 1", "barrier 0 2"}, {"all_reduce 4 1", "barrier 0 2"}}, ""},
		{"other lines", [][]string{{"broadcast 4 1"}, {"broadcast 4 9"}}, ""},
		{"parts of other sizes", [][]string{{"all_gather 4 1"}, {"all_gather 3 1"}}, ""},
		{"size", [][]string{{"all_reduce 4 1"}, {"all_reduce 3 1"}},
			"rank 1 calls all_reduce SUM of float32 [3] (a.py:1) where rank 0 calls all_reduce SUM of float32 [4] (a.py"},
		{"reduction", [][]string{{"all_reduce 4 1"}, {"all_reduce" + max + " 4 2"}}, "rank 1 calls all_reduce MAX"},
		{"order", [][]string{{"all_reduce 4 1", "broadcast 4 2"}, {"broadcast 4 2", "all_reduce 4 1"}},
			"in another order: rank 1 calls broadcast of float32 [4] (a.py:2) where rank 0 calls all_reduce"},
		{"order of lines", [][]string{{"all_reduce 4 1", "all_reduce 4 2"}, {"all_reduce 4 2", "all_reduce 4 1"}},
			"in another order"},
		{"missing", [][]string{{"all_reduce 4 1", "all_reduce 5 2", "barrier 0 3"}, {"all_reduce 4 1", "barrier 0 3"}},
			"rank 1 does not call all_reduce SUM of float32 [5] (a.py:2), as rank 0 does, and goes on with barrier"},
		{"more", [][]string{{"all_reduce 4 1"}, {"all_reduce 5 2", "all_reduce 4 1"}, {"all_reduce 4 1"}},
			"only rank 1 calls all_reduce SUM of float32 [5]"},
		{"at the end", [][]string{{"all_reduce 4 1", "barrier 0 2"}, {"all_reduce 4 1"}}, "rank 1 makes no such call"},
		{"cut", [][]string{{"all_reduce 4 1", "barrier 0 2"}, {"all_reduce 4 1", "cut"}}, ""},
		{"a rank without a recording", [][]string{{"all_reduce 4 1"}, nil, {"all_reduce 3 1"}}, "rank 2 calls"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			var group []int
			for r := range tc.ranks {
				group = append(group, r)
			}
			for r, calls := range tc.ranks {
				if calls != nil {
					record(t, filepath.Join(dir, fmt.Sprint("rank", r)), r, group, calls)
				}
			}
			ranks := map[int][]*capture.Entry{}
			for e, err := range capture.Scan(context.Background(), []string{dir}, capture.Options{}) {
				if err != nil {
					if tc.name != "cut" {
						t.Fatal(err)
					}
					continue
				}
				ranks[e.Rank] = append(ranks[e.Rank], e)
			}
			got := ""
			for _, d := range collective.Departures(ranks, pthformat.Mmap) {
				got += d.Reason
			}
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			for e, m := range collective.MatchAll(ranks, pthformat.Mmap) {
				if tc.want != "" && len(tc.ranks) == 2 && m.Exchange != nil && slices.Contains([]string{"size", "order",
					"reduction"}, tc.name) {
					t.Errorf("%s is matched with calls of other ranks", e.Rel)
				}
			}
		})
	}
}

// record writes what a rank calls, as the hook does.
func record(t *testing.T, dir string, rank int, group []int, calls []string) {
	t.Helper()
	lines := []string{fmt.Sprintf(`{"event":"run","format":"optool-capture","version":1,"rank":%d,"pid":%d}`, rank,
		100+rank)}
	list := strings.ReplaceAll(fmt.Sprint(group), " ", ",")
	end := `{"event":"end","complete":true}` + "\n"
	for n := range 8 {
		lines = append(lines, fmt.Sprintf(`{"event":"blob","n":%d,"file":0,"begin":0,"bytes":%d}`, n, 4*n))
	}
	for i, c := range calls {
		if c == "cut" {
			end = ""
			continue
		}
		words := strings.Fields(c)
		var n, line int
		fmt.Sscan(strings.Join(words[len(words)-2:], " "), &n, &line)
		op, args := "null", ""
		if len(words) == 4 {
			op = `{"object":"torch.RedOpType","text":"<RedOpType.MAX: 3>"}`
		}
		if n > 0 {
			args = fmt.Sprintf(`{"tensor":%d,"dtype":"float32","shape":[%d]}`, n, n)
		}
		lines = append(lines, fmt.Sprintf(`{"event":"call","id":%d,"name":"torch.distributed.%s","step":0,`+
			`"location":"a.py:%d","group":%s,"group_name":"0","args":[%s],"kwargs":{"op":%s}}`, i, words[0], line, list,
			args, op), fmt.Sprintf(`{"event":"return","id":%d,"result":null}`, i))
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"calls.jsonl": strings.Join(append(lines, end), "\n"),
		"tensors-00000.safetensors": strings.Repeat("\x00", 64)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
