package capture

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tree creates empty files under a new directory.
func tree(t testing.TB, files ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, f := range files {
		path := filepath.Join(root, f)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// describe renders entries one a line.
func describe(t testing.TB, opt Options, paths ...string) []string {
	t.Helper()
	var lines []string
	for e, err := range Scan(context.Background(), paths, opt) {
		if err != nil {
			lines = append(lines, "error "+err.Error())
			continue
		}
		lines = append(lines, fmt.Sprintf("%s %s op=%s id=%d pid=%d rank=%d time=%s [%s|%s]",
			e.Rel, e.Layout, e.Op, e.ID, e.PID, e.Rank, e.Time, e.Files, e.Host))
	}
	return lines
}

func TestScanLayouts(t *testing.T) {
	const cur, old = "2024-10-24-10-00-00", "2024-08-02--16-31"
	for _, tc := range []struct {
		name  string
		files []string
		want  []string
	}{
		{"current", []string{
			"op_tools_results/op_capture_results/torch.add/25021/4/" + cur + "/input.pth",
			"op_tools_results/op_capture_results/torch.add/25021/4/" + cur + "/input.pth.json",
			"op_tools_results/op_capture_results/torch.add/25021/4/" + cur + "/grad_inputs.pth",
		}, []string{"op_tools_results/op_capture_results/torch.add/25021/4/" + cur +
			" current op=torch.add id=4 pid=25021 rank=-1 time=" + cur + " [input,grad_inputs|]"}},
		{"autocompare", []string{
			"torch.sum/4242/autocompare/51/" + cur + "/device/output.pth",
			"torch.sum/4242/autocompare/51/" + cur + "/cpu/output.pth",
			"torch.sum/4242/autocompare/52/" + cur + "/cpu/grad_inputs.pth",
		}, []string{
			"torch.sum/4242/autocompare/51/" + cur + " autocompare op=torch.sum id=51 pid=4242 rank=-1 time=" + cur +
				" [output|output]",
			"torch.sum/4242/autocompare/52/" + cur + " autocompare op=torch.sum id=52 pid=4242 rank=-1 time=" + cur +
				" [|grad_inputs]",
		}},
		{"v2", []string{"torch.Tensor.div/2278281/9/input.pth"},
			[]string{"torch.Tensor.div/2278281/9 v2 op=torch.Tensor.div id=9 pid=2278281 rank=-1 time= [input|]"}},
		{"v1 by rank", []string{"0/2024-08-06--11-41/torch.cat/14/output.pth"},
			[]string{"0/2024-08-06--11-41/torch.cat/14 v1 op=torch.cat id=14 pid=-1 rank=0 time=2024-08-06--11-41 " +
				"[output|]"}},
		{"v1 by process", []string{"2024-08-02--17-00/991/torch.cat/14/input.pth"},
			[]string{"2024-08-02--17-00/991/torch.cat/14 v1 op=torch.cat id=14 pid=991 rank=-1 " +
				"time=2024-08-02--17-00 [input|]"}},
		{"autocompare v1", []string{
			"torch.mul/1915530/device/input.pth", "torch.mul/1915530/cpu/input.pth",
			"torch.mul/1915530/7/device/input.pth", "torch.mul/1915530/7/cpu/output.pth",
		}, []string{
			"torch.mul/1915530/7 autocompare-v1 op=torch.mul id=7 pid=1915530 rank=-1 time= [input|output]",
			"torch.mul/1915530 autocompare-v1 op=torch.mul id=-1 pid=1915530 rank=-1 time= [input|input]",
		}},
		{"autocompare v0", []string{old + "/1915529/torch.Tensor.permute/device_input.pth",
			old + "/1915529/torch.Tensor.permute/cpu_output.pth"},
			[]string{old + "/1915529/torch.Tensor.permute autocompare-v0 op=torch.Tensor.permute id=-1 pid=1915529 " +
				"rank=-1 time=" + old + " [input|output]"}},
		{"any directory", []string{"linear/3/input.pth", "linear/3/after.pth", "x/output.pth", "y/grad_inputs.pth",
			"z/model.pth"},
			[]string{
				"linear/3 directory op= id=-1 pid=-1 rank=-1 time= [input,after|]",
				"x directory op= id=-1 pid=-1 rank=-1 time= [output|]",
			}},
		{"numbers by value", []string{"torch.a/10/2/input.pth", "torch.a/9/11/input.pth", "torch.a/9/x/input.pth",
			"torch.B/9/2/input.pth", "torch.a/9/input.pth", "torch.a/9/2/input.pth"},
			[]string{
				"torch.B/9/2 v2 op=torch.B id=2 pid=9 rank=-1 time= [input|]",
				"torch.a/9 directory op= id=-1 pid=-1 rank=-1 time= [input|]",
				"torch.a/9/2 v2 op=torch.a id=2 pid=9 rank=-1 time= [input|]",
				"torch.a/9/11 v2 op=torch.a id=11 pid=9 rank=-1 time= [input|]",
				"torch.a/9/x directory op= id=-1 pid=-1 rank=-1 time= [input|]",
				"torch.a/10/2 v2 op=torch.a id=2 pid=10 rank=-1 time= [input|]",
			}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := tree(t, tc.files...)
			if diff := cmp.Diff(tc.want, describe(t, Options{}, root)); diff != "" {
				t.Errorf("Scan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestScanPaths(t *testing.T) {
	dir := "torch.add/25021/4/2024-10-24-10-00-00"
	root := tree(t, dir+"/input.pth", "other/model.pth")
	t.Chdir(root)
	const known = " op=torch.add id=4 pid=25021 rank=-1 time=2024-10-24-10-00-00 [input|]"
	for _, tc := range []struct {
		name  string
		opt   Options
		paths []string
		want  []string
	}{
		{"capture itself", Options{}, []string{dir}, []string{". current" + known}},
		{"file", Options{}, []string{dir + "/input.pth"}, []string{"input.pth file" + known}},
		{"several", Options{}, []string{dir, "other/model.pth", "torch.add/"}, []string{
			dir + " current" + known,
			"other/model.pth file op= id=-1 pid=-1 rank=-1 time= [input|]",
			"torch.add/25021/4/2024-10-24-10-00-00 current" + known,
		}},
		{"loose files", Options{Loose: true}, []string{"."}, []string{
			"other/model.pth file op= id=-1 pid=-1 rank=-1 time= [input|]",
			dir + " current" + known,
		}},
		{"missing", Options{}, []string{"nowhere"}, []string{"error stat nowhere: no such file or directory"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, describe(t, tc.opt, tc.paths...)); diff != "" {
				t.Errorf("Scan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestScanLinks(t *testing.T) {
	root := tree(t, "real/torch.add/1/2/input.pth")
	for name, target := range map[string]string{"linked": "real/torch.add", "real/torch.add/loop": "."} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Skipf("no links here: %v", err)
		}
	}
	var got []string
	for e, err := range Scan(context.Background(), []string{root}, Options{}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.Rel)
	}
	if want := []string{"linked/1/2", "real/torch.add/1/2"}; !cmp.Equal(got, want) {
		t.Errorf("Scan through links: got %v, want %v", got, want)
	}
}

func TestScanStops(t *testing.T) {
	var files []string
	for i := range 500 {
		files = append(files, fmt.Sprintf("torch.add/1/%d/input.pth", i))
	}
	root := tree(t, files...)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	n := 0
	for range Scan(ctx, []string{root}, Options{}) {
		if n++; n == 10 {
			cancel()
		}
	}
	if n != 10 {
		t.Errorf("Scan yielded %d entries after it was cancelled at 10", n)
	}
}

func TestEntryPaths(t *testing.T) {
	root := tree(t, "2024-08-02--16-31/5/torch.add/cpu_input.pth", "torch.add/5/7/device/output.pth", "a/input.pth")
	var got []string
	for e := range Scan(context.Background(), []string{root}, Options{}) {
		for _, r := range e.All() {
			if _, err := os.Stat(e.Path(r.Side, r.Kind)); err != nil {
				t.Errorf("Path(%s, %s) of %s: %v", r.Side, r.Kind, e.Rel, err)
			}
			got = append(got, e.RelPath(r.Side, r.Kind))
		}
	}
	want := "2024-08-02--16-31/5/torch.add/cpu_input.pth a/input.pth torch.add/5/7/device/output.pth"
	if strings.Join(got, " ") != want {
		t.Errorf("RelPath: got %v, want %s", got, want)
	}
}

// benchTree holds n captures of four files, as a job writes them.
func benchTree(b *testing.B, n int) string {
	b.Helper()
	root := b.TempDir()
	const ops = 100
	for i := range n {
		dir := filepath.Join(root, "op_tools_results/op_capture_results", fmt.Sprintf("torch.nn.functional.op%d",
			i%ops), "25021", fmt.Sprint(i), "2024-10-24-10-00-00")
		if err := os.MkdirAll(dir, 0o777); err != nil {
			b.Fatal(err)
		}
		for _, k := range []Kind{Input, Output, GradInputs, GradOutputs} {
			for _, ext := range []string{".pth", ".pth.json"} {
				if err := os.WriteFile(filepath.Join(dir, k.String()+ext), nil, 0o666); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	return root
}

// BenchmarkScan indexes a warm tree of 5000 captures with 40,000 files. It reads
// directories and no file, so there are no bytes to set.
func BenchmarkScan(b *testing.B) {
	const n = 5000
	root := benchTree(b, n)
	b.ReportAllocs()
	for b.Loop() {
		found := 0
		for _, err := range Scan(context.Background(), []string{root}, Options{}) {
			if err != nil {
				b.Fatal(err)
			}
			found++
		}
		if found != n {
			b.Fatalf("found %d captures, want %d", found, n)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/capture")
}
