package diopi

import (
	_ "embed"
	"encoding/json"
	"sync"
)

//go:generate go run ../internal/abigen ../native

//go:embed abi.json
var abiJSON []byte

// A Function is a C function of DIOPI's headers.
type Function struct {
	Name string `json:"name"`
	// header: runtime, functions, functions_ext, functions_lmdeploy, functions_mmcv, functions_sparse
	Group    string  `json:"group"`
	Returns  string  `json:"returns"` // C type; "" is diopiError_t
	Params   []Param `json:"params"`
	InPlace  bool    `json:"inplace"`
	Backward bool    `json:"backward"`
}

// Param finds a parameter by name.
func (f *Function) Param(name string) (*Param, bool) {
	for i := range f.Params {
		if f.Params[i].Name == name {
			return &f.Params[i], true
		}
	}
	return nil, false
}

// A Param is a parameter of a Function.
type Param struct {
	Name     string `json:"name"`
	Kind     Kind   `json:"kind"`
	CType    string `json:"ctype"`
	Count    string `json:"count"`    // for arrays: the parameter that holds the length; "" if none does
	Nullable bool   `json:"nullable"` // known to be passed as null; the headers do not say it reliably
	Written  bool   `json:"written"`  // written although the header calls it an input
}

type abi struct {
	Enums     map[string]map[string]int32 `json:"enums"`
	Version   int                         `json:"version"`
	Functions []*Function                 `json:"functions"`
	byName    map[string]*Function
}

var loadABI = sync.OnceValue(func() *abi {
	a := &abi{byName: map[string]*Function{}}
	if err := json.Unmarshal(abiJSON, a); err != nil {
		panic("diopi: abi.json: " + err.Error()) // embedded, read by every test
	}
	for _, f := range a.Functions {
		a.byName[f.Name] = f
	}
	return a
})

// Functions are all functions of the interface, in the order of the headers.
func Functions() []*Function { return loadABI().Functions }

// Operators are the functions a device library implements: all but those of the
// runtime and the three that return text about the library.
func Operators() []*Function {
	var ops []*Function
	for _, f := range Functions() {
		if f.Group != "runtime" && f.Returns == "" {
			ops = append(ops, f)
		}
	}
	return ops
}

// Lookup finds a function by its C name.
func Lookup(name string) (*Function, bool) {
	f, ok := loadABI().byName[name]
	return f, ok
}

// Enums are the enumerations by C type, their values by enumerator.
func Enums() map[string]map[string]int32 { return loadABI().Enums }

// Version is DIOPI_VERSION of the headers.
func Version() int { return loadABI().Version }
