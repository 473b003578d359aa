package pthformat_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A tensor and a view of it are written and read: the view still shares the
// storage of its base.
func Example() {
	dir, err := os.MkdirTemp("", "pthformat")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "input.pth")

	base := tensor.New(tensor.Float32, []int{2, 3}, []float64{0, 1, 2, 3, 4, 5}).Rounded()
	row, err := tensor.NewView(base.Storage(), tensor.View{DType: tensor.Float32, Shape: []int{3}, Stride: []int{1},
		Offset: 3})
	if err != nil {
		log.Fatal(err)
	}
	call := &value.Dict{Items: []value.Item{
		{Key: "name", Value: "torch.add"},
		{Key: "args", Value: value.NewTuple(base, row)},
	}}
	if err := pthformat.WriteFile(path, call); err != nil {
		log.Fatal(err)
	}

	f, err := pthformat.Open(path, pthformat.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	ts := value.Tensors(f.Root)
	fmt.Println(f.Format, f.Globals)
	fmt.Println(ts[0].Meta(), ts[1].Meta(), ts[0].Storage() == ts[1].Storage())
	fmt.Println(tensor.Data[float64](ts[1]))
	// Output:
	// zip [torch._utils._rebuild_tensor_v2 torch.FloatStorage collections.OrderedDict]
	// float32[2, 3] float32[3] true
	// [3 4 5]
}

// The file comes from someone who wanted its reader to run a command.
func ExampleOpen_refused() {
	_, err := pthformat.Open(filepath.Join("testdata", "bad", "os-system.pth"), pthformat.Options{})
	fmt.Println(err)
	// Output:
	// testdata/bad/os-system.pth: data.pkl: offset 37: forbidden global os.system
}
