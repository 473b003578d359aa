package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/optool/optool/diopi_conformance/configs"
	"github.com/optool/optool/diopi_conformance/suite"
	"github.com/optool/optool/tensor/value"
)

// A Source says where the configuration entries of suites are.
type Source struct {
	// Dir holds DIOPI's configuration files: diopi_configs.py and, anywhere below
	// model_config, <model>_config.py. Without it the suites are optool's own.
	Dir string
}

// Models lists the models that have a configuration, sorted.
func (s Source) Models() ([]string, error) {
	var names []string
	if s.Dir == "" {
		models, err := suite.Models("")
		if err != nil {
			return nil, err
		}
		for _, m := range models.Items {
			names = append(names, fmt.Sprint(m.Key))
		}
	} else {
		files, err := s.modelFiles()
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			names = append(names, modelOf(f))
		}
	}
	slices.Sort(names)
	return names, nil
}

func modelOf(file string) string { return strings.TrimSuffix(filepath.Base(file), "_config.py") }

func (s Source) modelFiles() (files []string, err error) {
	err = filepath.WalkDir(filepath.Join(s.Dir, "model_config"), func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, "_config.py") && modelOf(path) != "generate" {
			files = append(files, path)
		}
		return err
	})
	return files, err
}

// Entries returns the configuration entries of a model, or those of all
// functions if model is "".
func (s Source) Entries(model string) (*value.Dict, error) {
	switch {
	case s.Dir == "" && model == "":
		return suite.Functions()
	case s.Dir == "":
		models, err := suite.Models(model)
		if err != nil {
			return nil, err
		}
		if entries, ok := get(models, model).(*value.Dict); ok {
			return entries, nil
		}
	case model == "":
		return configs.Load(filepath.Join(s.Dir, "diopi_configs.py"), "diopi_configs")
	default:
		files, err := s.modelFiles()
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			if modelOf(f) == model {
				return configs.Load(f, model+"_config")
			}
		}
	}
	names, err := s.Models()
	if err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("model %q is not known%s", model, Nearest(model, names))
}

// Functions lists the functions that entries are about, sorted.
func Functions(entries *value.Dict) []string {
	var names []string
	for _, it := range entries.Items {
		d, ok := it.Value.(*value.Dict)
		if !ok {
			continue
		}
		if l, ok := get(d, "name").(*value.Sequence); ok {
			for _, n := range l.Items {
				names = append(names, fmt.Sprint(n))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Nearest ends a sentence about an unknown name with the known name most like
// it: `; did you mean "relu"?`. It is empty if none comes near.
func Nearest(name string, known []string) string {
	best, distance := "", len(name)/2+1
	for _, k := range known {
		if d := editDistance(name, k); d < distance {
			best, distance = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// editDistance counts the insertions, deletions, replacements and exchanges of
// neighbours between two strings.
func editDistance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				cost++
			}
			d := min(cost, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}
